// Regular expressions for `pattern` in a JSON Schema and for guided_regex: read into a tree, then built as an automaton
// over bytes. No backtracking: the result is a Dfa, and what would make it too large is refused.
//
// Understood (what ECMAScript and Python have in common): literals, ., classes with ranges and negation, \d \w \s and
// their opposites, \t \n \r \f \v \0 \xHH \uHHHH \u{H} \cX, escaped punctuation, ( ), (?: ), named groups (their names
// are not looked at), |, * + ? {m} {m,} {m,n} with or without a lazy ?, ^ \A at the beginning and $ \z \Z at the end of
// the expression or of one of its alternatives. Refused with an error that says where: back references, look-around,
// \b \B, \p, flags, possessive quantifiers, anchors elsewhere.
//
// A character is a code point; \d and \w are ASCII, \s is what ECMAScript says. Surrogates cannot be matched.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/grammar/automaton.h"

namespace boreas::grammar {

constexpr size_t kRegexBytesMax = 16 << 10;
constexpr int kRegexDepthMax = 64;            // nested groups
constexpr uint32_t kRegexRepeatMax = 10'000;  // m and n of {m,n}

// Code points low..high, sorted and apart.
using CodeRanges = std::vector<std::pair<uint32_t, uint32_t>>;
constexpr uint32_t kCodeMax = 0x10FFFF;
CodeRanges normalised(CodeRanges ranges);
CodeRanges complement(const CodeRanges& ranges);  // of all code points; input normalised

struct RegexNode {
  enum class Kind : uint8_t { kEmpty, kClass, kSequence, kChoice, kRepeat, kBegin, kEnd };
  static constexpr uint32_t kUnbounded = UINT32_MAX;
  Kind kind = Kind::kEmpty;
  CodeRanges ranges;                // kClass
  std::vector<RegexNode> children;  // kSequence, kChoice; kRepeat: one
  uint32_t count_min = 0, count_max = 0;
};

Result<RegexNode> parse_regex(std::string_view pattern);

// How a matched character is written.
enum class Spelling : uint8_t {
  kUtf8,  // as it is
  // As in a JSON string, in one way only: " and \ and control characters as their shortest escape (\u00XX where there
  // is no short one, both cases of X), all others as they are.
  kJsonString,
};

// One character of the class, in that spelling.
void add_class(Nfa& nfa, int32_t from, const CodeRanges& ranges, Spelling spelling, int32_t to);

// Texts that the expression matches: as a whole, or (`search`) anywhere, unless it is anchored. An error if it matches
// nothing or is too large.
Result<Dfa> regex_automaton(std::string_view pattern, Spelling spelling, bool search, WorkBudget& budget);

}  // namespace boreas::grammar
