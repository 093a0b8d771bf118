// The tests behind `is`: each is Jinja's of the same name.
#include <cmath>

#include "text/jinja/access.h"
#include "text/jinja/callable.h"
#include "text/jinja/characters.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"

namespace boreas::jinja {

namespace {

void no_arguments(const Arguments& arguments, std::string_view what) {
  if (!arguments.empty()) fail(std::string(what) + " takes no arguments");
}

using Predicate = bool (*)(const Value&);
template <Predicate predicate>
bool simple(Budget&, const Value& value, const Arguments& arguments) {
  no_arguments(arguments, "this test");
  return predicate(value);
}

bool is_iterable(const Value& v) {
  return v.is_undefined() || v.is_text() || v.is(Kind::kSequence) || v.is(Kind::kDict) || v.is(Kind::kLoop);
}

// Has a length and items by position or key.
bool is_sequence(const Value& v) {
  if (v.is(Kind::kSequence))
    return v.is_sequence(SequenceType::kList) || v.is_sequence(SequenceType::kTuple) ||
           v.is_sequence(SequenceType::kRange);
  return v.is_undefined() || v.is_text() || v.is(Kind::kDict);
}

bool is_callable(const Value& v) {
  return v.is(Kind::kFunction) || v.is(Kind::kMacro) || v.is(Kind::kMethod) || v.is(Kind::kLoop) || v.is_undefined();
}

template <Comparison comparison>
bool compared(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound bound(arguments, "a comparing test", {"other"}, 1);
  return compare(budget, comparison, value, *bound[0]);
}

bool remainder_is(Budget& budget, const Value& value, Int128 divisor, Int128 remainder) {
  const Value rest = calculate(budget, Operator::kModulo, value, Value::integer(divisor));
  return equals(budget, rest, Value::integer(remainder));
}

bool is_odd(Budget& budget, const Value& value, const Arguments& arguments) {
  no_arguments(arguments, "odd");
  return remainder_is(budget, value, 2, 1);
}

bool is_even(Budget& budget, const Value& value, const Arguments& arguments) {
  no_arguments(arguments, "even");
  return remainder_is(budget, value, 2, 0);
}

bool is_divisible(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound bound(arguments, "divisibleby", {"num"}, 1);
  return equals(budget, calculate(budget, Operator::kModulo, value, *bound[0]), Value::integer(0));
}

// Python's `is`: for constants that is type and value; two equal containers are the same only if they are one object.
bool is_same(Budget& budget, const Value& value, const Arguments& arguments) {
  const Bound bound(arguments, "sameas", {"other"}, 1);
  const Value& other = *bound[0];
  if (value.kind() != other.kind()) return false;
  if (value.is(Kind::kSequence)) return &value.sequence() == &other.sequence();
  if (value.is(Kind::kDict)) return &value.dict() == &other.dict();
  return equals(budget, value, other);
}

bool text_is_lower(Budget& budget, const Value& value, const Arguments& arguments) {
  no_arguments(arguments, "lower");
  return is_lower(to_str(budget, value));
}

bool text_is_upper(Budget& budget, const Value& value, const Arguments& arguments) {
  no_arguments(arguments, "upper");
  return is_upper(to_str(budget, value));
}

bool is_filter(Budget&, const Value& value, const Arguments& arguments) {
  no_arguments(arguments, "filter");
  return value.is_text() && find_filter(value.as_text()) != nullptr;
}

bool is_test(Budget&, const Value& value, const Arguments& arguments) {
  no_arguments(arguments, "test");
  return value.is_text() && find_test(value.as_text()) != nullptr;
}

const TestEntry kTests[] = {
    {"defined", simple<[](const Value& v) { return !v.is_undefined(); }>},
    {"undefined", simple<[](const Value& v) { return v.is_undefined(); }>},
    {"none", simple<[](const Value& v) { return v.is_none(); }>},
    {"string", simple<[](const Value& v) { return v.is_text(); }>},
    {"mapping", simple<[](const Value& v) { return v.is(Kind::kDict); }>},
    {"number", simple<[](const Value& v) { return v.is_number(); }>},
    {"integer", simple<[](const Value& v) { return v.is(Kind::kInt); }>},
    {"float", simple<[](const Value& v) { return v.is(Kind::kFloat); }>},
    {"boolean", simple<[](const Value& v) { return v.is(Kind::kBool); }>},
    {"true", simple<[](const Value& v) { return v.is(Kind::kBool) && v.as_bool(); }>},
    {"false", simple<[](const Value& v) { return v.is(Kind::kBool) && !v.as_bool(); }>},
    {"iterable", simple<is_iterable>},
    {"sequence", simple<is_sequence>},
    {"callable", simple<is_callable>},
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisible},
    {"sameas", is_same},
    {"lower", text_is_lower},
    {"upper", text_is_upper},
    {"filter", is_filter},
    {"test", is_test},
    {"in", compared<Comparison::kIn>},
    {"eq", compared<Comparison::kEqual>},
    {"equalto", compared<Comparison::kEqual>},
    {"==", compared<Comparison::kEqual>},
    {"ne", compared<Comparison::kNotEqual>},
    {"!=", compared<Comparison::kNotEqual>},
    {"lt", compared<Comparison::kLess>},
    {"lessthan", compared<Comparison::kLess>},
    {"<", compared<Comparison::kLess>},
    {"le", compared<Comparison::kLessEqual>},
    {"<=", compared<Comparison::kLessEqual>},
    {"gt", compared<Comparison::kGreater>},
    {"greaterthan", compared<Comparison::kGreater>},
    {">", compared<Comparison::kGreater>},
    {"ge", compared<Comparison::kGreaterEqual>},
    {">=", compared<Comparison::kGreaterEqual>},
};

}  // namespace

const TestEntry* find_test(std::string_view name) {
  for (const TestEntry& entry : kTests) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace boreas::jinja
