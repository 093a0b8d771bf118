#include "text/grammar/json_grammar.h"

#include "text/grammar/decimal_range.h"

namespace boreas::grammar {

JsonGrammar::JsonGrammar(GrammarBuilder& builder) : builder_(builder) {
  Nfa nfa(builder_.budget());
  const int32_t start = nfa.add_state();
  const int32_t accept = nfa.add_state();
  nfa.add_empty_edge(start, accept);
  nfa.add_edge(start, ' ', ' ', accept);
  int32_t indent = nfa.add_state();
  nfa.add_edge(start, '\n', '\n', indent);
  for (int i = 0; i < kIndentMax; ++i) {
    nfa.add_empty_edge(indent, accept);
    const int32_t next = nfa.add_state();
    nfa.add_edge(indent, ' ', ' ', next);
    nfa.add_edge(indent, '\t', '\t', next);
    indent = next;
  }
  nfa.add_empty_edge(indent, accept);
  space_ = builder_.add_terminal(determinise(nfa, start, accept).value_or(Dfa()));

  any_object_ = builder_.reserve();
  any_array_ = builder_.reserve();
  const NodeIndex value = any_value(GrammarBuilder::kReturn);
  const NodeIndex member = builder_.string(0, kCountFree, colon(value));
  builder_.define(any_object_, {object(member, GrammarBuilder::kReturn)});
  builder_.define(any_array_, {array(value, 0, kCountFree, GrammarBuilder::kReturn)});
}

NodeIndex JsonGrammar::space(NodeIndex next) { return builder_.terminal(space_, next); }

NodeIndex JsonGrammar::key(std::string_view name, NodeIndex value) {
  return builder_.literal(quoted(name) + ":", space(value));
}

NodeIndex JsonGrammar::number(bool integer, NodeIndex next) {
  const auto index = static_cast<size_t>(integer);
  if (!number_made_[index]) {
    DecimalRange range;
    range.integer = integer;
    numbers_[index] = builder_.add_terminal(number_automaton(range, builder_.budget()).value_or(Dfa()));
    number_made_[index] = true;
  }
  return builder_.terminal(numbers_[index], next);
}

NodeIndex JsonGrammar::any_value(NodeIndex next) {
  return builder_.split({builder_.string(0, kCountFree, next), number(false, next), any_object(next), any_array(next),
                         builder_.literal("true", next), builder_.literal("false", next),
                         builder_.literal("null", next)});
}

NodeIndex JsonGrammar::list(char open, NodeIndex item, uint32_t count_min, uint32_t count_max, char close_with,
                            NodeIndex next) {
  if (item == GrammarBuilder::kFail) count_max = 0;
  if (count_min > count_max || count_min >= kCountMax) return GrammarBuilder::kFail;
  const NodeIndex end = close(close_with, next);
  NodeIndex inside = end;
  if (count_max > 0) inside = builder_.repeat(count_min, count_max, space(item), comma(item), end);
  return builder_.literal(std::string_view(&open, 1), inside);
}

NodeIndex JsonGrammar::array(NodeIndex item, uint32_t count_min, uint32_t count_max, NodeIndex next) {
  return list('[', item, count_min, count_max, ']', next);
}

NodeIndex JsonGrammar::object(NodeIndex member, NodeIndex next) { return list('{', member, 0, kCountFree, '}', next); }

std::string JsonGrammar::quoted(std::string_view text) {
  constexpr std::string_view kCodes = "\"\\\b\f\n\r\t";
  constexpr std::string_view kNames = "\"\\bfnrt";
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    if (const size_t found = kCodes.find(c); found != std::string_view::npos) {
      out += {'\\', kNames[found]};
    } else if (static_cast<uint8_t>(c) < 0x20) {
      out += "\\u00";
      out += {kHex[c >> 4 & 15], kHex[c & 15]};
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace boreas::grammar
