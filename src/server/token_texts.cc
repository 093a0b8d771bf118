#include "server/token_texts.h"

#include <algorithm>

namespace boreas {

std::string TokenTexts::bytes(TokenId id) const {
  if (dummy_ && (id < 0 || id >= tokenizer_.vocab_size())) return "<" + std::to_string(id) + ">";
  return std::string(tokenizer_.token_bytes(id));
}

std::string TokenTexts::text(TokenId id) const { return replace_broken_utf8(bytes(id)); }

std::string TokenTexts::id_text(TokenId id) { return "token_id:" + std::to_string(id); }

std::string replace_broken_utf8(std::string_view bytes) {
  Utf8Stream characters;
  std::string out = characters.push(bytes);
  out += characters.finish();
  return out;
}

int64_t count_characters(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

}  // namespace boreas
