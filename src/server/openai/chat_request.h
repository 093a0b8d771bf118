// POST /v1/chat/completions: the request as a struct, every field checked. Messages and tools keep their JSON: their
// shape is checked here, their meaning is the chat format's (text/formats).
#pragma once

#include <boost/json.hpp>
#include <string>

#include "server/openai/generation_fields.h"

namespace boreas {

struct ChatRequest {
  GenerationFields generation;
  boost::json::array messages;  // not empty
  boost::json::array tools;
  bool tools_allowed = false;  // there are tools, and tool_choice is not "none"
  bool tool_required = false;  // tool_choice is "required" or names a tool
  std::string named_tool;      // that must be called; empty: none in particular
  bool strict_tools = false;   // some tool's calls must follow its schema
  bool parallel_tool_calls = true;
  bool include_reasoning = true;
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  bool logprobs = false;
  int32_t top_logprobs = 0;
  boost::json::object template_arguments;  // reasoning_effort, documents, chat_template_kwargs
};

ApiResult<ChatRequest> read_chat_request(boost::json::object&& body, const RequestRules& rules);

// Shape of messages and tools; problems go to reader.fail().
void check_messages(FieldReader& reader, const boost::json::array& messages);
void check_tools(FieldReader& reader, const boost::json::array& tools);
// What chat_template_kwargs may not set, because the server does. Also for the server's own default arguments.
void check_template_arguments(FieldReader& reader, const boost::json::object& arguments, const std::string& path);

}  // namespace boreas
