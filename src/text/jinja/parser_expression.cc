// The expressions of the parser: one function a level of precedence, lowest first.
#include <algorithm>

#include "text/jinja/parser.h"
#include "text/jinja/parser_impl.h"

namespace boreas::jinja {

namespace {

// Height of expression trees: chains like a.b.c or x|f|g nest without brackets, so Level does not see them.
constexpr int kHeightMax = 200;

template <class Names>
bool any_of(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Operator product_operator(std::string_view text) {
  if (text == "//") return Operator::kFloorDivide;
  if (text == "*") return Operator::kMultiply;
  return text == "/" ? Operator::kDivide : Operator::kModulo;
}

}  // namespace

ExpressionPtr Parser::node(ExpressionKind kind, int line) const {
  auto result = std::make_unique<Expression>();
  result->kind = kind;
  result->line = line;
  return result;
}

void Parser::adopt(Expression& parent, ExpressionPtr child) {
  if (child != nullptr) {
    parent.height = std::max(parent.height, child->height + 1);
    if (parent.height > kHeightMax) error("the expression is nested too deep");
  }
  parent.children.push_back(std::move(child));
}

bool Parser::ends_tuple() const {
  return current().kind == TokenKind::kPrintEnd || current().kind == TokenKind::kBlockEnd || is_operator(")") ||
         is_name("recursive");
}

ExpressionPtr Parser::tuple(bool with_condition, bool in_parentheses) {
  const int line = current().line;
  if (ends_tuple()) {
    if (!in_parentheses) error("expected an expression, found " + describe(current()));
    return node(ExpressionKind::kTuple, line);
  }
  ExpressionPtr first = expression(with_condition);
  if (!is_operator(",")) return first;
  ExpressionPtr result = node(ExpressionKind::kTuple, line);
  adopt(*result, std::move(first));
  while (accept_operator(",")) {
    if (ends_tuple()) break;
    adopt(*result, expression(with_condition));
  }
  return result;
}

ExpressionPtr Parser::expression(bool with_condition) {
  const Level level(*this);
  ExpressionPtr value = either();
  while (with_condition && is_name("if")) {
    ExpressionPtr choice = node(ExpressionKind::kCondition, take().line);
    adopt(*choice, std::move(value));
    adopt(*choice, either());
    adopt(*choice, accept_name("else") ? expression() : nullptr);
    value = std::move(choice);
  }
  return value;
}

ExpressionPtr Parser::either() {
  ExpressionPtr left = both();
  if (!is_name("or")) return left;
  ExpressionPtr result = node(ExpressionKind::kOr, current().line);
  adopt(*result, std::move(left));
  while (accept_name("or")) adopt(*result, both());
  return result;
}

ExpressionPtr Parser::both() {
  ExpressionPtr left = negation();
  if (!is_name("and")) return left;
  ExpressionPtr result = node(ExpressionKind::kAnd, current().line);
  adopt(*result, std::move(left));
  while (accept_name("and")) adopt(*result, negation());
  return result;
}

ExpressionPtr Parser::negation() {
  if (!is_name("not")) return comparison();
  const Level level(*this);
  ExpressionPtr result = node(ExpressionKind::kNot, take().line);
  adopt(*result, negation());
  return result;
}

ExpressionPtr Parser::comparison() {
  struct Spelling {
    std::string_view text;
    Comparison comparison;
  };
  static constexpr Spelling kSpellings[] = {{"==", Comparison::kEqual},  {"!=", Comparison::kNotEqual},
                                            {"<", Comparison::kLess},    {"<=", Comparison::kLessEqual},
                                            {">", Comparison::kGreater}, {">=", Comparison::kGreaterEqual}};
  ExpressionPtr left = sum();
  ExpressionPtr result;
  while (true) {
    const Spelling* found = nullptr;
    if (current().kind == TokenKind::kOperator) {
      for (const Spelling& spelling : kSpellings) found = spelling.text == current().text ? &spelling : found;
    }
    const bool is_in = is_name("in");
    const bool is_not_in = is_name("not") && ahead().kind == TokenKind::kName && ahead().text == "in";
    if (found == nullptr && !is_in && !is_not_in) break;
    if (result == nullptr) {
      result = node(ExpressionKind::kCompare, current().line);
      adopt(*result, std::move(left));
    }
    at_ += is_not_in ? 2 : 1;
    result->comparisons.push_back(found != nullptr ? found->comparison : is_in ? Comparison::kIn : Comparison::kNotIn);
    adopt(*result, sum());
  }
  return result == nullptr ? std::move(left) : std::move(result);
}

ExpressionPtr Parser::sum() {
  ExpressionPtr left = concatenation();
  if (!is_operator("+") && !is_operator("-")) return left;
  ExpressionPtr result = node(ExpressionKind::kArithmetic, current().line);
  adopt(*result, std::move(left));
  while (is_operator("+") || is_operator("-")) {
    result->operators.push_back(take().text == "+" ? Operator::kAdd : Operator::kSubtract);
    adopt(*result, concatenation());
  }
  return result;
}

ExpressionPtr Parser::concatenation() {
  ExpressionPtr left = product();
  if (!is_operator("~")) return left;
  ExpressionPtr result = node(ExpressionKind::kConcat, current().line);
  adopt(*result, std::move(left));
  while (accept_operator("~")) adopt(*result, product());
  return result;
}

ExpressionPtr Parser::product() {
  const auto is_product = [this] {
    return is_operator("*") || is_operator("/") || is_operator("//") || is_operator("%");
  };
  ExpressionPtr left = power();
  if (!is_product()) return left;
  ExpressionPtr result = node(ExpressionKind::kArithmetic, current().line);
  if (is_operator("%") && left->kind == ExpressionKind::kConstant && left->constant.is_text()) {
    error("unsupported construct: formatting a string with '%'");
  }
  adopt(*result, std::move(left));
  while (is_product()) {
    result->operators.push_back(product_operator(current().text));
    ++at_;
    adopt(*result, power());
  }
  return result;
}

ExpressionPtr Parser::power() {
  ExpressionPtr left = unary(true);
  if (!is_operator("**")) return left;
  ExpressionPtr result = node(ExpressionKind::kArithmetic, current().line);
  adopt(*result, std::move(left));
  while (accept_operator("**")) {
    result->operators.push_back(Operator::kPower);
    adopt(*result, unary(true));
  }
  return result;
}

ExpressionPtr Parser::unary(bool with_filters) {
  ExpressionPtr value;
  if (is_operator("-") || is_operator("+")) {
    const Level level(*this);
    const Token sign = take();
    value = node(sign.text == "-" ? ExpressionKind::kNegative : ExpressionKind::kPositive, sign.line);
    adopt(*value, unary(false));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr Parser::primary() {
  const Token token = current();
  ExpressionPtr result = node(ExpressionKind::kConstant, token.line);
  switch (token.kind) {
    case TokenKind::kName:
      ++at_;
      if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
        result->constant = Value::boolean(token.text == "true" || token.text == "True");
      } else if (token.text == "none" || token.text == "None") {
        result->constant = Value::none();
      } else {
        result->kind = ExpressionKind::kName;
        result->text = token.text;
        result->name = intern(token.text);
        for (Statement* macro : macros_) {
          macro->takes_varargs = macro->takes_varargs || token.text == kVarargsName;
          macro->takes_kwargs = macro->takes_kwargs || token.text == kKwargsName;
          macro->takes_caller = macro->takes_caller || token.text == kCallerName;
        }
      }
      return result;
    case TokenKind::kText:
      while (current().kind == TokenKind::kText) result->text += take().text;
      result->constant = Value::borrowed(result->text);
      return result;
    case TokenKind::kInteger:
      ++at_;
      result->constant = Value::integer(token.integer);
      return result;
    case TokenKind::kFloat:
      ++at_;
      result->constant = Value::real(token.real);
      return result;
    default:
      break;
  }
  if (accept_operator("(")) {
    result = tuple(true, true);
    expect_operator(")");
    return result;
  }
  if (is_operator("[") || is_operator("{")) return list_or_dict();
  error("expected an expression, found " + describe(token));
}

ExpressionPtr Parser::list_or_dict() {
  const Token open = take();
  const bool is_list = open.text == "[";
  const std::string_view close = is_list ? "]" : "}";
  ExpressionPtr result = node(is_list ? ExpressionKind::kList : ExpressionKind::kDict, open.line);
  while (!is_operator(close)) {
    if (!result->children.empty()) {
      expect_operator(",");
      if (is_operator(close)) break;
    }
    adopt(*result, expression());
    if (!is_list) {
      expect_operator(":");
      adopt(*result, expression());
    }
  }
  ++at_;
  return result;
}

ExpressionPtr Parser::postfix(ExpressionPtr base) {
  while (true) {
    if (is_operator(".") || is_operator("[")) {
      base = subscript(std::move(base));
    } else if (is_operator("(")) {
      base = call(std::move(base));
    } else {
      return base;
    }
  }
}

ExpressionPtr Parser::filters_and_tests(ExpressionPtr base) {
  while (true) {
    if (accept_operator("|")) {
      base = filter(std::move(base));
    } else if (accept_name("is")) {
      base = test(std::move(base));
    } else if (is_operator("(")) {
      base = call(std::move(base));
    } else {
      return base;
    }
  }
}

ExpressionPtr Parser::subscript(ExpressionPtr base) {
  const Token open = take();
  if (open.text == ".") {
    if (current().kind == TokenKind::kInteger) {
      ExpressionPtr result = node(ExpressionKind::kItem, open.line);
      adopt(*result, std::move(base));
      ExpressionPtr index = node(ExpressionKind::kConstant, open.line);
      index->constant = Value::integer(take().integer);
      adopt(*result, std::move(index));
      return result;
    }
    ExpressionPtr result = node(ExpressionKind::kAttribute, open.line);
    result->text = expect_name("the name of an attribute");
    adopt(*result, std::move(base));
    return result;
  }
  ExpressionPtr result = node(ExpressionKind::kItem, open.line);
  adopt(*result, std::move(base));
  adopt(*result, is_operator(":") ? nullptr : expression());
  if (is_operator(":")) {
    result->kind = ExpressionKind::kSlice;
    for (int part = 0; part < 2; ++part) {
      const bool more = accept_operator(":");
      adopt(*result, more && !is_operator(":") && !is_operator("]") ? expression() : nullptr);
    }
  }
  if (is_operator(",")) error("unsupported construct: several subscripts in one pair of brackets");
  expect_operator("]");
  return result;
}

void Parser::arguments(Expression& call) {
  expect_operator("(");
  bool first = true;
  while (!is_operator(")")) {
    if (!first) {
      expect_operator(",");
      if (is_operator(")")) break;
    }
    first = false;
    if (is_operator("*") || is_operator("**"))
      error("unsupported construct: '" + current().text + "' to unpack arguments");
    if (current().kind == TokenKind::kName && ahead().kind == TokenKind::kOperator && ahead().text == "=") {
      NamedArgument named;
      named.name = take().text;
      ++at_;
      named.value = expression();
      call.height = std::max(call.height, named.value->height + 1);
      for (const NamedArgument& other : call.named) {
        if (other.name == named.name) error("argument '" + named.name + "' is given twice");
      }
      call.named.push_back(std::move(named));
    } else {
      if (!call.named.empty()) error("a positional argument follows a named one");
      adopt(call, expression());
    }
  }
  ++at_;
}

ExpressionPtr Parser::call(ExpressionPtr base) {
  static constexpr std::string_view kFunctions[] = {"cycler", "joiner", "lipsum", "super"};
  const int line = current().line;
  if (base->kind == ExpressionKind::kAttribute && is_unsupported_method(base->text)) {
    error("unsupported construct: method '" + base->text + "'");
  }
  if (base->kind == ExpressionKind::kName && any_of(kFunctions, base->text))
    error("unsupported construct: function '" + base->text + "'");
  ExpressionPtr result = node(ExpressionKind::kCall, line);
  adopt(*result, std::move(base));
  arguments(*result);
  return result;
}

// map('name', ...), select('name', ...) and their relatives: a constant name is checked now, as if it had been written
// out.
void Parser::check_named_callable(const Expression& node) const {
  static constexpr std::string_view kSelecting[] = {"select", "reject", "selectattr", "rejectattr"};
  const bool maps = node.filter->name == "map";
  if (!maps && !any_of(kSelecting, node.filter->name)) return;
  const size_t at = maps || node.filter->name == "select" || node.filter->name == "reject" ? 1 : 2;
  if (node.children.size() <= at || node.children[at]->kind != ExpressionKind::kConstant ||
      !node.children[at]->constant.is_text())
    return;
  const std::string& name = node.children[at]->text;
  if (maps ? find_filter(name) == nullptr : find_test(name) == nullptr) {
    error_at(node.line, std::string("unsupported construct: ") + (maps ? "filter '" : "test '") + name + "'");
  }
}

ExpressionPtr Parser::filter(ExpressionPtr base) {
  ExpressionPtr result = node(ExpressionKind::kFilter, current().line);
  result->text = expect_name("the name of a filter");
  while (accept_operator(".")) result->text += "." + expect_name("the name of a filter");
  result->filter = find_filter(result->text);
  if (result->filter == nullptr) error_at(result->line, "unsupported construct: filter '" + result->text + "'");
  adopt(*result, std::move(base));
  if (is_operator("(")) arguments(*result);
  check_named_callable(*result);
  return result;
}

ExpressionPtr Parser::test(ExpressionPtr base) {
  const bool negated = accept_name("not");
  ExpressionPtr result = node(ExpressionKind::kTest, current().line);
  result->text = expect_name("the name of a test");
  result->test = find_test(result->text);
  if (result->test == nullptr) error_at(result->line, "unsupported construct: test '" + result->text + "'");
  adopt(*result, std::move(base));
  const bool literal = current().kind == TokenKind::kText || current().kind == TokenKind::kInteger ||
                       current().kind == TokenKind::kFloat;
  const bool word = current().kind == TokenKind::kName && !is_name("else") && !is_name("or") && !is_name("and");
  if (is_operator("(")) {
    arguments(*result);
  } else if (literal || word || is_operator("[") || is_operator("{")) {
    if (is_name("is")) error("tests cannot be chained with 'is'");
    adopt(*result, postfix(primary()));
  }
  if (!negated) return result;
  ExpressionPtr inverse = node(ExpressionKind::kNot, result->line);
  adopt(*inverse, std::move(result));
  return inverse;
}

}  // namespace boreas::jinja
