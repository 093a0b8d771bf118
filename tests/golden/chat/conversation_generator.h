// Random OpenAI conversations for the chat template tests: same seed, same conversation. Tool calls have unique ids and
// argument objects, as prepare_chat leaves them.
#pragma once

#include <boost/json.hpp>
#include <string>

#include "base/prng.h"

namespace boreas {

struct ConversationShape {
  bool parts = true;       // some content is a list of text parts
  bool tool_calls = true;  // tool calls and their results
  bool alternate = false;  // user and assistant take turns strictly, after at most one system message
  // No empty text, no white space at its ends, no <think>: @huggingface/jinja equates '' with false, and strips white
  // space whatever strip() names.
  bool tame = false;
};

class ConversationGenerator {
 public:
  ConversationGenerator(uint64_t seed, ConversationShape shape) : shape_(shape), prng_(seed) {}
  const ConversationShape& shape() const { return shape_; }

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

  ConversationShape shape_;
  Prng prng_;
  int next_id_ = 0;
};

}  // namespace boreas
