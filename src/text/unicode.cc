// UTF-8 sequences, character classes and NFC: see unicode.h.
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace boreas {
namespace {

bool is_ascii_byte(char byte) { return static_cast<unsigned char>(byte) < 0x80; }

// Lead byte -> bytes in the character and the range of its second byte (Table 3-7); length 0: no lead byte.
struct LeadByte {
  size_t length;
  uint8_t second_min;
  uint8_t second_max;
};

constexpr LeadByte lead_byte(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

int category(char32_t code_point) { return utf8proc_category(static_cast<utf8proc_int32_t>(code_point)); }

int combining_class(int32_t code_point) { return utf8proc_get_property(code_point)->combining_class; }

// Alphabetic characters that are neither letters, letter numbers nor marks: circled and squared Latin letters.
bool is_alphabetic_symbol(char32_t c) {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

bool is_latin1_numeral(char32_t c) {
  return c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0xBC || c == 0xBD || c == 0xBE;
}

// Canonical order: every run of characters with a combining class is sorted by it, equal ones keep their order.
void sort_marks(std::vector<int32_t>& characters) {
  const auto is_starter = [](int32_t c) { return combining_class(c) == 0; };
  auto run = characters.begin();
  while (run != characters.end()) {
    run = std::find_if_not(run, characters.end(), is_starter);
    const auto end = std::find_if(run, characters.end(), is_starter);
    if (end - run > 1) {
      std::stable_sort(run, end, [](int32_t a, int32_t b) { return combining_class(a) < combining_class(b); });
    }
    run = end;
  }
}

// Appends the NFC of one segment that starts and ends at a normalization boundary.
void append_nfc(std::string_view segment, std::vector<int32_t>& scratch, std::string& out) {
  constexpr size_t kDecomposedMax = 16;  // canonical decompositions have at most 4 characters
  scratch.clear();
  for (size_t offset = 0; offset < segment.size();) {
    const auto code_point = static_cast<int32_t>(next_code_point(segment, offset));
    const size_t used = scratch.size();
    scratch.resize(used + kDecomposedMax);
    int boundclass = 0;
    const auto count =
        utf8proc_decompose_char(code_point, scratch.data() + used, kDecomposedMax, UTF8PROC_DECOMPOSE, &boundclass);
    CHECK(count >= 0 && static_cast<size_t>(count) <= kDecomposedMax);
    scratch.resize(used + static_cast<size_t>(count));
  }
  sort_marks(scratch);
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const auto composed =
      utf8proc_normalize_utf32(scratch.data(), static_cast<utf8proc_ssize_t>(scratch.size()), options);
  CHECK(composed >= 0);
  for (size_t i = 0; i < static_cast<size_t>(composed); ++i) {
    utf8proc_uint8_t bytes[4];
    const auto length = utf8proc_encode_char(scratch[i], bytes);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
  }
}

}  // namespace

Utf8Sequence read_utf8(std::string_view bytes) {
  using Kind = Utf8Sequence::Kind;
  const auto lead = static_cast<uint8_t>(bytes.front());
  if (lead < 0x80) return {Kind::kComplete, 1, lead};
  const LeadByte info = lead_byte(lead);
  if (info.length == 0) return {Kind::kInvalid, 1, 0};
  char32_t code_point = lead & (0x7Fu >> info.length);
  for (size_t i = 1; i < info.length; ++i) {
    if (i == bytes.size()) return {Kind::kIncomplete, i, 0};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t low = i == 1 ? info.second_min : 0x80;
    const uint8_t high = i == 1 ? info.second_max : 0xBF;
    if (byte < low || byte > high) return {Kind::kInvalid, i, 0};
    code_point = code_point << 6 | (byte & 0x3Fu);
  }
  return {Kind::kComplete, info.length, code_point};
}

size_t find_invalid_utf8(std::string_view bytes) {
  for (size_t offset = 0; offset < bytes.size();) {
    if (is_ascii_byte(bytes[offset])) {
      ++offset;
      continue;
    }
    const Utf8Sequence sequence = read_utf8(bytes.substr(offset));
    if (sequence.kind != Utf8Sequence::Kind::kComplete) return offset;
    offset += sequence.length;
  }
  return std::string_view::npos;
}

bool is_ascii(std::string_view bytes) { return std::all_of(bytes.begin(), bytes.end(), is_ascii_byte); }

char32_t next_code_point(std::string_view text, size_t& offset) {
  const Utf8Sequence sequence = read_utf8(text.substr(offset));
  DCHECK(sequence.kind == Utf8Sequence::Kind::kComplete);
  offset += sequence.length;
  return sequence.code_point;
}

char32_t code_point_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return next_code_point(text, begin);
}

bool is_decimal_digit(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_number(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  const int kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  if (c == 0x85) return true;
  const int kind = category(c);
  return kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP;
}

bool is_plain_word(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return is_alphabetic_symbol(c) || c == 0x200C || c == 0x200D;
  }
}

bool is_word(char32_t c) {
  if (c == 0x200C || c == 0x200D) return false;
  return is_latin1_numeral(c) || is_plain_word(c);
}

std::string nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::vector<int32_t> scratch;
  // Every ASCII character begins a new segment (none of them ever composes with what stands before it), but the last
  // one before other characters may compose with them.
  for (size_t offset = 0; offset < text.size();) {
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(offset);
    const auto ascii_end = std::find_if_not(begin, text.end(), is_ascii_byte);
    if (ascii_end == text.end()) {
      out.append(begin, ascii_end);
      break;
    }
    const auto segment = ascii_end == begin ? begin : ascii_end - 1;
    const auto segment_end = std::find_if(ascii_end, text.end(), is_ascii_byte);
    out.append(begin, segment);
    const auto segment_offset = static_cast<size_t>(segment - text.begin());
    append_nfc(text.substr(segment_offset, static_cast<size_t>(segment_end - segment)), scratch, out);
    offset = static_cast<size_t>(segment_end - text.begin());
  }
  return out;
}

}  // namespace boreas
