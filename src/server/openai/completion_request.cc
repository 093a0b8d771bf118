#include "server/openai/completion_request.h"

#include <algorithm>

namespace boreas {

namespace json = boost::json;

namespace {

constexpr int64_t kDefaultMaxTokens = 16;

constexpr UnusedField kUnsupported[] = {
    {"suffix", "", "filling in the middle is not supported"},
    {"prompt_embeds", "", "it is not supported"},
};

std::optional<std::vector<TokenId>> read_prompt_ids(FieldReader& reader, const json::array& items,
                                                    const std::string& path, int32_t vocab_size) {
  std::vector<TokenId> ids;
  ids.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const std::optional<int64_t> id = whole_number(items[i], 0, vocab_size - 1);
    if (!id) {
      const std::string at = path + "." + std::to_string(i);
      reader.fail(invalid_value(at, "'" + at + "' must be a token id below " + std::to_string(vocab_size) + "."));
      return std::nullopt;
    }
    ids.push_back(static_cast<TokenId>(*id));
  }
  if (ids.empty()) {
    reader.fail(invalid_value(path, "'" + path + "' must not be empty."));
    return std::nullopt;
  }
  return ids;
}

std::vector<CompletionPrompt> read_prompts(FieldReader& reader, const RequestRules& rules) {
  std::vector<CompletionPrompt> prompts;
  const json::value* value = reader.find("prompt");
  if (!value) {
    reader.fail(missing_parameter("prompt"));
    return prompts;
  }
  if (const json::string* text = value->if_string()) {
    prompts.emplace_back(std::string(text->data(), text->size()));
    return prompts;
  }
  const json::array* items = value->if_array();
  if (!items || items->empty()) {
    reader.fail(invalid_value("prompt",
                              "'prompt' must be a string, an array of strings, an array of token ids or an "
                              "array of those, and not empty."));
    return prompts;
  }
  if (items->front().is_number()) {
    if (auto ids = read_prompt_ids(reader, *items, "prompt", rules.vocab_size)) prompts.emplace_back(std::move(*ids));
    return prompts;
  }
  if (items->size() > static_cast<size_t>(rules.limits.prompts_max)) {
    reader.fail(invalid_value("prompt", "'prompt' has " + std::to_string(items->size()) + " entries, at most " +
                                            std::to_string(rules.limits.prompts_max) + " are allowed."));
    return prompts;
  }
  for (size_t i = 0; i < items->size() && !reader.error(); ++i) {
    const json::value& item = (*items)[i];
    const std::string path = "prompt." + std::to_string(i);
    if (const json::string* text = item.if_string()) {
      prompts.emplace_back(std::string(text->data(), text->size()));
    } else if (const json::array* ids = item.if_array()) {
      if (auto read = read_prompt_ids(reader, *ids, path, rules.vocab_size)) prompts.emplace_back(std::move(*read));
    } else {
      reader.fail(invalid_value(path, "'" + path + "' must be a string or an array of token ids."));
    }
  }
  return prompts;
}

}  // namespace

ApiResult<CompletionRequest> read_completion_request(json::object&& body, const RequestRules& rules) {
  FieldReader reader(body);
  CompletionRequest request;
  request.echo = reader.boolean("echo").value_or(false);
  request.generation = read_generation_fields(reader, rules, request.echo);
  if (!request.generation.max_tokens) request.generation.max_tokens = kDefaultMaxTokens;
  refuse_unsupported(reader);
  refuse_used(reader, kUnsupported, std::size(kUnsupported));
  request.logprobs = static_cast<int32_t>(reader.integer("logprobs", 0, rules.limits.logprobs_max).value_or(-1));
  request.generation.sampling.top_logprobs = request.logprobs;
  request.prompts = read_prompts(reader, rules);
  if (reader.error()) return *reader.error();
  return request;
}

}  // namespace boreas
