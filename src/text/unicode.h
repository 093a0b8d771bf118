// Unicode facts that the tokenizer needs: UTF-8 sequences, the character classes its splitting rules name, and NFC.
// Called by the tokenizer, its pre-tokenizer and Utf8Stream. Pure functions; nothing here allocates beyond its result.
// Categories and compositions come from utf8proc (Unicode 15); UTF-8 well-formedness is Table 3-7 of the Unicode
// Standard.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace boreas {

// What stands at the front of some bytes.
struct Utf8Sequence {
  enum class Kind {
    kComplete,    // one character, `length` bytes
    kIncomplete,  // all the bytes given are the beginning of a character that needs more
    kInvalid,     // no character begins here; `length` is the maximal subpart that one U+FFFD replaces
  };
  Kind kind;
  size_t length;        // bytes, 1..4
  char32_t code_point;  // only for kComplete
};

// Reads the sequence at the front of `bytes`, which must not be empty.
Utf8Sequence read_utf8(std::string_view bytes);

// Offset of the first byte that is not part of a complete, valid character; npos if all of it is valid UTF-8.
size_t find_invalid_utf8(std::string_view bytes);

bool is_ascii(std::string_view bytes);

// The character that begins at text[offset]; moves offset behind it. `text` must be valid UTF-8.
char32_t next_code_point(std::string_view text, size_t& offset);
// The character that ends before text[end], end > 0. `text` must be valid UTF-8.
char32_t code_point_before(std::string_view text, size_t end);

bool is_decimal_digit(char32_t code_point);  // category Nd: \d
bool is_number(char32_t code_point);         // categories Nd, Nl, No
bool is_white_space(char32_t code_point);    // property White_Space (U+180E is not)
// What Oniguruma's \b takes for a word: Alphabetic, marks, Nd, connector punctuation and the six Latin-1 characters
// U+00B2, B3, B9, BC, BD, BE.
bool is_word(char32_t code_point);
// What `single_word` of an added token takes for a word (UTS #18 \w): is_word without those six, with the two joiners.
bool is_plain_word(char32_t code_point);

// Normalization Form C of valid UTF-8. O(n log n) for any input: long runs of combining marks are sorted, not bubbled.
std::string nfc(std::string_view text);

}  // namespace boreas
