// Utf8Stream turns a stream of bytes, cut anywhere, into valid UTF-8: each push returns only complete characters and
// keeps the beginning of one that is still short of bytes. Used per request by whoever streams token bytes out, and by
// Tokenizer::decode. However the bytes are cut, the concatenated output is the same.
// Ill-formed input becomes U+FFFD, one for each maximal subpart (Unicode Standard, section 3.9, as the WHATWG decoder
// does); a genuine U+FFFD passes through like any character.
#pragma once

#include <string>
#include <string_view>

namespace boreas {

class Utf8Stream {
 public:
  // The characters that `bytes` completes; at most 3 bytes stay behind.
  std::string push(std::string_view bytes);
  // End of the stream: U+FFFD once if the beginning of a character is pending, else nothing. Ready for reuse after.
  std::string finish();
  // True while the beginning of a character is held back.
  bool pending() const { return !held_.empty(); }

 private:
  std::string held_;  // 0..3 bytes: a proper prefix of one character
};

}  // namespace boreas
