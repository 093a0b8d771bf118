#include "eval_score.h"

#include <utf8proc.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace boreas {

namespace json = boost::json;

namespace {

constexpr size_t kJsonDepthMax = 512;
constexpr std::array<std::string_view, 3> kVerdictNames = {"right", "wrong", "unscored"};

// One code point at `text[at]`; its bytes go to `length`. An invalid byte is a code point of its own (U+FFFD).
int32_t code_point_at(std::string_view text, size_t at, size_t& length) {
  utf8proc_int32_t point = -1;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
  const utf8proc_ssize_t used = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &point);
  length = used > 0 ? static_cast<size_t>(used) : 1;
  return used > 0 ? point : 0xFFFD;
}

// What Python's str.isspace calls white space: a space separator, or of bidirectional class WS, B or S.
bool is_space(int32_t point) {
  const utf8proc_property_t* property = utf8proc_get_property(point);
  return property->category == UTF8PROC_CATEGORY_ZS || property->bidi_class == UTF8PROC_BIDI_CLASS_WS ||
         property->bidi_class == UTF8PROC_BIDI_CLASS_B || property->bidi_class == UTF8PROC_BIDI_CLASS_S;
}

bool is_digit(int32_t point) { return utf8proc_category(point) == UTF8PROC_CATEGORY_ND; }

// Unicode's decimal digits stand in runs of ten, from zero to nine.
char ascii_digit(int32_t point) {
  int32_t first = point;
  while (first > 0 && is_digit(first - 1)) --first;
  return static_cast<char>('0' + (point - first) % 10);
}

// Appends the digits from `at` on as ASCII; returns where they end.
size_t take_digits(std::string_view text, size_t at, std::string& digits) {
  for (size_t length = 0; at < text.size(); at += length) {
    const int32_t point = code_point_at(text, at, length);
    if (!is_digit(point)) break;
    digits += ascii_digit(point);
  }
  return at;
}

bool has_prefix(std::string_view text, size_t at, std::string_view prefix) {
  return text.substr(at, prefix.size()) == prefix;
}

// The last number of the text, digits in ASCII: an optional minus (U+2212 too), digits, maybe a point and digits.
std::string last_number(std::string_view text) {
  constexpr std::string_view kMinusSign = "\xE2\x88\x92";
  std::string last;
  bool minus = false;
  for (size_t at = 0; at < text.size();) {
    std::string number;
    size_t end = take_digits(text, at, number);
    if (end == at) {
      size_t length = 0;
      code_point_at(text, at, length);
      minus = text[at] == '-' || has_prefix(text, at, kMinusSign);
      at += length;
      continue;
    }
    if (end < text.size() && text[end] == '.') {
      std::string decimals;
      const size_t after = take_digits(text, end + 1, decimals);
      if (!decimals.empty()) {
        number += "." + decimals;
        end = after;
      }
    }
    last = (minus ? "-" : "") + number;
    minus = false;
    at = end;
  }
  return last;
}

// A whole number as sign and magnitude, so that all 64-bit ones compare.
struct Whole {
  bool negative = false;
  uint64_t magnitude = 0;
};

std::optional<Whole> whole_of(const json::value& value) {
  if (const int64_t* whole = value.if_int64()) {
    return Whole{*whole < 0, *whole < 0 ? 0 - static_cast<uint64_t>(*whole) : static_cast<uint64_t>(*whole)};
  }
  if (const uint64_t* whole = value.if_uint64()) return Whole{false, *whole};
  return std::nullopt;
}

bool equals_double(const Whole& whole, double value) {
  constexpr double kTwoTo64 = 18446744073709551616.0;
  const double magnitude = std::fabs(value);
  if (!(magnitude < kTwoTo64) || magnitude != std::floor(magnitude)) return false;
  return static_cast<uint64_t>(magnitude) == whole.magnitude && (value < 0) == whole.negative;
}

bool same_number(const json::value& a, const json::value& b) {
  const std::optional<Whole> whole_a = whole_of(a);
  const std::optional<Whole> whole_b = whole_of(b);
  if (whole_a && whole_b) return whole_a->negative == whole_b->negative && whole_a->magnitude == whole_b->magnitude;
  if (whole_a) return equals_double(*whole_a, b.get_double());
  if (whole_b) return equals_double(*whole_b, a.get_double());
  return a.get_double() == b.get_double();
}

bool same_object(const json::object& a, const json::object& b) {
  if (a.size() != b.size()) return false;
  for (const auto& entry : a) {
    const json::value* other = b.if_contains(entry.key());
    if (!other || !same_json(entry.value(), *other)) return false;
  }
  return true;
}

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// Is `word` in `text`, with no letter, digit or underscore directly beside it?
bool stands_in(std::string_view word, std::string_view text) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

bool is_one_of(std::string_view text, const std::vector<std::string>& accepted) {
  for (const std::string& one : accepted) {
    if (text == one) return true;
  }
  return false;
}

bool contains(std::string_view text, const Check& check) {
  for (const std::string& word : check.all) {
    if (!stands_in(word, text)) return false;
  }
  for (const std::string& word : check.none) {
    if (stands_in(word, text)) return false;
  }
  return true;
}

