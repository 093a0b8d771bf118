#include "text/grammar/automaton.h"

#include <gtest/gtest.h>

#include <set>

#include "base/prng.h"
#include "text/json_scan.h"

namespace boreas::grammar {
namespace {

std::string utf8(uint32_t code) {
  std::string out;
  append_utf8(code, out);
  return out;
}

TEST(AutomatonTest, Utf8RangesHoldTheirCharactersAndNoOthers) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Prng prng(kSeed);
  const uint32_t edges[] = {0,      0x7F,   0x80,   0x7FF,   0x800,   0xFFF,   0x1000,  0xD7FF,
                            0xE000, 0xFFFD, 0xFFFF, 0x10000, 0x3FFFF, 0x40000, 0x10FFFF};
  for (int round = 0; round < 300; ++round) {
    const auto code = [&] {
      const uint32_t near = edges[prng.below(std::size(edges))] + prng.below(5);
      return std::min(prng.below(2) ? near : prng.below(0x110000), 0x10FFFFu);
    };
    uint32_t low = code();
    uint32_t high = code();
    if (low > high) std::swap(low, high);
    WorkBudget budget;
    Nfa nfa(budget);
    const int32_t start = nfa.add_state();
    const int32_t accept = nfa.add_state();
    nfa.add_utf8(start, low, high, accept);
    const Dfa dfa = *determinise(nfa, start, accept);
    for (int i = 0; i < 60; ++i) {
      uint32_t probe = code();
      if (i < 8) probe = std::min((i < 4 ? low : high) + static_cast<uint32_t>(i % 4) - 2, 0x10FFFFu);
      if (probe >= 0xD800 && probe <= 0xDFFF) continue;
      EXPECT_EQ(dfa.accepts(utf8(probe)), probe >= low && probe <= high) << low << ".." << high << ": " << probe;
    }
  }
}

TEST(AutomatonTest, SetsOfTexts) {
  constexpr uint64_t kSeed = 12;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Prng prng(kSeed);
  for (int round = 0; round < 200; ++round) {
    const auto text = [&] {
      std::string out;
      for (uint32_t i = prng.below(5); i > 0; --i) out += static_cast<char>('a' + prng.below(3));
      return out;
    };
    std::set<std::string> left, right;
    for (uint32_t i = prng.below(12); i > 0; --i) left.insert(text());
    for (uint32_t i = prng.below(12); i > 0; --i) right.insert(text());
    WorkBudget budget;
    const Dfa a = *one_of({left.begin(), left.end()}, budget);
    const Dfa b = *one_of({right.begin(), right.end()}, budget);
    const Dfa both = *intersect(a, b, budget);
    const Dfa only = *subtract(a, b, budget);
    bool any_both = false;
    for (int i = 0; i < 100; ++i) {
      const std::string probe = text();
      EXPECT_EQ(a.accepts(probe), left.count(probe) > 0) << probe;
      EXPECT_EQ(both.accepts(probe), left.count(probe) > 0 && right.count(probe) > 0) << probe;
      EXPECT_EQ(only.accepts(probe), left.count(probe) > 0 && right.count(probe) == 0) << probe;
    }
    for (const std::string& each : left) any_both = any_both || right.count(each) > 0;
    EXPECT_EQ(both.empty(), !any_both);
  }
}

TEST(AutomatonTest, EveryStateLeadsToAcceptance) {
  Dfa::Builder builder;
  const int32_t start = builder.add_state(false);
  const int32_t trap = builder.add_state(false);
  const int32_t end = builder.add_state(true);
  builder.add_edge(start, 'a', 'a', trap);
  builder.add_edge(trap, 'a', 'a', trap);
  builder.add_edge(start, 'b', 'b', end);
  const Dfa dfa = std::move(builder).build();
  EXPECT_EQ(dfa.size(), 2);
  EXPECT_EQ(dfa.next(0, 'a'), Dfa::kDead);
  EXPECT_TRUE(dfa.accepts("b"));
  EXPECT_FALSE(dfa.accepts("a"));
  EXPECT_FALSE(Dfa().accepts(""));
}

TEST(AutomatonTest, TheBudgetEndsWhatGrows) {
  WorkBudget budget;
  std::vector<std::string> texts;
  for (int i = 0; i < 400; ++i) texts.push_back(std::to_string(i) + std::string(1000, 'x'));
  EXPECT_FALSE(one_of(texts, budget).has_value());
  EXPECT_TRUE(budget.exhausted());
}

}  // namespace
}  // namespace boreas::grammar
