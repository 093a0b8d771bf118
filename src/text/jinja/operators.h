// Python's arithmetic on values. Called by the evaluator and by the filters that add or scale. All raise where Python
// does, and where a whole number leaves 64 bits.
#pragma once

#include "text/jinja/value.h"

namespace boreas::jinja {

enum class Operator : uint8_t { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class Comparison : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

Value calculate(Budget& budget, Operator op, const Value& left, const Value& right);
Value negate(const Value& value);
Value plus(const Value& value);
bool compare(Budget& budget, Comparison op, const Value& left, const Value& right);

}  // namespace boreas::jinja
