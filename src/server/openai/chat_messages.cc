// The shape of messages and tools in a chat request. Lenient where agents are: malformed arguments in the history,
// results without calls, unknown keys and roles in any order are all taken; a wrong type never is.
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "server/openai/chat_request.h"

namespace boreas {

namespace json = boost::json;

namespace {

constexpr size_t kNoLimit = ~size_t{0};
constexpr size_t kToolNameBytesMax = 128;

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> choices) {
  return std::find(choices.begin(), choices.end(), text) != choices.end();
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

void check_part(FieldReader& reader, const json::value& part, const std::string& path, bool of_tool) {
  if (!part.is_object()) {
    return reader.fail(
        invalid_value(path, "'" + path + "' must be an object, not " + std::string(json_kind(part)) + "."));
  }
  FieldReader fields(part.get_object(), path + ".");
  const std::optional<std::string_view> type = fields.string("type", kNoLimit);
  if (!type && !fields.error()) fields.fail(missing_parameter(path + ".type"));
  if (fields.error()) return reader.fail(*fields.error());
  std::string_view text_key;
  if (is_one_of(*type, {"text", "input_text", "output_text"})) text_key = "text";
  if (is_one_of(*type, {"refusal", "thinking"})) text_key = *type;
  if (text_key.empty()) {
    if (of_tool && *type == "document") return;
    return reader.fail(unsupported_value(
        path, "'" + path + "': content of type '" + echo_text(*type) + "' is not supported; only text is."));
  }
  const bool given = fields.string(text_key, kNoLimit).has_value();
  if (!given && !fields.error()) fields.fail(missing_parameter(path + "." + std::string(text_key)));
  if (fields.error()) reader.fail(*fields.error());
}

void check_content(FieldReader& reader, FieldReader& message, std::string_view role) {
  const json::value* content = message.find("content");
  const std::string path = message.path("content");
  if (!content || content->is_string()) return;
  const bool of_tool = role == "tool" || role == "function";
  if (of_tool && content->is_object()) return;
  if (!content->is_array()) {
    return reader.fail(invalid_value(
        path, "'" + path + "' must be a string or an array of parts, not " + std::string(json_kind(*content)) + "."));
  }
  const json::array& parts = content->get_array();
  for (size_t i = 0; i < parts.size(); ++i) check_part(reader, parts[i], path + "." + std::to_string(i), of_tool);
}

void check_call(FieldReader& reader, const json::value& call, const std::string& path) {
  if (!call.is_object()) {
    return reader.fail(
        invalid_value(path, "'" + path + "' must be an object, not " + std::string(json_kind(call)) + "."));
  }
  FieldReader fields(call.get_object(), path + ".");
  fields.string("id", kNoLimit);
  if (const auto type = fields.string("type", kNoLimit); type && *type != "function") {
    fields.fail(unsupported_value(path + ".type", "'" + path + ".type' must be \"function\"."));
  }
  const json::object* function = fields.object("function");
  if (!function && !fields.error()) fields.fail(missing_parameter(path + ".function"));
  if (fields.error()) return reader.fail(*fields.error());
  FieldReader inner(*function, path + ".function.");
  if (!inner.string("name", kNoLimit) && !inner.error()) inner.fail(missing_parameter(path + ".function.name"));
  const json::value* arguments = inner.find("arguments");
  if (arguments && !arguments->is_string() && !arguments->is_object()) {
    inner.fail(invalid_value(path + ".function.arguments", "'" + path + ".function.arguments' must be a string, not " +
                                                               std::string(json_kind(*arguments)) + "."));
  }
  if (inner.error()) reader.fail(*inner.error());
}

void check_message(FieldReader& reader, const json::value& message, const std::string& path) {
  if (!message.is_object()) {
    return reader.fail(
        invalid_value(path, "'" + path + "' must be an object, not " + std::string(json_kind(message)) + "."));
  }
  FieldReader fields(message.get_object(), path + ".");
  const std::optional<std::string_view> given = fields.string("role", kNoLimit);
  if (!given && !fields.error()) fields.fail(missing_parameter(path + ".role"));
  if (fields.error()) return reader.fail(*fields.error());
  const std::string role = lower_case(*given);
  if (!is_one_of(role, {"system", "developer", "user", "assistant", "tool", "function"})) {
    return reader.fail(invalid_value(path + ".role", "'" + path + ".role' is '" + echo_text(*given) +
                                                         "'; known are system, developer, user, assistant and tool."));
  }
  check_content(reader, fields, role);
  for (const char* key : {"reasoning", "reasoning_content"}) fields.string(key, kNoLimit);
  if (role == "tool") fields.string("tool_call_id", kNoLimit);
  if (role == "assistant") {
    if (const json::array* calls = fields.array("tool_calls", kNoLimit)) {
      for (size_t i = 0; i < calls->size() && !reader.error(); ++i) {
        check_call(reader, (*calls)[i], path + ".tool_calls." + std::to_string(i));
      }
    }
  }
  if (fields.error()) reader.fail(*fields.error());
}

void check_tool(FieldReader& reader, const json::value& tool, const std::string& path,
                std::unordered_set<std::string>& names) {
  if (!tool.is_object()) {
    return reader.fail(
        invalid_value(path, "'" + path + "' must be an object, not " + std::string(json_kind(tool)) + "."));
  }
  FieldReader fields(tool.get_object(), path + ".");
  if (const auto type = fields.string("type", kNoLimit); type && *type != "function") {
    fields.fail(unsupported_value(path + ".type", "'" + path + "': tools of type '" + echo_text(*type) +
                                                      "' are not supported; only functions are."));
  }
  const json::object* function = fields.object("function");
  if (!function && !fields.error()) fields.fail(missing_parameter(path + ".function"));
  if (fields.error()) return reader.fail(*fields.error());
  const std::string prefix = path + ".function.";
  FieldReader inner(*function, prefix);
  const std::optional<std::string_view> name = inner.string("name", kToolNameBytesMax);
  if (!name && !inner.error()) inner.fail(missing_parameter(prefix + "name"));
  if (name) {
    const bool known = std::all_of(name->begin(), name->end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
             c == '.';
    });
    if (name->empty() || !known) {
      inner.fail(invalid_value(prefix + "name", "'" + prefix + "name' must be letters, digits, '_', '-' or '.'."));
    } else if (!names.emplace(*name).second) {
      inner.fail(invalid_value(prefix + "name", "There are two tools with the name '" + std::string(*name) + "'."));
    }
  }
  inner.string("description", kNoLimit);
  inner.object("parameters");
  inner.boolean("strict");
  if (inner.error()) reader.fail(*inner.error());
}

}  // namespace

void check_messages(FieldReader& reader, const json::array& messages) {
  for (size_t i = 0; i < messages.size() && !reader.error(); ++i) {
    check_message(reader, messages[i], "messages." + std::to_string(i));
  }
}

void check_tools(FieldReader& reader, const json::array& tools) {
  std::unordered_set<std::string> names;
  for (size_t i = 0; i < tools.size() && !reader.error(); ++i) {
    check_tool(reader, tools[i], "tools." + std::to_string(i), names);
  }
}

}  // namespace boreas
