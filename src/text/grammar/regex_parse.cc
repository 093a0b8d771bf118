// Reads a regular expression (regex.h).
#include <algorithm>
#include <optional>
#include <string>

#include "text/grammar/regex.h"
#include "text/utf8_stream.h"

namespace boreas::grammar {

namespace {

const CodeRanges kDigits = {{'0', '9'}};
const CodeRanges kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CodeRanges kSpace = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                           {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CodeRanges kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

RegexNode class_node(CodeRanges ranges) {
  RegexNode node;
  node.kind = RegexNode::Kind::kClass;
  node.ranges = std::move(ranges);
  return node;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) : text_(pattern) {}

  Result<RegexNode> run() {
    RegexNode node = choice(0);
    if (error_.empty() && at_ < text_.size()) fail("unbalanced )");
    if (error_.empty()) return node;
    return Error{"at character " + std::to_string(at_ + 1) + ": " + error_};
  }

 private:
  bool more() const { return error_.empty() && at_ < text_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool take(std::string_view wanted) {
    if (text_.substr(at_, wanted.size()) != wanted) return false;
    at_ += wanted.size();
    return true;
  }
  void fail(const std::string& what) {
    if (error_.empty()) error_ = what;
  }

  RegexNode choice(int depth) {
    RegexNode node;
    node.kind = RegexNode::Kind::kChoice;
    if (depth > kRegexDepthMax) {
      fail("groups are nested more than " + std::to_string(kRegexDepthMax) + " deep");
      return node;
    }
    do {
      node.children.push_back(sequence(depth));
    } while (more() && take("|"));
    if (node.children.size() > 1) return node;
    RegexNode only = std::move(node.children.front());
    return only;
  }

  RegexNode sequence(int depth) {
    RegexNode node;
    node.kind = RegexNode::Kind::kSequence;
    while (more() && peek() != '|' && peek() != ')') {
      RegexNode item = atom(depth);
      if (error_.empty()) node.children.push_back(quantified(std::move(item)));
    }
    return node;
  }

  RegexNode atom(int depth) {
    const char c = peek();
    if (c == '(') return group(depth);
    if (c == '[') return bracket();
    if (c == '\\') return escape();
    RegexNode node;
    if (take("^")) {
      node.kind = RegexNode::Kind::kBegin;
      return node;
    }
    if (take("$")) {
      node.kind = RegexNode::Kind::kEnd;
      return node;
    }
    if (take(".")) return class_node(complement(kLineEnds));
    if (c == '*' || c == '+' || c == '?') fail("nothing to repeat");
    if (c == '{' && bounds()) fail("nothing to repeat");
    const uint32_t code = character();
    return class_node({{code, code}});
  }

  RegexNode group(int depth) {
    take("(");
    if (take("?")) {
      const bool named = take("P<") || (peek() == '<' && peek(1) != '=' && peek(1) != '!' && take("<"));
      if (named) {
        const size_t end = text_.find('>', at_);
        if (end == std::string_view::npos) fail("the name of a group does not end");
        at_ = std::min(end, text_.size() - 1) + 1;
      } else if (!take(":")) {
        fail("look-around and flags are not supported; groups are ( ), (?: ) and (?<name> )");
      }
    }
    RegexNode node = choice(depth + 1);
    if (error_.empty() && !take(")")) fail("a group does not end");
    return node;
  }

  struct Bounds {
    uint32_t low = 0, high = 0;
  };
  // {m}, {m,} or {m,n} here; anything else is text, as in both dialects.
  std::optional<Bounds> bounds() {
    const size_t before = at_;
    const auto number = [this]() -> std::optional<uint32_t> {
      const size_t first = at_;
      uint64_t value = 0;
      for (; peek() >= '0' && peek() <= '9'; ++at_) value = std::min<uint64_t>(value * 10 + (peek() - '0'), UINT32_MAX);
      if (at_ == first) return std::nullopt;
      return static_cast<uint32_t>(value);
    };
    take("{");
    Bounds found;
    const std::optional<uint32_t> low = number();
    found.low = found.high = low.value_or(0);
    if (low && take(",")) found.high = number().value_or(RegexNode::kUnbounded);
    if (low && take("}")) return found;
    at_ = before;
    return std::nullopt;
  }

  RegexNode quantified(RegexNode item) {
    const char c = peek();
    Bounds found{0, RegexNode::kUnbounded};
    if (c == '*' || c == '+' || c == '?') {
      ++at_;
      if (c == '+') found.low = 1;
      if (c == '?') found.high = 1;
    } else if (c == '{') {
      const std::optional<Bounds> given = bounds();
      if (!given) return item;
      found = *given;
    } else {
      return item;
    }
    const uint32_t largest = found.high == RegexNode::kUnbounded ? found.low : found.high;
    if (largest > kRegexRepeatMax) fail("more than " + std::to_string(kRegexRepeatMax) + " repetitions");
    if (found.low > found.high) fail("the bounds of a repetition are out of order");
    if (item.kind == RegexNode::Kind::kBegin || item.kind == RegexNode::Kind::kEnd) fail("nothing to repeat");
    take("?");  // lazy: the same texts
    if (peek() == '*' || peek() == '+' || peek() == '?') fail("a quantifier follows a quantifier");
    RegexNode node;
    node.kind = RegexNode::Kind::kRepeat;
    node.count_min = found.low;
    node.count_max = found.high;
    node.children.push_back(std::move(item));
    return node;
  }

  // The next code point of the pattern, which is UTF-8.
  uint32_t character() {
    const auto lead = static_cast<uint8_t>(peek());
    const int count = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    uint32_t code = count == 1 ? lead : lead & (0xFFu >> (count + 1));
    ++at_;
    for (int i = 1; i < count; ++i) code = code << 6 | (static_cast<uint8_t>(peek(static_cast<size_t>(i) - 1)) & 0x3F);
    at_ += static_cast<size_t>(count) - 1;
    return code;
  }

  // \d and the like, without the backslash.
  std::optional<CodeRanges> shorthand(char c) {
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return complement(kDigits);
      case 'w':
        return kWord;
      case 'W':
        return complement(kWord);
      case 's':
        return kSpace;
      case 'S':
        return complement(kSpace);
      default:
        return std::nullopt;
    }
  }

  RegexNode escape() {
    take("\\");
    RegexNode node;
    const char c = peek();
    if (c == 'A' || c == 'z' || c == 'Z') {
      ++at_;
      node.kind = c == 'A' ? RegexNode::Kind::kBegin : RegexNode::Kind::kEnd;
      return node;
    }
    if (std::optional<CodeRanges> ranges = shorthand(c)) {
      ++at_;
      return class_node(*std::move(ranges));
    }
    if (c == 'b' || c == 'B') fail("word boundaries are not supported");
    const uint32_t code = escaped_character();
    return class_node({{code, code}});
  }

  uint32_t hex(size_t digits) {
    uint32_t code = 0;
    for (size_t i = 0; i < digits; ++i, ++at_) {
      const int digit = hex_digit(peek());
      if (digit < 0) fail("hexadecimal digits are missing");
      code = code << 4 | static_cast<uint32_t>(digit & 15);
    }
    return code;
  }

  // Behind the backslash.
  uint32_t escaped_character() {
    if (at_ >= text_.size()) {
      fail("the expression ends with a backslash");
      return 0;
    }
    constexpr std::string_view kNames = "tnrfv0";
    constexpr std::string_view kMeanings("\t\n\r\f\v\0", 6);
    const char c = peek();
    if (const size_t found = kNames.find(c); found != std::string_view::npos) {
      ++at_;
      if (c == '0' && peek() >= '0' && peek() <= '9') fail("octal escapes are not supported");
      return static_cast<uint32_t>(kMeanings[found]);
    }
    if (take("x")) return hex(2);
    if (take("u{")) {
      uint32_t code = 0;
      for (; hex_digit(peek()) >= 0 && code <= kCodeMax; ++at_)
        code = code << 4 | static_cast<uint32_t>(hex_digit(peek()));
      if (!take("}") || code > kCodeMax) fail("a code point does not end or is too large");
      return code;
    }
    if (take("u")) return utf16();
    if (take("c")) {
      const char letter = peek();
      if ((letter | 32) < 'a' || (letter | 32) > 'z') fail("a letter must follow \\c");
      ++at_;
      return static_cast<uint32_t>(letter & 31);
    }
    const bool word = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    if (word) fail("the escape of '" + std::string(1, c) + "' is not supported");
    return character();
  }

  // Behind \u: four digits, or two times four that are a surrogate pair.
  uint32_t utf16() {
    const uint32_t high = hex(4);
    if (high < 0xD800 || high > 0xDBFF || !take("\\u")) return high;
    const uint32_t low = hex(4);
    if (low < 0xDC00 || low > 0xDFFF) fail("a surrogate has no partner");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  RegexNode bracket() {
    take("[");
    const bool negated = take("^");
    CodeRanges ranges;
    while (more() && peek() != ']') {
      if (peek() == '[' && (peek(1) == ':' || peek(1) == '.' || peek(1) == '='))
        fail("POSIX classes are not supported");
      std::optional<CodeRanges> several;
      const uint32_t low = class_item(several);
      if (several) {
        ranges.insert(ranges.end(), several->begin(), several->end());
        continue;
      }
      uint32_t high = low;
      if (peek() == '-' && peek(1) != ']' && peek(1) != '\0') {
        take("-");
        high = class_item(several);
        if (several) fail("a range must end with a character");
      }
      if (low > high) fail("a range is out of order");
      ranges.emplace_back(low, high);
    }
    if (error_.empty() && !take("]")) fail("a class does not end");
    ranges = normalised(std::move(ranges));
    return class_node(negated ? complement(ranges) : std::move(ranges));
  }

  uint32_t class_item(std::optional<CodeRanges>& several) {
    if (!take("\\")) return character();
    several = shorthand(peek());
    if (several) {
      ++at_;
      return 0;
    }
    if (take("b")) return '\b';
    return escaped_character();
  }

  const std::string_view text_;
  size_t at_ = 0;
  std::string error_;
};

}  // namespace

CodeRanges normalised(CodeRanges ranges) {
  std::sort(ranges.begin(), ranges.end());
  CodeRanges out;
  for (const auto& range : ranges) {
    if (!out.empty() && range.first <= out.back().second + 1) {
      out.back().second = std::max(out.back().second, range.second);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

CodeRanges complement(const CodeRanges& ranges) {
  CodeRanges out;
  uint32_t next = 0;
  for (const auto& range : ranges) {
    if (range.first > next) out.emplace_back(next, range.first - 1);
    next = range.second + 1;
  }
  if (next <= kCodeMax) out.emplace_back(next, kCodeMax);
  return out;
}

Result<RegexNode> parse_regex(std::string_view pattern) {
  if (pattern.size() > kRegexBytesMax) {
    return Error{"it is longer than " + std::to_string(kRegexBytesMax) + " bytes"};
  }
  Utf8Stream check;
  if (check.push(pattern) + check.finish() != pattern) return Error{"it is not valid UTF-8"};
  return Parser(pattern).run();
}

}  // namespace boreas::grammar
