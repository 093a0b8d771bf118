// What `boreas serve` prints to try: requests as curl lines that a shell takes as they are.
#pragma once

#include <boost/json.hpp>
#include <string>

namespace boreas {

// Bodies for /v1/chat/completions, of the model of that name.
boost::json::object example_chat(const std::string& model);
boost::json::object example_tool_call(const std::string& model);

// url: of the server, without a path. with_key: the server wants one, for which YOUR_KEY stands.
std::string curl_line(const std::string& url, bool with_key, const boost::json::object& body);

}  // namespace boreas
