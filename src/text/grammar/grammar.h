// Grammar: what texts are allowed, as a graph that a Matcher walks with a stack. Built by GrammarBuilder from the end
// of the text to its beginning: every node knows what follows it.
//
//   kTerminal  a text of an automaton, then next
//   kString    a JSON string of count_min to count_max characters, then next
//   kSplit     one of the alternatives
//   kCall      first, whose kReturn leads back here, then next
//   kRepeat    count_min to count_max items, then next; the first begins at `first`, others at `later` (with the
//   comma);
//              both end in kReturn
//   kReturn    the end of what was called; with an empty stack, of the text
//
// What always holds of a finished Grammar: a text that a Matcher has not refused can be completed within kFramesMax
// stack frames; `need` says for each node how many frames it takes at least. Immutable, shared by threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/grammar/automaton.h"

namespace boreas::grammar {

// Open arrays, objects and references at one time, so free values nest 64 deep.
constexpr int32_t kFramesMax = 64;
constexpr int32_t kNeedInfinite = kFramesMax + 1;  // it cannot be completed
// Repetitions of more than so many are free: no context holds as much text.
constexpr uint32_t kCountMax = 1u << 28;
constexpr uint32_t kCountFree = UINT32_MAX;
constexpr size_t kNodesMax = 400'000;

using NodeIndex = uint32_t;
using TerminalIndex = uint32_t;

struct Node {
  enum class Kind : uint8_t { kTerminal, kString, kSplit, kCall, kRepeat, kReturn };
  Kind kind = Kind::kSplit;  // of no alternatives: nothing is allowed
  TerminalIndex terminal = 0;
  NodeIndex next = 0, first = 0, later = 0;
  uint32_t alternatives_begin = 0, alternatives_count = 0;
  uint32_t count_min = 0, count_max = 0;
  int32_t need = kNeedInfinite;
};

struct Grammar {
  std::vector<Node> nodes;
  std::vector<NodeIndex> alternatives;
  std::vector<std::shared_ptr<const Dfa>> terminals;
  NodeIndex root = 0;
  size_t bytes() const;
};

// The automaton of a JSON string without limits, shared by all grammars, and its state between two characters. Escapes
// are complete: a \u surrogate only as a pair.
struct JsonString {
  Dfa dfa;
  int32_t between = 0;
  static const JsonString& get();
};

class GrammarBuilder {
 public:
  static constexpr NodeIndex kReturn = 0;
  static constexpr NodeIndex kFail = 1;

  GrammarBuilder();
  WorkBudget& budget() { return budget_; }

  TerminalIndex add_terminal(Dfa dfa);
  TerminalIndex literal_terminal(std::string_view text);  // the same one for equal texts

  NodeIndex terminal(TerminalIndex index, NodeIndex next);
  NodeIndex literal(std::string_view text, NodeIndex next) { return terminal(literal_terminal(text), next); }
  NodeIndex string(uint32_t count_min, uint32_t count_max, NodeIndex next);
  NodeIndex split(const std::vector<NodeIndex>& alternatives);
  NodeIndex call(NodeIndex first, NodeIndex next);
  NodeIndex repeat(uint32_t count_min, uint32_t count_max, NodeIndex first, NodeIndex later, NodeIndex next);
  // A node that is defined later, for what contains itself.
  NodeIndex reserve();
  void define(NodeIndex reserved, const std::vector<NodeIndex>& alternatives);

  // An error if nothing can be completed from the root, or if it grew too large.
  Result<Grammar> finish(NodeIndex root) &&;

 private:
  NodeIndex add(Node node);
  void set_alternatives(Node& node, const std::vector<NodeIndex>& alternatives);
  int32_t need_of(const Node& node) const;
  void set_needs();

  WorkBudget budget_;
  Grammar grammar_;
  std::unordered_map<std::string, TerminalIndex> literals_;
  std::unordered_map<std::vector<uint32_t>, NodeIndex, HashWords> known_;  // equal nodes are one
};

}  // namespace boreas::grammar
