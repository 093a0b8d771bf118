#include "text/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "text/jinja/characters.h"
#include "text/unicode.h"

namespace boreas::jinja {

namespace {

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_decimal(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_decimal(c); }

// \r\n and \r become \n; one newline at the very end is dropped.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) data();
    push(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void error(std::string message) { throw Fault{std::move(message), line_}; }

  bool looking_at(std::string_view text) const { return std::string_view(source_).substr(at_, text.size()) == text; }

  void advance_to(size_t end) {
    line_ += static_cast<int>(
        std::count(source_.begin() + static_cast<long>(at_), source_.begin() + static_cast<long>(end), '\n'));
    at_ = end;
  }

  void push(TokenKind kind, std::string text) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }

  void push_data(std::string_view text) {
    if (!text.empty()) push(TokenKind::kData, std::string(text));
  }

  // Text that a tag with this sign ends: '-' strips all white space, '+' nothing, otherwise a line's indentation goes
  // if nothing else precedes the tag (lstrip_blocks; not before a print).
  std::string_view before_tag(std::string_view text, char sign, bool is_print) const {
    if (sign == '-') return strip(text, std::nullopt, false, true);
    if (sign == '+' || is_print) return text;
    const size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !line_starting_) return text;
    const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    return strip(text.substr(begin), std::nullopt, false, true).empty() ? text.substr(0, begin) : text;
  }

