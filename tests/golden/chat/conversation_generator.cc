#include "conversation_generator.h"

namespace boreas {

using boost::json::array;
using boost::json::object;
using boost::json::value;

std::string ConversationGenerator::text() {
  static constexpr const char* kPieces[] = {"Hello",
                                            " ",
                                            "\n",
                                            "  indented\n",
                                            "Zürich",
                                            "日本語",
                                            "\"quoted\"",
                                            "it's",
                                            "<b>&amp;</b>",
                                            "\\n",
                                            "{% if %}",
                                            "{{ x }}",
                                            "def f(x):\n    return x",
                                            "42",
                                            "\t",
                                            "é",
                                            "</think>",
                                            "<think>x</think>",
                                            "1.5",
                                            "a",
                                            "b",
                                            "c d",
                                            "\r\n",
                                            "```json\n{}\n```",
                                            "<tool_response>",
                                            "\x7f",
                                            "\xe2\x80\xa8",
                                            "…"};
  std::string out;
  for (uint32_t count = below(6); count > 0; --count) out += kPieces[below(static_cast<uint32_t>(std::size(kPieces)))];
  if (!shape_.tame) return out;
  out = "<" + out + ">";
  for (size_t at = out.find("think>"); at != std::string::npos; at = out.find("think>")) out.erase(at, 1);
  return out;
}

value ConversationGenerator::content() {
  if (!shape_.parts || chance(70)) return value(text());
  array parts;
  for (uint32_t count = below(4); count > 0; --count) parts.push_back(object{{"type", "text"}, {"text", text()}});
  return parts;
}

value ConversationGenerator::any_json(int depth) {
  switch (below(depth > 0 ? 9 : 6)) {
    case 0:
      return nullptr;
    case 1:
      return chance(50);
    case 2:
      return prng_.between(-1'000'000, 1'000'000);
    case 3:
      return static_cast<double>(prng_.between(-1000, 1000)) / 8 + 0.0625;
    case 4:
      return prng_.between(-(1LL << 52), 1LL << 52);
    case 5:
      return value(text());
    case 6: {
      array list;
      for (uint32_t count = below(4); count > 0; --count) list.push_back(any_json(depth - 1));
      return list;
    }
    default: {
      object fields;
      for (uint32_t count = below(4); count > 0; --count)
        fields["k" + std::to_string(below(30)) + (chance(20) ? "é\"" : "")] = any_json(depth - 1);
      return fields;
    }
  }
}

array ConversationGenerator::tools(uint32_t count) {
  array result;
  for (uint32_t i = 0; i < count; ++i) {
    object properties;
    for (uint32_t fields = below(5); fields > 0; --fields) {
      properties["field" + std::to_string(below(50))] =
          object{{"type", chance(50) ? "string" : "integer"}, {"description", text()}};
    }
    const object parameters = {{"type", "object"}, {"properties", properties}, {"required", array{}}};
    result.push_back(object{
        {"type", "function"},
        {"function", {{"name", "tool_" + std::to_string(i)}, {"description", text()}, {"parameters", parameters}}}});
  }
  return result;
}

array ConversationGenerator::documents() {
  array result;
  for (uint32_t count = 1 + below(3); count > 0; --count) {
    const object fields = {{"title", text()}, {"snippet", text()}};
    result.push_back(chance(50) ? object{{"data", fields}} : fields);
  }
  return result;
}

void ConversationGenerator::assistant(array& messages, bool last) {
  object message = {{"role", "assistant"}, {"content", content()}};
  if (chance(60)) {
    const std::string reasoning = text();
    for (const char* key : {"reasoning", "reasoning_content", "thinking"}) {
      if (!reasoning.empty()) message[key] = reasoning;
    }
  }
  array results;
  if (shape_.tool_calls && chance(50)) {
    array calls;
    for (uint32_t count = 1 + below(3); count > 0; --count) {
      const std::string id = "call_" + std::to_string(next_id_++);
      object arguments;
      for (uint32_t fields = below(4); fields > 0; --fields) arguments["a" + std::to_string(below(9))] = any_json(2);
      calls.push_back(object{{"id", id},
                             {"type", "function"},
                             {"function", {{"name", "tool_" + std::to_string(below(5))}, {"arguments", arguments}}}});
      if (!chance(10)) results.push_back(object{{"role", "tool"}, {"tool_call_id", id}, {"content", content()}});
    }
    message["tool_calls"] = calls;
  }
  messages.push_back(message);
  if (!last) {
    for (value& result : results) messages.push_back(std::move(result));
  }
}

array ConversationGenerator::messages() {
  array result;
  if (chance(50)) result.push_back(object{{"role", "system"}, {"content", content()}});
  const uint32_t turns = 1 + below(6);
  for (uint32_t turn = 0; turn < turns; ++turn) {
    result.push_back(object{{"role", "user"}, {"content", content()}});
    if (!shape_.alternate && chance(10)) result.push_back(object{{"role", "user"}, {"content", content()}});
    if (!shape_.alternate && chance(10)) result.push_back(object{{"role", "system"}, {"content", content()}});
    if (turn + 1 < turns || chance(40)) assistant(result, false);
  }
  return result;
}

}  // namespace boreas
