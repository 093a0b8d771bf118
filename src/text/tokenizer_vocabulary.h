// Vocabulary: token id <-> the bytes a token stands for, and the added tokens. Filled by the loader of Tokenizer, then
// immutable.
//
// tokenizer.json writes the tokens of byte-level BPE in GPT-2's alphabet: each of the 256 bytes is one printable
// character ("Ġ" is the blank). Here tokens are kept as bytes; entries that are not in that alphabet stand for their
// own text and are unreachable by merging.
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace boreas {

// Ids must be below this: sixteen times the largest vocabulary in use, and a bound on what a file can make us allocate.
inline constexpr TokenId kTokenIdLimit = 1 << 22;

// The bytes that `content`, in GPT-2's alphabet, stands for; nothing if a character is not in the alphabet.
std::optional<std::string> bytes_of_content(std::string_view content);

struct AddedToken {
  TokenId id = 0;
  std::string content;       // UTF-8, not empty
  bool special = false;      // left out by decode(skip_special)
  bool normalized = false;   // matched on normalized text instead of on the text as given
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and after it
  bool single_word = false;  // matches only where no word character touches it
};

class Vocabulary {
 public:
  // Errors name the entry: id out of range, id given twice, an added token that contradicts the vocabulary.
  Status insert(std::string_view content, int64_t id);
  Status insert_added(AddedToken token);

  // By content as in the file ("Ġthe"); added tokens first.
  std::optional<TokenId> find_content(std::string_view content) const;
  // By the bytes a token stands for (" the"); added tokens that are not in the base vocabulary excluded.
  std::optional<TokenId> find_bytes(std::string_view bytes) const;

  std::string_view bytes_of(TokenId id) const;                            // empty if undefined
  const AddedToken* added_token(TokenId id) const;                        // null if it is none
  const std::deque<AddedToken>& added_tokens() const { return added_; }   // addresses are stable while it lives
  int32_t size() const { return static_cast<int32_t>(entries_.size()); }  // highest id + 1

 private:
  struct Entry {
    std::string bytes;
    int32_t added = -1;  // index in added_
    bool defined = false;
  };

  Status define(TokenId id, std::string bytes, std::string_view content);

  std::vector<Entry> entries_;
  std::deque<AddedToken> added_;
  boost::unordered_flat_map<std::string, TokenId> by_bytes_;
  boost::unordered_flat_map<std::string, TokenId> by_text_;   // entries outside GPT-2's alphabet
  boost::unordered_flat_map<std::string, TokenId> by_added_;  // contents of added tokens
};

}  // namespace boreas
