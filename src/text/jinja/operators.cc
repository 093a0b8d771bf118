#include "text/jinja/operators.h"

#include <cmath>

#include "text/jinja/access.h"

namespace boreas::jinja {

namespace {

const char* symbol(Operator op) {
  static constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSymbols[static_cast<size_t>(op)];
}

[[noreturn]] void no_such_operation(Operator op, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right}) {
    if (value->is_undefined() && !value->as_text().empty())
      fail("'" + std::string(value->as_text()) + "' is undefined");
  }
  if (op == Operator::kModulo && left.is_text()) fail("formatting a str with % is not supported");
  fail(std::string("'") + symbol(op) + "' is not defined between " + type_name(left) + " and " + type_name(right));
}

Int128 floor_divide(Int128 a, Int128 b) {
  const Int128 quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Int128 power(Int128 base, Int128 exponent) {
  Int128 result = 1;
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (Int128 i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result) || result > kIntMax || result < kIntMin)
      fail("integer out of range: whole numbers are limited to 64 bits");
  }
  return result;
}

// Python's float // and %: the remainder has the divisor's sign.
void divide_floats(double a, double b, double& quotient, double& remainder) {
  remainder = std::fmod(a, b);
  double exact = (a - remainder) / b;
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) {
      remainder += b;
      exact -= 1;
    }
  } else {
    remainder = std::copysign(0.0, b);
  }
  if (exact != 0) {
    quotient = std::floor(exact);
    if (exact - quotient > 0.5) quotient += 1;
  } else {
    quotient = std::copysign(0.0, a / b);
  }
}

Value calculate_floats(Operator op, double a, double b) {
  if (b == 0 && (op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo))
    fail("division by zero");
  double quotient = 0, remainder = 0;
  switch (op) {
    case Operator::kAdd:
      return Value::real(a + b);
    case Operator::kSubtract:
      return Value::real(a - b);
    case Operator::kMultiply:
      return Value::real(a * b);
    case Operator::kDivide:
      return Value::real(a / b);
    case Operator::kFloorDivide:
      divide_floats(a, b, quotient, remainder);
      return Value::real(quotient);
    case Operator::kModulo:
      divide_floats(a, b, quotient, remainder);
      return Value::real(remainder);
    case Operator::kPower:
      break;
  }
  if (a == 0 && b < 0) fail("zero cannot be raised to a negative power");
  if (a < 0 && std::isfinite(b) && b != std::floor(b)) fail("a negative number raised to a fraction is not real");
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) fail("the result of ** is too large");
  return Value::real(result);
}

Value calculate_ints(Operator op, Int128 a, Int128 b) {
  if (b == 0 && (op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo))
    fail("division by zero");
  Int128 product = 0;
  switch (op) {
    case Operator::kAdd:
      return Value::integer(a + b);
    case Operator::kSubtract:
      return Value::integer(a - b);
    case Operator::kMultiply:
      if (__builtin_mul_overflow(a, b, &product)) product = kIntMax + 1;
      return Value::integer(product);
    // A long double holds both operands exactly; the one rounding to double follows the one of the division.
    case Operator::kDivide:
      return Value::real(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case Operator::kFloorDivide:
      return Value::integer(floor_divide(a, b));
    case Operator::kModulo:
      return Value::integer(a - floor_divide(a, b) * b);
    case Operator::kPower:
      break;
  }
  return b < 0 ? calculate_floats(op, static_cast<double>(a), static_cast<double>(b)) : Value::integer(power(a, b));
}

bool is_concatenable(const Value& value) {
  return value.is_sequence(SequenceType::kList) || value.is_sequence(SequenceType::kTuple);
}

Value concatenate(Budget& budget, const Value& left, const Value& right) {
  auto* joined = new Sequence(budget, left.sequence().type);
  Value value = Value::of(joined);
  joined->items.reserve(left.sequence().items.size() + right.sequence().items.size());
  for (const Sequence* part : {&left.sequence(), &right.sequence()}) {
    budget.step(part->items.size());
    for (const Value& item : part->items) joined->add(item);
  }
  return value;
}

Value repeat(Budget& budget, const Value& unit, Int128 count) {
  if (unit.is_text()) return Value::text(budget, repeat_text(budget, unit.as_text(), count));
  auto* repeated = new Sequence(budget, unit.sequence().type);
  Value value = Value::of(repeated);
  if (unit.sequence().items.empty()) return value;
  for (Int128 i = 0; i < count; ++i) {
    budget.step(unit.sequence().items.size());
    for (const Value& item : unit.sequence().items) repeated->add(item);
  }
  return value;
}

}  // namespace

Value calculate(Budget& budget, Operator op, const Value& left, const Value& right) {
  budget.step();
  if (left.is_number() && right.is_number()) {
    if (left.is(Kind::kFloat) || right.is(Kind::kFloat)) return calculate_floats(op, left.as_float(), right.as_float());
    return calculate_ints(op, left.as_int(), right.as_int());
  }
  if (op == Operator::kAdd) {
    if (left.is_text() && right.is_text()) {
      Value result = left;
      result.append(budget, right.as_text());
      budget.check_text(result.as_text().size());
      return result;
    }
    if (is_concatenable(left) && is_concatenable(right) && left.sequence().type == right.sequence().type)
      return concatenate(budget, left, right);
  }
  if (op == Operator::kMultiply) {
    if ((left.is_text() || is_concatenable(left)) && right.is_index()) return repeat(budget, left, right.as_int());
    if ((right.is_text() || is_concatenable(right)) && left.is_index()) return repeat(budget, right, left.as_int());
  }
  no_such_operation(op, left, right);
}

Value negate(const Value& value) {
  if (value.is(Kind::kFloat)) return Value::real(-value.as_float());
  if (value.is_index()) return Value::integer(-value.as_int());
  fail("'-' is not defined for " + type_name(value));
}

Value plus(const Value& value) {
  if (value.is(Kind::kFloat)) return value;
  if (value.is_index()) return Value::integer(value.as_int());
  fail("'+' is not defined for " + type_name(value));
}

bool compare(Budget& budget, Comparison op, const Value& left, const Value& right) {
  const auto ordered = [&](bool swapped, bool or_equal) {
    const Value& a = swapped ? right : left;
    const Value& b = swapped ? left : right;
    if (a.is_number() && b.is_number()) {
      bool comparable = false;
      const int order = compare_numbers(a, b, comparable);
      return comparable && (order < 0 || (or_equal && order == 0));
    }
    const bool is_less = less(budget, a, b);
    return is_less || (or_equal && equals(budget, a, b));
  };
  switch (op) {
    case Comparison::kEqual:
      return equals(budget, left, right);
    case Comparison::kNotEqual:
      return !equals(budget, left, right);
    case Comparison::kLess:
      return ordered(false, false);
    case Comparison::kLessEqual:
      return ordered(false, true);
    case Comparison::kGreater:
      return ordered(true, false);
    case Comparison::kGreaterEqual:
      return ordered(true, true);
    case Comparison::kIn:
      return contains(budget, right, left);
    case Comparison::kNotIn:
      return !contains(budget, right, left);
  }
  return false;
}

}  // namespace boreas::jinja
