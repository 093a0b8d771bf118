// The parsed template: expressions and statements. Built by the parser, immutable afterwards and shared by all threads
// that render it; constants borrow their text from the node that holds them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/jinja/callable.h"
#include "text/jinja/operators.h"
#include "text/jinja/value.h"

namespace boreas::jinja {

// Variables are numbered; Program::names has their spelling.
using NameId = int;

enum class ExpressionKind : uint8_t {
  kConstant,    // constant
  kName,        // name, text = its spelling
  kList,        // children
  kTuple,       // children
  kDict,        // children: key, value, key, value ...
  kAttribute,   // children[0].text
  kItem,        // children[0][children[1]]
  kSlice,       // children[0][children[1]:children[2]:children[3]], null where left out
  kCall,        // children[0](children[1...], named...)
  kFilter,      // children[0] | filter(children[1...], named...)
  kTest,        // children[0] is test(children[1...], named...)
  kNot,         // children[0]
  kNegative,    // children[0]
  kPositive,    // children[0]
  kAnd,         // children, left to right
  kOr,          // children, left to right
  kCondition,   // children[0] if children[1] else children[2]; children[2] may be null
  kCompare,     // children[0] comparisons[0] children[1] comparisons[1] ...
  kConcat,      // children, as text
  kArithmetic,  // children[0] operators[0] children[1] operators[1] ...
  kBody,        // the text of the enclosing set or filter block
};

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct NamedArgument {
  std::string name;
  ExpressionPtr value;
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  int line = 0;
  int height = 1;  // of the tree below: bounds the evaluator's recursion
  NameId name = -1;
  Value constant;
  std::string text;
  std::vector<ExpressionPtr> children;
  std::vector<NamedArgument> named;
  std::vector<Operator> operators;
  std::vector<Comparison> comparisons;
  const FilterEntry* filter = nullptr;
  const TestEntry* test = nullptr;
};

// What `set` and `for` assign to: a name, an attribute of a namespace, or several targets that unpack a sequence.
struct Target {
  NameId name = -1;
  std::string spelling;
  std::string attribute;  // of the namespace `name`; empty = the name itself
  std::vector<Target> parts;
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

struct Branch {
  ExpressionPtr condition;  // null: else
  Body body;
};

struct Parameter {
  NameId name = -1;
  std::string spelling;
  ExpressionPtr otherwise;  // default; null = none
};

enum class StatementKind : uint8_t {
  kText,         // text
  kPrint,        // expression
  kIf,           // branches
  kFor,          // target in expression if condition: body, else otherwise
  kSet,          // target = expression
  kSetBlock,     // target = body, through expression (filters over kBody) if there is one
  kMacro,        // name(parameters): body
  kCall,         // expression is a call; parameters and body become its caller()
  kFilterBlock,  // body through expression (filters over kBody)
  kWith,         // targets = values: body
  kScope,        // body in a scope of its own ({% generation %})
  kBreak,
  kContinue,
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 0;
  std::string text;
  NameId name = -1;
  Target target;
  ExpressionPtr expression, condition;
  std::vector<Branch> branches;
  std::vector<Parameter> parameters;
  std::vector<Target> targets;        // of with
  std::vector<ExpressionPtr> values;  // of with
  Body body, otherwise;
  bool takes_varargs = false, takes_kwargs = false, takes_caller = false;  // of a macro: its body mentions them
};

struct Program {
  Body body;
  std::vector<std::string> names;  // by NameId
};

}  // namespace boreas::jinja
