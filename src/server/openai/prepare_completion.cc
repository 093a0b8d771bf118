// prepare_completion (prepare.h): one engine request a prompt.
#include <utility>

#include "server/openai/completion_generation.h"
#include "server/openai/completion_request.h"
#include "server/openai/prepare.h"

namespace boreas {

namespace {

std::string prompt_path(size_t index, size_t count) {
  return count == 1 ? "prompt" : "prompt." + std::to_string(index);
}

// The ids to compute, and what echo shows of them.
ApiResult<CompletionPlan::Prompt> read_prompt(const CompletionPrompt& given, const CompletionRequest& request,
                                              const ServingModel& model, const std::string& path) {
  CompletionPlan::Prompt prompt;
  const Tokenizer& tokenizer = *model.served.tokenizer;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&given)) {
    prompt.ids = *ids;
    if (request.echo) {
      std::string bytes;
      for (const TokenId id : *ids) bytes += model.texts.bytes(id);
      prompt.text = replace_broken_utf8(bytes);
    }
    return prompt;
  }
  prompt.text = std::get<std::string>(given);
  const bool add_bos = request.generation.add_special_tokens.value_or(true);
  Result<std::vector<TokenId>> ids = tokenizer.encode(prompt.text, {add_bos, true});
  if (!ids.ok()) return invalid_value(path, ids.error().message);
  if (ids->empty()) return invalid_value(path, "'" + path + "' must not be empty.");
  prompt.bos_added = add_bos && tokenizer.bos_token_id().has_value();
  prompt.ids = std::move(*ids);
  return prompt;
}

}  // namespace

ApiResult<Launch> prepare_completion(PrepareInput&& input) {
  std::variant<boost::json::object, ApiError> body = parse_request_json(input.body);
  if (ApiError* error = std::get_if<ApiError>(&body)) return std::move(*error);
  input.body = {};
  ApiResult<CompletionRequest> read =
      read_completion_request(std::move(std::get<boost::json::object>(body)), input.model.rules);
  if (ApiError* error = std::get_if<ApiError>(&read)) return std::move(*error);
  CompletionRequest& request = std::get<CompletionRequest>(read);
  GenerationFields& fields = request.generation;
  if (std::optional<ApiError> error = check_model_name(fields.model, input.options)) return *error;
  apply_server_options(fields, input.options);

  auto bound_by = compile_output_format(fields.format, *input.model.grammars);
  if (ApiError* error = std::get_if<ApiError>(&bound_by)) return std::move(*error);
  OutputRules rules;
  rules.begin = OutputRules::Begin::kRaw;
  rules.text = std::get<GrammarPointer>(bound_by);

  auto plan = std::make_shared<CompletionPlan>();
  plan->echo = request.echo;
  plan->logprobs = request.logprobs;
  GenerationPlan& generation = plan->generation;
  generation.endpoint = "completions";
  generation.object = generation.chunk_object = "text_completion";
  generation.id_wanted = "cmpl-" + (fields.request_id.empty() ? input.request_id : fields.request_id);
  generation.prompt_field = "prompt";
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    const std::string path = prompt_path(i, request.prompts.size());
    ApiResult<CompletionPlan::Prompt> prompt = read_prompt(request.prompts[i], request, input.model, path);
    if (ApiError* error = std::get_if<ApiError>(&prompt)) return std::move(*error);
    std::vector<TokenId> ids = std::get<CompletionPlan::Prompt>(prompt).ids;
    ApiResult<int32_t> budget =
        output_budget(fields, input.options.limits, input.model.context_max, static_cast<int64_t>(ids.size()), path);
    if (ApiError* error = std::get_if<ApiError>(&budget)) return std::move(*error);
    Request engine = engine_request(fields, input.model.rules, std::move(ids), std::get<int32_t>(budget));
    if (request.echo && request.logprobs >= 0) engine.prompt_top_logprobs = request.logprobs;
    if (rules.text != nullptr) {
      std::optional<ApiError> error = bind_output(rules, fields, input.model.rules, fields.format.field, engine);
      if (error) return *std::move(error);
    }
    generation.requests.push_back(std::move(engine));
    plan->prompts.push_back(std::move(std::get<CompletionPlan::Prompt>(prompt)));
  }
  generation.fields = std::move(fields);
  return Launch([plan](Serving& serving, std::shared_ptr<HttpResponder> responder) -> std::shared_ptr<Generation> {
    return std::make_shared<CompletionGeneration>(serving, std::move(responder), std::move(*plan));
  });
}

}  // namespace boreas
