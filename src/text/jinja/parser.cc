#include "text/jinja/parser.h"

#include <algorithm>

#include "text/jinja/parser_impl.h"

namespace boreas::jinja {

std::shared_ptr<const Program> parse(std::string_view source, int depth) {
  return std::make_shared<const Program>(Parser(tokenize(source), depth).run());
}

Program Parser::run() {
  Program program;
  program.body = body({}, "template", 1);
  program.names = std::move(names_);
  return program;
}

Token Parser::take() {
  Token token = current();
  if (token.kind != TokenKind::kEnd) ++at_;
  return token;
}

bool Parser::accept_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  ++at_;
  return true;
}

bool Parser::accept_name(std::string_view text) {
  if (!is_name(text)) return false;
  ++at_;
  return true;
}

void Parser::expect_operator(std::string_view text) {
  if (!accept_operator(text)) error("expected '" + std::string(text) + "', found " + describe(current()));
}

std::string Parser::expect_name(const char* what) {
  if (current().kind != TokenKind::kName) error(std::string("expected ") + what + ", found " + describe(current()));
  return take().text;
}

void Parser::expect_block_end() {
  if (current().kind != TokenKind::kBlockEnd) error("expected '%}', found " + describe(current()));
  ++at_;
}

std::string Parser::describe(const Token& token) const {
  switch (token.kind) {
    case TokenKind::kData:
      return "text";
    case TokenKind::kPrintBegin:
      return "'{{'";
    case TokenKind::kPrintEnd:
      return "'}}'";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kText:
      return "a string literal";
    default:
      return "'" + token.text + "'";
  }
}

NameId Parser::intern(std::string_view name) {
  const auto [it, added] = ids_.try_emplace(std::string(name), static_cast<NameId>(names_.size()));
  if (added) names_.emplace_back(name);
  return it->second;
}

Body Parser::body(const std::vector<std::string_view>& ends, const char* opened, int line) {
  const Level level(*this);
  Body result;
  while (current().kind != TokenKind::kEnd) {
    auto node = std::make_unique<Statement>();
    node->line = current().line;
    if (current().kind == TokenKind::kData) {
      node->text = take().text;
    } else if (current().kind == TokenKind::kPrintBegin) {
      ++at_;
      node->kind = StatementKind::kPrint;
      node->expression = tuple(true, false);
      if (current().kind != TokenKind::kPrintEnd) error("expected '}}', found " + describe(current()));
      ++at_;
    } else {
      ++at_;  // {%
      if (current().kind != TokenKind::kName) error("expected the name of a tag, found " + describe(current()));
      if (std::find(ends.begin(), ends.end(), current().text) != ends.end()) return result;
      node = statement();
    }
    result.push_back(std::move(node));
  }
  if (!ends.empty())
    error_at(line, std::string("'{% ") + opened + " %}' is never closed: '{% " + std::string(ends.back()) +
                       " %}' is missing");
  return result;
}

Body Parser::block_body(const std::vector<std::string_view>& ends, const char* opened, int line) {
  accept_operator(":");  // Python's colon is allowed
  expect_block_end();
  return body(ends, opened, line);
}

std::unique_ptr<Statement> Parser::statement() {
  auto node = std::make_unique<Statement>();
  node->line = current().line;
  const std::string tag = take().text;
  if (tag == "if") {
    parse_if(*node);
  } else if (tag == "for") {
    parse_for(*node);
  } else if (tag == "set") {
    parse_set(*node);
  } else if (tag == "macro") {
    parse_macro(*node);
  } else if (tag == "call") {
    parse_call_block(*node);
  } else if (tag == "filter") {
    parse_filter_block(*node);
  } else if (tag == "with") {
    parse_with(*node);
  } else if (tag == "generation") {
    node->kind = StatementKind::kScope;
    const int loops = std::exchange(loops_, 0);
    node->body = block_body({"endgeneration"}, "generation", node->line);
    loops_ = loops;
    ++at_;
  } else if (tag == "break" || tag == "continue") {
    if (loops_ == 0) error_at(node->line, "'{% " + tag + " %}' outside of a loop");
    node->kind = tag == "break" ? StatementKind::kBreak : StatementKind::kContinue;
  } else if (tag.rfind("end", 0) == 0 || tag == "else" || tag == "elif") {
    error_at(node->line, "unexpected '{% " + tag + " %}'");
  } else {
    error_at(node->line, "unsupported construct: tag '{% " + tag + " %}'");
  }
  expect_block_end();
  return node;
}

void Parser::parse_if(Statement& node) {
  node.kind = StatementKind::kIf;
  std::string tag = "if";
  while (tag == "if" || tag == "elif") {
    Branch branch;
    branch.condition = tuple(false, false);
    branch.body = block_body({"elif", "else", "endif"}, "if", node.line);
    node.branches.push_back(std::move(branch));
    tag = take().text;
  }
  if (tag == "else") {
    Branch branch;
    branch.body = block_body({"endif"}, "if", node.line);
    node.branches.push_back(std::move(branch));
    ++at_;
  }
}

