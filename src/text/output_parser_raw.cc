// See output_parser_raw.h.
#include "text/output_parser_raw.h"

#include <algorithm>
#include <utility>

namespace boreas {

RawOutput::RawOutput(Options options)
    : skip_special_(options.skip_special),
      include_stop_(options.include_stop_in_output),
      stop_(std::move(options.stop)) {}

std::string RawOutput::push(std::string_view bytes, bool special, bool& matched) {
  const TokenIndex index = pushed_++;
  matched = stop_.matched();
  if (matched || (special && skip_special_)) return {};
  std::string visible;
  characters_.push(bytes, index, [&](std::string_view text, TokenIndex from) { visible += pass(text, from); });
  matched = stop_.matched();
  return visible;
}

std::string RawOutput::pass(std::string_view text, TokenIndex origin) {
  if (stop_.matched()) return {};
  bool matched = false;
  std::string visible = stop_.push(text, matched);
  stop_origins_.push(text.size(), origin);
  stop_origins_.keep_last(stop_.held_bytes());
  if (matched && include_stop_) visible += stop_.matched_stop();
  return visible;
}

std::string RawOutput::finish() {
  std::string visible;
  if (stop_.matched()) return visible;
  characters_.flush([&](std::string_view text, TokenIndex from) { visible += pass(text, from); });
  visible += stop_.finish();
  stop_origins_.keep_last(0);
  return visible;
}

int64_t RawOutput::tokens_settled() const {
  if (stop_.matched()) return pushed_;
  return std::min({pushed_, characters_.held_since(), stop_origins_.oldest()});
}

}  // namespace boreas
