#include "text/grammar/automaton.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/check.h"

namespace boreas::grammar {

namespace {

// A character as UTF-8: its bytes, 1 to 4 of them.
struct Utf8 {
  explicit Utf8(uint32_t code) {
    if (code < 0x80) {
      bytes[count++] = static_cast<uint8_t>(code);
    } else if (code < 0x800) {
      bytes[count++] = static_cast<uint8_t>(0xC0 | code >> 6);
    } else if (code < 0x10000) {
      bytes[count++] = static_cast<uint8_t>(0xE0 | code >> 12);
      bytes[count++] = static_cast<uint8_t>(0x80 | (code >> 6 & 0x3F));
    } else {
      bytes[count++] = static_cast<uint8_t>(0xF0 | code >> 18);
      bytes[count++] = static_cast<uint8_t>(0x80 | (code >> 12 & 0x3F));
      bytes[count++] = static_cast<uint8_t>(0x80 | (code >> 6 & 0x3F));
    }
    if (code >= 0x80) bytes[count++] = static_cast<uint8_t>(0x80 | (code & 0x3F));
  }
  uint8_t bytes[4] = {};
  int count = 0;
};

// The bytes of characters between two that have equally many bytes, from byte `at` on.
void add_utf8_bytes(Nfa& nfa, int32_t from, Utf8 low, Utf8 high, int at, int32_t to) {
  const auto index = static_cast<size_t>(at);
  if (at + 1 == low.count) return nfa.add_edge(from, low.bytes[index], high.bytes[index], to);
  const auto fill = [&](Utf8 text, uint8_t byte) {
    for (int i = at + 1; i < text.count; ++i) text.bytes[i] = byte;
    return text;
  };
  const auto below = [&](const Utf8& first, const Utf8& last) {
    const int32_t middle = nfa.add_state();
    nfa.add_edge(from, first.bytes[index], last.bytes[index], middle);
    add_utf8_bytes(nfa, middle, first, last, at + 1, to);
  };
  if (low.bytes[index] == high.bytes[index]) return below(low, high);
  const auto all_are = [&](const Utf8& text, uint8_t byte) {
    return std::all_of(text.bytes + at + 1, text.bytes + text.count, [byte](uint8_t b) { return b == byte; });
  };
  // Split off the first and the last leading byte where their rests are not complete.
  if (!all_are(low, 0x80)) {
    below(low, fill(low, 0xBF));
    low = fill(low, 0x80);
    ++low.bytes[index];
  }
  const bool partial_end = !all_are(high, 0xBF);
  const Utf8 last = high;
  if (partial_end) {
    high = fill(high, 0xBF);
    --high.bytes[index];
  }
  if (low.bytes[index] <= high.bytes[index]) below(low, high);
  if (partial_end) below(fill(last, 0x80), last);
}

using StateSet = std::vector<int32_t>;

// The subset construction.
class Determiniser {
 public:
  Determiniser(const Nfa& nfa, int32_t accept)
      : nfa_(nfa), accept_(accept), seen_(static_cast<size_t>(nfa.size()), false) {}

  std::optional<Dfa> run(int32_t start) {
    state_of({start});
    while (!waiting_.empty() && !nfa_.budget().exhausted()) {
      const int32_t id = waiting_.back();
      waiting_.pop_back();
      expand(id);
    }
    if (nfa_.budget().exhausted()) return std::nullopt;
    return std::move(builder_).build();
  }

 private:
  // The Dfa state of a set of Nfa states, which is completed along empty edges.
  int32_t state_of(StateSet set) {
    close(set);
    const auto [entry, inserted] = ids_.try_emplace(set, static_cast<int32_t>(sets_.size()));
    if (!inserted) return entry->second;
    nfa_.budget().state();
    builder_.add_state(std::binary_search(set.begin(), set.end(), accept_));
    waiting_.push_back(entry->second);
    sets_.push_back(std::move(set));
    return entry->second;
  }

  void close(StateSet& set) {
    for (const int32_t state : set) seen_[static_cast<size_t>(state)] = true;
    for (size_t i = 0; i < set.size(); ++i) {
      for (const int32_t to : nfa_.empty_edges(set[i])) {
        if (!seen_[static_cast<size_t>(to)]) set.push_back(to);
        seen_[static_cast<size_t>(to)] = true;
      }
    }
    for (const int32_t state : set) seen_[static_cast<size_t>(state)] = false;
    nfa_.budget().step(8 * static_cast<int64_t>(set.size()));  // it is also sorted, hashed and kept
    std::sort(set.begin(), set.end());
  }

