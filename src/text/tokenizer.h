// Tokenizer: text <-> token ids by a checkpoint's own tokenizer.json (byte-level BPE), id for id what Hugging Face's
// `tokenizers` library gives. Used by the server's text side and by the command line; one is loaded a model, is
// immutable after that and safe to use from many threads. Copies share the data.
//
// Understood: BPE with merges as "a b" strings or as pairs, ignore_merges, all 256 byte symbols present; normalizer
// null, NFC or a Sequence of those; the pre-tokenizers of pretokenizer.h; added tokens with all their flags; decoder
// ByteLevel. Any other construct is a load error that names it. The post_processor is not applied: whether BOS is added
// is the caller's choice, per text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace boreas {

struct EncodeOptions {
  bool add_bos = false;  // the BOS token first, where the tokenizer has one
  // false: the text of a marker stays text and never becomes an added token's id. For text that a client controls.
  bool parse_added_tokens = true;
};

class Tokenizer {
 public:
  // Reads tokenizer.json in `directory`, and the names of BOS and EOS from tokenizer_config.json if that exists.
  // Every name in `required` must be one token: an added token, or a vocabulary entry that its own text encodes to.
  static Result<Tokenizer> load(const std::string& directory, std::span<const std::string_view> required = {});
  // From the text of a tokenizer.json, as load; BOS is `<BOS_TOKEN>` if there is such a token.
  static Result<Tokenizer> parse(std::string_view tokenizer_json, std::span<const std::string_view> required = {});

  // The ids of `utf8`. Errors: invalid UTF-8 (with its offset), a text over kEncodeBytesMax, a limit of the
  // pre-tokenizer's regex. O(n log n) in the bytes.
  Result<std::vector<TokenId>> encode(std::string_view utf8, const EncodeOptions& options) const;
  static constexpr size_t kEncodeBytesMax = size_t{64} << 20;

  // The id of an added token or vocabulary entry with exactly this content, as in the file ("Ġthe").
  std::optional<TokenId> token_id(std::string_view content) const;
  // The bytes the token stands for, maybe half a character; of an added token its content; empty if undefined.
  std::string_view token_bytes(TokenId id) const;
  bool is_added(TokenId id) const;
  bool is_special(TokenId id) const;  // an added token flagged special
  int32_t vocab_size() const;         // highest defined id + 1
  std::optional<TokenId> bos_token_id() const;
  std::optional<TokenId> eos_token_id() const;

  // The text of `ids`, undefined ones left out, special ones too if `skip_special`. Bytes that are not UTF-8 become
  // U+FFFD, one for each maximal subpart.
  std::string decode(std::span<const TokenId> ids, bool skip_special) const;

  struct Impl;  // tokenizer_impl.h
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace boreas
