// Random OpenAI conversations for the chat template tests: same seed, same conversation. Tool calls have unique ids and argument objects, as
// prepare_chat leaves them.
#pragma once

#include <boost/json.hpp>
#include <string>

#include "base/prng.h"

namespace boreas {

struct ConversationShape {
  bool parts = true;       // some content is a list of text parts
  bool tool_calls = true;  // tool calls and their results
  bool alternate = false;  // user and assistant take turns strictly, after at most one system message
};

class ConversationGenerator {
 public:
  ConversationGenerator(uint64_t seed, ConversationShape shape) : prng_(seed), shape_(shape) {}

  boost::json::array messages();
  boost::json::array tools(uint32_t count);
  boost::json::array documents();
  std::string text();
  bool chance(uint32_t percent) { return prng_.below(100) < percent; }
  uint32_t below(uint32_t bound) { return prng_.below(bound); }

 private:
  boost::json::value content();
  boost::json::value any_json(int depth);
  void assistant(boost::json::array& messages, bool last);

  Prng prng_;
  ConversationShape shape_;
  int next_id_ = 0;
};

}  // namespace boreas
