// Bpe: the merge loop of byte-level byte-pair encoding over token ids. Called by Tokenizer for each piece of the
// pre-tokenizer. Immutable once filled; safe to use from many threads.
//
// A piece starts as the tokens of its bytes. As long as two neighbours have a merge, the pair of lowest rank becomes
// one token, the leftmost on ties (Sennrich, Haddow, Birch: "Neural Machine Translation of Rare Words with Subword
// Units", 2016). Work is O(n log n) in the bytes of the piece, whatever they are.
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace boreas {

class Bpe {
 public:
  // byte_tokens[b]: the token of the single byte b.
  explicit Bpe(const std::array<TokenId, 256>& byte_tokens) : byte_tokens_(byte_tokens) {}

  void reserve(size_t merges) { merges_.reserve(merges); }
  // The pair (left, right) becomes `result`; ranks are the order in the file. A pair given twice counts with its last
  // rank, as in Hugging Face's library.
  void add_merge(TokenId left, TokenId right, uint32_t rank, TokenId result);

  // Appends the tokens of `bytes`.
  void encode(std::string_view bytes, std::vector<TokenId>& out) const;

 private:
  struct Merge {
    uint32_t rank;
    TokenId result;
  };

  static uint64_t key_of(TokenId left, TokenId right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  // Null if the two have no merge.
  const Merge* find(TokenId left, TokenId right) const {
    const auto found = merges_.find(key_of(left, right));
    return found == merges_.end() ? nullptr : &found->second;
  }
  void encode_short(std::string_view bytes, std::vector<TokenId>& out) const;
  void encode_long(std::string_view bytes, std::vector<TokenId>& out) const;

  std::array<TokenId, 256> byte_tokens_;
  boost::unordered_flat_map<uint64_t, Merge> merges_;
};

}  // namespace boreas
