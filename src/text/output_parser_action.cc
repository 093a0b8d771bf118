// See output_parser_action.h.
#include "text/output_parser_action.h"

#include <algorithm>
#include <utility>

namespace boreas {

namespace {

// Longest key worth telling apart; what follows is not kept.
constexpr size_t kKeyBytesMax = 64;
constexpr std::string_view kNull = "null";

// Bytes in front of the first one that is not JSON white space.
size_t spaces(std::string_view text) {
  return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_json_space) - text.begin());
}

// Bytes in front of the first one that ends a bare word.
size_t word_bytes(std::string_view text) {
  return static_cast<size_t>(std::find_if(text.begin(), text.end(), is_json_delimiter) - text.begin());
}

}  // namespace

void ActionParser::begin_block() {
  at_ = At::kOutside;
  block_text_.clear();
  block_has_call_ = false;
  block_has_more_ = false;
}

void ActionParser::push(std::string_view text, TokenIndex origin, EventWriter& writer) {
  if (!block_has_call_) {
    if (block_text_.empty()) block_since_ = origin;
    block_text_.append(text);
  }
  while (!text.empty()) text.remove_prefix(step(text, origin, writer));
}

std::string ActionParser::end_block(bool cut_off, EventWriter& writer) {
  if (at_ == At::kShortWord && !cut_off) short_done(writer);
  if (at_ != At::kOutside) end_call(cut_off ? CallEnd::kCutOff : CallEnd::kBlockClosed, writer);
  std::string rest;
  if (!cut_off && !block_has_call_ && block_has_more_) rest = std::move(block_text_);
  block_text_.clear();
  return rest;
}

TokenIndex ActionParser::held_since() const {
  TokenIndex since = block_text_.empty() ? kNothingHeld : block_since_;
  if (at_ == At::kOutside || call_.dropped) return since;
  if (!call_.started) since = std::min(since, call_.since);
  const bool escape = at_ == At::kArgumentsString && decoder_.pending();
  if (escape || !call_.null_prefix.empty()) since = std::min(since, tail_since_);
  return since;
}

size_t ActionParser::step(std::string_view text, TokenIndex origin, EventWriter& writer) {
  switch (at_) {
    case At::kOutside:
      return outside(text, origin);
    case At::kMembers:
      return members(text, writer);
    case At::kKeyString:
    case At::kKeyWord:
      return key_text(text);
    case At::kColon:
      return colon(text);
    case At::kValue:
      return value(text, writer);
    case At::kShortString:
    case At::kShortWord:
      return short_text(text, writer);
    case At::kArguments:
      return arguments(text, origin, writer);
    case At::kArgumentsString:
      return arguments_string(text, origin, writer);
    case At::kSkipped:
      return skipped(text);
  }
  return text.size();
}

size_t ActionParser::outside(std::string_view text, TokenIndex origin) {
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{') {
      call_ = Call{};
      call_.since = origin;
      at_ = At::kMembers;
      return i + 1;
    }
    if (!is_json_space(c) && c != '[' && c != ']' && c != ',') block_has_more_ = true;
  }
  return text.size();
}

size_t ActionParser::members(std::string_view text, EventWriter& writer) {
  switch (text.front()) {
    case '}':
      if (call_.in_function) {
        call_.in_function = false;
      } else {
        end_call(CallEnd::kClosed, writer);
      }
      return 1;
    case ']':
      end_call(CallEnd::kClosed, writer);
      return 1;
    case '{':
      end_call(CallEnd::kClosed, writer);
      return 0;
    case '[':
      skip_value();
      return 0;
    case '"':
      key_text_.clear();
      decoder_ = {};
      at_ = At::kKeyString;
      return 1;
    case ',':
    case ':':
      return 1;
    default:
      if (is_json_space(text.front())) return spaces(text);
      key_text_.clear();
      at_ = At::kKeyWord;
      return 0;
  }
}

size_t ActionParser::key_text(std::string_view text) {
  std::string piece;
  size_t used = 0;
  bool ended = false;
  if (at_ == At::kKeyString) {
    used = decoder_.feed(text, piece);
    ended = decoder_.done();
  } else {
    used = word_bytes(text);
    piece = text.substr(0, used);
    ended = used < text.size();
  }
  key_text_.append(piece, 0, kKeyBytesMax - std::min(kKeyBytesMax, key_text_.size()));
  if (ended) key_done();
  return used;
}

void ActionParser::key_done() {
  key_ = Key::kOther;
  if (key_text_ == "tool_call_id" || key_text_ == "id") {
    if (!call_.has_id) key_ = Key::kId;
  } else if (key_text_ == "tool_name" || key_text_ == "name") {
    if (!call_.has_name) key_ = Key::kName;
  } else if (key_text_ == "parameters" || key_text_ == "arguments") {
    if (!call_.has_arguments) key_ = Key::kArguments;
  } else if (key_text_ == "function") {
    if (!call_.in_function) key_ = Key::kFunction;
  }
  at_ = At::kColon;
}

size_t ActionParser::colon(std::string_view text) {
  const size_t blank = spaces(text);
  if (blank > 0) return blank;
  at_ = At::kValue;
  return text.front() == ':' ? 1 : 0;
}

