// TokenTrie: a vocabulary as a prefix tree, laid out in the order of a depth-first walk, so that all tokens a Matcher
// allows are found in one pass that skips what is refused.
//
// Added tokens (markers, end of sequence) are not in it: they are never text. Immutable, shared by threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "exec/sampling.h"
#include "text/grammar/matcher.h"
#include "text/tokenizer.h"

namespace boreas::grammar {

class TokenTrie {
 public:
  // Ids at or above vocab_size are left out.
  TokenTrie(const Tokenizer& tokenizer, int32_t vocab_size);
  // For tests: id and bytes of each token.
  TokenTrie(const std::vector<std::pair<TokenId, std::string>>& tokens, int32_t vocab_size);

  int32_t vocab_size() const { return vocab_size_; }
  uint32_t bytes_max() const { return bytes_max_; }  // of a token
  std::string_view bytes_of(TokenId id) const;       // empty: not in the trie

  // Sets the bit of every token that the matcher allows in its state. Takes at most kStepsMax steps that are not
  // remembered; after that (grammars made to be slow) tokens of several bytes may be missing, never those of one.
  void allowed(Matcher& matcher, TokenMask& mask) const;
  static constexpr int64_t kStepsMax = 200'000;
  // A limited string is answered without a walk where it has room for at most so many characters, or for all tokens.
  static constexpr uint32_t kCountedCharactersMax = 64;

 private:
  struct Entry {
    uint8_t byte = 0;
    uint8_t depth = 0;   // bytes in front of it
    TokenId token = -1;  // that ends here
    uint32_t skip = 0;   // index behind everything below
  };
  // Tokens of plain characters (whole, nothing that a JSON string must escape) are in a tree of their own: an open
  // string allows them all.
  struct Tree {
    std::vector<Entry> entries;
    std::vector<std::pair<TokenId, TokenId>> twins;  // a token and another with the same bytes
  };
  class Walk;

  // The plain tokens that the matcher allows, if that can be told without looking at each.
  const std::vector<uint32_t>* plain_allowed(const Matcher& matcher) const;
  void build(std::vector<std::pair<std::string, TokenId>> tokens);
  static Tree tree_of(const std::vector<std::pair<std::string, TokenId>>& sorted);

  int32_t vocab_size_ = 0;
  uint32_t bytes_max_ = 0;
  Tree plain_, other_;
  // As in TokenMask: plain tokens of at most so many characters, beginning with 0; the last entry holds all.
  std::vector<std::vector<uint32_t>> plain_bits_;
  uint32_t plain_characters_max_ = 0;  // of a plain token
  std::vector<std::string> bytes_;     // by id
};

}  // namespace boreas::grammar
