// What holds for any output: equal results for any cut into tokens, valid UTF-8, complete calls that parse; exact
// results for well-formed ones; a megabyte of anything is read without looking twice.
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "text/output_parser.h"
#include "text/output_parser_testing.h"

namespace boreas {
namespace {

using testing::options_of;
using testing::RunResult;
using End = OutputParser::End;

constexpr End kEnds[] = {End::kStop, End::kLength, End::kAbort};

// Random text of letters, blanks and characters of every length, without a blank at its ends.
std::string random_text(Prng& prng, uint32_t pieces_max) {
  const std::string_view pieces[] = {"word",         " ",        "\n",           "[",
                                     "{\"a\": 1}",   "\xC3\xA9", "\xE4\xBD\xA0", "stopp",
                                     "<|END_TEXT|>", "</co",     "<c",           "\xF0\x9F\x98\x80",
                                     "\t",           "tool_name"};
  std::string text = "x";
  for (uint32_t left = prng.below(pieces_max + 1); left > 0; --left) text += pieces[prng.below(std::size(pieces))];
  return text + ".";
}

std::string json_quoted(const std::string& text) { return boost::json::serialize(boost::json::string(text)); }

std::string random_json(Prng& prng, int depth) {
  switch (prng.below(depth > 0 ? 7 : 5)) {
    case 0:
      return std::to_string(prng.between(-100000, 100000)) + (prng.below(2) == 0 ? "" : ".25e1");
    case 1:
      return prng.below(2) == 0 ? "true" : "null";
    case 2:
      return "\"\\u00e9\\\"}]\"";
    case 3:
    case 4:
      return json_quoted(random_text(prng, 4));
    case 5: {
      std::string array = "[";
      for (uint32_t left = prng.below(4); left > 0; --left) {
        array += (array.size() > 1 ? ", " : "") + random_json(prng, depth - 1);
      }
      return array + "]";
    }
    default: {
      std::string object = "{";
      for (uint32_t left = prng.below(4); left > 0; --left) {
        object +=
            (object.size() > 1 ? ",\n " : "") + json_quoted(random_text(prng, 2)) + ": " + random_json(prng, depth - 1);
      }
      return object + "}";
    }
  }
}

struct Written {
  std::string script;
  ParsedOutput expected;
};

// A well-formed output and what a client must see of it.
Written well_formed(Prng& prng) {
  Written w;
  w.expected.reasoning = random_text(prng, 8);
  w.script = w.expected.reasoning + "^/T";
  const uint32_t body = prng.below(3);
  if (body != 1) {
    w.expected.content = random_text(prng, 12);
    w.script += "^X" + w.expected.content + "^/X";
  }
  if (body != 0) {
    w.script += "^A[\n";
    const uint32_t calls = 1 + prng.below(3);
    for (uint32_t i = 0; i < calls; ++i) {
      ParsedOutput::Call call{std::to_string(i), random_text(prng, 2), "{\"v\": " + random_json(prng, 4) + "}", true};
      w.script += "    {\"tool_call_id\": \"" + call.model_call_id + "\", \"tool_name\": " + json_quoted(call.name) +
                  ", \"parameters\": " + call.arguments + "}" + (i + 1 < calls ? ",\n" : "\n]");
      w.expected.calls.push_back(call);
    }
    w.script += "^/A";
  }
  w.script += "^E";
  return w;
}

// Deletes, doubles, swaps and inserts bytes and markers, or cuts the end off.
std::string corrupted(Prng& prng, std::string script) {
  const std::string_view inserted[] = {"^T",
                                       "^/T",
                                       "^X",
                                       "^/X",
                                       "^A",
                                       "^/A",
                                       "^R",
                                       "^E",
                                       "^S",
                                       "^C",
                                       "\xFF",
                                       "\xE4\xBD",
                                       "{",
                                       "}",
                                       "[",
                                       "]",
                                       "\"",
                                       "\\",
                                       ",",
                                       ":",
                                       "<co>",
                                       "</co: 0:[1]>",
                                       "\\ud83d",
                                       "null",
                                       "\"tool_name\": \"z\"",
                                       "\n",
                                       " stop",
                                       "\"parameters\":"};
  for (uint32_t left = 1 + prng.below(5); left > 0 && !script.empty(); --left) {
    const size_t at = prng.below(static_cast<uint32_t>(script.size()));
    switch (prng.below(4)) {
      case 0:
        script.erase(at, 1 + prng.below(6));
        break;
      case 1:
        script.insert(at, script.substr(at / 2, prng.below(30)));
        break;
      case 2:
        if (prng.below(4) == 0) script.resize(at);
        break;
      default:
        script.insert(at, inserted[prng.below(std::size(inserted))]);
    }
  }
  return script;
}

TEST(OutputParserProperty, WellFormedOutputsComeOutExactly) {
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    const Written w = well_formed(prng);
    for (const testing::Cutter& cut :
         {testing::cut_every(1), testing::cut_randomly(seed, 9), testing::Cutter(testing::cut_nothing)}) {
      std::string problem;
      const RunResult r = testing::run_script(w.script, {}, End::kStop, cut, &problem);
      ASSERT_EQ(problem, "");
      ASSERT_EQ(r.output.reasoning, w.expected.reasoning);
      ASSERT_EQ(r.output.content, w.expected.content);
      ASSERT_EQ(r.output.calls.size(), w.expected.calls.size()) << w.script;
      for (size_t i = 0; i < r.output.calls.size(); ++i) {
        ASSERT_EQ(r.output.calls[i].name, w.expected.calls[i].name);
        ASSERT_EQ(r.output.calls[i].model_call_id, w.expected.calls[i].model_call_id);
        ASSERT_EQ(r.output.calls[i].arguments, w.expected.calls[i].arguments);
        ASSERT_TRUE(r.output.calls[i].complete) << w.script;
      }
    }
  }
}

TEST(OutputParserProperty, CorruptedOutputsDoNotDependOnTheCut) {
  boost::json::parse_options deep;
  deep.max_depth = 2000;
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    const std::string script = corrupted(prng, well_formed(prng).script);
    const testing::RunResult r =
        testing::run_script(script, options_of(prng.next_u32()), End::kStop, testing::cut_nothing);
    for (const ParsedOutput::Call& call : r.output.calls) {
      // RFC 8259 allows an escaped half of a surrogate pair, Boost.JSON does not.
      if (!call.complete || call.arguments.find("\\ud83d") != std::string::npos) continue;
      boost::system::error_code error;
      const boost::json::value value = boost::json::parse(call.arguments, error, {}, deep);
      ASSERT_TRUE(!error && value.is_object()) << error.message() << ": " << call.arguments;
    }
    const End end = kEnds[prng.below(3)];
    ASSERT_EQ(testing::check_any_cut(script, options_of(prng.next_u32()), end, seed), "") << script;
  }
}

