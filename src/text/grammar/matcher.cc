#include "text/grammar/matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace boreas::grammar {

namespace {

// Positions that enter() may look at for one byte; alternatives of alternatives count each time.
constexpr size_t kPendingMax = 4 * Matcher::kPositionsMax;
constexpr size_t kKeyPositionsMax = 64;

std::vector<uint32_t> words_of(const Positions& positions) {
  std::vector<uint32_t> words;
  words.reserve(positions.size() * 4);
  for (const Position& at : positions) {
    words.insert(words.end(), {at.node, static_cast<uint32_t>(at.state), at.count, at.frame});
  }
  return words;
}

void sort_once(Positions& positions) {
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
}

// The count that stands for `count` where at most `reach` more can be seen.
uint32_t representative(uint32_t count, uint32_t low, uint32_t high, uint32_t reach) {
  if (count < low) return low - count > reach ? 0 : count;
  return high - count > reach ? low : count;
}

}  // namespace

Matcher::Matcher(std::shared_ptr<const Grammar> grammar) : grammar_(std::move(grammar)), frames_(1) {
  Positions start;
  enter(grammar_->root, 0, 0, start);
  sort_once(start);
  CHECK(!start.empty());
  state_ = intern(std::move(start));
}

uint32_t Matcher::push(NodeIndex node, uint32_t count, uint32_t parent) {
  const auto [entry, inserted] = frame_ids_.try_emplace({node, count, parent}, static_cast<uint32_t>(frames_.size()));
  if (inserted) frames_.push_back({node, count, parent, frames_[parent].depth + 1});
  return entry->second;
}

// Adds the positions where a byte can be taken next, from a node with this stack on.
void Matcher::enter(NodeIndex start, uint32_t count, uint32_t frame, Positions& out) {
  const std::vector<Node>& nodes = grammar_->nodes;
  pending_.assign(1, {start, count, frame});
  for (size_t looked_at = 0; !pending_.empty() && looked_at < kPendingMax; ++looked_at) {
    const Pending at = pending_.back();
    pending_.pop_back();
    const Node& node = nodes[at.node];
    if (frames_[at.frame].depth + node.need > kFramesMax) continue;  // it could not be completed
    switch (node.kind) {
      case Node::Kind::kTerminal: {
        const Dfa& dfa = *grammar_->terminals[node.terminal];
        if (!dfa.final(0)) out.push_back({at.node, 0, 0, at.frame});
        if (dfa.accepting(0)) pending_.push_back({node.next, 0, at.frame});
        break;
      }
      case Node::Kind::kString:
        out.push_back({at.node, 0, 0, at.frame});
        break;
      case Node::Kind::kSplit:
        for (uint32_t i = node.alternatives_count; i-- > 0 && pending_.size() < kPendingMax;) {
          const NodeIndex alternative = grammar_->alternatives[node.alternatives_begin + i];
          const bool fits = frames_[at.frame].depth + nodes[alternative].need <= kFramesMax;
          if (fits) pending_.push_back({alternative, 0, at.frame});
        }
        break;
      case Node::Kind::kCall:
        pending_.push_back({node.first, 0, push(node.next, 0, at.frame)});
        break;
      case Node::Kind::kRepeat:
        enter_repeat(node, at);
        break;
      case Node::Kind::kReturn:
        if (at.frame == 0) {
          out.push_back({Position::kEnd, 0, 0, 0});
        } else {
          const Frame back = frames_[at.frame];
          pending_.push_back({back.node, back.count, back.parent});
        }
    }
  }
}

void Matcher::enter_repeat(const Node& node, const Pending& at) {
  if (at.count >= node.count_min) pending_.push_back({node.next, 0, at.frame});
  if (at.count >= node.count_max) return;
  uint32_t items = at.count + 1;
  // Without an upper bound only whether the lower one is reached matters, and whether a comma is due.
  if (node.count_max == kCountFree) items = std::min(items, std::max(node.count_min, 1u));
  const NodeIndex item = at.count == 0 ? node.first : node.later;
  pending_.push_back({item, 0, push(at.node, items, at.frame)});
}

void Matcher::step(const Positions& from, uint8_t byte, Positions& out) {
  out.clear();
  for (const Position& at : from) {
    if (at.node == Position::kEnd || out.size() > kPositionsMax) break;
    const Node& node = grammar_->nodes[at.node];
    if (node.kind == Node::Kind::kString) {
      step_string(at, byte, out);
      continue;
    }
    const Dfa& dfa = *grammar_->terminals[node.terminal];
    const int32_t next = dfa.next(at.state, byte);
    if (next == Dfa::kDead) continue;
    if (!dfa.final(next)) out.push_back({at.node, next, 0, at.frame});
    if (dfa.accepting(next)) enter(node.next, 0, at.frame, out);
  }
  sort_once(out);
  if (out.size() > kPositionsMax) out.resize(kPositionsMax);
}

