#include "engine/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "engine/planted_bug.h"

namespace boreas {
namespace {

// One round of a multiply-and-shift mixer; the constants are odd and have no pattern.
uint64_t mix(uint64_t state, uint64_t word) {
  state = (state ^ word) * 0x9fb21c651e98df25ull;
  return state ^ (state >> 32);
}

}  // namespace

PrefixCache::PrefixCache(PagePool& full, PagePool& sliding, uint64_t hash_seed)
    : full_(full), sliding_(sliding), hash_seed_(hash_seed) {
  const auto pages = static_cast<size_t>(full.pages());
  buckets_.assign(std::bit_ceil(2 * pages + 2), kNoNode);
  nodes_.reserve(pages + 1);  // more only while nodes without pages exist
  tokens_.reserve((pages + 1) * kPagePositions);
  nodes_free_.reserve(pages + 1);
  idle_full_.reserve(pages + 1);
  idle_sliding_.reserve(pages + 1);
  idle_sliding_passing_.reserve(pages + 1);
}

uint64_t PrefixCache::hash_tokens(std::span<const TokenId> tokens) const {
  uint64_t hash = hash_seed_;
  for (size_t i = 0; i + 1 < tokens.size(); i += 2) {
    const uint64_t low = static_cast<uint32_t>(tokens[i]);
    const uint64_t high = static_cast<uint32_t>(tokens[i + 1]);
    hash = mix(hash, high << 32 | low);
  }
  return mix(hash, tokens.size());
}

uint64_t PrefixCache::key_of(NodeId parent, const PageText& text) const {
  const uint64_t key = mix(mix(hash_seed_, node(parent).serial), text.hash);
  return planted(PlantedBug::kHashCollision) ? key & 7 : key;
}

std::span<const TokenId> PrefixCache::tokens(NodeId id) const {
  return std::span(tokens_).subspan(static_cast<size_t>(id.value) * kPagePositions, kPagePositions);
}

NodeId PrefixCache::find_root(std::string_view salt) const {
  const auto found = roots_.find(std::string(salt));
  return found == roots_.end() ? kNoNode : found->second;
}

NodeId PrefixCache::find_child(NodeId parent, const PageText& text) const {
  const uint64_t key = key_of(parent, text);
  for (NodeId id = buckets_[key & (buckets_.size() - 1)]; id != kNoNode; id = node(id).next) {
    const Node& found = node(id);
    if (found.key != key) continue;
    if (planted(PlantedBug::kHashCollision)) return id;
    const std::span<const TokenId> own = tokens(id);
    if (found.parent == parent && std::equal(own.begin(), own.end(), text.tokens.begin(), text.tokens.end())) return id;
  }
  return kNoNode;
}

NodeId PrefixCache::make_node(NodeId parent, uint64_t key, std::span<const TokenId> tokens) {
  NodeId id;
  if (nodes_free_.empty()) {
    id = NodeId(static_cast<int32_t>(nodes_.size()));
    nodes_.emplace_back();
    tokens_.resize(nodes_.size() * kPagePositions);
  } else {
    id = nodes_free_.back();
    nodes_free_.pop_back();
  }
  Node& made = at(id);
  made = Node();
  made.serial = ++serials_;
  made.key = key;
  made.parent = parent;
  if (parent == kNoNode) return id;
  ++at(parent).children;
  made.next = std::exchange(bucket(key), id);
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + int64_t{id.value} * kPagePositions);
  return id;
}

void PrefixCache::remove(NodeId id) {
  Node& removed = at(id);
  if (removed.parent == kNoNode) {
    roots_.erase(std::string(*removed.salt));
  } else {
    NodeId* place = &bucket(removed.key);
    while (*place != id) place = &at(*place).next;
    *place = removed.next;
    --at(removed.parent).children;
  }
  removed.serial = 0;
  nodes_free_.push_back(id);
}

// Removes a node that nothing keeps alive any more, and parents that only it kept alive.
void PrefixCache::collect(NodeId id) {
  while (id != kNoNode) {
    const Node& candidate = node(id);
    if (candidate.pins > 0 || candidate.children > 0) return;
    if (candidate.at(PagePoolKind::kFull).page != kNoPage || candidate.at(PagePoolKind::kSliding).page != kNoPage) {
      return;
    }
    const NodeId parent = candidate.parent;
    remove(id);
    id = parent;
  }
}

NodeId PrefixCache::pin_root(const std::string& salt) {
  NodeId id = find_root(salt);
  if (id == kNoNode) {
    id = make_node(kNoNode, 0, {});
    at(id).salt = &roots_.emplace(salt, id).first->first;
  }
  pin(id);
  return id;
}

void PrefixCache::pin(NodeId node) { ++at(node).pins; }

void PrefixCache::unpin(NodeId node) {
  CHECK(at(node).pins > 0);
  if (--at(node).pins == 0) collect(node);
}

