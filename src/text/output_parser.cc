// The block structure of a model's output: which marker opens and closes what. The text inside the blocks is the
// business of TextChannel and ActionParser. See output_parser.h for what is promised.
//
//            START_THINKING           START_TEXT, END_THINKING, bare text           END_OF_TURN
//   kAmbiguous ---------> kReasoning ------------------------------> kContent --------> kDone
//        (reasoning off)      |  START_ACTION             END_TEXT  |   ^  START_TEXT
//                             '-----------> kAction ------------> kBetween
//                                                     END_ACTION
#include "text/output_parser.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/output_parser_action.h"
#include "text/output_parser_stages.h"

namespace boreas {

namespace {

enum class Marker : uint8_t {
  kNone,
  kStartThinking,
  kEndThinking,
  kStartText,
  kEndText,
  kStartAction,
  kEndAction,
  kEndOfTurn,
  kStartOfTurn,
  kIgnored
};

Marker marker_of(const OutputMarkers& ids, TokenId id) {
  if (id < 0) return Marker::kNone;
  if (id == ids.start_thinking) return Marker::kStartThinking;
  if (id == ids.end_thinking) return Marker::kEndThinking;
  if (id == ids.start_text || id == ids.start_response) return Marker::kStartText;
  if (id == ids.end_text || id == ids.end_response) return Marker::kEndText;
  if (id == ids.start_action) return Marker::kStartAction;
  if (id == ids.end_action) return Marker::kEndAction;
  if (id == ids.end_of_turn) return Marker::kEndOfTurn;
  if (id == ids.start_of_turn) return Marker::kStartOfTurn;
  if (id == ids.chatbot || id == ids.bos) return Marker::kIgnored;
  return Marker::kNone;
}

}  // namespace

struct OutputParser::State {
  enum class Mode : uint8_t {
    kAmbiguous,  // reasoning is off and no opener came yet: text is held
    kReasoning,
    kContent,  // explicit_text: behind START_TEXT, else bare text behind END_THINKING
    kAction,
    kBetween,  // blocks: text is dropped
    kDone      // everything is dropped
  };

  State(const OutputMarkers& marker_ids, OutputParserOptions o)
      : ids(marker_ids),
        tools_allowed(o.tools_allowed),
        reasoning(OutputEvent::Kind::kReasoning, o.strip_citations, {}, false),
        content(OutputEvent::Kind::kContent, o.strip_citations, std::move(o.stop), o.include_stop_in_output),
        action(o.parallel_tool_calls) {
    if (o.starts_in_content) {
      open_text(true);
    } else if (o.starts_in_thinking) {
      open_reasoning();
    }
  }

  void token_text(std::string_view bytes, TokenIndex index, EventWriter& writer);
  void flush_character(EventWriter& writer);
  void deliver(std::string_view text, TokenIndex origin, EventWriter& writer);
  void marker(Marker which, EventWriter& writer);
  void start_thinking(EventWriter& writer);
  void end_thinking(EventWriter& writer);
  void start_text(EventWriter& writer);
  void end_text(EventWriter& writer);
  void start_action(EventWriter& writer);

  void open_reasoning();
  void open_text(bool explicit_opener);
  void close_block(bool cut_off, EventWriter& writer);
  void resolve_as_reasoning(EventWriter& writer);
  void resolve_as_content(EventWriter& writer);
  void look_for_stop() {
    if (content.stopped()) mode = Mode::kDone;
  }
  bool body_started() const {
    return text_closed || action_seen || (mode == Mode::kContent && content.block_has_text());
  }