  // The bytes fall into intervals within which all edges agree; each interval leads to one set.
  void expand(int32_t id) {
    bool starts[257] = {true};
    for (const int32_t state : sets_[static_cast<size_t>(id)]) {
      for (const Nfa::Edge& edge : nfa_.edges(state)) starts[edge.low] = starts[edge.high + 1] = true;
    }
    uint8_t interval_of[256];
    int last = -1;
    for (int byte = 0; byte < 256; ++byte) interval_of[byte] = static_cast<uint8_t>(last += starts[byte]);
    std::vector<StateSet> targets(static_cast<size_t>(last) + 1);
    for (const int32_t state : sets_[static_cast<size_t>(id)]) {
      for (const Nfa::Edge& edge : nfa_.edges(state)) {
        if (!nfa_.budget().step(1 + interval_of[edge.high] - interval_of[edge.low])) return;
        for (int i = interval_of[edge.low]; i <= interval_of[edge.high]; ++i) {
          targets[static_cast<size_t>(i)].push_back(edge.to);
        }
      }
    }
    std::optional<Dfa::Edge> open;  // joined with the next one if it leads to the same state
    for (int low = 0, high = 0; low < 256; low = high + 1) {
      for (high = low; high < 255 && !starts[high + 1];) ++high;
      StateSet& set = targets[interval_of[low]];
      if (set.empty()) continue;
      std::sort(set.begin(), set.end());
      set.erase(std::unique(set.begin(), set.end()), set.end());
      const int32_t to = state_of(std::move(set));
      if (open && open->to == to && open->high + 1 == low) {
        open->high = static_cast<uint8_t>(high);
        continue;
      }
      if (open) builder_.add_edge(id, open->low, open->high, open->to);
      open = Dfa::Edge{static_cast<uint8_t>(low), static_cast<uint8_t>(high), to};
    }
    if (open) builder_.add_edge(id, open->low, open->high, open->to);
  }

  const Nfa& nfa_;
  const int32_t accept_;
  std::vector<bool> seen_;  // scratch of close()
  Dfa::Builder builder_;
  std::vector<StateSet> sets_;
  std::vector<int32_t> waiting_;
  std::unordered_map<StateSet, int32_t, HashWords> ids_;
};

// Pairs of states; `keep_missing`: the second automaton may have refused the text (difference).
std::optional<Dfa> product(const Dfa& a, const Dfa& b, bool keep_missing, WorkBudget& budget) {
  Dfa::Builder builder;
  std::unordered_map<std::array<int32_t, 2>, int32_t, HashWords> ids;
  std::vector<std::pair<int32_t, int32_t>> pairs;
  const auto id_of = [&](int32_t left, int32_t right) {
    const auto [entry, inserted] = ids.try_emplace(std::array{left, right}, static_cast<int32_t>(pairs.size()));
    if (inserted) {
      budget.state();
      pairs.emplace_back(left, right);
      const bool in_b = right != Dfa::kDead && b.accepting(right);
      builder.add_state(a.accepting(left) && in_b != keep_missing);
    }
    return entry->second;
  };
  if (a.empty() || (b.empty() && !keep_missing)) return Dfa();
  id_of(0, b.empty() ? Dfa::kDead : 0);
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (budget.exhausted()) return std::nullopt;
    const auto pair = pairs[i];
    for (size_t e = 0; e < a.edge_count(pair.first); ++e) {
      const Dfa::Edge edge = a.edges(pair.first)[e];
      int low = edge.low;
      const auto emit = [&](int high, int32_t right) {
        if (right != Dfa::kDead || keep_missing) {
          builder.add_edge(static_cast<int32_t>(i), static_cast<uint8_t>(low), static_cast<uint8_t>(high),
                           id_of(edge.to, right));
        }
        low = high + 1;
      };
      const size_t count = pair.second == Dfa::kDead ? 0 : b.edge_count(pair.second);
      for (size_t f = 0; f < count && low <= edge.high; ++f) {
        const Dfa::Edge other = b.edges(pair.second)[f];
        budget.step();
        if (other.high < low || other.low > edge.high) continue;
        if (other.low > low) emit(other.low - 1, Dfa::kDead);
        emit(std::min<int>(other.high, edge.high), other.to);
      }
      if (low <= edge.high) emit(edge.high, Dfa::kDead);
    }
  }
  return std::move(builder).build();
}

}  // namespace

int32_t Nfa::add_state() {
  budget_.state();
  if (!budget_.exhausted()) states_.emplace_back();
  if (states_.empty()) states_.emplace_back();
  return static_cast<int32_t>(states_.size()) - 1;  // once the budget is used up nothing grows any more
}

void Nfa::add_edge(int32_t from, uint8_t low, uint8_t high, int32_t to) {
  if (budget_.step()) states_[static_cast<size_t>(from)].edges.push_back({low, high, to});
}

void Nfa::add_empty_edge(int32_t from, int32_t to) {
  if (budget_.step()) states_[static_cast<size_t>(from)].empty.push_back(to);
}

void Nfa::add_path(int32_t from, std::string_view bytes, int32_t to) {
  if (bytes.empty()) return add_empty_edge(from, to);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int32_t next = i + 1 == bytes.size() ? to : add_state();
    const auto byte = static_cast<uint8_t>(bytes[i]);
    add_edge(from, byte, byte, next);
    from = next;
  }
}

