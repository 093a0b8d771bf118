// JSON numbers within bounds, as an automaton over their text.
//
// Numbers are written without leading zeros, with at most kNumberDigitsMax digits in front of the point and as many
// behind it, integers never as -0, so a model cannot write digits without end and every reader holds them in 64 bits.
// Exponents (two digits) only where there are no bounds: with them the order of numbers is not that of their digits.
#pragma once

#include <optional>
#include <string>

#include "text/grammar/automaton.h"

namespace boreas::grammar {

constexpr int kNumberDigitsMax = 18;

// A bound: sign and decimal digits, as in "-12.5".
struct Decimal {
  bool negative = false;
  std::string whole;     // no leading zeros; empty: 0
  std::string fraction;  // no trailing zeros
  bool zero() const { return whole.empty() && fraction.empty(); }
};
// Shortest digits that give back the double.
Decimal decimal_of(double value);
Decimal decimal_of(int64_t value);
Decimal decimal_of(uint64_t value);
bool less(const Decimal& a, const Decimal& b);

struct DecimalBound {
  Decimal value;
  bool exclusive = false;
};
struct DecimalRange {
  std::optional<DecimalBound> low, high;
  bool integer = false;  // else a fraction may follow
};

// Empty if there is no such number. Nothing if the budget is used up.
std::optional<Dfa> number_automaton(const DecimalRange& range, WorkBudget& budget);

}  // namespace boreas::grammar