TEST(OutputParserProperty, AMegabyteOfAnything) {
  constexpr size_t kBytes = 1 << 20;
  const auto repeated = [](std::string_view unit) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    return text;
  };
  const std::string call = "^/T^A[{\"tool_name\": \"a\", \"parameters\": ";
  const std::string stop = std::string(4000, 'o') + "{";
  const std::string scripts[] = {
      repeated(" "),
      "x" + repeated("\n") + "x",
      "^/T^X" + repeated(" x"),
      "^/T^X" + repeated("<co>"),
      "^/T^X" + repeated("</co: 0:[1"),
      "^/T^X" + repeated("</co: " + std::string(1100, '1')),
      "^/T^X" + repeated("o"),
      "^/T^X" + repeated("\xF0\x9F\x98"),
      repeated("^/T^X^T^A"),
      "^/T^A" + repeated("{"),
      "^/T^A" + repeated("[{\"tool_name\": \""),
      "^/T^A" + repeated("{\"tool_name\":\"a\"}"),
      "^/T^A" + repeated("^A{\"x\""),
      call + repeated("["),
      call + repeated("{\"a\":"),
      call + std::string(1000, '{') + repeated("]"),
      call + std::string(500, '[') + repeated("{]"),
      call + "\"" + repeated("\\ud83d"),
      call + repeated("nul"),
      "^/T^A[{\"parameters\": [" + repeated("0,"),
      "^/T^A[{\"" + repeated("k"),
  };
  const auto check = [&](const std::string& script, OutputParserOptions options) {
    options.stop = {stop};
    std::string problem;
    const RunResult whole = testing::run_script(script, options, End::kStop, testing::cut_nothing, &problem);
    ASSERT_EQ(problem, "") << script.substr(0, 60);
    const RunResult cut = testing::run_script(script, options, End::kStop, testing::cut_every(3), &problem);
    ASSERT_EQ(problem, "") << script.substr(0, 60);
    ASSERT_EQ(testing::difference(whole, cut), "") << script.substr(0, 60);
  };
  for (const std::string& script : scripts) check(script, {});
  OutputParserOptions reasoning_off;
  reasoning_off.starts_in_thinking = false;
  check(repeated("held back "), reasoning_off);
}

}  // namespace
}  // namespace boreas
