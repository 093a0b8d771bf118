// SplitRegex: the regular expressions of tokenizer.json, which are written for Oniguruma, run by PCRE2 (JIT where the
// machine allows it). Only the pre-tokenizer uses it.
//
// The pattern is translated first, because the two libraries differ: PCRE2's \s takes U+180E and its \w and \b know
// neither marks nor connector punctuation. Translated are: \s \S \d \w \b, \p{X} \P{X} with general categories, classes
// without nesting, groups (?: (?i: (?= (?! (, alternation, quantifiers. Everything else is refused at load by name.
//
// Patterns known to be linear run without further limits. With any other pattern the text may hold no run of more than
// kDigitRunMax digits (a grouping look-ahead is quadratic in such a run) and each match has PCRE2's limits.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace boreas {

// The pattern of GPT-2's pre-tokenizer, which ByteLevel(use_regex: true) means.
extern const std::string_view kGpt2Pattern;
// `\d{1,3}(?=(?:\d{3})*\b)`: digits in groups of three from the right. Never compiled; see DigitGroups.
extern const std::string_view kDigitGroupPattern;
// The letter-case, number, punctuation and white-space pattern that follows kDigitGroupPattern.
extern const std::string_view kWordPattern;

// Longest run of decimal digits that a pattern of unknown complexity is given, in characters. Derived: at 0.33 ns a
// digit pair (PCRE2 JIT on `\d{1,3}(?=(?:\d{3})*\b)`), 1 MB of such runs costs under a second.
inline constexpr size_t kDigitRunMax = 2000;

// What PCRE2 needs to run a match; one a thread. Cheap enough to make one a text.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class SplitRegex;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class SplitRegex {
 public:
  // Error: a construct that is not translated, a pattern PCRE2 refuses, or one that can match nothing at all.
  static Result<SplitRegex> compile(std::string_view pattern);

  // Cuts `piece` (valid UTF-8) at the ends of all matches, left to right, and appends the non-empty parts to `out`: the
  // matches and what stands between them. Look-arounds do not see beyond `piece`. Error: a limit was hit.
  Status split(std::string_view piece, RegexScratch& scratch, std::vector<std::string_view>& out) const;

 private:
  struct Impl;
  explicit SplitRegex(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// The PCRE2 form of an Oniguruma pattern; exposed for tests.
Result<std::string> translate_pattern(std::string_view pattern);

}  // namespace boreas
