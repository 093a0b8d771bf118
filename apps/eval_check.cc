// read_check (eval_score.h): a check object of a held-out file, every field looked at; and a reference's raw output.
#include <utility>

#include "eval_score.h"

namespace boreas {

namespace json = boost::json;

namespace {

constexpr size_t kListMax = 10'000;  // entries of one list of a check

Error wrong_field(const std::string& path, const std::string& expected) {
  return Error{"'" + path + "' must be " + expected, path};
}

Result<const json::array*> list_at(const json::object& object, const std::string& key, const std::string& path) {
  const json::value* value = object.if_contains(key);
  const json::array* list = value ? value->if_array() : nullptr;
  if (!list || list->size() > kListMax) {
    return wrong_field(path + "." + key, "a list of at most " + std::to_string(kListMax) + " entries");
  }
  return list;
}

Result<std::vector<std::string>> strings_at(const json::object& object, const std::string& key,
                                            const std::string& path) {
  ASSIGN_OR_RETURN(const json::array* list, list_at(object, key, path));
  std::vector<std::string> strings;
  for (const json::value& entry : *list) {
    if (!entry.is_string()) {
      return wrong_field(path + "." + key + "." + std::to_string(strings.size()), "a string");
    }
    strings.emplace_back(entry.get_string());
  }
  return strings;
}

Status read_calls(const json::object& object, Check& check) {
  ASSIGN_OR_RETURN(const json::array* list, list_at(object, "calls", "check"));
  for (const json::value& entry : *list) {
    const std::string path = "check.calls." + std::to_string(check.calls.size());
    const json::object* call = entry.if_object();
    if (!call) return wrong_field(path, "an object");
    const json::value* name = call->if_contains("name");
    const json::value* arguments = call->if_contains("arguments");
    if (!name || !name->is_string()) return wrong_field(path + ".name", "a string");
    if (!arguments) return wrong_field(path + ".arguments", "present");
    check.calls.push_back({std::string(name->get_string()), *arguments});
  }
  return Ok{};
}

Status read_value(const json::object& object, Check& check) {
  const json::value* value = object.if_contains("value");
  if (!value) return wrong_field("check.value", "present");
  if (check.type == Check::Type::kNumber && !value->is_number()) return wrong_field("check.value", "a number");
  check.value = *value;
  return Ok{};
}

Status read_accepted(const json::object& object, Check& check) {
  ASSIGN_OR_RETURN(check.accepted, strings_at(object, "accepted", "check"));
  return Ok{};
}

Status read_words(const json::object& object, Check& check) {
  ASSIGN_OR_RETURN(check.all, strings_at(object, "all", "check"));
  ASSIGN_OR_RETURN(check.none, strings_at(object, "none", "check"));
  return Ok{};
}

Status read_cases(const json::object& object, Check& check) {
  const json::value* function = object.if_contains("function");
  if (!function || !(function->is_string() || function->is_null())) {
    return wrong_field("check.function", "a string or null");
  }
  if (function->is_string()) check.function = std::string(function->get_string());
  ASSIGN_OR_RETURN(const json::array* cases, list_at(object, "cases", "check"));
  for (const json::value& entry : *cases) {
    const std::string path = "check.cases." + std::to_string(check.arguments.size());
    const json::object* one = entry.if_object();
    if (!one) return wrong_field(path, "an object");
    ASSIGN_OR_RETURN(const json::array* arguments, list_at(*one, "args", path));
    const json::value* returned = one->if_contains("returns");
    if (!returned) return wrong_field(path + ".returns", "present");
    check.arguments.emplace_back(*arguments);
    check.returned.emplace_back(*returned);
  }
  return Ok{};
}

struct CheckKind {
  std::string_view name;
  Check::Type type;
  Status (*read)(const json::object&, Check&);
};
constexpr CheckKind kKinds[] = {
    {"tool_calls", Check::Type::kToolCalls, read_calls},
    {"number", Check::Type::kNumber, read_value},
    {"equals", Check::Type::kEquals, read_accepted},
    {"contains", Check::Type::kContains, read_words},
    {"json", Check::Type::kJson, read_value},
    {"command", Check::Type::kCommand, read_accepted},
    {"python", Check::Type::kPython, read_cases},
};

// The part of `text` before the first `marker`; all of it without one.
std::string_view before(std::string_view text, std::string_view marker) { return text.substr(0, text.find(marker)); }

std::optional<std::vector<AnswerCall>> read_action(std::string_view action) {
  const std::optional<json::value> parsed = parse_json(action);
  if (!parsed || !parsed->is_array()) return std::nullopt;
  std::vector<AnswerCall> calls;
  for (const json::value& entry : parsed->get_array()) {
    const json::object* call = entry.if_object();
    const json::value* name = call ? call->if_contains("tool_name") : nullptr;
    const json::value* arguments = call ? call->if_contains("parameters") : nullptr;
    if (!name || !name->is_string() || !arguments) return std::nullopt;
    calls.push_back({std::string(name->get_string()), *arguments});
  }
  return calls;
}

}  // namespace

Result<Check> read_check(const json::value& value) {
  const json::object* object = value.if_object();
  if (!object) return wrong_field("check", "an object");
  const json::value* type = object->if_contains("type");
  const std::string_view name = type && type->is_string() ? std::string_view(type->get_string()) : std::string_view();
  for (const CheckKind& kind : kKinds) {
    if (kind.name != name) continue;
    Check check;
    check.type = kind.type;
    RETURN_IF_ERROR(kind.read(*object, check));
    return check;
  }
  return wrong_field("check.type", "one of tool_calls, number, equals, contains, json, command, python");
}

Answer parse_marked_output(std::string_view output) {
  constexpr std::string_view kEndThinking = "<|END_THINKING|>";
  constexpr std::string_view kStartAction = "<|START_ACTION|>";
  constexpr std::string_view kStartText = "<|START_TEXT|>";
  Answer answer;
  std::string_view body = output;
  if (const size_t end = output.find(kEndThinking); end != std::string_view::npos) {
    answer.reasoning = output.substr(0, end);
    body = output.substr(end + kEndThinking.size());
  }
  if (const size_t start = body.find(kStartAction); start != std::string_view::npos) {
    const std::string_view action = before(body.substr(start + kStartAction.size()), "<|END_ACTION|>");
    if (std::optional<std::vector<AnswerCall>> calls = read_action(action)) {
      answer.calls = std::move(*calls);
    } else {
      answer.content = action;
    }
    return answer;
  }
  if (const size_t start = body.find(kStartText); start != std::string_view::npos) {
    body = body.substr(start + kStartText.size());
  }
  answer.content = before(before(body, "<|END_TEXT|>"), "<|END_OF_TURN_TOKEN|>");
  return answer;
}

}  // namespace boreas
