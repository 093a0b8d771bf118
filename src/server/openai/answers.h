// The parts that answers and chunks of both endpoints are made of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/json_writer.h"
#include "server/token_texts.h"

namespace boreas {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t output_tokens = 0;
  int64_t reasoning_tokens = 0;
};
void append_usage(JsonWriter& writer, const Usage& usage);

// {"id":...,"object":...,"created":...,"model":...,"system_fingerprint":...,"choices":[   - the same for every chunk.
std::string answer_head(const std::string& id, const char* object, int64_t created, const std::string& model,
                        const std::string& fingerprint);

// The natural logarithm as JSON may hold it: no NaN, nothing below -9999.
float json_logprob(float logprob);

// {"content":[{"token","logprob","bytes","top_logprobs"}...],"refusal":null}
void append_chat_logprobs(JsonWriter& writer, const TokenTexts& texts, bool tokens_as_ids,
                          std::span<const SampledToken> tokens);

// One token of a completions answer's log-probabilities.
struct CompletionLogprob {
  SampledToken token;
  bool scored = true;  // false: the first prompt token, which nothing predicts
  bool of_prompt = false;
  int64_t text_offset = 0;  // characters before it in the text
};
// {"tokens","token_logprobs","top_logprobs","text_offset"}
void append_completion_logprobs(JsonWriter& writer, const TokenTexts& texts, bool tokens_as_ids,
                                std::span<const CompletionLogprob> tokens);

void append_ids(JsonWriter& writer, std::span<const TokenId> ids);

}  // namespace boreas
