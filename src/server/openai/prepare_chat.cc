// prepare_chat_completion (prepare.h): a chat request becomes a prompt by the checkpoint's own template, and the way
// its answer will be parsed.
#include <algorithm>
#include <string_view>
#include <utility>

#include "server/openai/chat_generation.h"
#include "server/openai/chat_request.h"
#include "server/openai/prepare.h"

namespace boreas {

namespace json = boost::json;

namespace {

ApiError from_text_error(const Error& error, const std::string& fallback_param) {
  return invalid_value(error.param.empty() ? fallback_param : error.param, error.message);
}

// The text the last message ends with, as the template got it.
std::string final_text(const json::object& variables) {
  const json::value* messages = variables.if_contains("messages");
  if (!messages || !messages->is_array() || messages->get_array().empty()) return {};
  const json::value& last = messages->get_array().back();
  const json::value* content = last.is_object() ? last.get_object().if_contains("content") : nullptr;
  if (content && content->is_array() && !content->get_array().empty()) {
    const json::value& part = content->get_array().back();
    content = part.is_object() ? part.get_object().if_contains("text") : nullptr;
  }
  if (!content || !content->is_string()) return {};
  return std::string(content->get_string());
}

// Cuts the rendered prompt behind the last message's text, so that generation goes on inside it.
std::optional<ApiError> open_final_message(std::string& prompt, const json::object& variables) {
  const std::string text = final_text(variables);
  const size_t at = text.empty() ? prompt.rfind("<|END_TEXT|>") : prompt.rfind(text);
  if (at == std::string::npos) {
    return invalid_value("continue_final_message", "The chat template does not render the last message's text.");
  }
  prompt.resize(at + text.size());
  return std::nullopt;
}

struct RenderedChat {
  std::string prompt;
  std::string open_text;  // with continue_final_message: the text that the prompt ends in
};

ApiResult<RenderedChat> render(const ChatRequest& request, const PrepareInput& input) {
  json::object arguments;
  if (!input.options.default_chat_template_kwargs.empty()) {
    arguments = json::parse(input.options.default_chat_template_kwargs).as_object();  // checked at start
  }
  for (const auto& entry : request.template_arguments) arguments[entry.key()] = entry.value();
  ChatRenderOptions render_options;
  render_options.add_generation_prompt = request.add_generation_prompt;
  render_options.escape_markers = input.options.escape_markers;
  render_options.markers = input.model.marker_names;
  render_options.keep_parts = input.model.served.chat_template->reads_content_parts();
  const bool hide_tools = !request.tools_allowed && input.options.exclude_tools_when_none;
  Result<json::object> variables =
      prepare_chat(request.messages, hide_tools ? json::array() : request.tools, arguments, render_options);
  if (!variables.ok()) return from_text_error(variables.error(), "messages");
  Result<std::string> prompt = input.model.served.chat_template->render(*variables);
  if (!prompt.ok()) return from_text_error(prompt.error(), "messages");
  RenderedChat rendered{std::move(*prompt), {}};
  if (request.continue_final_message) {
    if (std::optional<ApiError> error = open_final_message(rendered.prompt, *variables)) return *error;
    rendered.open_text = final_text(*variables);
  }
  return rendered;
}

OutputParserOptions parser_options(const ChatRequest& request, const PrepareInput& input,
                                   std::span<const TokenId> prompt) {
  OutputParserOptions options;
  // The prompt's own end tells whether the model begins inside its reasoning.
  options.starts_in_thinking = !prompt.empty() && prompt.back() == input.model.served.markers.start_thinking;
  options.starts_in_content = request.continue_final_message;
  options.tools_allowed = request.tools_allowed;
  options.parallel_tool_calls = request.parallel_tool_calls;
  options.strip_citations = input.options.strip_citations;
  options.stop = request.generation.stop;
  options.include_stop_in_output = request.generation.include_stop_in_output;
  return options;
}

// tool_choice "none" although the model sees tools: an action block is made practically impossible.
void discourage_actions(GenerationFields& fields, const ChatRequest& request, const OutputMarkers& markers) {
  constexpr float kNever = -100;
  if (request.tools_allowed || request.tools.empty() || markers.start_action < 0) return;
  fields.sampling.logit_bias.emplace_back(markers.start_action, kNever);
}

// The rules for the output's form, if the request makes any: JSON in its text, or calls that must be made, or follow
// their schemas.
ApiResult<std::optional<OutputRules>> output_rules(const ChatRequest& request, const PrepareInput& input) {
  const OutputFormat& format = request.generation.format;
  GrammarStore& grammars = *input.model.grammars;
  OutputRules rules;
  if (!request.tool_required) {
    auto text = compile_output_format(format, grammars);
    if (ApiError* error = std::get_if<ApiError>(&text)) return std::move(*error);
    rules.text = std::get<GrammarPointer>(text);
  }
  const bool strict_calls = request.strict_tools && request.tools_allowed;
  if (request.tool_required || (request.tools_allowed && rules.text != nullptr) || strict_calls) {
    ToolCallRules calls;
    calls.only = request.named_tool;
    if (!request.parallel_tool_calls || !request.named_tool.empty()) calls.calls_max = 1;
    Result<GrammarPointer> action = grammars.tool_calls(request.tools, calls);
    if (!action.ok()) return invalid_value("tools", "'tools': " + action.error().message + ".");
    rules.action = std::move(*action);
  }
  rules.free_text = rules.text == nullptr && !request.tool_required;
  if (rules.text == nullptr && rules.action == nullptr) return std::optional<OutputRules>();
  return std::optional(std::move(rules));
}

std::optional<ApiError> bind_chat(const ChatRequest& request, const PrepareInput& input,
                                  const OutputParserOptions& parser, const std::string& open_text, Request& engine) {
  ApiResult<std::optional<OutputRules>> read = output_rules(request, input);
  if (ApiError* error = std::get_if<ApiError>(&read)) return std::move(*error);
  std::optional<OutputRules>& rules = std::get<std::optional<OutputRules>>(read);
  if (!rules) return std::nullopt;
  rules->markers = input.model.served.markers;
  rules->begin = parser.starts_in_content    ? OutputRules::Begin::kInText
                 : parser.starts_in_thinking ? OutputRules::Begin::kThinking
                                             : OutputRules::Begin::kBeforeBlock;
  rules->text_so_far = open_text;
  const std::string& format_field = request.generation.format.field;
  return bind_output(*std::move(rules), request.generation, input.model.rules,
                     request.tool_required || format_field.empty() ? "tool_choice" : format_field, engine);
}

ApiResult<Launch> plan_chat(ChatRequest&& request, PrepareInput& input, std::vector<TokenId> prompt,
                            const std::string& open_text) {
  ApiResult<int32_t> budget = output_budget(request.generation, input.options.limits, input.model.context_max,
                                            static_cast<int64_t>(prompt.size()), "messages");
  if (const ApiError* error = std::get_if<ApiError>(&budget)) return *error;
  auto plan = std::make_shared<ChatPlan>();
  plan->parser = parser_options(request, input, prompt);
  plan->include_reasoning = request.include_reasoning;
  plan->logprobs = request.logprobs;
  plan->named_tool = !request.named_tool.empty();
  if (request.generation.return_token_ids) plan->prompt_ids = prompt;
  GenerationPlan& generation = plan->generation;
  generation.endpoint = "chat";
  generation.object = "chat.completion";
  generation.chunk_object = "chat.completion.chunk";
  generation.id_wanted =
      "chatcmpl-" + (request.generation.request_id.empty() ? input.request_id : request.generation.request_id);
  generation.prompt_field = "messages";
  discourage_actions(request.generation, request, input.model.served.markers);
  generation.requests.push_back(
      engine_request(request.generation, input.model.rules, std::move(prompt), std::get<int32_t>(budget)));
  std::optional<ApiError> error = bind_chat(request, input, plan->parser, open_text, generation.requests.back());
  if (error) return *std::move(error);
  generation.fields = std::move(request.generation);
  return Launch([plan](Serving& serving, std::shared_ptr<HttpResponder> responder) -> std::shared_ptr<Generation> {
    return std::make_shared<ChatGeneration>(serving, std::move(responder), std::move(*plan));
  });
}

}  // namespace

void apply_server_options(GenerationFields& fields, const ServerOptions& options) {
  fields.include_usage = fields.stream && (fields.include_usage || options.force_include_usage);
}

std::optional<ApiError> check_model_name(const std::string& name, const ServerOptions& options) {
  const auto& names = options.model_names;
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return std::nullopt;
  return model_not_found(name);
}

ApiResult<Launch> prepare_chat_completion(PrepareInput&& input) {
  std::variant<json::object, ApiError> body = parse_request_json(input.body);
  if (ApiError* error = std::get_if<ApiError>(&body)) return std::move(*error);
  input.body = {};
  ApiResult<ChatRequest> read = read_chat_request(std::move(std::get<json::object>(body)), input.model.rules);
  if (ApiError* error = std::get_if<ApiError>(&read)) return std::move(*error);
  ChatRequest& request = std::get<ChatRequest>(read);
  if (std::optional<ApiError> error = check_model_name(request.generation.model, input.options)) return *error;
  apply_server_options(request.generation, input.options);
  if (!input.model.served.chat_template) {
    return unsupported_value("messages", "This model has no chat template; use /v1/completions.");
  }
  ApiResult<RenderedChat> rendered = render(request, input);
  if (ApiError* error = std::get_if<ApiError>(&rendered)) return std::move(*error);
  const RenderedChat& chat = std::get<RenderedChat>(rendered);
  const EncodeOptions encode{request.generation.add_special_tokens.value_or(false), true};
  Result<std::vector<TokenId>> ids = input.model.served.tokenizer->encode(chat.prompt, encode);
  if (!ids.ok()) return from_text_error(ids.error(), "messages");
  if (ids->empty()) return invalid_value("messages", "The chat template renders an empty prompt.");
  return plan_chat(std::move(request), input, std::move(*ids), chat.open_text);
}

}  // namespace boreas