void Matcher::step_string(const Position& at, uint8_t byte, Positions& out) {
  const JsonString& string = JsonString::get();
  const Node& node = grammar_->nodes[at.node];
  const int32_t next = string.dfa.next(at.state, byte);
  if (next == Dfa::kDead) return;
  if (string.dfa.final(next)) {
    if (at.count >= node.count_min) enter(node.next, 0, at.frame, out);
    return;
  }
  if (at.state == string.between && at.count >= node.count_max) return;  // no room for another character
  uint32_t count = at.count;
  if (next == string.between && at.state != 0) {
    ++count;
    if (node.count_max == kCountFree) count = std::min(count, node.count_min);
  }
  out.push_back({at.node, next, count, at.frame});
}

bool Matcher::accept(std::string_view bytes) {
  StateId state = state_;
  Positions positions;
  size_t i = 0;
  for (; i < bytes.size() && state != kUnknown; ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const StateId from = state;
    state = remembered(from, byte);
    if (state == kUnknown) {
      step(states_[static_cast<size_t>(from)], byte, positions);
      state = remember(from, byte, positions);
    }
    if (state == kDead) return false;
  }
  if (state != kUnknown) {
    state_ = state;
    return true;
  }
  // No room: the rest without memory, which then begins anew.
  Positions next;
  for (; i < bytes.size(); ++i) {
    step(positions, static_cast<uint8_t>(bytes[i]), next);
    if (next.empty()) return false;
    positions.swap(next);
  }
  states_[static_cast<size_t>(state_)] = std::move(positions);
  forget();
  return true;
}

Matcher::StateId Matcher::remember(StateId from, uint8_t byte, const Positions& to) {
  StateId& slot = steps_[static_cast<size_t>(from) * 256 + byte];
  if (to.empty()) return slot = kDead;
  if (states_.size() >= kStatesMax || remembered_bytes_ >= kRememberedBytesMax) {
    const auto known = state_ids_.find(words_of(to));
    return known == state_ids_.end() ? kUnknown : slot = known->second;
  }
  const StateId id = intern(to);
  return steps_[static_cast<size_t>(from) * 256 + byte] = id;  // intern() may have moved the table
}

Matcher::StateId Matcher::intern(Positions positions) {
  const auto [entry, inserted] = state_ids_.try_emplace(words_of(positions), static_cast<StateId>(states_.size()));
  if (!inserted) return entry->second;
  remembered_bytes_ += 2 * positions.size() * sizeof(Position);
  states_.push_back(std::move(positions));
  steps_.resize(states_.size() * 256, kUnknown);
  return entry->second;
}

void Matcher::tidy_up() {
  constexpr size_t kStatesKept = kStatesMax / 4;
  constexpr size_t kFramesKept = 65536;
  const bool large = states_.size() > kStatesKept || frames_.size() > kFramesKept;
  if (large || remembered_bytes_ > kRememberedBytesMax / 4) forget();
}

// Keeps the current state and the frames under it.
void Matcher::forget() {
  Positions current = std::move(states_[static_cast<size_t>(state_)]);
  const std::vector<Frame> before = std::move(frames_);
  frames_.assign(1, Frame());
  frame_ids_.clear();
  states_.clear();
  steps_.clear();
  state_ids_.clear();
  remembered_bytes_ = 0;
  for (Position& at : current) {
    std::vector<uint32_t> path;  // from the top down
    for (uint32_t frame = at.frame; frame != 0; frame = before[frame].parent) path.push_back(frame);
    at.frame = 0;
    for (size_t i = path.size(); i-- > 0;) at.frame = push(before[path[i]].node, before[path[i]].count, at.frame);
  }
  sort_once(current);
  state_ = intern(std::move(current));
}

std::vector<uint32_t> Matcher::key(uint32_t bytes_max) const {
  const Positions& current = positions(state_);
  std::vector<uint32_t> words;
  if (current.size() > kKeyPositionsMax) return words;
  const std::vector<Node>& nodes = grammar_->nodes;
  const auto count_of = [&](NodeIndex index, uint32_t count) {
    const Node& node = nodes[index];
    if (node.kind == Node::Kind::kString) return representative(count, node.count_min, node.count_max, bytes_max);
    if (node.kind != Node::Kind::kRepeat) return count;
    // Behind the first item a comma is due.
    return std::max(representative(count, std::max(node.count_min, 1u), node.count_max, bytes_max), 1u);
  };
  for (const Position& at : current) {
    const bool end = at.node == Position::kEnd;
    words.insert(words.end(), {at.node, static_cast<uint32_t>(at.state), end ? 0 : count_of(at.node, at.count)});
    for (uint32_t frame = at.frame; frame != 0; frame = frames_[frame].parent) {
      words.insert(words.end(), {frames_[frame].node, count_of(frames_[frame].node, frames_[frame].count)});
    }
    words.push_back(Position::kEnd);
  }
  return words;
}

Matcher::OpenString Matcher::open_string() const {
  const Positions& current = positions(state_);
  OpenString found;
  for (const Position& at : current) {
    if (at.node == Position::kEnd) continue;
    const Node& node = grammar_->nodes[at.node];
    if (node.kind != Node::Kind::kString || at.state != JsonString::get().between) continue;
    const uint32_t room = node.count_max == kCountFree ? kCountFree : node.count_max - at.count;
    found.characters = std::max(found.characters, room);
  }
  found.alone = current.size() == 1;
  return found;
}

}  // namespace boreas::grammar
