// What all constrained requests on one tokenizer share: the prefix tree, and masks already computed. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "exec/sampling.h"
#include "text/grammar/token_trie.h"

namespace boreas::grammar {

using MaskKey = std::vector<uint32_t>;
using MaskPointer = std::shared_ptr<const TokenMask>;

// Least recently used masks leave when there are too many.
class MaskCache {
 public:
  explicit MaskCache(size_t bytes_max) : bytes_max_(bytes_max) {}
  MaskPointer find(const MaskKey& key);
  void add(MaskKey key, MaskPointer mask);
  size_t bytes() const;

 private:
  struct Entry {
    MaskKey key;
    MaskPointer mask;
    size_t bytes() const { return 2 * key.size() * sizeof(uint32_t) + mask->bits.size() * sizeof(uint32_t) + 128; }
  };
  const size_t bytes_max_;
  mutable std::mutex mutex_;
  size_t bytes_ = 0;
  std::list<Entry> entries_;  // most recent first
  std::unordered_map<MaskKey, std::list<Entry>::iterator, HashWords> by_key_;
};

struct Vocabulary {
  static constexpr size_t kMaskBytesMax = size_t{64} << 20;
  Vocabulary(const Tokenizer& tokenizer, int32_t vocab_size) : trie(tokenizer, vocab_size), masks(kMaskBytesMax) {}
  explicit Vocabulary(TokenTrie tokens) : trie(std::move(tokens)), masks(kMaskBytesMax) {}
  const TokenTrie trie;
  MaskCache masks;
};

}  // namespace boreas::grammar
