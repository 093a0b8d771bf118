// StopMatcher finds the first of many stop strings in a stream of text. The output parser runs it over the visible
// answer, RawOutput (output_parser_raw.h) over everything a plain completion writes.
//
// What always holds:
// - Results do not depend on how the text was cut into pieces.
// - Only a suffix that is a proper prefix of some stop string is held back; nothing of a matched stop string leaves.
// - The match that ends first wins; of those ending at the same byte, the longest.
// - Time is linear in the text (Aho-Corasick automaton, Aho and Corasick 1975), memory linear in the stop strings; the
//   text held back needs no memory of its own, because it is a prefix of a stop string.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace boreas {

class StopMatcher {
 public:
  StopMatcher() : StopMatcher(std::vector<std::string>{}) {}
  // Empty strings never match. The caller bounds count and length; here they only cost memory (about 60 bytes for each
  // byte of a stop string).
  explicit StopMatcher(std::vector<std::string> stops);

  // Takes the next piece and returns what became visible. `matched` is set to true when a stop string is complete; the
  // text behind it is dropped and later pushes return nothing.
  std::string push(std::string_view text, bool& matched);
  // The stream has ended without a match (or after one): returns what was held back.
  std::string finish();

  bool empty() const { return nodes_.size() == 1; }  // no stop strings: push passes everything through
  bool matched() const { return matched_ >= 0; }
  // The stop string that matched; empty before.
  const std::string& matched_stop() const { return matched() ? stops_[static_cast<size_t>(matched_)] : none_; }
  // Bytes of the pushed text not returned yet; they are the last ones pushed.
  size_t held_bytes() const { return matched() ? 0 : nodes_[node_].depth; }

 private:
  struct Node {
    uint32_t parent = 0;
    uint32_t fail = 0;       // node of the longest proper suffix that is also a prefix of a stop string
    uint32_t depth = 0;      // bytes from the root
    int32_t stop = -1;       // longest stop string that ends here, -1 for none
    uint32_t prefix_of = 0;  // any stop string that begins with this node's text
    uint8_t byte = 0;        // edge from the parent
  };

  void insert(uint32_t stop_index);
  void link_failures();
  uint32_t child(uint32_t node, uint8_t byte) const;  // 0: none (the root is nobody's child)
  uint32_t advance(uint32_t node, uint8_t byte) const;
  std::string_view held() const {
    return std::string_view(stops_.empty() ? none_ : stops_[nodes_[node_].prefix_of]).substr(0, nodes_[node_].depth);
  }

  std::vector<std::string> stops_;
  std::vector<Node> nodes_;
  std::array<uint32_t, 256> root_children_{};
  std::unordered_map<uint64_t, uint32_t> children_;  // (node << 8 | byte) -> child, for all nodes but the root
  std::string none_;
  uint32_t node_ = 0;
  int32_t matched_ = -1;
};

}  // namespace boreas
