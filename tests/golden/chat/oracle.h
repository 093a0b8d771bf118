// The two oracle engines of the chat template tests, run as subprocesses over a file of cases: python3-jinja2
// (Debian's, /usr/bin/python3) and npm
// @huggingface/jinja (tests/npm). Used by the tests of this folder only.
#pragma once

#include <boost/json.hpp>
#include <ctime>
#include <string>
#include <vector>

namespace boreas {

// What strftime_now() shows in every test, in UTC: Tuesday, 5 August 2025, 14:03:09.
inline constexpr std::time_t kTestNow = 1754402589;

struct OracleCase {
  std::string source;
  boost::json::object variables;
};

struct OracleAnswer {
  bool ok = false;
  std::string text;  // rendered, or the error
};

// One answer per case. If the oracle is not installed, `missing` says so and there are no answers; if it is but fails,
// the test fails.
struct OracleAnswers {
  std::string missing;
  std::vector<OracleAnswer> answers;
};
OracleAnswers ask_jinja2(const std::vector<OracleCase>& cases);
OracleAnswers ask_huggingface(const std::vector<OracleCase>& cases);

// Our engine on the same case.
OracleAnswer ask_boreas(const OracleCase& test);

// The chat templates of an npm tokenizer package by name ("default" for a single one); empty if the package is not
// installed.
struct NamedTemplate {
  std::string name, source;
};
std::vector<NamedTemplate> npm_templates(const std::string& package);
std::string read_text_file(const std::string& path);

// Says which case differs and how, with both outputs cut around the first difference.
std::string describe_difference(const OracleCase& test, const OracleAnswer& ours, const OracleAnswer& theirs);

}  // namespace boreas
