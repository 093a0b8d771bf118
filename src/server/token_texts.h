// How single tokens read in answers: log-probabilities, echoed prompts, raw output. Immutable, shared by all requests.
#pragma once

#include <string>
#include <string_view>

#include "server/server.h"

namespace boreas {

class TokenTexts {
 public:
  TokenTexts(const Tokenizer& tokenizer, bool dummy) : tokenizer_(tokenizer), dummy_(dummy) {}

  // The bytes the token stands for, maybe part of a character. Of an id that the tokenizer lacks: nothing, or "<id>"
  // with dummy weights, whose vocabulary is larger than the tokenizer's.
  std::string bytes(TokenId id) const;
  // As valid UTF-8: broken characters become U+FFFD.
  std::string text(TokenId id) const;
  // "token_id:17"
  static std::string id_text(TokenId id);
  bool is_special(TokenId id) const { return tokenizer_.is_special(id); }
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  const Tokenizer& tokenizer_;
  bool dummy_;
};

std::string replace_broken_utf8(std::string_view bytes);
int64_t count_characters(std::string_view utf8);

}  // namespace boreas
