// The stages that reasoning and content text run through inside OutputParser, private to it:
//
//   text -> citation marks out -> blanks in front out -> stop strings -> trailing blanks held -> events
//
// Every stage passes its bytes on in order, delays only a suffix, and knows which token its oldest delayed byte came
// from. Results do not depend on how the text was cut; the text is whole UTF-8 characters.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "text/output_parser.h"
#include "text/stop_strings.h"
#include "text/utf8_stream.h"

namespace boreas {

// Counts pushed tokens from 0.
using TokenIndex = int64_t;
inline constexpr TokenIndex kNothingHeld = std::numeric_limits<TokenIndex>::max();

// White space for trimming: ASCII only, so that it never depends on a Unicode version.
constexpr std::string_view kBlanks = " \t\n\v\f\r";

// Appends events and joins those of one kind, within one call of the parser.
class EventWriter {
 public:
  explicit EventWriter(std::vector<OutputEvent>& events) : events_(events), first_(events.size()) {}
  void text(OutputEvent::Kind kind, int tool_index, std::string_view text);
  void call_start(int tool_index, std::string name, std::string model_call_id);

 private:
  std::vector<OutputEvent>& events_;
  size_t first_;
};

// Remembers the origin of the last bytes of a stream that are still held back.
class HeldOrigins {
 public:
  void push(size_t bytes, TokenIndex origin);
  void keep_last(size_t bytes);  // all earlier bytes have left
  TokenIndex oldest() const { return runs_.empty() ? kNothingHeld : runs_.front().origin; }

 private:
  struct Run {
    TokenIndex origin;
    size_t bytes;
  };
  std::deque<Run> runs_;
  size_t bytes_ = 0;
};

// Utf8Stream that knows where its characters came from.
class CharacterStream {
 public:
  // Calls next(piece, origin) for the characters that `bytes` completes.
  template <class Next>
  void push(std::string_view bytes, TokenIndex index, Next&& next) {
    const bool was_pending = stream_.pending();
    const std::string text = stream_.push(bytes);
    const TokenIndex first_origin = since_;
    if (!was_pending || !text.empty()) since_ = index;
    const size_t first = was_pending ? first_character_bytes(text) : 0;  // it began in an older token
    if (first > 0) next(std::string_view(text).substr(0, first), first_origin);
    if (first < text.size()) next(std::string_view(text).substr(first), index);
  }
  // The end of a block or of the output: U+FFFD if a character is pending.
  template <class Next>
  void flush(Next&& next) {
    const std::string text = stream_.finish();
    if (!text.empty()) next(std::string_view(text), since_);
  }
  TokenIndex held_since() const { return stream_.pending() ? since_ : kNothingHeld; }

 private:
  static size_t first_character_bytes(std::string_view text);

  Utf8Stream stream_;
  TokenIndex since_ = 0;  // token of the first byte pending in stream_
};

// Takes citation marks out: `<co>` and `</co: 0:[1,2],1:[0]>`. A closing mark is "</co:" and up to kRefsMax bytes of
// digits, commas, colons, brackets and blanks, then ">"; anything else is text.
class CitationFilter {
 public:
  static constexpr size_t kRefsMax = 1024;

  // Calls next(piece, origin) for what is certain to be text.
  template <class Next>
  void push(std::string_view text, TokenIndex origin, Next&& next) {
    size_t start = 0;  // of the run that is text so far
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (held_.empty() && c != '<') continue;
      if (held_.empty()) {
        if (i > start) next(text.substr(start, i - start), origin);
        hold(c, origin);
        start = i + 1;
        continue;
      }
      start = i + 1;
      const Verdict verdict = judge(c);
      if (verdict == Verdict::kMark) {
        held_.clear();
      } else if (verdict == Verdict::kMaybe) {
        held_.push_back(c);
      } else {
        flush(next);
        if (c == '<') {
          hold(c, origin);
        } else {
          start = i;
        }
      }
    }
    if (start < text.size()) next(text.substr(start), origin);
  }
  template <class Next>
  void flush(Next&& next) {
    if (held_.empty()) return;
    const std::string text = std::move(held_);
    held_.clear();
    next(std::string_view(text), since_);
  }
  TokenIndex held_since() const { return held_.empty() ? kNothingHeld : since_; }

 private:
  enum class Verdict { kText, kMaybe, kMark };
  Verdict judge(char c) const;  // of held_ followed by c
  void hold(char c, TokenIndex origin) {
    held_.assign(1, c);
    since_ = origin;
  }

  std::string held_;
  TokenIndex since_ = 0;
};

// One of the two texts a client sees. Each block is trimmed on the right, and on the left if asked; blocks with text in
// them are joined by a line feed.
class TextChannel {
 public:
  TextChannel(OutputEvent::Kind kind, bool strip_citations, std::vector<std::string> stop, bool include_stop);

  void begin_block(bool drop_leading_blanks);
  void push(std::string_view text, TokenIndex origin, EventWriter& writer);
  void end_block(EventWriter& writer);

  bool stopped() const { return stop_.matched(); }  // by a stop string; everything pushed later is dropped
  const std::string& matched_stop() const { return stop_.matched_stop(); }
  bool block_has_text() const { return block_has_text_; }  // this block got more than blanks, be it held back
  TokenIndex held_since() const;

 private:
  void visible(std::string_view text, TokenIndex origin, EventWriter& writer);  // behind the citation filter
  void trimmed(std::string_view text, TokenIndex origin, EventWriter& writer);  // behind the stop strings
  void emit(std::string_view text, EventWriter& writer);                        // the blanks before it, then text

  OutputEvent::Kind kind_;
  bool strip_citations_;
  bool include_stop_;
  bool dropping_blanks_ = false;
  bool emitted_ = false;        // something, in this block or one before
  bool block_emitted_ = false;  // something, in this block
  bool block_has_text_ = false;
  CitationFilter citations_;
  StopMatcher stop_;
  HeldOrigins stop_origins_;
  std::string blanks_;  // trailing blanks, emitted only if text follows
  TokenIndex blanks_since_ = 0;
};

}  // namespace boreas
