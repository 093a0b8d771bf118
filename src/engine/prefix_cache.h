// PrefixCache: pages whose content is known by the tokens before them. The page ledger and the engine core call it; one
// thread. It owns one reference of every page that it holds.
//
// A tree. A root stands for a cache salt, a node for 64 tokens after its parent, so a node stands for the whole text
// before its end. Children are found by a hash over (parent, tokens); tokens are compared on a hit, and the parent is a
// node that was found the same way, so a collision of hashes can never join two texts.
//
//   root "" --[tokens 0..63]--[64..127]--[128..191]        full page:     what attention over everything reads
//                full page     full page   full page       sliding page:  only where some sequence left one; a hit
//                                  `------[128..191]'                     ends where the window before it is complete
//
// A page is pending (bears the mark of its writer) until finite logits have been computed from it; pending pages are
// not handed out, and the writer takes them back if it ends before.
// A page is idle when the cache is its only owner. Idle pages can be evicted: full pages least recently used first;
// sliding pages that left a window in passing first, then least recently used ones.
// A node lives while it has a page, a pin (a running sequence whose text goes through it) or a child.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "engine/index_list.h"
#include "engine/page_pool.h"
#include "exec/executor.h"

namespace boreas {

using NodeId = Id<struct CacheNodeTag, int32_t>;
constexpr NodeId kNoNode{-1};
constexpr PageId kNoPage{-1};

// The text of one page. hash: PrefixCache::hash_tokens(tokens).
struct PageText {
  std::span<const TokenId> tokens;  // kPagePositions of them
  uint64_t hash = 0;
};

// What a sequence has for one node.
struct OfferedPages {
  PageId full = kNoPage;
  PageId sliding = kNoPage;  // none where it has left the window
  bool exact = true;         // a lone run would compute the same bits
};

class PrefixCache {
 public:
  struct CachedPage {
    PageId page = kNoPage;
    uint64_t version = 0;  // unique to this content; a later page of the same node gets another
    uint64_t writer = 0;   // not 0: pending
    bool verified() const { return page != kNoPage && writer == 0; }
  };
  struct Node {
    uint64_t serial = 0;  // unique over the cache's life; 0: not in use
    uint64_t key = 0;     // hash over parent and tokens
    NodeId parent = kNoNode;
    NodeId next = kNoNode;  // in the same bucket
    int32_t pins = 0;
    int32_t children = 0;
    bool exact = true;
    const std::string* salt = nullptr;  // of a root
    std::array<CachedPage, 2> pages;    // by PagePoolKind
    const CachedPage& at(PagePoolKind kind) const { return pages[static_cast<size_t>(kind)]; }
  };

  // The pools must outlive the cache. hash_seed: makes collisions unpredictable to clients.
  PrefixCache(PagePool& full, PagePool& sliding, uint64_t hash_seed);

  uint64_t hash_tokens(std::span<const TokenId> tokens) const;

  NodeId find_root(std::string_view salt) const;  // kNoNode: nothing is cached under this salt
  NodeId find_child(NodeId parent, const PageText& text) const;
  NodeId pin_root(const std::string& salt);  // made if need be
  void pin(NodeId node);
  void unpin(NodeId node);

  // The node of `text` after `parent` (pinned by the caller), pinned once more. Pages that the node lacks are taken
  // from `offered`, pending; the cache becomes another owner of them.
  NodeId publish(NodeId parent, const PageText& text, const OfferedPages& offered, uint64_t writer);
  // The caller's logits were finite: its pending pages are good, and its own pages replace pending ones of others,
  // inexact ones if they are exact, and idle ones (then one page holds what two held).
  void verify(NodeId node, const OfferedPages& offered, uint64_t writer);
  // The writer ends without that: its pending pages leave the cache.
  void retract(NodeId node, uint64_t writer);

  // The caller becomes an owner of a page of the node.
  PageId take(NodeId node, PagePoolKind kind);
  // And ends to be one; `page` may also be another than the node's. passing: a sliding page that nobody is likely to
  // need, evicted first.
  void give_back(NodeId node, PagePoolKind kind, PageId page, bool passing);

  // Idle pages: evict() as often returns a page to the pool.
  int32_t idle(PagePoolKind kind) const;
  void evict(PagePoolKind kind);

  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id.value)]; }
  bool alive(NodeId id, uint64_t serial) const {
    return id != kNoNode && static_cast<size_t>(id.value) < nodes_.size() && node(id).serial == serial;
  }
  std::span<const TokenId> tokens(NodeId id) const;

  // For tests.
  int32_t nodes_end() const { return static_cast<int32_t>(nodes_.size()); }
  bool listed_idle(NodeId id, PagePoolKind kind) const;

 private:
  PagePool& pool(PagePoolKind kind) { return kind == PagePoolKind::kFull ? full_ : sliding_; }
  Node& at(NodeId id) { return nodes_[static_cast<size_t>(id.value)]; }
  uint64_t key_of(NodeId parent, const PageText& text) const;
  NodeId& bucket(uint64_t key) { return buckets_[key & (buckets_.size() - 1)]; }
  NodeId make_node(NodeId parent, uint64_t key, std::span<const TokenId> tokens);
  void remove(NodeId id);
  void collect(NodeId id);
  void hold(NodeId id, PagePoolKind kind, PageId page, uint64_t writer);
  void drop(NodeId id, PagePoolKind kind);
  void unlist(NodeId id, PagePoolKind kind);
  bool is_idle(NodeId id, PagePoolKind kind);
  void verify_page(NodeId id, PagePoolKind kind, PageId offered, uint64_t writer);

  PagePool& full_;
  PagePool& sliding_;
  const uint64_t hash_seed_;
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;  // [nodes, kPagePositions]
  std::vector<NodeId> nodes_free_;
  std::vector<NodeId> buckets_;
  std::unordered_map<std::string, NodeId> roots_;
  IndexList idle_full_;             // oldest first
  IndexList idle_sliding_;          // oldest first
  IndexList idle_sliding_passing_;  // evicted before those
  uint64_t serials_ = 0;            // serials and versions given out
};

}  // namespace boreas
