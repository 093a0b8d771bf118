// AddedTokenMatcher: finds added tokens ("<|END_TEXT|>") in text before BPE sees it: leftmost, then longest. Called by
// Tokenizer, once with the tokens matched on the text as given, once with those matched on normalized text. Immutable
// once filled. The tokens belong to the Vocabulary, which must outlive it.
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer_vocabulary.h"

namespace boreas {

class AddedTokenMatcher {
 public:
  // Longest pattern accepted, in bytes: bounds the work at one position of the text.
  static constexpr size_t kPatternBytesMax = 1024;

  // `pattern`: the content, normalized where the token says so. The first of two tokens with one pattern wins.
  void insert(std::string_view pattern, const AddedToken* token);

  // A stretch of text: an added token (with the white space it takes along), or text between them (token null).
  struct Segment {
    std::string_view text;
    const AddedToken* token;
  };
  // `text` (valid UTF-8) in order; no segment is empty.
  std::vector<Segment> segments(std::string_view text) const;

 private:
  struct Match {
    size_t begin;
    size_t end;
    const AddedToken* token;
  };
  // The longest token that begins at text[begin]; token null if none does.
  Match longest_at(std::string_view text, size_t begin) const;

  // A trie: edges_[node * 256 + byte] is the next node; ends_[node] the token that ends there, or null. Node 0 is the
  // root.
  boost::unordered_flat_map<uint64_t, uint32_t> edges_;
  std::vector<const AddedToken*> ends_ = {nullptr};
  std::array<bool, 256> begins_{};  // bytes that a pattern begins with
};

}  // namespace boreas
