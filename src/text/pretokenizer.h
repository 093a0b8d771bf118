// PreTokenizer: cuts normalized text into the pieces that BPE then merges within, as the `pre_tokenizer` of
// tokenizer.json says. Called by Tokenizer only. Immutable after load; safe to use from many threads.
//
// Understood: Sequence, Split(Regex, Isolated), Digits(individual_digits) and ByteLevel(add_prefix_space false,
// use_regex true or false), which must come last; anything else is a load error that names the construct. Each stage
// sees each piece of the stage before it on its own, so that look-ahead ends where the piece ends. All stages are
// linear in the text (SplitRegex bounds the patterns it does not know).
#pragma once

#include <boost/json/value.hpp>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/pretokenizer_regex.h"

namespace boreas {

// The pattern kDigitGroupPattern by hand, because every regex engine is quadratic on it: each maximal run of decimal
// digits is cut in threes from the right, unless a word character follows it; then it stays part of the text around it.
// Appends the non-empty parts of `piece` to `out`.
void split_digit_groups(std::string_view piece, std::vector<std::string_view>& out);

// Cuts out numbers (Nd, Nl, No): every character on its own (`individual`), or each run as one part.
void split_digits(std::string_view piece, bool individual, std::vector<std::string_view>& out);

class PreTokenizer {
 public:
  // From the value of the key `pre_tokenizer`.
  static Result<PreTokenizer> from_json(const boost::json::value& value);

  // The pieces of `text` (valid UTF-8) in order; views into it, none empty, together all of it. Error: a regex limit.
  Result<std::vector<std::string_view>> split(std::string_view text) const;

 private:
  struct DigitGroups {};
  struct Digits {
    bool individual;
  };
  using Stage = std::variant<DigitGroups, Digits, SplitRegex>;
  struct Loader;

  std::vector<Stage> stages_;
};

}  // namespace boreas
