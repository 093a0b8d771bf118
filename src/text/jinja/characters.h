// Python's view of text for the Jinja engine: code points, white space, case mapping, what repr() shows. All text is
// valid UTF-8. Categories and one-to-one case mappings come from utf8proc; the one-to-many ones from Unicode's
// SpecialCasing (case_tables.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace boreas::jinja {

size_t count_code_points(std::string_view text);
// Byte offset of the code point with this index; text.size() if there are fewer.
size_t offset_of(std::string_view text, size_t index);
void append_utf8(std::string& out, char32_t code_point);

bool is_python_space(char32_t code_point);      // str.isspace: what strip() and split() take
bool is_python_printable(char32_t code_point);  // what repr() does not escape

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);  // str.capitalize
std::string title(std::string_view text);       // str.title
std::string swap_case(std::string_view text);   // str.swapcase
bool is_lower(std::string_view text);           // str.islower
bool is_upper(std::string_view text);           // str.isupper
bool is_alpha(std::string_view text);           // str.isalpha
bool is_alnum(std::string_view text);           // str.isalnum
bool is_digit(std::string_view text);           // str.isdigit
bool is_space(std::string_view text);           // str.isspace

// str.strip, lstrip, rstrip; `characters` empty = white space.
std::string_view strip(std::string_view text, std::optional<std::string_view> characters, bool left, bool right);
// str.splitlines; the pieces point into `text`.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

// One-to-many case mappings, sorted by code point. Private to characters.cc and case_tables.cc.
struct SpecialCase {
  char32_t code_point;
  const char* upper;  // UTF-8
  const char* title;
};
extern const SpecialCase kSpecialCases[];
extern const size_t kSpecialCaseCount;
// Code points outside category Nd with str.isdigit, as inclusive ranges.
struct CodePointRange {
  char32_t first, last;
};
extern const CodePointRange kOtherDigits[];
extern const size_t kOtherDigitCount;

}  // namespace boreas::jinja
