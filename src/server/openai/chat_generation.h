// The live side of /v1/chat/completions: tokens of each choice through an OutputParser, its events into chunks or into
// the whole answer. Both are made of the same events, so a stream says what the plain answer says.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/generation.h"

namespace boreas {

struct ChatPlan {
  GenerationPlan generation;  // one engine request
  OutputParserOptions parser;
  bool include_reasoning = true;
  bool logprobs = false;
  bool named_tool = false;          // tool_choice names the tool: the call is the answer, not a reason to go on
  std::vector<TokenId> prompt_ids;  // only with return_token_ids
};

class ChatGeneration final : public Generation {
 public:
  ChatGeneration(Serving& serving, std::shared_ptr<HttpResponder> responder, ChatPlan plan);

 private:
  struct Choice {
    explicit Choice(OutputParser parser_in) : parser(std::move(parser_in)) {}
    OutputParser parser;
    std::vector<std::string> call_ids;  // by tool index
    std::vector<SampledToken> tokens;   // not yet part of a chunk; only if logprobs or ids are wanted
    int64_t tokens_sent = 0;            // of those before them
    ParsedOutput output;                // only without streaming
    std::string finish_reason;
    std::string stop_reason;  // JSON
  };

  void open_stream() override;
  void take(int32_t index, TokenEvent& event) override;
  void append_choices(JsonWriter& writer) override;
  void append_extras(JsonWriter& writer) override;
  int64_t reasoning_tokens() const override;

  bool keeps_tokens() const { return plan_.logprobs || fields().return_token_ids; }
  std::string_view text_of(TokenId id, bool ends_output);
  void finish(int32_t index, FinishReason reason, TokenId last_token);
  void emit(int32_t index, std::vector<OutputEvent>& events);
  void append_delta(JsonWriter& writer, const OutputEvent& event, const Choice& choice);
  void append_reasoning(JsonWriter& writer, std::string_view text);
  // Members of a chunk's choice for tokens whose text has left (or all that are left).
  void append_token_members(JsonWriter& writer, Choice& choice, bool all);
  void append_message(JsonWriter& writer, const Choice& choice);

  ChatPlan plan_;
  std::vector<Choice> choices_;
  std::vector<OutputEvent> events_;  // scratch
  std::string text_;                 // scratch
};

}  // namespace boreas
