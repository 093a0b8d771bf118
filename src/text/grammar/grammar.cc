#include "text/grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace boreas::grammar {

namespace {

Dfa make_json_string(WorkBudget& budget) {
  Nfa nfa(budget);
  const int32_t start = nfa.add_state();
  const int32_t between = nfa.add_state();
  const int32_t accept = nfa.add_state();
  nfa.add_edge(start, '"', '"', between);
  nfa.add_edge(between, '"', '"', accept);
  nfa.add_utf8(between, 0x20, '"' - 1, between);
  nfa.add_utf8(between, '"' + 1, '\\' - 1, between);
  nfa.add_utf8(between, '\\' + 1, 0x10FFFF, between);
  const int32_t escape = nfa.add_state();
  nfa.add_edge(between, '\\', '\\', escape);
  for (const char c : std::string_view("\"\\/bfnrt")) {
    nfa.add_edge(escape, static_cast<uint8_t>(c), static_cast<uint8_t>(c), between);
  }
  const auto hex = [&](int32_t from, int32_t to) {
    nfa.add_edge(from, '0', '9', to);
    nfa.add_edge(from, 'A', 'F', to);
    nfa.add_edge(from, 'a', 'f', to);
  };
  const auto either = [&](int32_t from, std::string_view bytes, int32_t to) {
    for (const char c : bytes) nfa.add_edge(from, static_cast<uint8_t>(c), static_cast<uint8_t>(c), to);
  };
  int32_t last[4];  // so many hexadecimal digits are missing
  last[0] = between;
  for (int i = 1; i < 4; ++i) {
    last[i] = nfa.add_state();
    hex(last[i], last[i - 1]);
  }
  const int32_t unit = nfa.add_state();
  nfa.add_edge(escape, 'u', 'u', unit);
  nfa.add_edge(unit, '0', '9', last[3]);
  either(unit, "abcefABCEF", last[3]);
  const int32_t surrogate = nfa.add_state();  // behind \ud
  either(unit, "dD", surrogate);
  nfa.add_edge(surrogate, '0', '7', last[2]);
  int32_t high = nfa.add_state();
  either(surrogate, "89abAB", high);
  for (int i = 0; i < 2; ++i) {
    const int32_t next = nfa.add_state();
    hex(high, next);
    high = next;
  }
  const int32_t low = nfa.add_state();
  nfa.add_path(high, "\\u", low);
  const int32_t low_unit = nfa.add_state();
  either(low, "dD", low_unit);
  either(low_unit, "cdefCDEF", last[2]);
  return *determinise(nfa, start, accept);
}

}  // namespace

size_t Grammar::bytes() const {
  size_t sum = nodes.size() * sizeof(Node) + alternatives.size() * sizeof(NodeIndex);
  for (const auto& terminal : terminals) sum += terminal->bytes();
  return sum;
}

const JsonString& JsonString::get() {
  static const JsonString shared = [] {
    WorkBudget budget;
    JsonString made;
    made.dfa = make_json_string(budget);
    made.between = made.dfa.next(0, '"');
    CHECK(made.dfa.next(made.between, 'a') == made.between);
    return made;
  }();
  return shared;
}

GrammarBuilder::GrammarBuilder() {
  Node end;
  end.kind = Node::Kind::kReturn;
  grammar_.nodes = {end, Node()};
}

TerminalIndex GrammarBuilder::add_terminal(Dfa dfa) {
  grammar_.terminals.push_back(std::make_shared<const Dfa>(std::move(dfa)));
  return static_cast<TerminalIndex>(grammar_.terminals.size()) - 1;
}

TerminalIndex GrammarBuilder::literal_terminal(std::string_view text) {
  const auto [entry, inserted] = literals_.try_emplace(std::string(text), 0);
  if (inserted) entry->second = add_terminal(one_of({entry->first}, budget_).value_or(Dfa()));
  return entry->second;
}

NodeIndex GrammarBuilder::add(Node node) {
  if (!budget_.step() || grammar_.nodes.size() >= kNodesMax) {
    budget_.step(WorkBudget::kStepsMax);
    return kFail;
  }
  if (node.kind != Node::Kind::kSplit) {
    std::vector<uint32_t> key = {static_cast<uint32_t>(node.kind),
                                 node.terminal,
                                 node.next,
                                 node.first,
                                 node.later,
                                 node.count_min,
                                 node.count_max};
    const auto [entry, inserted] = known_.try_emplace(std::move(key), static_cast<NodeIndex>(grammar_.nodes.size()));
    if (!inserted) return entry->second;
  }
  grammar_.nodes.push_back(node);
  return static_cast<NodeIndex>(grammar_.nodes.size()) - 1;
}