  // Everything up to and including the next opening tag.
  void data() {
    size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos) {
        push_data(std::string_view(source_).substr(at_));
        at_ = source_.size();
        return;
      }
      const char next = tag + 1 < source_.size() ? source_[tag + 1] : '\0';
      if (next == '%' || next == '{' || next == '#') break;
    }
    const char type = source_[tag + 1];
    size_t behind = tag + 2;
    char sign = behind < source_.size() ? source_[behind] : '\0';
    if (sign == '-' || sign == '+') {
      ++behind;
    } else {
      sign = '\0';
    }
    const auto text = std::string_view(source_).substr(at_, tag - at_);
    push_data(before_tag(text, sign, type == '{'));
    advance_to(tag);
    if (type == '%' && raw(behind)) return;
    advance_to(behind);
    line_starting_ = false;
    if (type == '#') return comment();
    push(type == '{' ? TokenKind::kPrintBegin : TokenKind::kBlockBegin, {});
    tag_body(type == '{');
  }

  void skip_space() {
    size_t end = at_;
    while (end < source_.size()) {
      size_t next = end;
      if (!is_python_space(next_code_point(source_, next))) break;
      end = next;
    }
    advance_to(end);
  }

  // Behind the end of a tag: "-" strips what follows, otherwise a block or comment takes its newline along
  // (trim_blocks).
  void after_tag(char sign, bool trims) {
    if (sign == '-') {
      skip_space();
    } else if (trims && sign != '+' && at_ < source_.size() && source_[at_] == '\n') {
      advance_to(at_ + 1);
    }
    line_starting_ = source_[at_ - 1] == '\n';
  }

  void comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) error("unclosed comment: '#}' is missing");
    const char before = end > at_ ? source_[end - 1] : '\0';
    advance_to(end + 2);
    after_tag(before == '-' || before == '+' ? before : '\0', true);
  }

  size_t spaces_from(size_t from) const {
    while (from < source_.size() &&
           is_python_space(static_cast<uint8_t>(source_[from]) < 0x80 ? static_cast<char32_t>(source_[from]) : U'x'))
      ++from;
    return from;
  }

  // Position behind `{%[+-]? word` at `from`, which is behind the opening; npos if something else stands there.
  size_t match_word(size_t from, std::string_view word) const {
    from = spaces_from(from);
    if (std::string_view(source_).substr(from, word.size()) != word) return std::string::npos;
    return spaces_from(from + word.size());
  }

  // {% raw %} ... {% endraw %}; false if the tag is another one.
  bool raw(size_t behind) {
    size_t end = match_word(behind, "raw");
    if (end == std::string::npos) return false;
    const bool strips = source_.compare(end, 3, "-%}") == 0;
    if (!strips && source_.compare(end, 2, "%}") != 0) return false;
    advance_to(end + (strips ? 3 : 2));
    if (strips) skip_space();
    line_starting_ = source_[at_ - 1] == '\n';
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
      char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      if (sign != '-' && sign != '+') sign = '\0';
      end = match_word(tag + (sign == '\0' ? 2 : 3), "endraw");
      if (end == std::string::npos) continue;
      const char last = source_[std::min(end, source_.size() - 1)];
      const char end_sign = last == '-' || last == '+' ? last : '\0';
      if (end_sign != '\0') ++end;
      if (source_.compare(std::min(end, source_.size()), 2, "%}") != 0) continue;
      push_data(before_tag(std::string_view(source_).substr(at_, tag - at_), sign, false));
      advance_to(end + 2);
      after_tag(end_sign, true);
      return true;
    }
    error("unclosed raw block: '{% endraw %}' is missing");
  }

  // Tokens up to and including }} or %}.
  void tag_body(bool is_print) {
    const std::string close = is_print ? "}}" : "%}";
    std::string open_brackets;
    while (true) {
      if (at_ >= source_.size())
        error(is_print ? "unclosed print: '}}' is missing" : "unclosed block: '%}' is missing");
      if (open_brackets.empty()) {
        const char c = source_[at_];
        const char sign = (c == '-' || (c == '+' && !is_print)) && source_.compare(at_ + 1, 2, close) == 0 ? c : '\0';
        if (sign != '\0' || looking_at(close)) {
          advance_to(at_ + (sign != '\0' ? 3 : 2));
          push(is_print ? TokenKind::kPrintEnd : TokenKind::kBlockEnd, {});
          return after_tag(sign, !is_print);
        }
      }
      const size_t before = at_;
      skip_space();
      if (at_ == before) token(open_brackets);
    }
  }

  void token(std::string& open_brackets) {
    const char c = source_[at_];
    if (is_decimal(c)) return number();
    if (is_name_start(c)) {
      size_t end = at_;
      while (end < source_.size() && is_name_part(source_[end])) ++end;
      if (end < source_.size() && static_cast<uint8_t>(source_[end]) >= 0x80)
        error("identifiers outside ASCII are not supported");
      push(TokenKind::kName, source_.substr(at_, end - at_));
      at_ = end;
      return;
    }
    if (c == '\'' || c == '"') return text(c);
    if (static_cast<uint8_t>(c) >= 0x80) error("identifiers outside ASCII are not supported");
    for (const char* op : {"//", "**", "==", "!=", ">=", "<="}) {
      if (looking_at(op)) {
        push(TokenKind::kOperator, op);
        at_ += 2;
        return;
      }
    }
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
      error(std::string("unexpected character '") + c + "'");
    }
    balance(c, open_brackets);
    push(TokenKind::kOperator, std::string(1, c));
    ++at_;
  }

  void balance(char c, std::string& open_brackets) {
    if (c == '(' || c == '[' || c == '{') {
      open_brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open_brackets.empty()) error(std::string("unexpected '") + c + "'");
      if (open_brackets.back() != c)
        error(std::string("unexpected '") + c + "', expected '" + open_brackets.back() + "'");
      open_brackets.pop_back();
    }
  }

  // Digits with single underscores between them; empty if there is none.
  std::string digits(size_t& end, int base) const {
    std::string out;
    const auto is_digit_of = [&](size_t i) {
      if (i >= source_.size()) return false;
      const char c = source_[i];
      const int value = is_decimal(c)          ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : 99;
      return value < base;
    };
    while (is_digit_of(end) || (end < source_.size() && source_[end] == '_' && is_digit_of(end + 1))) {
      if (source_[end] != '_') out += source_[end];
      ++end;
    }
    return out;
  }

  void number() {
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    size_t end = at_;
    std::string literal = digits(end, 10);
    bool real = false;
    if (!after_dot) {
      size_t further = end + 1;
      if (end < source_.size() && source_[end] == '.' && further < source_.size() && is_decimal(source_[further])) {
        literal += '.' + digits(further, 10);
        end = further;
        real = true;
      }
      further = end + 1;
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        std::string sign;
        if (further < source_.size() && (source_[further] == '+' || source_[further] == '-')) sign = source_[further++];
        if (further < source_.size() && is_decimal(source_[further])) {
          literal += 'e' + sign + digits(further, 10);
          end = further;
          real = true;
        }
      }
    }
    if (real) {
      push(TokenKind::kFloat, literal);
      tokens_.back().real = std::strtod(literal.c_str(), nullptr);
      at_ = end;
      return;
    }
    integer(end, literal);
  }

  void integer(size_t end, std::string literal) {
    int base = 10;
    if (source_[at_] == '0') {
      const char prefix = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : '\0';
      const int wanted = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
      size_t from = at_ + 2;
      const std::string other = wanted == 10 ? std::string() : digits(from, wanted);
      if (!other.empty()) {
        base = wanted;
        literal = other;
        end = from;
      } else if (literal.find_first_not_of('0') != std::string::npos) {
        error("whole numbers must not begin with 0");
      }
    }
    uint64_t value = 0;
    if (std::from_chars(literal.data(), literal.data() + literal.size(), value, base).ec != std::errc()) {
      error("whole number '" + literal + "' does not fit in 64 bits");
    }
    push(TokenKind::kInteger, literal);
    tokens_.back().integer = value;
    at_ = end;
  }

  void text(char quote) {
    const int line = line_;
    std::string out;
    size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; ++i) {
      if (source_[i] != '\\') {
        out += source_[i];
        continue;
      }
      if (++i >= source_.size()) break;
      escape(i, out);
    }
    if (i >= source_.size()) error("unclosed string literal");
    push(TokenKind::kText, std::move(out));
    advance_to(i + 1);
    tokens_.back().line = line;
  }

  // Python's escapes; `i` is at the character behind the backslash and ends on the last one used.
  void escape(size_t& i, std::string& out) {
    static constexpr std::string_view kFrom = "ntrabfv\\'\"", kTo = "\n\t\r\a\b\f\v\\'\"";
    const char c = source_[i];
    if (const size_t at = kFrom.find(c); at != std::string_view::npos) {
      out += kTo[at];
    } else if (c == '\n') {
      return;  // a continued line
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      uint32_t code = 0;
      const char* first = source_.data() + std::min(i + 1, source_.size());
      const char* last = source_.data() + std::min(i + 1 + count, source_.size());
      const auto read = std::from_chars(first, last, code, 16);
      if (read.ec != std::errc() || read.ptr != first + count || code > 0x10FFFF)
        error("malformed \\" + std::string(1, c) + " escape");
      if (code >= 0xD800 && code < 0xE000) error("surrogate escapes in string literals are not supported");
      append_utf8(out, code);
      i += count;
    } else if (c >= '0' && c <= '7') {
      uint32_t code = 0;
      size_t end = i;
      while (end < i + 3 && end < source_.size() && source_[end] >= '0' && source_[end] <= '7')
        code = code * 8 + static_cast<uint32_t>(source_[end++] - '0');
      append_utf8(out, code);
      i = end - 1;
    } else if (c == 'N') {
      error("\\N escapes in string literals are not supported");
    } else {
      out += '\\';  // Python keeps an unknown escape as it is
      out += c;
    }
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last tag ended with a newline
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (find_invalid_utf8(source) != std::string_view::npos) throw Fault{"the template is not valid UTF-8", 1};
  return Lexer(normalize(source)).run();
}

}  // namespace boreas::jinja
