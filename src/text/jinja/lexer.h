// The lexer of the Jinja engine: template source -> tokens, with Hugging Face's settings built in (trim_blocks,
// lstrip_blocks, one trailing newline dropped) and all white space control (-, +) applied. Called by the parser only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace boreas::jinja {

enum class TokenKind : uint8_t {
  kData,        // text to print as it is
  kPrintBegin,  // {{
  kPrintEnd,    // }}
  kBlockBegin,  // {%
  kBlockEnd,    // %}
  kName,        // identifier or keyword
  kText,        // string literal, escapes resolved
  kInteger,     //
  kFloat,       //
  kOperator,    // one of + - * / // % ** ~ [ ] ( ) { } == != < <= > >= = . : | , ;
  kEnd,         // end of the template
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text = {};  // data, name, literal or operator
  Int128 integer = 0;
  double real = 0;
};

// Raises a Fault with the line for anything that is not valid.
std::vector<Token> tokenize(std::string_view source);

}  // namespace boreas::jinja
