#include "invariants.h"

#include <algorithm>
#include <set>
#include <vector>

namespace boreas {
namespace {

constexpr PagePoolKind kKinds[] = {PagePoolKind::kFull, PagePoolKind::kSliding};

class Recount {
 public:
  Recount(const EngineCore& core, const FakeExecutor& executor)
      : ledger_(core.ledger()), cache_(ledger_.cache()), executor_(executor) {
    for (const PagePoolKind kind : kKinds) owners(kind).resize(static_cast<size_t>(ledger_.pool(kind).pages()));
    pins_.resize(static_cast<size_t>(cache_.nodes_end()));
    children_.resize(pins_.size());
    int32_t waiting = 0;
    for (const auto& entry : core.requests()) {
      const auto runs = [](const Sequence& sequence) { return sequence.state == SequenceState::kRunning; };
      const auto& sequences = entry.second->sequences;
      waiting += entry.second->sequences_left > 0 && std::none_of(sequences.begin(), sequences.end(), runs);
      for (const Sequence& sequence : sequences) add(sequence);
    }
    if (core.requests_waiting() != waiting) wrong("the number of waiting requests");
    if (core.host_pages().bytes_used() != host_bytes()) wrong("host memory in use");
    if (core.host_pages().bytes_used() > core.host_pages().bytes_max()) wrong("too much host memory in use");
  }

  std::string compare(bool contents) {
    for (int32_t i = 0; i < cache_.nodes_end(); ++i) {
      const PrefixCache::Node& node = cache_.node(NodeId(i));
      if (node.serial != 0 && node.parent != kNoNode) ++children_[static_cast<size_t>(node.parent.value)];
    }
    for (int32_t i = 0; i < cache_.nodes_end(); ++i) compare_node(NodeId(i));
    for (const PagePoolKind kind : kKinds) compare_pool(kind);
    for (int32_t i = 0; contents && i < cache_.nodes_end(); ++i) compare_contents(NodeId(i));
    return problem_;
  }

 private:
  void wrong(const char* what) {
    if (problem_.empty()) problem_ = what;
  }
  std::vector<int32_t>& owners(PagePoolKind kind) { return owners_[static_cast<size_t>(kind)]; }
  void own(PagePoolKind kind, PageId page) {
    if (page.value < 0 || page.value >= ledger_.pool(kind).pages()) return wrong("a page that does not exist");
    ++owners(kind)[static_cast<size_t>(page.value)];
  }

  void add(const Sequence& sequence) {
    if (sequence.state == SequenceState::kFinished) return;
    if (sequence.bypassed > EngineCore::kBypassMax) wrong("overtaken too often");
    const SequencePages& pages = sequence.pages;
    const int32_t first_visible = std::max(0, sequence.range_start() - executor_.info().window + 1);
    if (pages.sliding_live() > 0 && pages.sliding_first > page_of(first_visible)) {
      wrong("a page that the next query sees was given back");
    }
    for (const PageId page : pages.full) own(PagePoolKind::kFull, page);
    for (size_t i = static_cast<size_t>(pages.sliding_first); i < pages.sliding.size(); ++i) {
      own(PagePoolKind::kSliding, pages.sliding[i]);
    }
    if (pages.root != kNoNode) ++pins_[static_cast<size_t>(pages.root.value)];
    NodeId parent = pages.root;
    for (size_t i = 0; i < pages.path.size(); ++i) {
      const NodeId id = pages.path[i];
      ++pins_[static_cast<size_t>(id.value)];
      if (cache_.node(id).parent != parent) wrong("a path that is none");
      parent = id;
      int32_t position = static_cast<int32_t>(i) * kPagePositions;
      for (const TokenId token : cache_.tokens(id)) {
        if (position >= sequence.known_length() || sequence.token_at(position++) != token) wrong("a node's text");
      }
    }
    if (sequence.computed > static_cast<int32_t>(pages.full.size()) * kPagePositions && sequence.swapped == nullptr) {
      wrong("positions without pages");
    }
    if (sequence.swapped == nullptr) return;
    if (sequence.state != SequenceState::kWaiting || !pages.empty()) wrong("swapped, and yet not");
    for (const auto& page : sequence.swapped->full) host_full_.insert(page.host.value);
    for (const auto& page : sequence.swapped->sliding) host_sliding_.insert(page.host.value);
  }

