#include "server/openai/answers.h"

#include <algorithm>
#include <cmath>

namespace boreas {

namespace {

constexpr float kLogprobMin = -9999.0F;

void append_token(JsonWriter& writer, const TokenTexts& texts, bool tokens_as_ids, TokenId id, float logprob) {
  const std::string bytes = texts.bytes(id);
  writer.field("token", tokens_as_ids ? TokenTexts::id_text(id) : replace_broken_utf8(bytes));
  writer.key("logprob").number(json_logprob(logprob));
  writer.key("bytes").begin_array();
  for (const char byte : bytes) writer.integer(static_cast<unsigned char>(byte));
  writer.end_array();
}

// Completions use token texts as keys, so two tokens that are parts of characters must not look alike.
std::string completion_token_name(const TokenTexts& texts, bool tokens_as_ids, TokenId id) {
  if (tokens_as_ids) return TokenTexts::id_text(id);
  const std::string bytes = texts.bytes(id);
  std::string text = replace_broken_utf8(bytes);
  if (text == bytes) return text;
  constexpr char kHex[] = "0123456789abcdef";
  text = "bytes:";
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += "\\x";
    text += kHex[value >> 4];
    text += kHex[value & 15];
  }
  return text;
}

}  // namespace

void append_usage(JsonWriter& writer, const Usage& usage) {
  writer.begin_object();
  writer.field("prompt_tokens", usage.prompt_tokens).field("completion_tokens", usage.output_tokens);
  writer.field("total_tokens", usage.prompt_tokens + usage.output_tokens);
  writer.key("prompt_tokens_details").begin_object().field("cached_tokens", usage.cached_tokens).end_object();
  writer.key("completion_tokens_details").begin_object().field("reasoning_tokens", usage.reasoning_tokens).end_object();
  writer.end_object();
}

std::string answer_head(const std::string& id, const char* object, int64_t created, const std::string& model,
                        const std::string& fingerprint) {
  std::string out;
  JsonWriter writer(out);
  writer.begin_object().field("id", id).field("object", object).field("created", created).field("model", model);
  if (!fingerprint.empty()) writer.field("system_fingerprint", fingerprint);
  writer.key("choices").begin_array();
  return out;
}

float json_logprob(float logprob) { return std::isnan(logprob) ? kLogprobMin : std::clamp(logprob, kLogprobMin, 0.0F); }

void append_chat_logprobs(JsonWriter& writer, const TokenTexts& texts, bool tokens_as_ids,
                          std::span<const SampledToken> tokens) {
  writer.begin_object().key("content").begin_array();
  for (const SampledToken& token : tokens) {
    writer.begin_object();
    append_token(writer, texts, tokens_as_ids, token.id, token.logprob);
    writer.key("top_logprobs").begin_array();
    for (const TokenLogprob& top : token.top) {
      writer.begin_object();
      append_token(writer, texts, tokens_as_ids, top.id, top.logprob);
      writer.end_object();
    }
    writer.end_array().end_object();
  }
  writer.end_array().field_null("refusal").end_object();
}

void append_completion_logprobs(JsonWriter& writer, const TokenTexts& texts, bool tokens_as_ids,
                                std::span<const CompletionLogprob> tokens) {
  writer.begin_object().key("tokens").begin_array();
  for (const CompletionLogprob& entry : tokens) {
    writer.string(completion_token_name(texts, tokens_as_ids, entry.token.id));
  }
  writer.end_array().key("token_logprobs").begin_array();
  for (const CompletionLogprob& entry : tokens) {
    entry.scored ? writer.number(json_logprob(entry.token.logprob)) : writer.null();
  }
  writer.end_array().key("top_logprobs").begin_array();
  for (const CompletionLogprob& entry : tokens) {
    if (!entry.scored) {
      writer.null();
      continue;
    }
    writer.begin_object();
    bool sampled_listed = false;
    for (const TokenLogprob& top : entry.token.top) {
      sampled_listed = sampled_listed || top.id == entry.token.id;
      writer.key(completion_token_name(texts, tokens_as_ids, top.id)).number(json_logprob(top.logprob));
    }
    if (!sampled_listed) {
      writer.key(completion_token_name(texts, tokens_as_ids, entry.token.id)).number(json_logprob(entry.token.logprob));
    }
    writer.end_object();
  }
  writer.end_array().key("text_offset").begin_array();
  for (const CompletionLogprob& entry : tokens) writer.integer(entry.text_offset);
  writer.end_array().end_object();
}

void append_ids(JsonWriter& writer, std::span<const TokenId> ids) {
  writer.begin_array();
  for (const TokenId id : ids) writer.integer(id);
  writer.end_array();
}

}  // namespace boreas
