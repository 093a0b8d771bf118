// Finite automata over bytes, the terminals of a Grammar: literals, numbers, strings with a pattern. The compilers of
// this folder build an Nfa, determinise it once, and combine Dfas.
//
// What always holds: every state of a Dfa can still reach acceptance, so a text that a Dfa has not refused can always
// be completed. Everything that grows is charged to a WorkBudget, because patterns come from clients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace boreas::grammar {

// Bounds the compilation of one grammar: elementary steps, and states of all its automata.
class WorkBudget {
 public:
  static constexpr int64_t kStepsMax = 10'000'000;  // about half a second
  static constexpr int64_t kStatesMax = 300'000;    // about 20 bytes each

  // False: used up, now or before.
  bool step(int64_t count = 1) { return (steps_left_ -= count) >= 0 && states_left_ >= 0; }
  bool state(int64_t count = 1) { return (states_left_ -= count) >= 0 && steps_left_ >= 0; }
  bool exhausted() const { return steps_left_ < 0 || states_left_ < 0; }

 private:
  int64_t steps_left_ = kStepsMax;
  int64_t states_left_ = kStatesMax;
};

// Nondeterministic, with edges that consume nothing. Has one start and one accepting state, given on determinising.
class Nfa {
 public:
  explicit Nfa(WorkBudget& budget) : budget_(budget) {}

  int32_t add_state();
  void add_edge(int32_t from, uint8_t low, uint8_t high, int32_t to);
  void add_empty_edge(int32_t from, int32_t to);
  // A path of exactly these bytes.
  void add_path(int32_t from, std::string_view bytes, int32_t to);
  // One character of code points low..high (no surrogates) as UTF-8.
  void add_utf8(int32_t from, uint32_t low, uint32_t high, int32_t to);

  struct Edge {
    uint8_t low, high;
    int32_t to;
  };
  const std::vector<Edge>& edges(int32_t state) const { return states_[static_cast<size_t>(state)].edges; }
  const std::vector<int32_t>& empty_edges(int32_t state) const { return states_[static_cast<size_t>(state)].empty; }
  int32_t size() const { return static_cast<int32_t>(states_.size()); }
  WorkBudget& budget() const { return budget_; }

 private:
  struct State {
    std::vector<Edge> edges;
    std::vector<int32_t> empty;
  };
  WorkBudget& budget_;
  std::vector<State> states_;
};

// Deterministic, immutable; state 0 is the start. The empty language has no states at all.
class Dfa {
 public:
  static constexpr int32_t kDead = -1;
  struct Edge {
    uint8_t low, high;
    int32_t to;
  };

  bool empty() const { return accepting_.empty(); }
  int32_t size() const { return static_cast<int32_t>(accepting_.size()); }
  int32_t next(int32_t state, uint8_t byte) const;
  bool accepting(int32_t state) const { return accepting_[static_cast<size_t>(state)]; }
  // No byte leads on from here.
  bool final(int32_t state) const { return edge_count(state) == 0; }
  size_t edge_count(int32_t state) const {
    return first_[static_cast<size_t>(state) + 1] - first_[static_cast<size_t>(state)];
  }
  const Edge* edges(int32_t state) const { return edges_.data() + first_[static_cast<size_t>(state)]; }
  bool accepts(std::string_view text) const;
  size_t bytes() const {
    return edges_.size() * sizeof(Edge) + first_.size() * sizeof(uint32_t) + accepting_.size() / 8;
  }

  // Builds a Dfa state by state; build() drops what cannot reach acceptance. State 0 is the start.
  class Builder {
   public:
    int32_t add_state(bool accepting);
    // Edges of one state must not overlap.
    void add_edge(int32_t from, uint8_t low, uint8_t high, int32_t to);
    Dfa build() &&;

   private:
    std::vector<std::vector<Edge>> edges_;
    std::vector<bool> accepting_;
  };

 private:
  std::vector<uint32_t> first_;  // [size + 1] into edges_
  std::vector<Edge> edges_;      // of each state in ascending order
  std::vector<bool> accepting_;
};

// Nothing if the budget is used up.
std::optional<Dfa> determinise(const Nfa& nfa, int32_t start, int32_t accept);
// Texts in `a` and in `b`, or in `a` and not in `b`.
std::optional<Dfa> intersect(const Dfa& a, const Dfa& b, WorkBudget& budget);
std::optional<Dfa> subtract(const Dfa& a, const Dfa& b, WorkBudget& budget);
// One of these texts.
std::optional<Dfa> one_of(std::vector<std::string> texts, WorkBudget& budget);

// For hash tables with lists of numbers as keys.
struct HashWords {
  template <class List>
  size_t operator()(const List& list) const {
    uint64_t hash = 0x9E3779B97F4A7C15u ^ list.size();
    for (const auto word : list) {
      hash = (hash ^ static_cast<uint64_t>(word)) * 0xD6E8FEB86659FD93u;
      hash ^= hash >> 32;
    }
    return static_cast<size_t>(hash);
  }
};

}  // namespace boreas::grammar
