// The live side of /v1/completions: tokens of each choice through a RawOutput, no structure but stop strings. Prompts
// times n choices, numbered prompt by prompt.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/generation.h"

namespace boreas {

struct CompletionPlan {
  struct Prompt {
    std::string text;          // as echoed
    std::vector<TokenId> ids;  // as computed, only with echo or return_token_ids
    bool bos_added = false;    // the first id is no part of the text
  };
  GenerationPlan generation;
  std::vector<Prompt> prompts;
  bool echo = false;
  int32_t logprobs = -1;
};

class CompletionGeneration final : public Generation {
 public:
  CompletionGeneration(Serving& serving, std::shared_ptr<HttpResponder> responder, CompletionPlan plan);

 private:
  struct Choice {
    explicit Choice(RawOutput::Options options) : output(std::move(options)) {}
    RawOutput output;
    bool echoed = false;
    int64_t tokens_settled = 0;            // of the output, already in `logprobs` or dropped
    std::vector<SampledToken> tokens;      // pushed, text not settled; only if logprobs or ids are wanted
    std::vector<int64_t> token_offsets;    // of these, characters of text before them
    std::vector<CompletionLogprob> ready;  // settled, for the next chunk or the answer
    std::string text;                      // settled, likewise
    int64_t characters = 0;                // of text so far, sent or not
    int64_t characters_pushed = 0;         // of text of all tokens pushed
    std::string finish_reason;
    std::string stop_reason;  // JSON
  };

  void open_stream() override {}
  void take(int32_t index, TokenEvent& event) override;
  void append_choices(JsonWriter& writer) override;
  void append_extras(JsonWriter& writer) override { static_cast<void>(writer); }

  bool keeps_tokens() const { return plan_.logprobs >= 0 || fields().return_token_ids; }
  const CompletionPlan::Prompt& prompt_of(int32_t index) const {
    return plan_.prompts[static_cast<size_t>(index / fields().choices)];
  }
  void echo_prompt(int32_t index);
  bool push_token(Choice& choice, SampledToken& token, bool ends_output);
  void settle(Choice& choice, std::string_view text, bool all);
  void finish(Choice& choice, FinishReason reason, TokenId last_token);
  void append_choice(JsonWriter& writer, int32_t index);
  void send_chunk(int32_t index);

  CompletionPlan plan_;
  std::vector<Choice> choices_;
  std::vector<std::vector<SampledToken>> prompt_logprobs_;            // by prompt, when they have come
  std::vector<std::vector<std::pair<int32_t, TokenEvent>>> waiting_;  // events that came before them, by prompt
};

}  // namespace boreas