  OutputMarkers ids;
  bool tools_allowed;
  Mode mode = Mode::kAmbiguous;
  bool explicit_text = false;
  bool text_closed = false;  // a text block with text in it has ended: later ones are run-on
  bool action_seen = false;
  bool finished = false;
  CharacterStream characters;
  std::string held;  // kAmbiguous
  TokenIndex held_since = 0;
  int held_tokens = 0;
  TextChannel reasoning;
  TextChannel content;
  ActionParser action;
  int reasoning_tokens = 0;
  TokenIndex pushed = 0;
};

void OutputParser::State::token_text(std::string_view bytes, TokenIndex index, EventWriter& writer) {
  characters.push(bytes, index, [&](std::string_view text, TokenIndex from) { deliver(text, from, writer); });
}

void OutputParser::State::flush_character(EventWriter& writer) {
  characters.flush([&](std::string_view text, TokenIndex from) { deliver(text, from, writer); });
}

void OutputParser::State::deliver(std::string_view text, TokenIndex origin, EventWriter& writer) {
  switch (mode) {
    case Mode::kAmbiguous:
      if (held.empty()) held_since = origin;
      held.append(text);
      return;
    case Mode::kReasoning:
      return reasoning.push(text, origin, writer);
    case Mode::kAction:
      if (tools_allowed) return action.push(text, origin, writer);
      [[fallthrough]];
    case Mode::kContent:
      content.push(text, origin, writer);
      return look_for_stop();
    case Mode::kBetween:
    case Mode::kDone:
      return;
  }
}

void OutputParser::State::open_reasoning() {
  mode = Mode::kReasoning;
  reasoning.begin_block(true);
}

void OutputParser::State::open_text(bool explicit_opener) {
  mode = Mode::kContent;
  explicit_text = explicit_opener;
  content.begin_block(!explicit_opener);
}

void OutputParser::State::close_block(bool cut_off, EventWriter& writer) {
  const Mode was = mode;
  if (mode != Mode::kDone) mode = Mode::kBetween;
  if (was == Mode::kReasoning) reasoning.end_block(writer);
  if (was == Mode::kContent || (was == Mode::kAction && !tools_allowed)) {
    content.end_block(writer);
    if (was == Mode::kContent && content.block_has_text()) text_closed = true;
    look_for_stop();
  } else if (was == Mode::kAction) {
    const std::string rest = action.end_block(cut_off, writer);
    if (rest.empty()) return;
    content.begin_block(true);
    content.push(rest, pushed - 1, writer);
    content.end_block(writer);
    look_for_stop();
  }
}

void OutputParser::State::resolve_as_reasoning(EventWriter& writer) {
  open_reasoning();
  reasoning_tokens += std::exchange(held_tokens, 0);
  reasoning.push(std::exchange(held, {}), held_since, writer);
}

void OutputParser::State::resolve_as_content(EventWriter& writer) {
  open_text(false);
  content.push(std::exchange(held, {}), held_since, writer);
  look_for_stop();
}

void OutputParser::State::marker(Marker which, EventWriter& writer) {
  switch (which) {
    case Marker::kStartThinking:
      return start_thinking(writer);
    case Marker::kEndThinking:
      return end_thinking(writer);
    case Marker::kStartText:
      return start_text(writer);
    case Marker::kEndText:
      return end_text(writer);
    case Marker::kStartAction:
      return start_action(writer);
    case Marker::kEndAction:
      if (mode == Mode::kAction) close_block(false, writer);
      return;
    case Marker::kStartOfTurn:
      if (!body_started()) return;  // the model repeats the end of its prompt
      [[fallthrough]];
    case Marker::kEndOfTurn:
      if (mode == Mode::kAmbiguous) resolve_as_content(writer);
      close_block(false, writer);
      mode = Mode::kDone;
      return;
    case Marker::kIgnored:
    case Marker::kNone:
      return;
  }
}

void OutputParser::State::start_thinking(EventWriter& writer) {
  if (mode == Mode::kReasoning) return;
  if (mode == Mode::kAmbiguous) return resolve_as_reasoning(writer);
  const bool run_on = body_started();
  close_block(false, writer);
  if (!run_on && mode != Mode::kDone) open_reasoning();
}

void OutputParser::State::end_thinking(EventWriter& writer) {
  if (mode == Mode::kAmbiguous) resolve_as_reasoning(writer);
  if (mode == Mode::kReasoning) {
    close_block(false, writer);
  } else if (mode != Mode::kBetween || text_closed) {
    return;  // stray
  }
  open_text(false);
}

void OutputParser::State::start_text(EventWriter& writer) {
  if (mode == Mode::kAmbiguous) resolve_as_reasoning(writer);
  if (mode == Mode::kContent) {  // bare text goes on, a repeated opener means nothing
    if (!content.block_has_text()) open_text(true);
    return;
  }
  close_block(false, writer);
  if (!text_closed && mode != Mode::kDone) open_text(true);
}

void OutputParser::State::end_text(EventWriter& writer) {
  if (mode == Mode::kAmbiguous && held.find_first_not_of(kBlanks) != std::string::npos) resolve_as_content(writer);
  if (mode != Mode::kContent) return;  // stray
  if (explicit_text || content.block_has_text()) close_block(false, writer);
}

void OutputParser::State::start_action(EventWriter& writer) {
  if (mode == Mode::kAmbiguous) resolve_as_reasoning(writer);
  close_block(false, writer);
  if (mode == Mode::kDone) return;
  mode = Mode::kAction;
  action_seen = true;
  if (tools_allowed) {
    action.begin_block();
  } else {
    content.begin_block(true);
  }
}

OutputParser::OutputParser(const OutputMarkers& markers, OutputParserOptions options)
    : state_(std::make_unique<State>(markers, std::move(options))) {}
OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;

bool OutputParser::push(TokenId id, std::string_view bytes, std::vector<OutputEvent>& events) {
  State& s = *state_;
  CHECK(!s.finished);
  const TokenIndex index = s.pushed++;
  if (s.mode == State::Mode::kDone) return s.content.stopped();
  EventWriter writer(events);
  const Marker which = marker_of(s.ids, id);
  if (which == Marker::kNone) {
    s.token_text(bytes, index, writer);
  } else {
    s.flush_character(writer);
    if (s.mode != State::Mode::kDone) s.marker(which, writer);
  }
  if (s.mode == State::Mode::kReasoning) ++s.reasoning_tokens;
  if (s.mode == State::Mode::kAmbiguous) ++s.held_tokens;
  return s.content.stopped();
}

void OutputParser::finish(End end, std::vector<OutputEvent>& events) {
  State& s = *state_;
  CHECK(!s.finished);
  s.finished = true;
  if (s.mode == State::Mode::kDone) return;
  EventWriter writer(events);
  s.flush_character(writer);
  if (s.mode == State::Mode::kAmbiguous) s.resolve_as_content(writer);
  s.close_block(end != End::kStop, writer);
  s.mode = State::Mode::kDone;
}

int OutputParser::reasoning_tokens() const { return state_->reasoning_tokens; }
bool OutputParser::stopped_by_string() const { return state_->content.stopped(); }
const std::string& OutputParser::matched_stop() const { return state_->content.matched_stop(); }
int OutputParser::tool_calls() const { return static_cast<int>(state_->action.complete().size()); }
int OutputParser::complete_tool_calls() const { return state_->action.complete_count(); }

bool OutputParser::tool_call_complete(int tool_index) const {
  CHECK(tool_index >= 0 && tool_index < tool_calls());
  return state_->action.complete()[static_cast<size_t>(tool_index)];
}

int64_t OutputParser::tokens_settled() const {
  const State& s = *state_;
  if (s.mode == State::Mode::kDone) return s.pushed;
  TokenIndex settled = std::min(s.pushed, s.characters.held_since());
  if (!s.held.empty()) settled = std::min(settled, s.held_since);
  settled = std::min({settled, s.reasoning.held_since(), s.content.held_since()});
  return std::min(settled, s.action.held_since());
}

void ParsedOutput::add(const std::vector<OutputEvent>& events) {
  for (const OutputEvent& event : events) {
    switch (event.kind) {
      case OutputEvent::Kind::kReasoning:
        reasoning += event.text;
        break;
      case OutputEvent::Kind::kContent:
        content += event.text;
        break;
      case OutputEvent::Kind::kToolCallStart:
        CHECK(event.tool_index == static_cast<int>(calls.size()));
        calls.push_back({event.model_call_id, event.text, {}, false});
        break;
      case OutputEvent::Kind::kToolCallArguments:
        calls.at(static_cast<size_t>(event.tool_index)).arguments += event.text;
        break;
    }
  }
}

void ParsedOutput::set_complete(const OutputParser& parser) {
  for (size_t i = 0; i < calls.size(); ++i) calls[i].complete = parser.tool_call_complete(static_cast<int>(i));
}

}  // namespace boreas
