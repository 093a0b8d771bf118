// Incremental JSON reading for tool-call text that a model is still writing. The output parser is the caller; the text
// must go to the client as it comes, so nothing here builds a tree or looks back.
//
//   JsonValueScanner   where does this value end, and is it valid JSON so far?
//   JsonStringDecoder  the text of a JSON string, escapes undone
//
// What always holds: no recursion, bounded memory (1,000 bits of bracket stack), one look at every byte, results
// independent of how the text was cut. Invalid text never fails, it is only reported by valid().
// Grammar: RFC 8259. The caller sees to it that the text is UTF-8.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>

namespace boreas {

class JsonValueScanner {
 public:
  // Deeper brackets are still counted, so the end of the value is found, but the value is no longer called valid.
  static constexpr int kMaxDepth = 1000;

  enum class Kind : uint8_t { kNone, kObject, kArray, kString, kScalar };

  // Takes text up to the end of the value and returns how many bytes belong to it (leading white space included). A
  // number, a literal or another bare word ends before the first delimiter; a container or string with its last byte.
  //
  // Broken nesting: a closing bracket closes everything up to the matching open one; a `}` without any open `{` ends
  // the value before it (it belongs to what surrounds the value); a `]` without any open `[` is passed over.
  size_t feed(std::string_view text);
  bool done() const { return done_; }
  // Valid JSON so far, or on the whole once done. An unfinished bare word counts as valid until its end is known.
  bool valid() const { return valid_; }
  Kind kind() const { return kind_; }

 private:
  enum class Lex : uint8_t { kBetween, kString, kEscape, kHex, kWord };
  enum class Expect : uint8_t { kValue, kValueOrEnd, kKey, kKeyOrEnd, kColon, kCommaOrEnd };
  enum class Word : uint8_t { kLiteral, kMinus, kZero, kInteger, kPoint, kFraction, kExponent, kSign, kPower, kWrong };

  bool step(char c);     // false: the value ended before c
  bool between(char c);  // the same
  void in_string(char c);
  void open(bool object, Expect inside);
  bool close_object();  // false: the value ended before it
  void close_array();
  void pop();
  void begin_value(Kind kind);
  void end_value();
  void begin_word(char c);
  void word_byte(char c);
  void end_word();
  bool top_is_object() const { return depth_ > 0 && is_object_[static_cast<size_t>(depth_ - 1)]; }

  std::bitset<kMaxDepth> is_object_;  // per open bracket
  int depth_ = 0;
  int open_objects_ = 0;
  int64_t overflow_ = 0;           // brackets open beyond kMaxDepth
  const char* literal_ = nullptr;  // what is left of true, false or null
  Kind kind_ = Kind::kNone;
  Lex lex_ = Lex::kBetween;
  Expect expect_ = Expect::kValue;
  Word word_ = Word::kWrong;
  uint8_t hex_left_ = 0;
  bool key_ = false;  // the string being read is a key
  bool done_ = false;
  bool valid_ = true;
};

class JsonStringDecoder {
 public:
  // Takes text behind the opening quote, appends what it means to `out` and returns how many bytes were used: all of
  // them, or up to and with the closing quote. Wrong escapes come out as written, surrogates without a partner as
  // U+FFFD.
  size_t feed(std::string_view text, std::string& out);
  bool done() const { return done_; }
  bool pending() const { return escape_bytes_ > 0 || high_ != 0; }  // bytes taken that did not lead to output yet

 private:
  bool in_escape(char c, std::string& out);    // false: the escape ended before c
  void unit(uint32_t code, std::string& out);  // one \uXXXX
  void flush_high(std::string& out);

  char escape_[8] = {};  // the escape being read, from its backslash
  uint8_t escape_bytes_ = 0;
  uint32_t high_ = 0;  // a high surrogate that waits for its partner
  bool done_ = false;
};

// Appends one code point as UTF-8.
void append_utf8(uint32_t code, std::string& out);

constexpr bool is_json_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
// Ends a bare word.
constexpr bool is_json_delimiter(char c) {
  return is_json_space(c) || c == ',' || c == ':' || c == '"' || c == '{' || c == '}' || c == '[' || c == ']';
}

}  // namespace boreas