bool is_number(std::string_view text, const json::value& value) {
  const std::string number = last_number(text);
  return !number.empty() && same_number(json::value(std::strtod(number.c_str(), nullptr)), value);
}

AnswerVerdict run_python(std::string_view text, const Check& check, const PythonSandbox* sandbox) {
  if (!sandbox) return AnswerVerdict::kUnscored;
  const json::value function = check.function ? json::value(*check.function) : json::value(nullptr);
  const json::object task{{"code", code_block(text)}, {"function", function}, {"args", check.arguments}};
  const PythonSandbox::Outcome outcome = sandbox->run(json::serialize(task));
  if (outcome.end == PythonSandbox::End::kNotStarted) return AnswerVerdict::kUnscored;
  if (outcome.end == PythonSandbox::End::kKilled) return AnswerVerdict::kWrong;
  const std::optional<json::value> returned = parse_json(outcome.output);
  return returned && same_json(*returned, check.returned) ? AnswerVerdict::kRight : AnswerVerdict::kWrong;
}

}  // namespace

std::string_view verdict_name(AnswerVerdict verdict) { return kVerdictNames[static_cast<size_t>(verdict)]; }

std::optional<AnswerVerdict> verdict_of(std::string_view name) {
  for (size_t i = 0; i < kVerdictNames.size(); ++i) {
    if (kVerdictNames[i] == name) return static_cast<AnswerVerdict>(i);
  }
  return std::nullopt;
}

bool same_json(const json::value& a, const json::value& b) {
  if (a.is_number() && b.is_number()) return same_number(a, b);
  if (a.kind() != b.kind()) return false;
  if (const json::object* object = a.if_object()) return same_object(*object, b.get_object());
  if (const json::array* array = a.if_array()) {
    const json::array& other = b.get_array();
    if (array->size() != other.size()) return false;
    for (size_t i = 0; i < array->size(); ++i) {
      if (!same_json((*array)[i], other[i])) return false;
    }
    return true;
  }
  return a == b;  // strings, booleans, null
}

bool same_calls(const std::vector<AnswerCall>& made, const std::vector<AnswerCall>& wanted) {
  std::vector<const AnswerCall*> left;
  for (const AnswerCall& call : made) left.push_back(&call);
  for (const AnswerCall& call : wanted) {
    size_t match = 0;
    while (match < left.size() &&
           !(left[match]->name == call.name && same_json(left[match]->arguments, call.arguments))) {
      ++match;
    }
    if (match == left.size()) return false;
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(match));
  }
  return left.empty();
}

std::string code_block(std::string_view text) {
  constexpr std::string_view kFence = "```";
  for (size_t open = text.find(kFence); open != std::string_view::npos; open = text.find(kFence, open + 1)) {
    size_t begin = open + kFence.size();
    while (begin < text.size() &&
           ((text[begin] >= 'a' && text[begin] <= 'z') || (text[begin] >= '0' && text[begin] <= '9')))
      ++begin;
    if (begin == text.size() || text[begin] != '\n') continue;
    ++begin;
    const size_t close = text.find(kFence, begin);
    if (close == std::string_view::npos) break;
    const bool own_line = close > begin && text[close - 1] == '\n';
    return std::string(trim(text.substr(begin, close - begin - (own_line ? 1 : 0))));
  }
  return std::string(trim(text));
}

std::string_view trim(std::string_view text) {
  size_t length = 0;
  while (!text.empty() && is_space(code_point_at(text, 0, length))) text.remove_prefix(length);
  while (!text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    if (!is_space(code_point_at(text, at, length)) || at + length != text.size()) break;
    text.remove_suffix(length);
  }
  return text;
}

std::optional<json::value> parse_json(std::string_view text) {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = kJsonDepthMax;
  json::value value = json::parse(text, error, {}, options);
  if (error) return std::nullopt;
  return value;
}

AnswerVerdict score(const Answer& answer, const Check& check, const PythonSandbox* sandbox) {
  const auto verdict = [](bool right) { return right ? AnswerVerdict::kRight : AnswerVerdict::kWrong; };
  if (check.type == Check::Type::kToolCalls) return verdict(same_calls(answer.calls, check.calls));
  if (!answer.calls.empty() || !answer.content) return AnswerVerdict::kWrong;
  const std::string_view text = trim(*answer.content);
  switch (check.type) {
    case Check::Type::kNumber:
      return verdict(is_number(text, check.value));
    case Check::Type::kEquals:
      return verdict(is_one_of(text, check.accepted));
    case Check::Type::kContains:
      return verdict(contains(text, check));
    case Check::Type::kJson: {
      const std::optional<json::value> value = parse_json(text);
      return verdict(value && same_json(*value, check.value));
    }
    case Check::Type::kCommand:
      return verdict(is_one_of(code_block(text), check.accepted));
    case Check::Type::kPython:
      return run_python(text, check, sandbox);
    case Check::Type::kToolCalls:
      break;
  }
  return AnswerVerdict::kWrong;
}

}  // namespace boreas
