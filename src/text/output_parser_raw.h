// RawOutput is to a plain completion what OutputParser is to a chat: tokens in, text out, with no structure but stop
// strings, which are looked for in everything. The server's /v1/completions uses one per choice. As with OutputParser
// the text does not depend on how it was cut into tokens, is whole UTF-8 characters, and only a proper prefix of a stop
// string or of a character is held back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/output_parser_stages.h"
#include "text/stop_strings.h"

namespace boreas {

class RawOutput {
 public:
  struct Options {
    bool skip_special = true;  // special tokens leave no text
    std::vector<std::string> stop = {};
    bool include_stop_in_output = false;
  };
  explicit RawOutput(Options options);

  // One generated token: its raw bytes and whether the tokenizer calls it special. Returns what became visible; sets
  // `matched` to true when a stop string has ended the output, after which pushes return nothing.
  std::string push(std::string_view bytes, bool special, bool& matched);
  // Releases what is held back; an incomplete character becomes U+FFFD. May find a stop string.
  std::string finish();

  bool stopped_by_string() const { return stop_.matched(); }
  const std::string& matched_stop() const { return stop_.matched_stop(); }
  // How many of the tokens pushed, from the first on, have left or been dropped with all of their text.
  int64_t tokens_settled() const;

 private:
  std::string pass(std::string_view text, TokenIndex origin);

  bool skip_special_;
  bool include_stop_;
  CharacterStream characters_;
  StopMatcher stop_;
  HeldOrigins stop_origins_;
  TokenIndex pushed_ = 0;
};

}  // namespace boreas
