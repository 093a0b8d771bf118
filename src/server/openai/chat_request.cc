#include "server/openai/chat_request.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace boreas {

namespace json = boost::json;

namespace {

constexpr size_t kMessagesMax = 65536;
constexpr size_t kDocumentsMax = 1024;

constexpr UnusedField kUnsupported[] = {
    {"audio", "", "audio is not supported"},
    {"functions", "[]", "use 'tools'"},
    {"function_call", "\"none\" \"auto\"", "use 'tool_choice'"},
    {"chat_template", "", "a request may not bring its own chat template"},
    {"echo", "false", "it is not supported for chats"},
    {"suffix", "", "it is not supported"},
};

constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};

bool has_tool(const json::array& tools, std::string_view name) {
  return std::any_of(tools.begin(), tools.end(),
                     [&](const json::value& tool) { return tool.at("function").at("name").as_string() == name; });
}

// {"type": "function", "function": {"name": ...}}
void read_named_tool(FieldReader& reader, const json::object& choice, ChatRequest& request) {
  FieldReader fields(choice, "tool_choice.");
  const auto type = fields.string("type", 64);
  if (type && *type != "function") {
    fields.fail(unsupported_value("tool_choice.type", "'tool_choice.type' must be \"function\"."));
  }
  const json::object* function = fields.object("function");
  if (!function && !fields.error()) fields.fail(missing_parameter("tool_choice.function"));
  if (fields.error()) return reader.fail(*fields.error());
  FieldReader inner(*function, "tool_choice.function.");
  const auto name = inner.string("name", 1024);
  if (!name && !inner.error()) inner.fail(missing_parameter("tool_choice.function.name"));
  if (inner.error()) return reader.fail(*inner.error());
  if (!has_tool(request.tools, *name)) {
    return reader.fail(invalid_value("tool_choice.function.name",
                                     "'tool_choice' names '" + echo_text(*name) + "', which is not among 'tools'."));
  }
  request.named_tool = *name;
}

void read_tool_choice(FieldReader& reader, ChatRequest& request) {
  request.tools_allowed = !request.tools.empty();
  request.strict_tools = std::any_of(request.tools.begin(), request.tools.end(), [](const json::value& tool) {
    const json::value* strict = tool.at("function").as_object().if_contains("strict");
    return strict && *strict == true;
  });
  const json::value* choice = reader.find("tool_choice");
  if (!choice) return;
  const json::string* word = choice->if_string();
  if (word && *word == "auto") return;
  if (word && *word == "none") {
    request.tools_allowed = false;
    return;
  }
  if (!(word && *word == "required") && !choice->is_object()) {
    return reader.fail(
        invalid_value("tool_choice", "'tool_choice' must be \"none\", \"auto\", \"required\" or an object."));
  }
  if (request.tools.empty()) {
    return reader.fail(invalid_value("tool_choice", "'tool_choice' asks for a call, but there are no 'tools'."));
  }
  request.tool_required = true;
  if (!word) read_named_tool(reader, choice->get_object(), request);
  refuse_allowed_ids(reader, request.generation, "tool_choice");
  if (request.generation.format.bound() && request.generation.format.for_template.is_null()) {
    const std::string& field = request.generation.format.field;
    reader.fail(invalid_value(field, "'" + field + "' cannot be combined with a 'tool_choice' that asks for a call."));
  }
}

void read_thinking(FieldReader& reader, json::object& arguments) {
  if (const auto effort = reader.string("reasoning_effort", 64)) {
    if (std::find(std::begin(kEfforts), std::end(kEfforts), *effort) == std::end(kEfforts)) {
      return reader.fail(invalid_value("reasoning_effort",
                                       "'reasoning_effort' must be one of none, minimal, low, medium, "
                                       "high, xhigh, max."));
    }
    arguments["reasoning_effort"] = *effort;
  }
  if (const json::object* thinking = reader.object("thinking")) {
    FieldReader inner(*thinking, "thinking.");
    const auto type = inner.string("type", 64);
    if (inner.error()) return reader.fail(*inner.error());
    if (type && *type == "disabled") arguments["reasoning"] = false;
    if (type && (*type == "enabled" || *type == "adaptive")) arguments["reasoning"] = true;
  }
  if (const auto enabled = reader.boolean("enable_thinking")) arguments["reasoning"] = *enabled;
}

