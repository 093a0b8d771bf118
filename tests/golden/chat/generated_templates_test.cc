// Our engine against both oracles on random templates. BOREAS_CHAT_SEED and BOREAS_CHAT_CASES choose other ones.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "oracle.h"
#include "template_generator.h"

namespace boreas {
namespace {

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

// `forgiving`: the oracle goes on where Jinja2 raises, so a case that fails here is not held against it (the comparison
// with Jinja2 has it too).
void compare(Grammar grammar, const char* name, OracleAnswers (*ask)(const std::vector<OracleCase>&), uint64_t count,
             double rendered_min, bool forgiving = false) {
  const uint64_t seed = setting("BOREAS_CHAT_SEED", 1);
  count = setting("BOREAS_CHAT_CASES", count);
  std::vector<OracleCase> cases;
  for (uint64_t i = 0; i < count; ++i) cases.push_back(TemplateGenerator(seed * 1'000'003 + i, grammar).run());
  const OracleAnswers oracle = ask(cases);
  if (!oracle.missing.empty()) GTEST_SKIP() << oracle.missing;
  uint64_t rendered = 0, bytes = 0;
  int shown = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const OracleAnswer ours = ask_boreas(cases[i]);
    const OracleAnswer& theirs = oracle.answers[i];
    rendered += theirs.ok ? 1 : 0;
    bytes += theirs.ok ? theirs.text.size() : 0;
    if (ours.ok == theirs.ok && (!ours.ok || ours.text == theirs.text)) continue;
    if (forgiving && !ours.ok) continue;
    // Python prints the address of an object that has no text; we refuse.
    if (!ours.ok && theirs.ok && theirs.text.find(" object at 0x") != std::string::npos) continue;
    ADD_FAILURE() << "seed " << seed << ", case " << i << ": " << describe_difference(cases[i], ours, theirs);
    if (++shown == 5) break;
  }
  EXPECT_GE(static_cast<double>(rendered), rendered_min * static_cast<double>(count))
      << "the generator makes too many templates that fail";
  std::cout << name << ": " << count << " templates from seed " << seed << ", " << rendered << " render, " << bytes
            << " bytes compared\n";
}

TEST(GeneratedTemplates, WholeGrammarEqualsJinja2) {
  compare(Grammar::kPython, "jinja2, whole grammar", ask_jinja2, 500, 0.5);
}
TEST(GeneratedTemplatesFull, WholeGrammarEqualsJinja2) {
  compare(Grammar::kPython, "jinja2, whole grammar", ask_jinja2, 2000, 0.5);
}
TEST(GeneratedTemplates, SharedGrammarEqualsJinja2) {
  compare(Grammar::kShared, "jinja2, shared grammar", ask_jinja2, 1000, 0.9);
}
TEST(GeneratedTemplates, SharedGrammarEqualsHuggingFaceJinja) {
  compare(Grammar::kShared, "@huggingface/jinja, shared grammar", ask_huggingface, 1000, 0.9, true);
}

}  // namespace
}  // namespace boreas
