// What a conversation in OpenAI's JSON needs before a chat template can render it, for the Command family and its
// relatives. The server calls prepare_chat() on requests whose shape it has checked, then ChatTemplate::render().
//
// Messages (every output message is a copy; unknown keys are kept):
//   role        developer -> system, function -> tool
//   content     null or absent -> ""; part types text, input_text, output_text, refusal -> {"type": "text",
//               "text": ...}; thinking parts of an assistant become its reasoning; any other part is an Error whose
//               param names it, as in "messages.3.content.1" (document parts are allowed in tool messages). Objects as
//               tool content become JSON text.
//   reasoning   the first non-empty of reasoning, reasoning_content, thinking is set under all three names, since
//               template generations differ in which they read; none -> none of the three
//   tool calls  arguments that are text are parsed to an object with key order kept: "" -> {}, malformed or not an
//               object -> {"_raw": text}. Ids are unique over the conversation afterwards: templates match a result to
//               the first call with its id, so a call whose id was used before gets a suffix, and a result follows the
//               most recent assistant message with an unanswered call of its id (several there: in order). A result
//               without id follows its name, else the first unanswered call. A legacy function_call becomes a tool
//               call.
// Tools         missing parameters -> {"type": "object", "properties": {}}, missing description -> ""
// Extra         chat_template_kwargs and whatever else the template shall see (documents, response_format,
//               reasoning_effort ...). Keys that are ours (messages, tools, add_generation_prompt,
//               continue_final_message, tokenize, every "*_token") are dropped. enable_thinking: bool and thinking:
//               {"type": "disabled" | "enabled"} become `reasoning` (an explicit boolean `reasoning` wins); when
//               reasoning is off, by these or by reasoning_effort "none", `enable_thinking` is false too, for the
//               templates that read that one.
//
// Markers: with escape_markers, no text from the request (messages, tools, documents, all of extra; keys included)
// holds the name of a control token afterwards: a backslash is put behind the first character of each occurrence,
// `<|END_TEXT|>` -> `<\|END_TEXT|>`, `<BOS_TOKEN>` -> `<\BOS_TOKEN>`, until none is left. Text parts that a template
// prints without separator are treated as one text, so a marker cannot be smuggled in pieces. Markers of fewer than 3
// bytes and markers of white space only cannot be broken this way and are left alone.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace boreas {

struct ChatRenderOptions {
  bool add_generation_prompt = true;
  bool escape_markers = true;        // special-token text in user/tool content is text
  std::vector<std::string> markers;  // the contents of the added tokens (Tokenizer); without them nothing is escaped
  // False for templates that take content as a string only (ChatTemplate::reads_content_parts): parts are joined with a
  // newline between them.
  bool keep_parts = true;
};

// The variables for ChatTemplate::render: messages, tools (absent if there are none), add_generation_prompt, and the
// rest of extra.
Result<boost::json::object> prepare_chat(const boost::json::array& messages, const boost::json::array& tools,
                                         const boost::json::object& extra, const ChatRenderOptions& options);

// JSON text -> value with exact numbers: whole numbers of 64 bits as they are, all others correctly rounded (the
// general parser may be off by one unit in the last place). Also for request bodies and tests. Errors say what and
// where.
Result<boost::json::value> parse_json_exact(std::string_view text, int depth_max = 128);

// One text with every marker broken, as described above.
std::string escape_markers(std::string_view text, const std::vector<std::string>& markers);

}  // namespace boreas
