// What a loaded Tokenizer holds; shared by tokenizer_load.cc, which fills it, and tokenizer.cc, which uses it.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "text/bpe.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_added.h"
#include "text/tokenizer_vocabulary.h"

namespace boreas {

struct Tokenizer::Impl {
  Impl(Vocabulary v, Bpe b, PreTokenizer p)
      : vocabulary(std::move(v)), bpe(std::move(b)), pre_tokenizer(std::move(p)) {}
  Impl(const Impl&) = delete;  // the matchers point into the vocabulary
  Impl& operator=(const Impl&) = delete;

  // Appends the ids of text without added tokens.
  Status encode_text(std::string_view text, bool markers_are_text, std::vector<TokenId>& out) const;
  // Appends the ids of one piece of the pre-tokenizer.
  void encode_piece(std::string_view piece, bool markers_are_text, std::vector<TokenId>& out) const;
  // Appends `id`, or where an added token's id came from merging plain text, the tokens it was merged from.
  void append_as_text(TokenId id, std::vector<TokenId>& out) const;

  Vocabulary vocabulary;
  Bpe bpe;
  PreTokenizer pre_tokenizer;
  AddedTokenMatcher added_raw;         // tokens matched on the text as given
  AddedTokenMatcher added_normalized;  // tokens matched after normalization
  // Added tokens that some merge results in -> its two halves.
  boost::unordered_flat_map<TokenId, std::pair<TokenId, TokenId>> merged_from;
  bool normalize_nfc = false;
  bool ignore_merges = false;  // a piece that is a vocabulary entry is that token, whatever the merges say
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
};

}  // namespace boreas
