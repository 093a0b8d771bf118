// The expressions of the renderer.
#include "text/jinja/access.h"
#include "text/jinja/format.h"
#include "text/jinja/renderer.h"

namespace boreas::jinja {

Value Renderer::evaluate(const Expression& node) {
  budget_.step();
  if (node.kind == ExpressionKind::kConstant) return node.constant;
  const Level level(*this);
  line_ = node.line;
  switch (node.kind) {
    case ExpressionKind::kConstant:
      return node.constant;
    case ExpressionKind::kName:
      return look_up(node.name, node.text);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
      return evaluate_list(node);
    case ExpressionKind::kDict:
      return evaluate_dict(node);
    case ExpressionKind::kAttribute:
      return get_attribute(budget_, evaluate(*node.children[0]), node.text);
    case ExpressionKind::kItem: {
      const Value object = evaluate(*node.children[0]);
      return get_item(budget_, object, evaluate(*node.children[1]));
    }
    case ExpressionKind::kSlice:
      return evaluate_slice(node);
    case ExpressionKind::kCall:
      return call(node, nullptr);
    case ExpressionKind::kFilter: {
      const Value input = evaluate(*node.children[0]);
      const Arguments arguments = evaluate_arguments(node, 1);
      return node.filter->run(budget_, input, arguments);
    }
    case ExpressionKind::kTest: {
      const Value input = evaluate(*node.children[0]);
      const Arguments arguments = evaluate_arguments(node, 1);
      return Value::boolean(node.test->run(budget_, input, arguments));
    }
    case ExpressionKind::kNot:
      return Value::boolean(!truth(evaluate(*node.children[0])));
    case ExpressionKind::kNegative:
      return negate(evaluate(*node.children[0]));
    case ExpressionKind::kPositive:
      return plus(evaluate(*node.children[0]));
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
      return evaluate_chain(node);
    case ExpressionKind::kCondition:
      if (truth(evaluate(*node.children[1]))) return evaluate(*node.children[0]);
      return node.children[2] != nullptr ? evaluate(*node.children[2]) : Value::undefined("the inline if without else");
    case ExpressionKind::kCompare:
      return evaluate_compare(node);
    case ExpressionKind::kConcat:
      return evaluate_concat(node);
    case ExpressionKind::kArithmetic:
      return evaluate_arithmetic(node);
    case ExpressionKind::kBody:
      return body_;
  }
  return Value();
}

Value Renderer::evaluate_list(const Expression& node) {
  auto* list = new Sequence(budget_, node.kind == ExpressionKind::kList ? SequenceType::kList : SequenceType::kTuple);
  Value value = Value::of(list);
  list->items.reserve(node.children.size());
  for (const ExpressionPtr& child : node.children) list->add(evaluate(*child));
  return value;
}

Value Renderer::evaluate_dict(const Expression& node) {
  auto* dict = new Dict(budget_);
  Value value = Value::of(dict);
  for (size_t i = 0; i < node.children.size(); i += 2) {
    Value key = evaluate(*node.children[i]);
    dict->set(std::move(key), evaluate(*node.children[i + 1]));
  }
  return value;
}

Value Renderer::evaluate_slice(const Expression& node) {
  const auto part = [&](size_t index) {
    return node.children[index] != nullptr ? evaluate(*node.children[index]) : Value::none();
  };
  const Value object = part(0);
  const Value start = part(1), stop = part(2), step = part(3);
  return get_slice(budget_, object, start, stop, step);
}

Value Renderer::evaluate_compare(const Expression& node) {
  Value left = evaluate(*node.children[0]);
  for (size_t i = 0; i < node.comparisons.size(); ++i) {
    Value right = evaluate(*node.children[i + 1]);
    if (!compare(budget_, node.comparisons[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Renderer::evaluate_arithmetic(const Expression& node) {
  Value left = evaluate(*node.children[0]);
  for (size_t i = 0; i < node.operators.size(); ++i) {
    const Value right = evaluate(*node.children[i + 1]);
    if (node.operators[i] == Operator::kAdd && left.is_text() && right.is_text()) {
      left.append(budget_, right.as_text());  // in place, where calculate() would copy
      budget_.check_text(left.as_text().size());
    } else {
      left = calculate(budget_, node.operators[i], left, right);
    }
  }
  return left;
}

Value Renderer::evaluate_concat(const Expression& node) {
  std::string text;
  for (const ExpressionPtr& child : node.children) {
    append_str(budget_, text, evaluate(*child));
    budget_.check_text(text.size());
  }
  return Value::text(budget_, std::move(text));
}

// and, or: the value that decides.
Value Renderer::evaluate_chain(const Expression& node) {
  Value value = evaluate(*node.children[0]);
  for (size_t i = 1; i < node.children.size(); ++i) {
    if (truth(value) == (node.kind == ExpressionKind::kOr)) return value;
    value = evaluate(*node.children[i]);
  }
  return value;
}

}  // namespace boreas::jinja