// Later sources win: fields of the request, then chat_template_kwargs.
void read_template_arguments(FieldReader& reader, const OutputFormat& format, json::object& arguments) {
  read_thinking(reader, arguments);
  if (!format.for_template.is_null()) arguments["response_format"] = format.for_template;
  if (const json::array* documents = reader.array("documents", kDocumentsMax); documents && !documents->empty()) {
    for (size_t i = 0; i < documents->size(); ++i) {
      const std::string path = "documents." + std::to_string(i);
      if (!(*documents)[i].is_object()) reader.fail(invalid_value(path, "'" + path + "' must be an object."));
    }
    arguments["documents"] = *documents;
  }
  const json::object* given = reader.object("chat_template_kwargs");
  if (!given) return;
  check_template_arguments(reader, *given, "chat_template_kwargs");
  for (const auto& entry : *given) {
    if (entry.key() == "enable_thinking") {
      if (entry.value().is_bool()) arguments["reasoning"] = entry.value();
    } else {
      arguments[entry.key()] = entry.value();
    }
  }
}

void read_chat_flags(FieldReader& reader, const RequestLimits& limits, ChatRequest& request) {
  request.parallel_tool_calls = reader.boolean("parallel_tool_calls").value_or(true);
  request.include_reasoning = reader.boolean("include_reasoning").value_or(true);
  const std::optional<bool> add_prompt = reader.boolean("add_generation_prompt");
  request.continue_final_message = reader.boolean("continue_final_message").value_or(false);
  if (request.continue_final_message && add_prompt.value_or(false)) {
    reader.fail(invalid_value("continue_final_message",
                              "'continue_final_message' and 'add_generation_prompt' must not both be true."));
  }
  request.add_generation_prompt = add_prompt.value_or(true) && !request.continue_final_message;
  request.logprobs = reader.boolean("logprobs").value_or(false);
  const std::optional<int64_t> top = reader.integer("top_logprobs", 0, limits.logprobs_max);
  if (top.value_or(0) > 0 && !request.logprobs) {
    reader.fail(invalid_value("top_logprobs", "'top_logprobs' is only allowed when 'logprobs' is true."));
  }
  request.top_logprobs = static_cast<int32_t>(top.value_or(0));
  if (request.logprobs) request.generation.sampling.top_logprobs = request.top_logprobs;
}

void refuse_audio(FieldReader& reader) {
  const json::array* modalities = reader.array("modalities", 16);
  if (!modalities) return;
  for (const json::value& modality : *modalities) {
    if (modality.is_string() && modality.get_string() == "text") continue;
    reader.fail(unsupported_value("modalities", "'modalities': only \"text\" is supported."));
  }
}

}  // namespace

void check_template_arguments(FieldReader& reader, const json::object& arguments, const std::string& path) {
  constexpr std::string_view kReserved[] = {"messages",      "tools",          "add_generation_prompt",
                                            "chat_template", "tokenize",       "continue_final_message",
                                            "return_dict",   "return_tensors", "bos_token",
                                            "eos_token",     "conversation",   "add_special_tokens"};
  for (const auto& entry : arguments) {
    const std::string_view key(entry.key().data(), entry.key().size());
    if (std::find(std::begin(kReserved), std::end(kReserved), key) == std::end(kReserved)) continue;
    const std::string at = path + "." + std::string(key);
    return reader.fail(invalid_value(at, "'" + at + "' is set by the server."));
  }
}

ApiResult<ChatRequest> read_chat_request(json::object&& body, const RequestRules& rules) {
  FieldReader reader(body);
  ChatRequest request;
  request.generation = read_generation_fields(reader, rules, false);
  refuse_unsupported(reader);
  refuse_used(reader, kUnsupported, std::size(kUnsupported));
  refuse_audio(reader);

  const json::array* messages = reader.array("messages", kMessagesMax);
  if (!messages && !reader.error()) reader.fail(missing_parameter("messages"));
  if (messages && messages->empty()) reader.fail(invalid_value("messages", "'messages' must not be empty."));
  if (messages) check_messages(reader, *messages);
  const json::array* tools = reader.array("tools", static_cast<size_t>(rules.limits.tools_max));
  if (tools) check_tools(reader, *tools);
  if (reader.error()) return *reader.error();

  request.messages = *messages;
  if (tools) request.tools = *tools;
  read_tool_choice(reader, request);
  read_template_arguments(reader, request.generation.format, request.template_arguments);
  read_chat_flags(reader, rules.limits, request);
  if (reader.error()) return *reader.error();
  if (request.continue_final_message) {
    const json::object& last = request.messages.back().as_object();
    const json::value* calls = last.if_contains("tool_calls");
    if (last.at("role") != "assistant" || (calls && !calls->is_null())) {
      return invalid_value("continue_final_message",
                           "'continue_final_message' needs a last message of the assistant, without tool calls.");
    }
  }
  return request;
}

}  // namespace boreas
