// Matcher: how far a text has come in a Grammar. A state is a set of positions, each with a stack, because alternatives
// are followed side by side; sets and the steps between them are remembered, so that a walk over a vocabulary mostly
// reads a table. One a sequence; not shared between threads.
//
// What always holds: a state is never empty, and the text can be completed from it. A set of more than kPositionsMax
// positions is cut: then some texts that the grammar allows are refused, never the reverse.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/grammar.h"

namespace boreas::grammar {

// One possible place in the grammar. What is on the stack is found under `frame`.
struct Position {
  static constexpr uint32_t kEnd = UINT32_MAX;  // as node: the text is complete
  uint32_t node = 0;
  int32_t state = 0;   // of the node's automaton
  uint32_t count = 0;  // kString: characters so far, as far as they matter
  uint32_t frame = 0;  // 0: the stack is empty
  // NOLINTNEXTLINE(modernize-use-nullptr): as in base/ids.h
  auto operator<=>(const Position&) const = default;
};
using Positions = std::vector<Position>;  // sorted, each once

class Matcher {
 public:
  using StateId = int32_t;
  static constexpr StateId kDead = -1;
  static constexpr size_t kPositionsMax = 8192;
  static constexpr size_t kStatesMax = 4096;  // remembered; 1 KiB each and their positions
  static constexpr size_t kRememberedBytesMax = size_t{16} << 20;

  explicit Matcher(std::shared_ptr<const Grammar> grammar);

  StateId state() const { return state_; }
  // Goes on by `bytes`. False and no change if the grammar refuses them.
  bool accept(std::string_view bytes);
  bool complete() const { return is_complete(positions(state_)); }
  // The text may end here, and nothing else is possible.
  bool ended() const { return positions(state_).size() == 1 && complete(); }

  const Positions& positions(StateId state) const { return states_[static_cast<size_t>(state)]; }
  static bool is_complete(const Positions& positions) {
    return !positions.empty() && positions.back().node == Position::kEnd;
  }
  // For walks from any state: the state after a byte if that is remembered, else kUnknown.
  static constexpr StateId kUnknown = -2;
  StateId remembered(StateId from, uint8_t byte) const { return steps_[static_cast<size_t>(from) * 256 + byte]; }
  // Computes a step. The positions are in `out`, empty if there are none.
  void step(const Positions& from, uint8_t byte, Positions& out);
  // Remembers a step that was computed. kUnknown: there is no room.
  StateId remember(StateId from, uint8_t byte, const Positions& to);
  // Drops what is remembered if it has grown large; only the current state keeps its meaning, under another id.
  void tidy_up();

  // The current state with counts replaced by the smallest that the next `bytes_max` bytes cannot tell from them: equal
  // keys, equal masks. Nothing if the state is too large to be worth a key.
  std::vector<uint32_t> key(uint32_t bytes_max) const;
  // A string is open in this state that takes any characters, as far as there is room for them.
  struct OpenString {
    uint32_t characters = 0;  // 0: there is none; kCountFree: no limit
    bool alone = false;       // nothing else is possible
  };
  OpenString open_string() const;
  const Grammar& grammar() const { return *grammar_; }

 private:
  struct Frame {
    NodeIndex node = 0;  // where it goes on
    uint32_t count = 0;  // kRepeat: items so far, as far as they matter
    uint32_t parent = 0;
    int32_t depth = 0;
    auto operator<=>(const Frame&) const = default;
  };
  struct Pending {
    NodeIndex node;
    uint32_t count;
    uint32_t frame;
  };

  uint32_t push(NodeIndex node, uint32_t count, uint32_t parent);
  void enter(NodeIndex node, uint32_t count, uint32_t frame, Positions& out);
  void enter_repeat(const Node& node, const Pending& at);
  void step_string(const Position& at, uint8_t byte, Positions& out);
  StateId intern(Positions positions);
  void forget();

  std::shared_ptr<const Grammar> grammar_;
  std::vector<Frame> frames_;  // equal ones are one; [0] is the empty stack
  std::unordered_map<std::vector<uint32_t>, uint32_t, HashWords> frame_ids_;
  std::vector<Positions> states_;
  std::vector<StateId> steps_;  // [states, 256]
  std::unordered_map<std::vector<uint32_t>, StateId, HashWords> state_ids_;
  size_t remembered_bytes_ = 0;
  StateId state_ = 0;
  std::vector<Pending> pending_;  // scratch
};

}  // namespace boreas::grammar
