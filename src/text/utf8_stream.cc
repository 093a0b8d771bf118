// Incremental UTF-8 decoding: see utf8_stream.h.
#include "text/utf8_stream.h"

#include "text/unicode.h"

namespace boreas {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  std::string joined;
  if (!held_.empty()) {
    joined = std::move(held_);
    held_.clear();
    joined += bytes;
    bytes = joined;
  }
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t valid = std::min(find_invalid_utf8(bytes), bytes.size());
    out += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    const Utf8Sequence sequence = read_utf8(bytes);
    if (sequence.kind == Utf8Sequence::Kind::kIncomplete) {
      held_ = bytes;
      break;
    }
    out += kReplacement;
    bytes.remove_prefix(sequence.length);
  }
  return out;
}

std::string Utf8Stream::finish() {
  if (held_.empty()) return {};
  held_.clear();
  return std::string(kReplacement);
}

}  // namespace boreas