size_t ActionParser::value(std::string_view text, EventWriter& writer) {
  const size_t blank = spaces(text);
  if (blank > 0) return blank;
  const char c = text.front();
  if (c == ':') return 1;
  if (c == '}' || c == ']' || c == ',') {  // no value
    at_ = At::kMembers;
    return 0;
  }
  const bool bracket = c == '{' || c == '[';
  const bool quote = c == '"';
  if (key_ == Key::kArguments) {
    call_.has_arguments = true;
    start_if_named(writer);
    decoder_ = {};
    at_ = quote ? At::kArgumentsString : At::kArguments;
    return quote ? 1 : 0;
  }
  if (key_ == Key::kFunction && c == '{') {
    call_.in_function = true;
    at_ = At::kMembers;
    return 1;
  }
  if (key_ == Key::kOther || key_ == Key::kFunction || bracket) {
    skip_value();
    return 0;
  }
  decoder_ = {};
  at_ = quote ? At::kShortString : At::kShortWord;
  return quote ? 1 : 0;
}

void ActionParser::skip_value() {
  skip_scanner_ = {};
  at_ = At::kSkipped;
}

size_t ActionParser::skipped(std::string_view text) {
  const size_t used = skip_scanner_.feed(text);
  if (skip_scanner_.done()) at_ = At::kMembers;
  return used;
}

size_t ActionParser::short_text(std::string_view text, EventWriter& writer) {
  std::string& target = key_ == Key::kId ? call_.id : call_.name;
  if (at_ == At::kShortString) {
    const size_t used = decoder_.feed(text, target);
    if (decoder_.done()) short_done(writer);
    return used;
  }
  const size_t used = word_bytes(text);
  target.append(text.substr(0, used));
  if (used < text.size()) short_done(writer);
  return used;
}

void ActionParser::short_done(EventWriter& writer) {
  std::string& target = key_ == Key::kId ? call_.id : call_.name;
  if (at_ == At::kShortWord && target == kNull) target.clear();
  (key_ == Key::kId ? call_.has_id : call_.has_name) = true;
  at_ = At::kMembers;
  if (call_.has_id || call_.has_arguments) start_if_named(writer);
}

void ActionParser::start_if_named(EventWriter& writer) {
  if (!call_.has_name || call_.name.empty() || call_.started || call_.dropped) return;
  block_has_call_ = true;
  block_text_.clear();
  if (!parallel_calls_ && !complete_.empty()) {
    call_.dropped = true;
    return;
  }
  call_.started = true;
  call_.index = static_cast<int>(complete_.size());
  complete_.push_back(false);
  writer.call_start(call_.index, call_.name, call_.id);
  writer.text(OutputEvent::Kind::kToolCallArguments, call_.index, call_.early_arguments);
  call_.early_arguments.clear();
}

void ActionParser::argument_text(std::string_view text, EventWriter& writer) {
  if (text.empty() || call_.dropped) return;
  call_.has_argument_text = true;
  if (call_.started) {
    writer.text(OutputEvent::Kind::kToolCallArguments, call_.index, text);
  } else {
    call_.early_arguments.append(text);
  }
}

void ActionParser::no_arguments(EventWriter& writer) {
  call_.scanner = {};
  call_.scanner.feed("{}");
  call_.null_prefix.clear();
  argument_text("{}", writer);
}

size_t ActionParser::arguments(std::string_view text, TokenIndex origin, EventWriter& writer) {
  const size_t used = call_.scanner.feed(text);
  if (call_.scanner.kind() == JsonValueScanner::Kind::kScalar) {
    scalar_text(text.substr(0, used), origin, writer);
  } else {
    argument_text(text.substr(0, used), writer);
  }
  if (call_.scanner.done()) {
    if (call_.null_prefix == kNull) no_arguments(writer);
    argument_text(call_.null_prefix, writer);
    call_.null_prefix.clear();
    at_ = At::kMembers;
  }
  return used;
}

void ActionParser::scalar_text(std::string_view text, TokenIndex origin, EventWriter& writer) {
  if (call_.has_argument_text) return argument_text(text, writer);
  if (call_.null_prefix.empty()) tail_since_ = origin;
  call_.null_prefix.append(text);
  if (call_.null_prefix == kNull.substr(0, call_.null_prefix.size())) return;
  argument_text(call_.null_prefix, writer);
  call_.null_prefix.clear();
}

size_t ActionParser::arguments_string(std::string_view text, TokenIndex origin, EventWriter& writer) {
  const bool was_pending = decoder_.pending();
  std::string meant;
  const size_t used = decoder_.feed(text, meant);
  if (!was_pending || !meant.empty()) tail_since_ = origin;
  const std::string_view behind = std::string_view(meant).substr(call_.scanner.feed(meant));
  if (spaces(behind) < behind.size()) call_.text_behind = true;
  argument_text(meant, writer);
  if (decoder_.done()) {
    if (!call_.has_argument_text) no_arguments(writer);
    at_ = At::kMembers;
  }
  return used;
}

bool ActionParser::arguments_valid() const {
  return call_.scanner.done() && call_.scanner.valid() && call_.scanner.kind() == JsonValueScanner::Kind::kObject &&
         !call_.text_behind;
}

void ActionParser::end_call(CallEnd end, EventWriter& writer) {
  at_ = At::kOutside;
  start_if_named(writer);
  if (call_.dropped) return;
  if (!call_.started) {
    block_has_more_ = true;
    return;
  }
  if (end == CallEnd::kCutOff) return;
  if (!call_.has_arguments || call_.null_prefix == kNull) {
    no_arguments(writer);
  } else if (!call_.has_argument_text) {
    // Begun and not readable: something that parses is kinder to clients than nothing; the call is not complete.
    argument_text(call_.null_prefix.empty() ? "{}" : std::string_view(call_.null_prefix), writer);
  }
  if (!arguments_valid()) return;
  complete_[static_cast<size_t>(call_.index)] = true;
  ++complete_count_;
}

}  // namespace boreas
