// Builds the automaton of a regular expression (regex.h).
#include "text/grammar/regex.h"

#include <algorithm>
#include <span>
#include <string>

namespace boreas::grammar {

namespace {

// Characters that a JSON string may hold as they are.
bool is_plain(uint32_t code) { return code >= 0x20 && code != '"' && code != '\\'; }

void add_json_escape(Nfa& nfa, int32_t from, uint32_t code, int32_t to) {
  constexpr std::string_view kCodes = "\"\\\b\f\n\r\t";
  constexpr std::string_view kNames = "\"\\bfnrt";
  if (const size_t found = kCodes.find(static_cast<char>(code)); found != std::string_view::npos) {
    return nfa.add_path(from, std::string{'\\', kNames[found]}, to);
  }
  const int32_t hex = nfa.add_state();
  nfa.add_path(from, code < 0x10 ? "\\u000" : "\\u001", hex);
  const uint32_t digit = code & 15;
  const auto byte = static_cast<uint8_t>(digit < 10 ? '0' + digit : 'a' + digit - 10);
  nfa.add_edge(hex, byte, byte, to);
  if (digit >= 10) nfa.add_edge(hex, byte - 32, byte - 32, to);
}

class Builder {
 public:
  Builder(Nfa& nfa, Spelling spelling, bool search) : nfa_(nfa), spelling_(spelling), search_(search) {}

  // The whole expression. A search goes on before and behind it where it is not anchored.
  void whole(const RegexNode& node, int32_t from, int32_t to) {
    if (node.kind == RegexNode::Kind::kChoice) {
      for (const RegexNode& child : node.children) whole(child, from, to);
      return;
    }
    if (node.kind != RegexNode::Kind::kSequence) return wrapped(std::span(&node, 1), from, to);
    // A group around everything.
    const std::span<const RegexNode> all(node.children);
    if (all.size() == 1 && all[0].kind != RegexNode::Kind::kBegin && all[0].kind != RegexNode::Kind::kEnd &&
        (all[0].kind == RegexNode::Kind::kSequence || all[0].kind == RegexNode::Kind::kChoice)) {
      return whole(all[0], from, to);
    }
    wrapped(all, from, to);
  }
  bool misplaced_anchor() const { return misplaced_anchor_; }

 private:
  void wrapped(std::span<const RegexNode> items, int32_t from, int32_t to) {
    const bool begins = !items.empty() && items.front().kind == RegexNode::Kind::kBegin;
    if (begins) items = items.subspan(1);
    const bool ends = !items.empty() && items.back().kind == RegexNode::Kind::kEnd;
    if (ends) items = items.first(items.size() - 1);
    if (!begins && search_) from = anything(from);
    if (!ends && search_) {
      const int32_t middle = nfa_.add_state();
      sequence(items, from, middle);
      nfa_.add_empty_edge(anything(middle), to);
    } else {
      sequence(items, from, to);
    }
  }

  int32_t anything(int32_t from) {
    const int32_t loop = nfa_.add_state();
    nfa_.add_empty_edge(from, loop);
    add_class(nfa_, loop, {{0, kCodeMax}}, spelling_, loop);
    return loop;
  }

  void sequence(std::span<const RegexNode> items, int32_t from, int32_t to) {
    for (const RegexNode& item : items) {
      const int32_t next = nfa_.add_state();
      node(item, from, next);
      from = next;
    }
    nfa_.add_empty_edge(from, to);
  }

  void node(const RegexNode& item, int32_t from, int32_t to) {
    if (nfa_.budget().exhausted()) return;
    switch (item.kind) {
      case RegexNode::Kind::kEmpty:
        return nfa_.add_empty_edge(from, to);
      case RegexNode::Kind::kClass:
        return add_class(nfa_, from, item.ranges, spelling_, to);
      case RegexNode::Kind::kSequence:
        return sequence(item.children, from, to);
      case RegexNode::Kind::kChoice:
        for (const RegexNode& child : item.children) node(child, from, to);
        return;
      case RegexNode::Kind::kRepeat:
        return repeat(item, from, to);
      case RegexNode::Kind::kBegin:
      case RegexNode::Kind::kEnd:
        misplaced_anchor_ = true;
    }
  }

  void repeat(const RegexNode& item, int32_t from, int32_t to) {
    const RegexNode& child = item.children.front();
    const auto once_more = [&] {
      const int32_t next = nfa_.add_state();
      node(child, from, next);
      from = next;
    };
    for (uint32_t i = 0; i < item.count_min && !nfa_.budget().exhausted(); ++i) once_more();
    if (item.count_max == RegexNode::kUnbounded) {
      const int32_t loop = nfa_.add_state();
      nfa_.add_empty_edge(from, loop);
      node(child, loop, loop);
      return nfa_.add_empty_edge(loop, to);
    }
    for (uint32_t i = item.count_min; i < item.count_max && !nfa_.budget().exhausted(); ++i) {
      nfa_.add_empty_edge(from, to);
      once_more();
    }
    nfa_.add_empty_edge(from, to);
  }

  Nfa& nfa_;
  const Spelling spelling_;
  const bool search_;
  bool misplaced_anchor_ = false;
};

}  // namespace

void add_class(Nfa& nfa, int32_t from, const CodeRanges& ranges, Spelling spelling, int32_t to) {
  for (const auto& range : ranges) {
    if (spelling == Spelling::kUtf8) {
      nfa.add_utf8(from, range.first, range.second, to);
      continue;
    }
    uint32_t low = range.first;
    for (uint32_t code = low; code <= std::min<uint32_t>(range.second, '\\'); ++code) {
      if (is_plain(code)) continue;
      if (low < code) nfa.add_utf8(from, low, code - 1, to);
      add_json_escape(nfa, from, code, to);
      low = code + 1;
    }
    if (low <= range.second) nfa.add_utf8(from, low, range.second, to);
  }
}

Result<Dfa> regex_automaton(std::string_view pattern, Spelling spelling, bool search, WorkBudget& budget) {
  ASSIGN_OR_RETURN(const RegexNode tree, parse_regex(pattern));
  Nfa nfa(budget);
  const int32_t start = nfa.add_state();
  const int32_t accept = nfa.add_state();
  Builder builder(nfa, spelling, search);
  builder.whole(tree, start, accept);
  if (builder.misplaced_anchor()) return Error{"^ and $ are supported at the beginning and the end only"};
  std::optional<Dfa> dfa = determinise(nfa, start, accept);
  if (!dfa) return Error{"its automaton is too large"};
  if (dfa->empty()) return Error{"no text matches it"};
  return *std::move(dfa);
}

}  // namespace boreas::grammar