NodeIndex GrammarBuilder::terminal(TerminalIndex index, NodeIndex next) {
  if (next == kFail || grammar_.terminals[index]->empty()) return kFail;
  Node node;
  node.kind = Node::Kind::kTerminal;
  node.terminal = index;
  node.next = next;
  return add(node);
}

NodeIndex GrammarBuilder::string(uint32_t count_min, uint32_t count_max, NodeIndex next) {
  if (next == kFail || count_min > count_max || count_min >= kCountMax) return kFail;
  Node node;
  node.kind = Node::Kind::kString;
  node.count_min = count_min;
  node.count_max = count_max;
  node.next = next;
  return add(node);
}

NodeIndex GrammarBuilder::split(const std::vector<NodeIndex>& alternatives) {
  std::vector<NodeIndex> kept = alternatives;
  kept.erase(std::remove(kept.begin(), kept.end(), kFail), kept.end());
  if (kept.empty()) return kFail;
  if (kept.size() == 1) return kept.front();
  Node node;
  set_alternatives(node, kept);
  return add(node);
}

NodeIndex GrammarBuilder::call(NodeIndex first, NodeIndex next) {
  if (first == kFail || next == kFail) return kFail;
  if (next == kReturn) return first;  // nothing to come back for
  Node node;
  node.kind = Node::Kind::kCall;
  node.first = first;
  node.next = next;
  return add(node);
}

NodeIndex GrammarBuilder::repeat(uint32_t count_min, uint32_t count_max, NodeIndex first, NodeIndex later,
                                 NodeIndex next) {
  if (next == kFail || count_min > count_max || count_min >= kCountMax) return kFail;
  Node node;
  node.kind = Node::Kind::kRepeat;
  node.count_min = count_min;
  node.count_max = count_max;
  node.first = first;
  node.later = later;
  node.next = next;
  return add(node);
}

NodeIndex GrammarBuilder::reserve() { return add(Node()); }

void GrammarBuilder::define(NodeIndex reserved, const std::vector<NodeIndex>& alternatives) {
  if (reserved != kFail) set_alternatives(grammar_.nodes[reserved], alternatives);
}

void GrammarBuilder::set_alternatives(Node& node, const std::vector<NodeIndex>& alternatives) {
  budget_.step(static_cast<int64_t>(alternatives.size()));
  node.alternatives_begin = static_cast<uint32_t>(grammar_.alternatives.size());
  node.alternatives_count = static_cast<uint32_t>(alternatives.size());
  grammar_.alternatives.insert(grammar_.alternatives.end(), alternatives.begin(), alternatives.end());
}

int32_t GrammarBuilder::need_of(const Node& node) const {
  const auto& nodes = grammar_.nodes;
  int32_t need = kNeedInfinite;
  switch (node.kind) {
    case Node::Kind::kReturn:
      return 0;
    case Node::Kind::kTerminal:
    case Node::Kind::kString:
      return nodes[node.next].need;
    case Node::Kind::kSplit:
      for (uint32_t i = 0; i < node.alternatives_count; ++i) {
        need = std::min(need, nodes[grammar_.alternatives[node.alternatives_begin + i]].need);
      }
      return need;
    case Node::Kind::kCall:
      return std::min(kNeedInfinite, std::max(1 + nodes[node.first].need, nodes[node.next].need));
    case Node::Kind::kRepeat:
      need = nodes[node.next].need;
      if (node.count_min > 0) need = std::max(need, 1 + nodes[node.first].need);
      if (node.count_min > 1) need = std::max(need, 1 + nodes[node.later].need);
      return std::min(kNeedInfinite, need);
  }
  return need;
}

// Down to the smallest solution; nodes mostly come after those that follow them, so few rounds are needed.
void GrammarBuilder::set_needs() {
  for (bool changed = true; changed && !budget_.exhausted();) {
    changed = false;
    budget_.step(static_cast<int64_t>(grammar_.nodes.size()));
    for (Node& node : grammar_.nodes) {
      const int32_t need = need_of(node);
      changed = changed || need != node.need;
      node.need = need;
    }
  }
}

Result<Grammar> GrammarBuilder::finish(NodeIndex root) && {
  set_needs();
  if (budget_.exhausted()) return Error{"it is too complex"};
  if (grammar_.nodes[root].need >= kNeedInfinite) {
    return Error{"nothing satisfies it that is nested less than " + std::to_string(kFramesMax) + " deep"};
  }
  grammar_.root = root;
  return std::move(grammar_);
}

}  // namespace boreas::grammar
