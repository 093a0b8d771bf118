// Encoding and decoding with a loaded tokenizer: see tokenizer.h. The order of work is Hugging Face's: added tokens on
// the text as given, normalization of what lies between, added tokens on normalized text, pieces, merges.
#include "text/tokenizer.h"

#include "text/tokenizer_impl.h"
#include "text/unicode.h"
#include "text/utf8_stream.h"

namespace boreas {

void Tokenizer::Impl::append_as_text(TokenId id, std::vector<TokenId>& out) const {
  std::vector<TokenId> left_to_do = {id};
  while (!left_to_do.empty()) {
    const TokenId token = left_to_do.back();
    left_to_do.pop_back();
    const auto halves = merged_from.find(token);
    if (halves == merged_from.end()) {
      out.push_back(token);
      continue;
    }
    left_to_do.push_back(halves->second.second);
    left_to_do.push_back(halves->second.first);
  }
}

void Tokenizer::Impl::encode_piece(std::string_view piece, bool markers_are_text, std::vector<TokenId>& out) const {
  if (ignore_merges) {
    const auto whole = vocabulary.find_bytes(piece);
    if (whole && !(markers_are_text && vocabulary.added_token(*whole) != nullptr)) {
      out.push_back(*whole);
      return;
    }
  }
  const size_t begin = out.size();
  bpe.encode(piece, out);
  if (!markers_are_text || merged_from.empty()) return;
  const std::vector<TokenId> merged(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end());
  out.resize(begin);
  for (const TokenId id : merged) append_as_text(id, out);
}

Status Tokenizer::Impl::encode_text(std::string_view text, bool markers_are_text, std::vector<TokenId>& out) const {
  ASSIGN_OR_RETURN(const std::vector<std::string_view> pieces, pre_tokenizer.split(text));
  for (const std::string_view piece : pieces) encode_piece(piece, markers_are_text, out);
  return Ok{};
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view utf8, const EncodeOptions& options) const {
  if (utf8.size() > kEncodeBytesMax) {
    return Error{"text of " + std::to_string(utf8.size()) + " bytes; at most " + std::to_string(kEncodeBytesMax)};
  }
  const size_t invalid = find_invalid_utf8(utf8);
  if (invalid != std::string_view::npos) return Error{"invalid UTF-8 at byte " + std::to_string(invalid)};
  std::vector<TokenId> ids;
  ids.reserve(utf8.size() / 3 + 1);
  if (options.add_bos && impl_->bos) ids.push_back(*impl_->bos);
  const auto normalized = [this](std::string_view text, std::string& storage) -> std::string_view {
    if (!impl_->normalize_nfc || is_ascii(text)) return text;
    storage = nfc(text);
    return storage;
  };
  std::string storage;
  if (!options.parse_added_tokens) {
    RETURN_IF_ERROR(impl_->encode_text(normalized(utf8, storage), true, ids));
    return ids;
  }
  for (const auto& outer : impl_->added_raw.segments(utf8)) {
    if (outer.token != nullptr) {
      ids.push_back(outer.token->id);
      continue;
    }
    for (const auto& inner : impl_->added_normalized.segments(normalized(outer.text, storage))) {
      if (inner.token != nullptr) {
        ids.push_back(inner.token->id);
      } else {
        RETURN_IF_ERROR(impl_->encode_text(inner.text, false, ids));
      }
    }
  }
  return ids;
}

std::optional<TokenId> Tokenizer::token_id(std::string_view content) const {
  return impl_->vocabulary.find_content(content);
}

std::string_view Tokenizer::token_bytes(TokenId id) const { return impl_->vocabulary.bytes_of(id); }

bool Tokenizer::is_added(TokenId id) const { return impl_->vocabulary.added_token(id) != nullptr; }

bool Tokenizer::is_special(TokenId id) const {
  const AddedToken* token = impl_->vocabulary.added_token(id);
  return token != nullptr && token->special;
}

int32_t Tokenizer::vocab_size() const { return impl_->vocabulary.size(); }

std::optional<TokenId> Tokenizer::bos_token_id() const { return impl_->bos; }

std::optional<TokenId> Tokenizer::eos_token_id() const { return impl_->eos; }

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string bytes;
  for (const TokenId id : ids) {
    if (!(skip_special && is_special(id))) bytes += token_bytes(id);
  }
  Utf8Stream stream;
  std::string text = stream.push(bytes);
  text += stream.finish();
  return text;
}

}  // namespace boreas