void Nfa::add_utf8(int32_t from, uint32_t low, uint32_t high, int32_t to) {
  constexpr std::pair<uint32_t, uint32_t> kSameLength[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}};
  for (const auto& range : kSameLength) {
    const uint32_t first = std::max(low, range.first);
    const uint32_t last = std::min(high, range.second);
    if (first <= last) add_utf8_bytes(*this, from, Utf8(first), Utf8(last), 0, to);
  }
}

int32_t Dfa::next(int32_t state, uint8_t byte) const {
  const Edge* edge = edges(state);
  const Edge* const end = edge + edge_count(state);
  for (; edge != end && edge->low <= byte; ++edge) {
    if (byte <= edge->high) return edge->to;
  }
  return kDead;
}

bool Dfa::accepts(std::string_view text) const {
  int32_t state = empty() ? kDead : 0;
  for (const char c : text) {
    if (state == kDead) return false;
    state = next(state, static_cast<uint8_t>(c));
  }
  return state != kDead && accepting(state);
}

int32_t Dfa::Builder::add_state(bool accepting) {
  edges_.emplace_back();
  accepting_.push_back(accepting);
  return static_cast<int32_t>(accepting_.size()) - 1;
}

void Dfa::Builder::add_edge(int32_t from, uint8_t low, uint8_t high, int32_t to) {
  edges_[static_cast<size_t>(from)].push_back({low, high, to});
}

Dfa Dfa::Builder::build() && {
  const size_t count = accepting_.size();
  std::vector<std::vector<int32_t>> sources(count);  // of the edges into each state
  for (size_t from = 0; from < count; ++from) {
    for (const Edge& edge : edges_[from]) sources[static_cast<size_t>(edge.to)].push_back(static_cast<int32_t>(from));
  }
  std::vector<bool> live = accepting_;
  std::vector<int32_t> waiting;
  for (size_t state = 0; state < count; ++state) {
    if (live[state]) waiting.push_back(static_cast<int32_t>(state));
  }
  while (!waiting.empty()) {
    const int32_t state = waiting.back();
    waiting.pop_back();
    for (const int32_t from : sources[static_cast<size_t>(state)]) {
      if (!live[static_cast<size_t>(from)]) waiting.push_back(from);
      live[static_cast<size_t>(from)] = true;
    }
  }
  Dfa dfa;
  if (count == 0 || !live[0]) return dfa;
  std::vector<int32_t> renamed(count, kDead);
  int32_t kept = 0;
  for (size_t state = 0; state < count; ++state) {
    if (live[state]) renamed[state] = kept++;
  }
  for (size_t state = 0; state < count; ++state) {
    if (!live[state]) continue;
    dfa.first_.push_back(static_cast<uint32_t>(dfa.edges_.size()));
    dfa.accepting_.push_back(accepting_[state]);
    std::vector<Edge>& edges = edges_[state];
    std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.low < b.low; });
    for (const Edge& edge : edges) {
      const int32_t to = renamed[static_cast<size_t>(edge.to)];
      if (to != kDead) dfa.edges_.push_back({edge.low, edge.high, to});
    }
  }
  dfa.first_.push_back(static_cast<uint32_t>(dfa.edges_.size()));
  return dfa;
}

std::optional<Dfa> determinise(const Nfa& nfa, int32_t start, int32_t accept) {
  if (nfa.budget().exhausted()) return std::nullopt;
  return Determiniser(nfa, accept).run(start);
}

std::optional<Dfa> intersect(const Dfa& a, const Dfa& b, WorkBudget& budget) { return product(a, b, false, budget); }

std::optional<Dfa> subtract(const Dfa& a, const Dfa& b, WorkBudget& budget) { return product(a, b, true, budget); }

std::optional<Dfa> one_of(std::vector<std::string> texts, WorkBudget& budget) {
  std::sort(texts.begin(), texts.end());
  Dfa::Builder builder;
  if (texts.empty()) return Dfa();
  std::vector<int32_t> path = {builder.add_state(texts.front().empty())};  // states along the text before
  std::string_view before;
  for (const std::string& text : texts) {
    if (text.empty() || text == before) continue;
    const auto differ = std::mismatch(before.begin(), before.end(), text.begin(), text.end());
    path.resize(static_cast<size_t>(differ.second - text.begin()) + 1);
    for (size_t i = path.size() - 1; i < text.size(); ++i) {
      if (!budget.state()) return std::nullopt;
      const int32_t state = builder.add_state(i + 1 == text.size());
      const auto byte = static_cast<uint8_t>(text[i]);
      builder.add_edge(path.back(), byte, byte, state);
      path.push_back(state);
    }
    before = text;
  }
  return std::move(builder).build();
}

}  // namespace boreas::grammar
