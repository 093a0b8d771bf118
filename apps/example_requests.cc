// See example_requests.h.
#include "example_requests.h"

#include <boost/algorithm/string/replace.hpp>
#include <utility>

namespace boreas {

namespace json = boost::json;

namespace {

json::object question(const std::string& model, const char* content) {
  return {{"model", model}, {"messages", json::array{json::object{{"role", "user"}, {"content", content}}}}};
}

}  // namespace

json::object example_chat(const std::string& model) {
  json::object body = question(model, "Hi");
  body["max_tokens"] = 64;
  return body;
}

json::object example_tool_call(const std::string& model) {
  json::object body = question(model, "What is the weather in Oslo?");
  body["tools"] = json::parse(R"([{"type": "function", "function": {"name": "get_weather", "parameters": {
      "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])");
  return body;
}

std::string curl_line(const std::string& url, bool with_key, const json::object& body) {
  std::string quoted = json::serialize(body);
  boost::replace_all(quoted, "'", R"('\'')");  // ends the quotation, a quoted quote, begins again
  return "curl " + url + "/v1/chat/completions" + (with_key ? " -H 'Authorization: Bearer YOUR_KEY'" : "") +
         " -H 'Content-Type: application/json' -d '" + quoted + "'";
}

}  // namespace boreas
