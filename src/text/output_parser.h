// OutputParser turns the tokens a North model generates into what a client sees: reasoning, content and tool calls,
// with stop strings applied. One parser per choice, used by the server's streaming and non-streaming paths alike.
//
//   output   := thinking? body END_OF_TURN
//   thinking := reasoning END_THINKING                  the prompt already holds START_THINKING
//   body     := START_TEXT content END_TEXT | START_ACTION calls END_ACTION
//   calls    := "[" call ("," call)* "]"
//   call     := {"tool_call_id": "0", "tool_name": "...", "parameters": {...}}
//
// What always holds:
// - Markers are known by token id. The same words spelled with ordinary tokens are text.
// - Events do not depend on how the text was cut into tokens: joined per field they are equal for any cut, and the
//   non-streaming answer is the same events folded by ParsedOutput.
// - Each event's text is whole UTF-8 characters; ill-formed bytes are U+FFFD; no event is empty but ToolCallStart.
// - Nothing the model writes is an error. Time is linear in the output and nothing is looked at twice; memory is linear
//   in what is held back, listed at tokens_settled().
//
// What the model gets wrong, and what comes of it:
//   START_THINKING again             swallowed; after the body has begun it is dropped, with what follows up to the
//                                    next opener
//   no END_THINKING before a body    reasoning ends there
//   text without START_TEXT          content, without the white space in front of it
//   START_RESPONSE, END_RESPONSE     the same as START_TEXT, END_TEXT
//   END_TEXT or END_ACTION missing   the next opener, END_OF_TURN or the end closes the block
//   text, then an action             both; so are an action, then text
//   stray closers, blanks in between dropped
//   text after the first text block  dropped (run-on), as everything behind END_OF_TURN; actions still count
//   reasoning though it is off       text before any opener is held, see OutputParserOptions::starts_in_thinking
//   odd call JSON                    see output_parser_action.h: ids as numbers, one object without array, missing
//                                    commas or brackets, any key order, the keys `id`, `name`, `arguments`; parameters
//                                    as a string. A block that holds no call at all becomes content when the model
//                                    closed it
//   cut off by the token limit       reasoning stays reasoning; argument text already delivered stays; a call whose
//                                    name is not complete is not delivered
//   foreign markup                   text
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace boreas {

// Token ids of the markers, resolved by name in the tokenizer when a checkpoint is loaded. -1: the vocabulary has no
// such token (only START_RESPONSE and END_RESPONSE may be absent).
struct OutputMarkers {
  TokenId start_thinking = -1, end_thinking = -1;
  TokenId start_text = -1, end_text = -1;
  TokenId start_action = -1, end_action = -1;
  TokenId start_response = -1, end_response = -1;
  TokenId end_of_turn = -1, start_of_turn = -1, chatbot = -1, bos = -1;
};

struct OutputParserOptions {
  // True: the prompt ended with an open START_THINKING. False: it ended with the empty thinking pair; then text before
  // any opener is ambiguous and held back without limit: END_THINKING, START_TEXT or START_ACTION make it reasoning (a
  // model that thinks although told not to), END_TEXT, END_OF_TURN or the end make it content. Stop strings are looked
  // for in it only then.
  bool starts_in_thinking = true;
  // True: the prompt ended inside a text block (a continued answer); starts_in_thinking is not looked at.
  bool starts_in_content = false;
  // False (tool_choice none): text of an action block goes to content.
  bool tools_allowed = true;
  // False: only the first call is delivered.
  bool parallel_tool_calls = true;
  // Removes `<co>` and `</co: 0:[1,2]>` from reasoning and content, keeps the span between. A `<co>` that is meant
  // literally is lost, so it is best left off where grounding was not asked for.
  bool strip_citations = true;
  // Looked for in content only, within one block, citations removed.
  std::vector<std::string> stop = {};
  // The content ends with the stop string that matched.
  bool include_stop_in_output = false;
};

struct OutputEvent {
  enum class Kind { kReasoning, kContent, kToolCallStart, kToolCallArguments };
  Kind kind = Kind::kContent;
  int tool_index = 0;         // tool events: 0, 1, ... in order of delivery
  std::string text;           // the next piece; for kToolCallStart the whole function name
  std::string model_call_id;  // kToolCallStart: the model's own id, never shown to clients; empty if it wrote none yet
};

class OutputParser {
 public:
  OutputParser(const OutputMarkers& markers, OutputParserOptions options);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;

  // One generated token: its id and its raw bytes (not looked at for markers). Appends events, joined where they are of
  // one kind; events already in the vector are left alone. True: a stop string has ended the output, decoding can be
  // cancelled; what is pushed afterwards is dropped. A token that ended decoding and is not END_OF_TURN (a stop token
  // id, another end-of-sequence token) has no text: push it with empty bytes or not at all.
  bool push(TokenId id, std::string_view bytes, std::vector<OutputEvent>& events);

  // kStop: the model ended by itself or by a stop string or stop token. kLength: the token limit. kAbort: anything
  // else.
  enum class End { kStop, kLength, kAbort };
  // Releases what is held back; an incomplete character becomes U+FFFD. Call once, after the last push.
  void finish(End end, std::vector<OutputEvent>& events);

  // Tokens from the end of the prompt up to END_THINKING or whatever ended the reasoning, that one not counted.
  int reasoning_tokens() const;
  // May turn true in finish().
  bool stopped_by_string() const;
  const std::string& matched_stop() const;

  // Calls delivered so far.
  int tool_calls() const;
  // Of these, calls that are closed and whose arguments are a valid JSON object. finish_reason is `tool_calls` only if
  // there is one and the end is kStop.
  int complete_tool_calls() const;
  bool tool_call_complete(int tool_index) const;

  // How many of the tokens pushed, from the first on, have been emitted or dropped with all of their text, for logprobs
  // that travel with their text. Held back are: the beginning of a character, of a citation mark or of a stop string;
  // white space that may turn out to end a block; text before any opener when reasoning is off; an action block until
  // its first call is delivered; later calls until their name is known, argument text in front of the name.
  int64_t tokens_settled() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The whole output of one choice: events folded together.
struct ParsedOutput {
  struct Call {
    std::string model_call_id;
    std::string name;
    std::string arguments;
    bool complete = false;  // see OutputParser::complete_tool_calls
  };
  std::string reasoning;
  std::string content;
  std::vector<Call> calls;

  void add(const std::vector<OutputEvent>& events);
  // After finish: takes over which calls are complete.
  void set_complete(const OutputParser& parser);
};

}  // namespace boreas
