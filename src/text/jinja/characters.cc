#include "text/jinja/characters.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/unicode.h"

namespace boreas::jinja {

namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool is_letter(char32_t c) {
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT ||
         k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_LO;
}

bool is_lower_case(char32_t c) { return utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0; }
bool is_upper_case(char32_t c) { return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0; }
bool is_title_case(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }
bool is_cased(char32_t c) { return is_lower_case(c) || is_upper_case(c) || is_title_case(c); }

bool is_digit(char32_t c) {
  if (category(c) == UTF8PROC_CATEGORY_ND) return true;
  return std::any_of(kOtherDigits, kOtherDigits + kOtherDigitCount,
                     [c](const CodePointRange& r) { return c >= r.first && c <= r.last; });
}

// Property Case_Ignorable: skipped when looking for the neighbours of a final sigma.
bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      break;
  }
  static constexpr char32_t kMidWord[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,  0x5F4,  0x2018, 0x2019,
                                          0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  return std::find(std::begin(kMidWord), std::end(kMidWord), c) != std::end(kMidWord);
}

const SpecialCase* special_case(char32_t c) {
  const SpecialCase* end = kSpecialCases + kSpecialCaseCount;
  const SpecialCase* at =
      std::lower_bound(kSpecialCases, end, c, [](const SpecialCase& s, char32_t code) { return s.code_point < code; });
  return at != end && at->code_point == c ? at : nullptr;
}

void append_upper(std::string& out, char32_t c) {
  if (const SpecialCase* special = c < 0x80 ? nullptr : special_case(c)) {
    out += special->upper;
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
  }
}

void append_title(std::string& out, char32_t c) {
  if (const SpecialCase* special = c < 0x80 ? nullptr : special_case(c)) {
    out += special->title;
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
  }
}

// Is the capital sigma at [begin, end) the last letter of a word (Unicode, table 3-17, Final_Sigma)?
bool is_final_sigma(std::string_view text, size_t begin, size_t end) {
  bool before = false;
  for (size_t at = begin; at > 0;) {
    const char32_t c = code_point_before(text, at);
    if (!is_case_ignorable(c)) {
      before = is_cased(c);
      break;
    }
    do --at;
    while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  }
  if (!before) return false;
  for (size_t at = end; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return true;
}

// `at` is behind the character c, which began at `begin`.
void append_lower(std::string& out, std::string_view text, size_t begin, size_t at, char32_t c) {
  if (c == 0x3A3) {
    append_utf8(out, is_final_sigma(text, begin, at) ? 0x3C2 : 0x3C3);
  } else if (c == 0x130) {
    out += "i\xCC\x87";
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

template <class Predicate>
bool all_of(std::string_view text, Predicate predicate) {
  if (text.empty()) return false;
  for (size_t at = 0; at < text.size();) {
    if (!predicate(next_code_point(text, at))) return false;
  }
  return true;
}

// At least one cased character, none of the other case.
bool one_case(std::string_view text, bool want_lower) {
  bool seen = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (is_title_case(c) || (want_lower ? is_upper_case(c) : is_lower_case(c))) return false;
    seen = seen || (want_lower ? is_lower_case(c) : is_upper_case(c));
  }
  return seen;
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

size_t offset_of(std::string_view text, size_t index) {
  size_t at = 0;
  while (at < text.size() && index > 0) {
    do ++at;
    while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
    --index;
  }
  return at;
}

void append_utf8(std::string& out, char32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

bool is_python_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_python_printable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return c == ' ';
    default:
      return true;
  }
}

std::string upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) append_upper(out, next_code_point(text, at));
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(text, at);
    append_lower(out, text, begin, at, c);
  }
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(text, at);
    if (begin == 0) {
      append_title(out, c);
    } else {
      append_lower(out, text, begin, at, c);
    }
  }
  return out;
}

std::string title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(text, at);
    if (in_word) {
      append_lower(out, text, begin, at, c);
    } else {
      append_title(out, c);
    }
    in_word = is_cased(c);
  }
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(text, at);
    if (is_upper_case(c)) {
      append_lower(out, text, begin, at, c);
    } else if (is_lower_case(c)) {
      append_upper(out, c);
    } else {
      append_utf8(out, c);
    }
  }
  return out;
}

bool is_lower(std::string_view text) { return one_case(text, true); }
bool is_upper(std::string_view text) { return one_case(text, false); }
bool is_alpha(std::string_view text) { return all_of(text, is_letter); }
bool is_digit(std::string_view text) {
  return all_of(text, [](char32_t c) { return is_digit(c); });
}
bool is_space(std::string_view text) { return all_of(text, is_python_space); }
bool is_alnum(std::string_view text) {
  // str.isnumeric also takes ideographs (一, 二), which are letters anyway, so category Nl and No complete the set.
  return all_of(text, [](char32_t c) {
    return is_letter(c) || is_digit(c) || category(c) == UTF8PROC_CATEGORY_NL || category(c) == UTF8PROC_CATEGORY_NO;
  });
}

std::string_view strip(std::string_view text, std::optional<std::string_view> characters, bool left, bool right) {
  std::vector<char32_t> set;
  if (characters) {
    for (size_t at = 0; at < characters->size();) set.push_back(next_code_point(*characters, at));
    std::sort(set.begin(), set.end());
  }
  const auto stripped = [&](char32_t c) {
    return characters ? std::binary_search(set.begin(), set.end(), c) : is_python_space(c);
  };
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    size_t at = begin;
    if (!stripped(next_code_point(text, at))) break;
    begin = at;
  }
  while (right && end > begin) {
    if (!stripped(code_point_before(text, end))) break;
    do --end;
    while (end > begin && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80);
  }
  return text.substr(begin, end - begin);
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = next_code_point(text, at);
    if (!is_line_end(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace boreas::jinja
