#include "text/formats/chat_format.h"

#include <algorithm>

#include "text/formats/chat_format_impl.h"

namespace boreas {

namespace {

using boost::json::array;
using boost::json::object;
using boost::json::value;

constexpr std::string_view kReasoningKeys[] = {"reasoning", "reasoning_content", "thinking"};

const value* find(const object& from, std::string_view key) { return from.if_contains(key); }

std::string_view text_or_empty(const value* from) {
  return from != nullptr && from->is_string() ? std::string_view(from->get_string().data(), from->get_string().size())
                                              : std::string_view();
}

std::string text(std::string_view from) { return std::string(from); }

// The text of a text part, whichever API's name it has; null if the part is another one.
const value* part_text(const object& part) {
  const std::string_view type = text_or_empty(find(part, "type"));
  if (type == "text" || type == "input_text" || type == "output_text") return find(part, "text");
  if (type == "refusal") return find(part, "refusal");
  return nullptr;
}

class Message {
 public:
  Message(const value& from, size_t index, const ChatRenderOptions& options)
      : path_("messages." + std::to_string(index)), options_(options) {
    if (from.is_object()) message_ = from.get_object();
    valid_ = from.is_object();
  }

  Result<object> run() {
    if (!valid_) return Error{path_ + ": expected an object", path_};
    set_role();
    RETURN_IF_ERROR(set_content());
    RETURN_IF_ERROR(set_calls());
    set_reasoning();
    return std::move(message_);
  }

 private:
  void set_role() {
    std::string role = text(text_or_empty(find(message_, "role")));
    std::transform(role.begin(), role.end(), role.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    role_ = role == "developer" ? "system" : role == "function" ? "tool" : role;
    message_["role"] = role_;
  }

  Status set_content() {
    value content = find(message_, "content") != nullptr ? message_["content"] : value();
    if (content.is_null()) {
      message_["content"] = "";
      return Ok{};
    }
    if (content.is_string()) return Ok{};
    if (content.is_object() && role_ == "tool") {
      message_["content"] = chat::to_text(content);
      return Ok{};
    }
    if (!content.is_array()) return Error{path_ + ".content: expected text or a list of parts", path_ + ".content"};
    array parts;
    for (size_t i = 0; i < content.get_array().size(); ++i) RETURN_IF_ERROR(add_part(content.get_array()[i], i, parts));
    if (options_.keep_parts) {
      message_["content"] = std::move(parts);
    } else {
      message_["content"] = joined(parts);
    }
    return Ok{};
  }

  Status add_part(const value& part, size_t index, array& parts) {
    const std::string at = path_ + ".content." + std::to_string(index);
    if (part.is_string()) {  // not OpenAI's, but harmless
      parts.push_back(object{{"type", "text"}, {"text", part}});
      return Ok{};
    }
    if (!part.is_object()) return Error{at + ": expected a content part", at};
    const object& fields = part.get_object();
    const std::string type = text(text_or_empty(find(fields, "type")));
    if (type == "thinking" && role_ == "assistant") {
      thinking_ += text_or_empty(find(fields, "thinking"));
      return Ok{};
    }
    if (type == "document" && role_ == "tool") {
      parts.push_back(part);
      return Ok{};
    }
    const value* content = part_text(fields);
    if (content == nullptr) return Error{at + ": parts of type '" + type + "' are not supported, only text", at};
    if (!content->is_string()) return Error{at + ": the text of a part must be a string", at};
    parts.push_back(object{{"type", "text"}, {"text", *content}});
    return Ok{};
  }

  static std::string joined(const array& parts) {
    std::string out;
    for (size_t i = 0; i < parts.size(); ++i) {
      const object& part = parts[i].get_object();
      if (i > 0) out += '\n';
      const value* content = find(part, "text");
      out += content != nullptr ? text(text_or_empty(content)) : chat::to_text(parts[i]);
    }
    return out;
  }

  Status set_calls() {
    if (role_ != "assistant") {
      message_.stable_erase("tool_calls");
      return Ok{};
    }
    const value* legacy = find(message_, "function_call");
    const value* calls = find(message_, "tool_calls");
    if ((calls == nullptr || calls->is_null()) && legacy != nullptr && legacy->is_object()) {
      array one;
      one.push_back(object{{"id", nullptr}, {"type", "function"}, {"function", *legacy}});
      message_["tool_calls"] = std::move(one);
    }
    message_.stable_erase("function_call");
    calls = find(message_, "tool_calls");
    if (calls == nullptr) return Ok{};
    if (calls->is_null() || (calls->is_array() && calls->get_array().empty())) {
      message_.stable_erase("tool_calls");  // some templates ask only whether it is there
      return Ok{};
    }
    if (!calls->is_array()) return Error{path_ + ".tool_calls: expected a list", path_ + ".tool_calls"};
    array& list = message_["tool_calls"].get_array();
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string at = path_ + ".tool_calls." + std::to_string(i);
      if (!list[i].is_object()) return Error{at + ": expected an object", at};
      value* function = list[i].get_object().if_contains("function");
      if (function == nullptr || !function->is_object())
        return Error{at + ".function: expected an object", at + ".function"};
      object& fields = function->get_object();
      object arguments = chat::arguments_object(find(fields, "arguments"));
      fields["arguments"] = std::move(arguments);
    }
    return Ok{};
  }