void Parser::parse_for(Statement& node) {
  node.kind = StatementKind::kFor;
  node.target = target(false);
  if (!accept_name("in")) error("expected 'in', found " + describe(current()));
  node.expression = tuple(false, false);
  if (accept_name("if")) node.condition = expression();
  if (is_name("recursive")) error("unsupported construct: recursive loop");
  ++loops_;
  node.body = block_body({"else", "endfor"}, "for", node.line);
  --loops_;
  if (take().text == "else") {
    node.otherwise = block_body({"endfor"}, "for", node.line);
    ++at_;
  }
}

void Parser::parse_set(Statement& node) {
  node.kind = StatementKind::kSet;
  node.target = target(true);
  if (accept_operator("=")) {
    node.expression = tuple(true, false);
    return;
  }
  node.kind = StatementKind::kSetBlock;
  if (is_operator("|")) {
    node.expression = this->node(ExpressionKind::kBody, node.line);
    while (accept_operator("|")) node.expression = filter(std::move(node.expression));
  }
  const int loops = std::exchange(loops_, 0);
  node.body = block_body({"endset"}, "set", node.line);
  loops_ = loops;
  ++at_;
}

void Parser::parse_parameters(Statement& node) {
  expect_operator("(");
  while (!is_operator(")")) {
    if (!node.parameters.empty()) expect_operator(",");
    Parameter parameter;
    parameter.spelling = expect_name("a parameter name");
    parameter.name = intern(parameter.spelling);
    if (accept_operator("=")) {
      parameter.otherwise = expression();
    } else if (!node.parameters.empty() && node.parameters.back().otherwise != nullptr) {
      error("a parameter without default follows one with default");
    }
    node.parameters.push_back(std::move(parameter));
  }
  ++at_;
}

void Parser::macro_body(Statement& node, std::string_view end, const char* opened) {
  const int loops = std::exchange(loops_, 0);
  macros_.push_back(&node);
  node.body = block_body({end}, opened, node.line);
  macros_.pop_back();
  loops_ = loops;
  ++at_;
}

void Parser::parse_macro(Statement& node) {
  node.kind = StatementKind::kMacro;
  node.text = expect_name("the name of the macro");
  node.name = intern(node.text);
  parse_parameters(node);
  macro_body(node, "endmacro", "macro");
}

void Parser::parse_call_block(Statement& node) {
  node.kind = StatementKind::kCall;
  if (is_operator("(")) parse_parameters(node);
  node.expression = expression();
  if (node.expression->kind != ExpressionKind::kCall) error_at(node.line, "'{% call %}' needs a call");
  macro_body(node, "endcall", "call");
}

void Parser::parse_filter_block(Statement& node) {
  node.kind = StatementKind::kFilterBlock;
  node.expression = filter(this->node(ExpressionKind::kBody, node.line));
  while (accept_operator("|")) node.expression = filter(std::move(node.expression));
  const int loops = std::exchange(loops_, 0);
  node.body = block_body({"endfilter"}, "filter", node.line);
  loops_ = loops;
  ++at_;
}

void Parser::parse_with(Statement& node) {
  node.kind = StatementKind::kWith;
  while (current().kind != TokenKind::kBlockEnd) {
    if (!node.targets.empty()) expect_operator(",");
    node.targets.push_back(target(false));
    expect_operator("=");
    node.values.push_back(expression());
  }
  node.body = block_body({"endwith"}, "with", node.line);
  ++at_;
}

Target Parser::name_target(const Token& token) {
  static constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
  if (token.kind != TokenKind::kName ||
      std::find(std::begin(kConstants), std::end(kConstants), token.text) != std::end(kConstants)) {
    error_at(token.line, "cannot assign to " + describe(token));
  }
  Target result;
  result.spelling = token.text;
  result.name = intern(token.text);
  return result;
}

Target Parser::single_target() {
  const Level level(*this);
  if (!accept_operator("(")) return name_target(take());
  Target inner = target(false);
  expect_operator(")");
  return inner;
}

Target Parser::target(bool with_attribute) {
  if (with_attribute && ahead().kind == TokenKind::kOperator && ahead().text == ".") {
    Target result = name_target(take());
    ++at_;
    result.attribute = expect_name("the name of an attribute");
    return result;
  }
  Target first = single_target();
  if (!is_operator(",")) return first;
  Target result;
  result.parts.push_back(std::move(first));
  while (accept_operator(",")) {
    if (is_name("in") || is_operator("=") || is_operator(")")) break;
    result.parts.push_back(single_target());
  }
  return result;
}

}  // namespace boreas::jinja