NodeId PrefixCache::publish(NodeId parent, const PageText& text, const OfferedPages& offered, uint64_t writer) {
  CHECK(writer != 0 && offered.full != kNoPage);
  NodeId id = find_child(parent, text);
  if (id == kNoNode) id = make_node(parent, key_of(parent, text), text.tokens);
  if (node(id).at(PagePoolKind::kFull).page == kNoPage) {
    drop(id, PagePoolKind::kSliding);
    hold(id, PagePoolKind::kFull, offered.full, writer);
    at(id).exact = offered.exact;
  }
  const bool lacks_sliding = node(id).at(PagePoolKind::kSliding).page == kNoPage;
  if (lacks_sliding && offered.sliding != kNoPage && node(id).exact == offered.exact) {
    hold(id, PagePoolKind::kSliding, offered.sliding, writer);
  }
  pin(id);
  return id;
}

void PrefixCache::verify(NodeId id, const OfferedPages& offered, uint64_t writer) {
  if (!node(id).exact && offered.exact) {
    drop(id, PagePoolKind::kFull);
    at(id).exact = true;
  }
  if (node(id).at(PagePoolKind::kFull).page == kNoPage) at(id).exact = offered.exact;
  if (node(id).exact != offered.exact) return;
  verify_page(id, PagePoolKind::kFull, offered.full, writer);
  verify_page(id, PagePoolKind::kSliding, offered.sliding, writer);
}

void PrefixCache::verify_page(NodeId id, PagePoolKind kind, PageId offered, uint64_t writer) {
  CachedPage& cached = at(id).pages[static_cast<size_t>(kind)];
  if (cached.page != kNoPage && (cached.writer == writer || cached.page == offered)) {
    cached.writer = 0;
  } else if (offered != kNoPage && (!cached.verified() || is_idle(id, kind))) {
    if (cached.page != kNoPage) {
      unlist(id, kind);
      pool(kind).release(cached.page);
    }
    hold(id, kind, offered, 0);
  }
}

void PrefixCache::retract(NodeId id, uint64_t writer) {
  CHECK(writer != 0);
  for (const PagePoolKind kind : {PagePoolKind::kFull, PagePoolKind::kSliding}) {
    if (node(id).at(kind).writer == writer) drop(id, kind);
  }
}

PageId PrefixCache::take(NodeId id, PagePoolKind kind) {
  const PageId page = node(id).at(kind).page;
  CHECK(page != kNoPage);
  unlist(id, kind);
  pool(kind).share(page);
  return page;
}

void PrefixCache::give_back(NodeId id, PagePoolKind kind, PageId page, bool passing) {
  pool(kind).release(page);
  if (node(id).at(kind).page != page || !is_idle(id, kind)) return;
  IndexList& list = kind == PagePoolKind::kFull ? idle_full_ : passing ? idle_sliding_passing_ : idle_sliding_;
  list.push_back(id.value);
}

int32_t PrefixCache::idle(PagePoolKind kind) const {
  return kind == PagePoolKind::kFull ? idle_full_.size() : idle_sliding_.size() + idle_sliding_passing_.size();
}

void PrefixCache::evict(PagePoolKind kind) {
  CHECK(idle(kind) > 0);
  const IndexList& list = kind == PagePoolKind::kFull        ? idle_full_
                          : idle_sliding_passing_.size() > 0 ? idle_sliding_passing_
                                                             : idle_sliding_;
  const NodeId id{list.front()};
  drop(id, kind);
  collect(id);
}

void PrefixCache::hold(NodeId id, PagePoolKind kind, PageId page, uint64_t writer) {
  pool(kind).share(page);
  at(id).pages[static_cast<size_t>(kind)] = {page, ++serials_, writer};
}

// Gives up a page, if there is one. Without its full page a sliding page is of no use.
void PrefixCache::drop(NodeId id, PagePoolKind kind) {
  CachedPage& dropped = at(id).pages[static_cast<size_t>(kind)];
  if (kind == PagePoolKind::kFull) drop(id, PagePoolKind::kSliding);
  if (dropped.page == kNoPage) return;
  unlist(id, kind);
  pool(kind).release(dropped.page);
  if (planted(PlantedBug::kStalePage)) return;
  dropped = CachedPage();
}

void PrefixCache::unlist(NodeId id, PagePoolKind kind) {
  if (kind == PagePoolKind::kFull) {
    if (idle_full_.contains(id.value)) idle_full_.erase(id.value);
  } else if (idle_sliding_.contains(id.value)) {
    idle_sliding_.erase(id.value);
  } else if (idle_sliding_passing_.contains(id.value)) {
    idle_sliding_passing_.erase(id.value);
  }
}

bool PrefixCache::is_idle(NodeId id, PagePoolKind kind) {
  const PageId page = node(id).at(kind).page;
  return page != kNoPage && pool(kind).references(page) == 1;
}

bool PrefixCache::listed_idle(NodeId id, PagePoolKind kind) const {
  if (kind == PagePoolKind::kFull) return idle_full_.contains(id.value);
  return idle_sliding_.contains(id.value) || idle_sliding_passing_.contains(id.value);
}

}  // namespace boreas
