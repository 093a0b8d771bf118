// See stop_strings.h.
#include "text/stop_strings.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace boreas {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)), nodes_(1) {
  for (uint32_t i = 0; i < stops_.size(); ++i) insert(i);
  link_failures();
}

uint32_t StopMatcher::child(uint32_t node, uint8_t byte) const {
  if (node == 0) return root_children_[byte];
  const auto found = children_.find(uint64_t{node} << 8 | byte);
  return found == children_.end() ? 0 : found->second;
}

void StopMatcher::insert(uint32_t stop_index) {
  const std::string& stop = stops_[stop_index];
  if (stop.empty()) return;
  uint32_t node = 0;
  for (const char c : stop) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t next = child(node, byte);
    if (next == 0) {
      CHECK(nodes_.size() < UINT32_MAX);
      next = static_cast<uint32_t>(nodes_.size());
      Node made;
      made.parent = node;
      made.depth = nodes_[node].depth + 1;
      made.prefix_of = stop_index;
      made.byte = byte;
      nodes_.push_back(made);
      if (node == 0) {
        root_children_[byte] = next;
      } else {
        children_.emplace(uint64_t{node} << 8 | byte, next);
      }
    }
    node = next;
  }
  if (nodes_[node].stop < 0) nodes_[node].stop = static_cast<int32_t>(stop_index);
}

void StopMatcher::link_failures() {
  // Shallow nodes first: a failure link always leads to a shallower node.
  std::vector<uint32_t> order(nodes_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [this](uint32_t a, uint32_t b) { return nodes_[a].depth < nodes_[b].depth; });
  for (const uint32_t index : order) {
    Node& node = nodes_[index];
    if (node.depth <= 1) continue;  // fail stays the root
    node.fail = advance(nodes_[node.parent].fail, node.byte);
    if (node.stop < 0) node.stop = nodes_[node.fail].stop;
  }
}

uint32_t StopMatcher::advance(uint32_t node, uint8_t byte) const {
  while (true) {
    const uint32_t next = child(node, byte);
    if (next != 0) return next;
    if (node == 0) return 0;
    node = nodes_[node].fail;
  }
}

std::string StopMatcher::push(std::string_view text, bool& matched) {
  if (this->matched()) {
    matched = true;
    return {};
  }
  const std::string_view old = held();  // the stream from the oldest byte held back on is old + text
  const auto take = [old, text](size_t bytes) {
    std::string visible(old.substr(0, bytes));
    if (bytes > old.size()) visible.append(text.substr(0, bytes - old.size()));
    return visible;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    node_ = advance(node_, static_cast<uint8_t>(text[i]));
    const int32_t stop = nodes_[node_].stop;
    if (stop < 0) continue;
    matched_ = stop;
    matched = true;
    return take(old.size() + i + 1 - stops_[static_cast<size_t>(stop)].size());
  }
  return take(old.size() + text.size() - nodes_[node_].depth);
}

std::string StopMatcher::finish() {
  if (matched()) return {};
  std::string rest(held());
  node_ = 0;
  return rest;
}

}  // namespace boreas
