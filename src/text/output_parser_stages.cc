// See output_parser_stages.h.
#include "text/output_parser_stages.h"

#include <algorithm>
#include <utility>

namespace boreas {

void EventWriter::text(OutputEvent::Kind kind, int tool_index, std::string_view text) {
  if (text.empty()) return;
  if (events_.size() > first_ && events_.back().kind == kind && events_.back().tool_index == tool_index) {
    events_.back().text.append(text);
    return;
  }
  events_.push_back({kind, tool_index, std::string(text), {}});
}

void EventWriter::call_start(int tool_index, std::string name, std::string model_call_id) {
  events_.push_back({OutputEvent::Kind::kToolCallStart, tool_index, std::move(name), std::move(model_call_id)});
}

void HeldOrigins::push(size_t bytes, TokenIndex origin) {
  if (bytes == 0) return;
  bytes_ += bytes;
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().bytes += bytes;
  } else {
    runs_.push_back({origin, bytes});
  }
}

void HeldOrigins::keep_last(size_t bytes) {
  while (bytes_ > bytes) {
    Run& run = runs_.front();
    const size_t gone = std::min(run.bytes, bytes_ - bytes);
    run.bytes -= gone;
    bytes_ -= gone;
    if (run.bytes == 0) runs_.pop_front();
  }
}

size_t CharacterStream::first_character_bytes(std::string_view text) {
  size_t bytes = std::min<size_t>(1, text.size());
  while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) ++bytes;
  return bytes;
}

CitationFilter::Verdict CitationFilter::judge(char c) const {
  constexpr std::string_view kOpen = "<co>";
  constexpr std::string_view kClose = "</co:";
  const size_t at = held_.size();
  if (at < kOpen.size() && kOpen.substr(0, at) == held_ && kOpen[at] == c) {
    return at + 1 == kOpen.size() ? Verdict::kMark : Verdict::kMaybe;
  }
  if (at < kClose.size()) {
    return kClose.substr(0, at) == held_ && kClose[at] == c ? Verdict::kMaybe : Verdict::kText;
  }
  if (c == '>') return Verdict::kMark;
  const bool reference = (c >= '0' && c <= '9') || c == ',' || c == ':' || c == '[' || c == ']' || c == ' ';
  return reference && at < kClose.size() + kRefsMax ? Verdict::kMaybe : Verdict::kText;
}

TextChannel::TextChannel(OutputEvent::Kind kind, bool strip_citations, std::vector<std::string> stop, bool include_stop)
    : kind_(kind), strip_citations_(strip_citations), include_stop_(include_stop), stop_(std::move(stop)) {}

void TextChannel::begin_block(bool drop_leading_blanks) {
  dropping_blanks_ = drop_leading_blanks;
  block_has_text_ = false;
  block_emitted_ = false;
  blanks_.clear();
}

void TextChannel::push(std::string_view text, TokenIndex origin, EventWriter& writer) {
  if (!block_has_text_) block_has_text_ = text.find_first_not_of(kBlanks) != std::string_view::npos;
  if (!strip_citations_) return visible(text, origin, writer);
  citations_.push(text, origin, [&](std::string_view piece, TokenIndex from) { visible(piece, from, writer); });
}

void TextChannel::visible(std::string_view text, TokenIndex origin, EventWriter& writer) {
  if (dropping_blanks_) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (text.empty()) return;
    dropping_blanks_ = false;
  }
  if (stop_.empty()) return trimmed(text, origin, writer);
  if (stopped()) return;
  bool matched = false;
  const std::string passed = stop_.push(text, matched);
  stop_origins_.push(text.size(), origin);
  // `passed` may begin with older bytes; only the blanks at its end can be held further on, so their origin is a little
  // too old at worst.
  const TokenIndex oldest = std::min(stop_origins_.oldest(), origin);
  stop_origins_.keep_last(stop_.held_bytes());
  trimmed(passed, oldest, writer);
  if (!matched) return;
  if (include_stop_) emit(stop_.matched_stop(), writer);
  blanks_.clear();
}

void TextChannel::trimmed(std::string_view text, TokenIndex origin, EventWriter& writer) {
  const size_t last = text.find_last_not_of(kBlanks);
  if (last != std::string_view::npos) {
    emit(text.substr(0, last + 1), writer);
    text.remove_prefix(last + 1);
  }
  if (text.empty()) return;
  if (blanks_.empty()) blanks_since_ = origin;
  blanks_.append(text);
}

void TextChannel::emit(std::string_view text, EventWriter& writer) {
  if (emitted_ && !block_emitted_) writer.text(kind_, 0, "\n");
  emitted_ = true;
  block_emitted_ = true;
  writer.text(kind_, 0, blanks_);
  blanks_.clear();
  writer.text(kind_, 0, text);
}

void TextChannel::end_block(EventWriter& writer) {
  if (strip_citations_) {
    citations_.flush([&](std::string_view piece, TokenIndex from) { visible(piece, from, writer); });
  }
  trimmed(stop_.finish(), stop_origins_.oldest(), writer);
  stop_origins_.keep_last(0);
  blanks_.clear();
}

TokenIndex TextChannel::held_since() const {
  const TokenIndex blanks = blanks_.empty() ? kNothingHeld : blanks_since_;
  return std::min({blanks, stop_origins_.oldest(), citations_.held_since()});
}

}  // namespace boreas