  int64_t host_bytes() const {
    return static_cast<int64_t>(host_full_.size()) * executor_.info().page_bytes_full +
           static_cast<int64_t>(host_sliding_.size()) * executor_.info().page_bytes_sliding;
  }

  void compare_node(NodeId id) {
    const PrefixCache::Node& node = cache_.node(id);
    const auto i = static_cast<size_t>(id.value);
    if (node.serial == 0) {
      if (pins_[i] != 0 || children_[i] != 0) wrong("a node in use is gone");
      return;
    }
    if (node.pins != pins_[i]) wrong("pins");
    if (node.children != children_[i]) wrong("children");
    bool has_page = false;
    for (const PagePoolKind kind : kKinds) {
      const PrefixCache::CachedPage& cached = node.at(kind);
      const bool listed = cache_.listed_idle(id, kind);
      idle_[static_cast<size_t>(kind)] += listed;
      if (cached.page == kNoPage) {
        if (listed) wrong("an idle page that is none");
        continue;
      }
      has_page = true;
      own(kind, cached.page);
      const bool idle = ledger_.pool(kind).references(cached.page) == 1;
      if (idle != listed) wrong("an idle page that is not listed, or one in use that is");
    }
    if (!has_page && pins_[i] == 0 && children_[i] == 0) wrong("a node that nothing needs");
    if (node.at(PagePoolKind::kFull).page == kNoPage && has_page) wrong("a sliding page without its full page");
  }

  void compare_pool(PagePoolKind kind) {
    const PagePool& pool = ledger_.pool(kind);
    const auto& counted = owners(kind);
    const auto free = std::count(counted.begin(), counted.end(), 0);
    if (pool.pages_free() != static_cast<int32_t>(free)) wrong("free and owned pages are not all pages");
    if (cache_.idle(kind) != idle_[static_cast<size_t>(kind)]) wrong("the number of idle pages");
    for (int32_t page = 0; page < pool.pages(); ++page) {
      if (pool.references(PageId(page)) != counted[static_cast<size_t>(page)]) wrong("reference count");
    }
  }

  void compare_contents(NodeId id) {
    const PrefixCache::Node& node = cache_.node(id);
    if (node.serial == 0 || node.parent == kNoNode) return;
    int32_t depth = 0;
    for (NodeId up = node.parent; cache_.node(up).parent != kNoNode; up = cache_.node(up).parent) ++depth;
    for (const PagePoolKind kind : kKinds) {
      const PrefixCache::CachedPage& cached = node.at(kind);
      if (!cached.verified()) continue;
      if (!executor_.page_holds(kind, cached.page, depth * kPagePositions, cache_.tokens(id))) {
        wrong("a cached page holds another text");
      }
    }
  }

  const PageLedger& ledger_;
  const PrefixCache& cache_;
  const FakeExecutor& executor_;
  std::vector<int32_t> owners_[2];  // by PagePoolKind
  std::vector<int32_t> pins_, children_;
  std::set<int32_t> host_full_, host_sliding_;
  int32_t idle_[2] = {0, 0};
  std::string problem_;
};

}  // namespace

std::string broken_invariant(const EngineCore& core, const FakeExecutor& executor, bool contents) {
  std::string problem = Recount(core, executor).compare(contents);
  if (problem.empty() && executor.wrong_reads() > 0) problem = "a page table leads to the wrong page";
  if (problem.empty() && executor.wrong_texts() > 0) problem = "a page holds another text than its reader's";
  return problem;
}

}  // namespace boreas
