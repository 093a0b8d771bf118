// The parser's class, private to parser.cc (statements) and parser_expression.cc (expressions): recursive descent over
// the tokens, with Jinja's precedence: if-else, or, and, not, comparisons, + -, ~, * / // %, **, unary, postfix,
// filters and tests.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace boreas::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, int depth_max) : tokens_(std::move(tokens)), depth_max_(depth_max) {}
  Program run();

 private:
  // One level of nesting, as long as it lives.
  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > parser_.depth_max_)
        parser_.error("nested more than " + std::to_string(parser_.depth_max_) + " levels deep");
    }
    ~Level() { --parser_.depth_; }

   private:
    Parser& parser_;
  };

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  bool is_operator(std::string_view text) const {
    return current().kind == TokenKind::kOperator && current().text == text;
  }
  bool is_name(std::string_view text) const { return current().kind == TokenKind::kName && current().text == text; }
  Token take();
  bool accept_operator(std::string_view text);
  bool accept_name(std::string_view text);
  void expect_operator(std::string_view text);
  std::string expect_name(const char* what);
  void expect_block_end();
  [[noreturn]] void error(std::string message) const { error_at(current().line, std::move(message)); }
  [[noreturn]] void error_at(int line, std::string message) const { throw Fault{std::move(message), line}; }
  std::string describe(const Token& token) const;

  // Statements (parser.cc). `ends`: the tags that may end this body; the one found is current afterwards.
  Body body(const std::vector<std::string_view>& ends, const char* opened, int line);
  Body block_body(const std::vector<std::string_view>& ends, const char* opened, int line);
  std::unique_ptr<Statement> statement();
  void parse_if(Statement& node);
  void parse_for(Statement& node);
  void parse_set(Statement& node);
  void parse_macro(Statement& node);
  void parse_call_block(Statement& node);
  void parse_filter_block(Statement& node);
  void parse_with(Statement& node);
  void parse_parameters(Statement& node);
  void macro_body(Statement& node, std::string_view end, const char* opened);
  Target target(bool with_attribute);
  Target single_target();
  Target name_target(const Token& token);
  NameId intern(std::string_view name);

  // Expressions (parser_expression.cc).
  ExpressionPtr node(ExpressionKind kind, int line) const;
  void adopt(Expression& parent, ExpressionPtr child);
  // Commas make a tuple; with_condition: `a if b else c` is allowed.
  ExpressionPtr tuple(bool with_condition, bool in_parentheses);
  ExpressionPtr expression(bool with_condition = true);
  ExpressionPtr either();
  ExpressionPtr both();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr list_or_dict();
  ExpressionPtr postfix(ExpressionPtr base);
  ExpressionPtr filters_and_tests(ExpressionPtr base);
  ExpressionPtr subscript(ExpressionPtr base);
  ExpressionPtr filter(ExpressionPtr base);
  ExpressionPtr test(ExpressionPtr base);
  ExpressionPtr call(ExpressionPtr base);
  void arguments(Expression& call);
  void check_named_callable(const Expression& node) const;
  bool ends_tuple() const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  const int depth_max_;
  int loops_ = 0;                   // fors around this point, within the macro
  std::vector<Statement*> macros_;  // macros and call blocks around this point
  std::vector<std::string> names_;
  std::unordered_map<std::string, NameId> ids_;
};

}  // namespace boreas::jinja
