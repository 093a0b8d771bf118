// The parts of JSON that all grammars for it share: punctuation, white space, values without a schema.
//
// White space is allowed behind { [ , : and in front of } ]: one blank, or a line end and up to kIndentMax blanks or
// tabs. That holds what models write, pretty-printed too, and no loop.
#pragma once

#include <vector>

#include "text/grammar/grammar.h"

namespace boreas::grammar {

constexpr int kIndentMax = 64;

class JsonGrammar {
 public:
  explicit JsonGrammar(GrammarBuilder& builder);
  GrammarBuilder& builder() { return builder_; }

  // Punctuation with the white space that goes with it.
  NodeIndex space(NodeIndex next);
  NodeIndex comma(NodeIndex next) { return builder_.literal(",", space(next)); }
  NodeIndex colon(NodeIndex next) { return builder_.literal(":", space(next)); }
  NodeIndex close(char bracket, NodeIndex next) { return space(builder_.literal(std::string_view(&bracket, 1), next)); }
  // A member's key, colon and white space.
  NodeIndex key(std::string_view name, NodeIndex value);

  NodeIndex number(bool integer, NodeIndex next);
  NodeIndex any_value(NodeIndex next);
  NodeIndex any_object(NodeIndex next) { return builder_.call(any_object_, next); }
  NodeIndex any_array(NodeIndex next) { return builder_.call(any_array_, next); }

  // `[` items `]`: the item's own node ends in kReturn.
  NodeIndex array(NodeIndex item, uint32_t count_min, uint32_t count_max, NodeIndex next);
  // Members that follow a pattern, from behind the opening brace to the closing one; `member` ends in kReturn.
  NodeIndex object(NodeIndex member, NodeIndex next);

  // A string of JSON with as few escapes as possible, in quotes.
  static std::string quoted(std::string_view text);

 private:
  NodeIndex list(char open, NodeIndex item, uint32_t count_min, uint32_t count_max, char close_with, NodeIndex next);

  GrammarBuilder& builder_;
  TerminalIndex space_ = 0;
  TerminalIndex numbers_[2] = {};  // by `integer`
  bool number_made_[2] = {};
  NodeIndex any_object_ = 0, any_array_ = 0;
};

}  // namespace boreas::grammar
