// Seeded prompt sets for `boreas bench serve`, one a kind of published benchmark, with texts of our own: nothing is
// downloaded. A kind has a shape (what such a prompt looks like) and lengths in tokens of prompt and answer.
//
// Prompts are made of words, so a length in tokens needs to know how many tokens the server's tokenizer and template
// make of them: TextScale, which the caller measures with two prompts of different lengths (see bench_serve.cc).
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"

namespace boreas {

// Tokens, log-normal around the median, cut to [min, max].
struct Lengths {
  double median, sigma;
  int32_t min, max;
};

enum class TextKind : uint8_t { kMaths, kScience, kChoice, kContest, kGraduate, kAgent, kDocument };

struct Workload {
  std::string_view name, about;
  TextKind kind;
  Lengths prompt;  // of the first turn
  Lengths answer;
  int32_t turns_min, turns_max;
  Lengths result;  // what a tool says between two turns
};

std::span<const Workload> workloads();
const Workload* find_workload(std::string_view name);  // null: none of that name

struct TextScale {
  double tokens_per_word = 1.4;  // a guess, for servers that do not tell usage
  double tokens_around = 10;     // of the template, for a prompt without words
};

struct Turn {
  size_t messages = 0;  // of the conversation's, from the first one on
  int32_t answer_tokens = 0;
};

struct Conversation {
  boost::json::array messages;  // as /v1/chat/completions wants them, with earlier answers
  boost::json::array tools;     // empty: none
  std::vector<Turn> turns;      // ascending; each ends before an answer
};

struct WorkloadOptions {
  uint64_t seed = 1;
  int32_t requests = 1;           // turns of all conversations
  int32_t prompt_tokens = 0;      // of first turns instead of the workload's; 0: the workload's
  int32_t output_tokens = 0;      // of every answer, likewise
  int32_t answer_tokens_max = 0;  // caps the workload's answers; 0: none
  TextScale scale;
};

// The same options, the same conversations, everywhere.
std::vector<Conversation> make_conversations(const Workload& workload, const WorkloadOptions& options);

// A conversation of one turn whose texts have about so many words, asking for one token; what measures a scale.
Conversation make_probe(const Workload& workload, int32_t words, uint64_t seed);
// Words in all messages: parts between white space.
int64_t words_of(const Conversation& conversation);

// About so many words of that kind, at least what its frame needs.
std::string make_text(TextKind kind, int64_t words, Prng& prng);
int64_t count_words(std::string_view text);

}  // namespace boreas
