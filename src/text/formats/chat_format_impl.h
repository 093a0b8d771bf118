// The steps of prepare_chat, private to the chat_*.cc files beside it.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/formats/chat_format.h"

namespace boreas::chat {

// Python's json.dumps spacing: what a template's tojson would print.
std::string to_text(const boost::json::value& value);

// Arguments of one call: an object, whatever the client sent.
boost::json::object arguments_object(const boost::json::value* arguments);

// Makes the ids of all calls unique and points the results at them (see chat_format.h). Messages are objects;
// tool_calls, where present, are arrays of objects with an object `function`.
void unify_call_ids(boost::json::array& messages);

// Breaks the names of control tokens in text (see chat_format.h).
class MarkerBreaker {
 public:
  explicit MarkerBreaker(const std::vector<std::string>& markers);
  std::string broken(std::string_view text) const;
  // In every string and key below `value`; text parts in a row count as one text.
  void break_all(boost::json::value& value) const;

 private:
  bool starts_with_marker(std::string_view text) const;
  std::vector<size_t> break_points(std::string_view text) const;
  void break_pieces(std::vector<std::string>& pieces) const;
  void break_runs(boost::json::array& parts) const;

  std::vector<std::string> markers_;  // sorted; none begins with another: breaking the shorter one breaks both
  bool first_bytes_[256] = {};
};

}  // namespace boreas::chat
