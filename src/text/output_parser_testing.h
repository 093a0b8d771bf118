// Shared by the tests and the fuzz target of the output parser: model outputs written as one string, cut into tokens in
// any way, run through a parser.
//
// In a script `^` and a letter stand for a marker token: T thinking, X text, A action, R response (with `/` for the
// closing one, as in ^/T), E end of turn, S start of turn, C chatbot, B bos. All else is ordinary text.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "text/output_parser.h"
#include "text/unicode.h"

namespace boreas::testing {

inline OutputMarkers test_markers() { return {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}; }
constexpr TokenId kTextToken = 100;

// The id of the marker at the front of `script`, with its length in bytes; -1 for text.
inline std::pair<TokenId, size_t> marker_at(std::string_view script) {
  if (script.empty() || script.front() != '^') return {-1, 0};
  constexpr std::string_view kNames[] = {"^T", "^/T", "^X", "^/X", "^A", "^/A",
                                         "^R", "^/R", "^E", "^S",  "^C", "^B"};  // in the order of test_markers
  for (TokenId i = 0; i < 12; ++i) {
    const std::string_view name = kNames[i];
    if (script.substr(0, name.size()) == name) return {i + 1, name.size()};
  }
  return {-1, 0};
}

// Bytes of the next token, given the text up to the next marker; at least 1.
using Cutter = std::function<size_t(std::string_view)>;
inline size_t cut_nothing(std::string_view text) { return text.size(); }
inline Cutter cut_every(size_t bytes) {
  return [bytes](std::string_view text) { return std::min(bytes, text.size()); };
}
inline Cutter cut_randomly(uint64_t seed, uint32_t longest) {
  return [prng = Prng(seed), longest](std::string_view text) mutable {
    return std::min<size_t>(1 + prng.below(longest), text.size());
  };
}

struct RunResult {
  ParsedOutput output;
  std::vector<OutputEvent> events;  // all, neighbours of one kind joined
  int reasoning_tokens = 0;
  int complete_calls = 0;
  bool stopped = false;
  std::string matched_stop;
  int64_t pushed = 0;
};

// What has to hold at any time; sets `problem` to what does not.
inline void check_events(const std::vector<OutputEvent>& events, std::string& problem) {
  for (const OutputEvent& event : events) {
    if (event.text.empty()) problem = "an empty event";
    if (find_invalid_utf8(event.text) != std::string_view::npos) problem = "a character cut or ill-formed";
  }
}

inline RunResult run_script(std::string_view script, const OutputParserOptions& options, OutputParser::End end,
                            Cutter cut, std::string* problem = nullptr) {
  OutputParser parser(test_markers(), options);
  RunResult result;
  std::string wrong;
  int64_t settled = 0;
  std::vector<OutputEvent> events;
  const auto take = [&] {
    check_events(events, wrong);
    if (parser.tokens_settled() < settled || parser.tokens_settled() > result.pushed) wrong = "tokens_settled";
    settled = parser.tokens_settled();
    result.output.add(events);
    for (OutputEvent& event : events) {
      const bool joins = !result.events.empty() && result.events.back().kind == event.kind &&
                         event.kind != OutputEvent::Kind::kToolCallStart &&
                         result.events.back().tool_index == event.tool_index;
      if (joins) {
        result.events.back().text += event.text;
      } else {
        result.events.push_back(std::move(event));
      }
    }
    events.clear();
  };
  size_t text_bytes = 0;  // up to the next marker, once that is known
  while (!script.empty()) {
    TokenId id = kTextToken;
    size_t bytes = 0;
    if (text_bytes == 0) {
      std::tie(id, bytes) = marker_at(script);
      if (id < 0) {
        id = kTextToken;
        for (text_bytes = 1; text_bytes < script.size() && marker_at(script.substr(text_bytes)).first < 0;)
          ++text_bytes;
      }
    }
    if (text_bytes > 0) {
      bytes = cut(script.substr(0, text_bytes));
      text_bytes -= bytes;
    }
    ++result.pushed;
    const bool done = parser.push(id, script.substr(0, bytes), events);
    if (done != parser.stopped_by_string()) wrong = "push and stopped_by_string differ";
    take();
    script.remove_prefix(bytes);
  }
  parser.finish(end, events);
  take();
  if (settled != result.pushed) wrong = "a token is not settled at the end";
  result.output.set_complete(parser);
  result.reasoning_tokens = parser.reasoning_tokens();
  result.complete_calls = parser.complete_tool_calls();
  result.stopped = parser.stopped_by_string();
  result.matched_stop = parser.matched_stop();
  if (problem != nullptr) *problem = wrong;
  return result;
}

// Empty if both runs gave the client the same; else what differs. Tokens differ with the cut and are not compared.
inline std::string difference(const RunResult& a, const RunResult& b) {
  if (a.output.reasoning != b.output.reasoning) return "reasoning: " + a.output.reasoning + " | " + b.output.reasoning;
  if (a.output.content != b.output.content) return "content: " + a.output.content + " | " + b.output.content;
  if (a.stopped != b.stopped || a.matched_stop != b.matched_stop)
    return "stop: " + a.matched_stop + " | " + b.matched_stop;
  if (a.complete_calls != b.complete_calls) return "complete calls";
  if (a.events.size() != b.events.size()) return "number of events";
  for (size_t i = 0; i < a.events.size(); ++i) {
    const OutputEvent& x = a.events[i];
    const OutputEvent& y = b.events[i];
    if (x.kind != y.kind || x.tool_index != y.tool_index || x.text != y.text || x.model_call_id != y.model_call_id) {
      return "event " + std::to_string(i) + ": " + x.text + " | " + y.text;
    }
  }
  return {};
}

// Runs the script whole, byte by byte and cut at random; empty if all agree and nothing is wrong.
inline std::string check_any_cut(std::string_view script, const OutputParserOptions& options, OutputParser::End end,
                                 uint64_t seed) {
  std::string problem;
  const RunResult whole = run_script(script, options, end, cut_nothing, &problem);
  if (!problem.empty()) return problem;
  for (const Cutter& cut : {cut_every(1), cut_randomly(seed, 6), cut_randomly(seed + 1, 40)}) {
    const std::string differs = difference(whole, run_script(script, options, end, cut, &problem));
    if (!problem.empty()) return problem;
    if (!differs.empty()) return differs;
  }
  return {};
}

// Every combination of the options, by number.
inline OutputParserOptions options_of(uint32_t bits) {
  OutputParserOptions options;
  options.starts_in_thinking = (bits & 1) == 0;
  options.starts_in_content = (bits & 6) == 6;
  options.tools_allowed = (bits & 24) != 24;
  options.parallel_tool_calls = (bits & 32) == 0;
  options.strip_citations = (bits & 64) == 0;
  options.include_stop_in_output = (bits & 128) != 0;
  if ((bits & 256) != 0) options.stop = {"stop", "\n\n", "o{"};
  if ((bits & 512) != 0) options.stop.push_back("\xC3\xA9");
  return options;
}

}  // namespace boreas::testing