  void set_reasoning() {
    std::string reasoning;
    for (const std::string_view key : kReasoningKeys) {
      if (reasoning.empty()) reasoning = text(text_or_empty(find(message_, key)));
    }
    if (reasoning.empty()) reasoning = thinking_;
    object kept;
    for (auto& entry : message_) {
      const std::string_view key(entry.key().data(), entry.key().size());
      if (std::find(std::begin(kReasoningKeys), std::end(kReasoningKeys), key) == std::end(kReasoningKeys))
        kept.emplace(key, std::move(entry.value()));
    }
    message_ = std::move(kept);
    if (reasoning.empty() || role_ != "assistant") return;
    for (const std::string_view key : kReasoningKeys) message_[key] = reasoning;
  }

  const std::string path_;
  const ChatRenderOptions& options_;
  object message_;
  bool valid_ = false;
  std::string role_, thinking_;
};

Result<value> prepare_tool(const value& tool, size_t index) {
  const std::string at = "tools." + std::to_string(index);
  if (!tool.is_object()) return Error{at + ": expected an object", at};
  object prepared = tool.get_object();
  if (find(prepared, "function") == nullptr && find(prepared, "name") != nullptr)
    prepared = object{{"type", "function"}, {"function", prepared}};
  value* function = prepared.if_contains("function");
  if (function == nullptr || !function->is_object())
    return Error{at + ".function: expected an object", at + ".function"};
  object& fields = function->get_object();
  const value* parameters = find(fields, "parameters");
  if (parameters == nullptr || parameters->is_null())
    fields["parameters"] = object{{"type", "object"}, {"properties", object{}}};
  const value* description = find(fields, "description");
  if (description == nullptr || description->is_null()) fields["description"] = "";
  return value(std::move(prepared));
}

bool is_reserved(std::string_view key) {
  static constexpr std::string_view kReserved[] = {"messages", "tools", "add_generation_prompt",
                                                   "continue_final_message", "tokenize"};
  constexpr std::string_view kToken = "_token";
  return std::find(std::begin(kReserved), std::end(kReserved), key) != std::end(kReserved) ||
         (key.size() > kToken.size() && key.substr(key.size() - kToken.size()) == kToken);
}

// Does the request switch reasoning on or off? -1 = it does not say.
int reasoning_switch(const object& extra) {
  const value* reasoning = find(extra, "reasoning");
  if (reasoning != nullptr && reasoning->is_bool()) return reasoning->get_bool() ? 1 : 0;
  if (const value* thinking = find(extra, "thinking"); thinking != nullptr && thinking->is_object()) {
    const std::string_view type = text_or_empty(find(thinking->get_object(), "type"));
    if (type == "disabled") return 0;
    if (type == "enabled") return 1;
  }
  const value* enable = find(extra, "enable_thinking");
  if (enable != nullptr && enable->is_bool()) return enable->get_bool() ? 1 : 0;
  return -1;
}

bool effort_is_none(const object& extra) {
  std::string effort = text(text_or_empty(find(extra, "reasoning_effort")));
  std::transform(effort.begin(), effort.end(), effort.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return effort == "none";
}

object prepare_extra(const object& extra) {
  object variables;
  for (const auto& entry : extra) {
    const std::string_view key(entry.key().data(), entry.key().size());
    // `reasoning` as an object is another API's; only our boolean reaches the template. A null is "not given"
    // everywhere.
    if (!is_reserved(key) && key != "thinking" && key != "reasoning" && !entry.value().is_null())
      variables.emplace(key, entry.value());
  }
  const int wanted = reasoning_switch(extra);
  if (wanted >= 0) variables["reasoning"] = wanted == 1;
  if (wanted == 1 && variables.contains("enable_thinking")) variables["enable_thinking"] = true;
  if (wanted == 0 || (wanted < 0 && effort_is_none(extra))) variables["enable_thinking"] = false;
  return variables;
}

}  // namespace

Result<object> prepare_chat(const array& messages, const array& tools, const object& extra,
                            const ChatRenderOptions& options) {
  array prepared_messages, prepared_tools;
  for (size_t i = 0; i < messages.size(); ++i) {
    ASSIGN_OR_RETURN(object message, Message(messages[i], i, options).run());
    prepared_messages.push_back(std::move(message));
  }
  for (size_t i = 0; i < tools.size(); ++i) {
    ASSIGN_OR_RETURN(value tool, prepare_tool(tools[i], i));
    prepared_tools.push_back(std::move(tool));
  }
  chat::unify_call_ids(prepared_messages);
  object variables = prepare_extra(extra);
  variables["messages"] = std::move(prepared_messages);
  if (!prepared_tools.empty()) variables["tools"] = std::move(prepared_tools);
  if (options.escape_markers && !options.markers.empty()) {
    value all(std::move(variables));
    chat::MarkerBreaker(options.markers).break_all(all);
    variables = std::move(all.get_object());
  }
  variables["add_generation_prompt"] = options.add_generation_prompt;
  return variables;
}

}  // namespace boreas
