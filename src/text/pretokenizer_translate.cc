// translate_pattern: Oniguruma's syntax and character sets in PCRE2's words. See pretokenizer_regex.h for what passes.
#include <algorithm>
#include <string>
#include <string_view>

#include "text/pretokenizer_regex.h"

namespace boreas {
namespace {

constexpr size_t kPatternBytesMax = 4096;

// Sets as they stand in a class: White_Space without U+180E, and word characters. A bare \w and \b also count six
// Latin-1 numerals as words in Oniguruma, a \w within a class does not (found by comparison, as the rest).
constexpr std::string_view kSpaceSet = R"(\t-\r\x20\x{85}\p{Z})";
constexpr std::string_view kWordSetInClass = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kWordSet = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";

bool is_ascii_alnum(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string in_brackets(std::string_view set, bool negated) {
  return std::string(negated ? "[^" : "[").append(set).append("]");
}

// \b: a word character on exactly one side.
std::string word_boundary() {
  const std::string word = in_brackets(kWordSet, false);
  return "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))";
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern) {}

  Result<std::string> run() {
    while (!rest_.empty()) {
      RETURN_IF_ERROR(in_class_ ? class_item() : outer_item());
    }
    if (in_class_) return Error{"regex: a character class is not closed"};
    return std::move(out_);
  }

 private:
  Status outer_item() {
    const char c = rest_.front();
    if (c == '\\') return escape();
    if (c == '[') return open_class();
    if (c == '(') return open_group();
    if (c == '{') return count();
    if (c == '.' || c == '^' || c == '$') return refuse(1);
    take(1);
    return Ok{};
  }

  Status class_item() {
    const char c = rest_.front();
    if (c == '\\') return escape();
    if (c == '[' || rest_.starts_with("&&")) return refuse(2);
    if (c == ']') in_class_ = false;
    take(1);
    return Ok{};
  }

  Status open_class() {
    take(rest_.starts_with("[^") ? 2 : 1);
    if (rest_.empty() || rest_.front() == ']') return Error{"regex: an empty character class is not supported"};
    in_class_ = true;
    return Ok{};
  }

  Status open_group() {
    for (const std::string_view group : {"(?:", "(?i:", "(?=", "(?!"}) {
      if (rest_.starts_with(group)) {
        take(group.size());
        return Ok{};
      }
    }
    if (rest_.starts_with("(?") || rest_.starts_with("(*")) return refuse(4);
    rest_.remove_prefix(1);
    out_ += "(?:";
    return Ok{};
  }

  // {n}, {n,} or {n,m}, without the `+` that the two libraries read differently.
  Status count() {
    const size_t end = rest_.find('}');
    if (end == std::string_view::npos) return refuse(1);
    const std::string_view inside = rest_.substr(1, end - 1);
    const bool plain =
        std::all_of(inside.begin(), inside.end(), [](char c) { return (c >= '0' && c <= '9') || c == ','; });
    if (!plain || inside.empty() || inside.front() == ',') return refuse(end + 1);
    if (rest_.substr(end + 1).starts_with('+')) return refuse(end + 2);
    take(end + 1);
    return Ok{};
  }

  Status escape() {
    if (rest_.size() < 2) return refuse(1);
    const char c = rest_[1];
    if (c == 'p' || c == 'P') return property();
    const std::string_view known = in_class_ ? "sdwrnt" : "sSdwbrnt";
    if (is_ascii_alnum(c) && known.find(c) == std::string_view::npos) return refuse(2);
    if (static_cast<unsigned char>(c) >= 0x80) return refuse(1);
    switch (c) {
      case 's':
        out_ += in_class_ ? std::string(kSpaceSet) : in_brackets(kSpaceSet, false);
        break;
      case 'S':
        out_ += in_brackets(kSpaceSet, true);
        break;
      case 'w':
        out_ += in_class_ ? std::string(kWordSetInClass) : in_brackets(kWordSet, false);
        break;
      case 'd':
        out_ += "\\p{Nd}";
        break;
      case 'b':
        out_ += word_boundary();
        break;
      default:
        out_ += rest_.substr(0, 2);
    }
    rest_.remove_prefix(2);
    return Ok{};
  }

  // \p{X}, \P{X} or \p{^X} with a general category of one or two letters.
  Status property() {
    const size_t end = rest_.find('}');
    if (rest_.size() < 4 || rest_[2] != '{' || end == std::string_view::npos) return refuse(3);
    std::string_view name = rest_.substr(3, end - 3);
    if (name.starts_with('^')) name.remove_prefix(1);
    constexpr std::string_view kCategories =
        " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp ";
    if (name.empty() || kCategories.find(" " + std::string(name) + " ") == std::string_view::npos)
      return refuse(end + 1);
    take(end + 1);
    return Ok{};
  }

  void take(size_t length) {
    out_ += rest_.substr(0, length);
    rest_.remove_prefix(length);
  }

  Error refuse(size_t length) const {
    return Error{"regex construct '" + std::string(rest_.substr(0, length)) + "' is not supported"};
  }

  std::string_view rest_;
  std::string out_;
  bool in_class_ = false;
};

}  // namespace

Result<std::string> translate_pattern(std::string_view pattern) {
  if (pattern.size() > kPatternBytesMax) {
    return Error{"regex of " + std::to_string(pattern.size()) + " bytes; at most " + std::to_string(kPatternBytesMax)};
  }
  return Translator(pattern).run();
}

}  // namespace boreas
