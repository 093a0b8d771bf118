// The graphs behind order_oracle_testing.h: an unrolled program as nodes and edges, for one choice of run-time counts
// (experts hit, KV pages). The order graph holds what the program guarantees. The progress graph also holds chunks,
// stages of the ring and each producer warp by itself; it must have no cycle.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "program/compile.h"

namespace boreas::testing_order {

// A task or a host action as the nodes it begins and ends with. A load is one node a producer warp.
struct Span {
  std::vector<int32_t> begin, end;
};

class Graph {
 public:
  int32_t add_node() {
    successors_.emplace_back();
    return static_cast<int32_t>(successors_.size()) - 1;
  }
  void add_edge(int32_t from, int32_t to) { successors_[static_cast<size_t>(from)].push_back(to); }
  size_t size() const { return successors_.size(); }

  // False if there is a cycle.
  bool sort() {
    std::vector<int32_t> waiting(size(), 0);
    for (const auto& list : successors_)
      for (const int32_t to : list) ++waiting[static_cast<size_t>(to)];
    order_.clear();
    for (size_t node = 0; node < size(); ++node)
      if (waiting[node] == 0) order_.push_back(static_cast<int32_t>(node));
    for (size_t i = 0; i < order_.size(); ++i)
      for (const int32_t to : successors_[static_cast<size_t>(order_[i])])
        if (--waiting[static_cast<size_t>(to)] == 0) order_.push_back(to);
    return order_.size() == size();
  }
  // After sort().
  void close() {
    words_ = (size() + 63) / 64;
    before_.assign(size() * words_, 0);
    for (const int32_t from : order_) {
      const uint64_t* source = &before_[static_cast<size_t>(from) * words_];
      for (const int32_t to : successors_[static_cast<size_t>(from)]) {
        uint64_t* target = &before_[static_cast<size_t>(to) * words_];
        for (size_t i = 0; i < words_; ++i) target[i] |= source[i];
        target[static_cast<size_t>(from) / 64] |= uint64_t{1} << (from % 64);
      }
    }
  }
  bool is_before(int32_t a, int32_t b) const {
    return before_[static_cast<size_t>(b) * words_ + static_cast<size_t>(a) / 64] >> (a % 64) & 1;
  }

 private:
  std::vector<std::vector<int32_t>> successors_;
  std::vector<int32_t> order_;
  std::vector<uint64_t> before_;
  size_t words_ = 0;
};

class OrderModel {
 public:
  // counts: 0: no expert is hit and no page read; 1: one of each; else pseudo-random from this seed.
  OrderModel(const Program& program, uint64_t counts) : program_(program), counts_(counts) {}

 protected:
  static constexpr int32_t kSteps = 3;
  using Place = std::pair<Role, size_t>;  // a task of a list
  struct Name {                           // what a task is: GATHER also by its slot
    Op op;
    int32_t layer;
    int32_t slot = -1;
    auto operator<=>(const Name&) const = default;
  };

  int32_t workers() const { return program_.workers(); }
  int32_t layers() const { return program_.config.layer_count(); }
  const TaskDesc& task_at(int32_t worker, Place place) const {
    return program_.list(worker, place.first)[place.second];
  }
  void violation(const std::string& text) {
    if (problem_.empty()) problem_ = text;
  }

  // ---- which task is which; everything a step needs is there once
  void index_tasks() {
    tasks_.resize(static_cast<size_t>(workers()));
    words_.resize(static_cast<size_t>(workers()));
    for (int32_t worker = 0; worker < workers(); ++worker) {
      for (int32_t role = 0; role < kRoles; ++role) {
        const auto list = program_.list(worker, static_cast<Role>(role));
        for (size_t i = 0; i < list.size(); ++i) {
          const Op op = static_cast<Op>(list[i].op);
          const HopPublish& word = list[i].publish;
          const Place place{static_cast<Role>(role), i};
          if (word.hop >= 0 &&
              !words_[static_cast<size_t>(worker)].emplace(std::pair{word.hop, word.use}, place).second)
            violation("a word is published twice");
          if (op == Op::kNop || op == Op::kLoad) continue;
          const Name name{op, list[i].layer, op == Op::kGather ? list[i].args[GatherOp::kSlot] : -1};
          if (!tasks_[static_cast<size_t>(worker)].emplace(name, place).second)
            violation(std::string("two of ") + op_name(op));
        }
      }
      check_presence(worker);
    }
  }
  void check_presence(int32_t worker) {
    std::vector<Name> names = {
        {Op::kEmbed, -1}, {Op::kGatherNorm, -1}, {Op::kLmHead, -1}, {Op::kFilter, -1}, {Op::kSample, -1}};
    for (int32_t layer = 0; layer < layers(); ++layer) {
      for (Op op :
           {Op::kGatherNorm, Op::kQkv, Op::kAttention, Op::kAttentionMerge, Op::kUpGate, Op::kOutProj, Op::kDown})
        names.push_back({op, layer});
      for (Slot slot : {Slot::kQkv, Slot::kAttention, Slot::kInner})
        names.push_back({Op::kGather, layer, static_cast<int32_t>(slot)});
      if (in_two_parts(layer)) names.push_back(gather(layer, Slot::kInnerFirst));
      if (program_.config.is_moe(layer)) {
        names.push_back({Op::kRouterLogits, layer});
        names.push_back({Op::kTopK, layer});
      }
    }
    const auto& have = tasks_[static_cast<size_t>(worker)];
    for (const Name& name : names)
      if (have.count(name) == 0) return violation(std::string("no ") + op_name(name.op));
    if (have.size() != names.size()) violation("a task too many");
  }

  const TaskDesc& find(int32_t worker, Name name) const { return task_at(worker, place_of(worker, name)); }
  Place place_of(int32_t worker, Name name) const { return tasks_[static_cast<size_t>(worker)].at(name); }
  const Span& span(int32_t step, int32_t worker, Place place) const {
    return spans_[lane(step, worker, place.first)][place.second];
  }
  const Span& span(int32_t step, int32_t worker, Name name) const { return span(step, worker, place_of(worker, name)); }
  size_t lane(int32_t step, int32_t worker, Role role) const {
    return (static_cast<size_t>(step) * static_cast<size_t>(workers()) + static_cast<size_t>(worker)) * kRoles +
           static_cast<size_t>(role);
  }
  static Name gather(int32_t layer, Slot slot) { return {Op::kGather, layer, static_cast<int32_t>(slot)}; }
  // Of this layer's inner vectors (worker_memory.h).
  bool in_two_parts(int32_t layer) const {
    return program_.config.is_moe(layer) && program_.slots[static_cast<size_t>(Slot::kInnerFirst)].bytes > 0;
  }

  // ---- graphs. Nodes of the order graph are also nodes, of the same numbers, of the progress graph.
  int32_t add_node() {
    const int32_t node = order_.add_node();
    return progress_.add_node() == node ? node : -1;
  }
  void add_edges(const std::vector<int32_t>& from, const std::vector<int32_t>& to, bool warp_by_warp = false) {
    for (size_t a = 0; a < from.size(); ++a)
      for (size_t b = 0; b < to.size(); ++b)
        if (!warp_by_warp || a == b) order_.add_edge(from[a], to[b]), progress_.add_edge(from[a], to[b]);
  }

  void build() {
    spans_.resize(static_cast<size_t>(kSteps * workers() * kRoles));
    for (int32_t step = 0; step < kSteps; ++step) {
      launches_.push_back(add_node());
      reads_.push_back(add_node());
      for (int32_t worker = 0; worker < workers(); ++worker)
        for (int32_t role = 0; role < kRoles; ++role) add_list(step, worker, static_cast<Role>(role));
    }
    for (int32_t step = 0; step < kSteps; ++step) {
      add_host_edges(step);
      for (int32_t worker = 0; worker < workers(); ++worker) {
        for (int32_t role = 0; role < kRoles; ++role) add_wait_edges(step, worker, static_cast<Role>(role));
        add_ring_edges(step, worker);
      }
    }
  }

  void add_list(int32_t step, int32_t worker, Role role) {
    const size_t size = program_.list(worker, role).size();
    const int32_t warps = role == Role::kProducer ? program_.producers : 1;
    std::vector<Span>& list = spans_[lane(step, worker, role)];
    const Span* before = nullptr;
    for (int32_t s = step - 1; s >= 0 && before == nullptr; --s)
      if (!spans_[lane(s, worker, role)].empty()) before = &spans_[lane(s, worker, role)].back();
    list.resize(size);
    for (size_t i = 0; i < size; ++i) {
      for (int32_t warp = 0; warp < warps; ++warp) {
        list[i].begin.push_back(add_node());
        if (role == Role::kRouter || role == Role::kMessenger) list[i].end = list[i].begin;
        else list[i].end.push_back(add_node());
      }
      if (list[i].begin != list[i].end) add_edges(list[i].begin, list[i].end, true);
      if (i > 0) add_edges(list[i - 1].end, list[i].begin, true);
      else if (before != nullptr) add_edges(before->end, list[i].begin, true);
      if (i == 0) add_edges({launches_[static_cast<size_t>(step)]}, list[i].begin);
    }
  }

  void add_host_edges(int32_t step) {
    const size_t s = static_cast<size_t>(step);
    if (step > 0) {
      add_edges({launches_[s - 1]}, {launches_[s]});
      add_edges({reads_[s - 1]}, {reads_[s]});
    }
    add_edges({launches_[s]}, {reads_[s]});
    for (int32_t worker = 0; worker < workers(); ++worker)
      add_edges(span(step, worker, Name{Op::kSample, -1}).end, {reads_[s]});
    if (step >= program_.device.host_steps_ahead)
      add_edges({reads_[static_cast<size_t>(step - program_.device.host_steps_ahead)]}, {launches_[s]});
  }

  void add_wait_edges(int32_t step, int32_t worker, Role role) {
    const auto list = program_.list(worker, role);
    for (size_t i = 0; i < list.size(); ++i) {
      const Span& waiter = span(step, worker, Place{role, i});
      for (const BarrierWait& wait : list[i].barriers)
        if (wait.id >= 0)
          if (const Span* arrival = find_arrival(step, worker, wait.id, wait.target))
            add_wait(arrival->end, waiter, waits_late(list[i]) && wait.id == static_cast<int32_t>(Slot::kInner));
      const HopWait& wait = list[i].wait;
      if (wait.hop < 0) continue;
      const int64_t epoch = int64_t{step} * uses(wait.hop) + wait.use;  // counted from 0
      if (epoch < 0) continue;
      for (int32_t writer = std::max(wait.first, 0); writer < std::min(wait.first + wait.count, workers()); ++writer)
        if (const Span* word = find_publication(writer, wait.hop, epoch))
          add_word(*word, waiter, comes_early(list[i]) && writer != worker);
    }
  }
  // Words of the first part of inner vectors may come as soon as UP_GATE has begun, but a worker waits for the whole of
  // its own publication. For progress that is as if all words came in the end.
  static bool comes_early(const TaskDesc& gather) {
    return static_cast<Op>(gather.op) == Op::kGather &&
           gather.args[GatherOp::kSlot] == static_cast<int32_t>(Slot::kInnerFirst);
  }
  void add_word(const Span& word, const Span& waiter, bool early) {
    if (!early) return add_edges(word.end, waiter.begin);
    for (const int32_t to : waiter.begin) {
      for (const int32_t from : word.begin) order_.add_edge(from, to);
      for (const int32_t from : word.end) progress_.add_edge(from, to);
    }
  }
  // DOWN waits for the second part of inner vectors when it comes to it. For progress that is as if it did at once.
  static bool waits_late(const TaskDesc& task) {
    return static_cast<Op>(task.op) == Op::kDown && task.args[DownOp::kFirstVectors] > 0;
  }
  void add_wait(const std::vector<int32_t>& arrival, const Span& waiter, bool late) {
    if (!late) return add_edges(arrival, waiter.begin);
    for (const int32_t from : arrival) {
      for (const int32_t to : waiter.end) order_.add_edge(from, to);
      for (const int32_t to : waiter.begin) progress_.add_edge(from, to);
    }
  }
  int32_t uses(int32_t hop) const { return program_.hop_uses[static_cast<size_t>(hop)]; }

  // The target-th arrival of a step at a barrier. From two roles: no arrival is a certain one.
  const Span* find_arrival(int32_t step, int32_t worker, int32_t id, int32_t target) {
    const Span* found = nullptr;
    int32_t roles = 0;
    for (int32_t role = 0; role < kRoles; ++role) {
      const auto list = program_.list(worker, static_cast<Role>(role));
      int32_t arrivals = 0;
      for (size_t i = 0; i < list.size(); ++i)
        if (list[i].arrive == id && ++arrivals == target)
          found = &span(step, worker, Place{static_cast<Role>(role), i});
      roles += arrivals > 0;
    }
    if (found == nullptr || roles != 1) violation("a wait for an arrival that does not happen or is not certain");
    return problem_.empty() ? found : nullptr;
  }
  const Span* find_publication(int32_t worker, int32_t hop, int64_t epoch) {
    const int64_t step = epoch / uses(hop);
    const int32_t use = static_cast<int32_t>(epoch % uses(hop));
    const auto found = words_[static_cast<size_t>(worker)].find({hop, use});
    if (step < kSteps && found != words_[static_cast<size_t>(worker)].end())
      return &span(static_cast<int32_t>(step), worker, found->second);
    violation("a wait for a word that nobody publishes");
    return nullptr;
  }

  // ---- ring: chunk by chunk
  int64_t units(int32_t step, int32_t worker, const TaskDesc& task) const {
    const StreamCount count = static_cast<StreamCount>(task.stream_count);
    if (count == StreamCount::kOne) return 1;
    if (counts_ < 2) return static_cast<int64_t>(counts_);
    // Both expert items of a layer see the same count, on all workers.
    const bool experts = count == StreamCount::kExperts;
    const uint64_t key = counts_ * 7919 + static_cast<uint64_t>(step * 131 + task.layer) * 2 + experts +
                         (experts ? 0 : static_cast<uint64_t>(worker) * 10007);
    return static_cast<int64_t>((key * 0x9e3779b97f4a7c15ull) >> 40) % 5;
  }

  void add_ring_edges(int32_t step, int32_t worker) {
    const auto loads = program_.list(worker, Role::kProducer);
    const auto tasks = program_.list(worker, Role::kConsumer);
    std::vector<int32_t> released;  // progress nodes, by chunk
    size_t load = 0;
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (tasks[i].stream_item < 0) continue;
      while (load < loads.size() && static_cast<Op>(loads[load].op) != Op::kLoad) ++load;
      if (load == loads.size() || loads[load].stream_item != tasks[i].stream_item ||
          loads[load].layer != tasks[i].layer || loads[load].stream_unit_pieces != tasks[i].stream_unit_pieces ||
          loads[load].stream_count != tasks[i].stream_count)
        return violation("the ring hands over another item than the consumer takes");
      const Span& filler = span(step, worker, Place{Role::kProducer, load});
      const Span& taker = span(step, worker, Place{Role::kConsumer, i});
      add_item(filler, taker, chunks_of_pieces(units(step, worker, tasks[i]) * tasks[i].stream_unit_pieces), released);
      ++load;
    }
    for (; load < loads.size(); ++load)
      if (static_cast<Op>(loads[load].op) == Op::kLoad) return violation("an item that nobody takes");
  }

  void add_item(const Span& filler, const Span& taker, int64_t chunks, std::vector<int32_t>& released) {
    std::vector<int32_t> last = filler.begin;  // of each warp
    for (int64_t n = 0; n < chunks; ++n) {
      const size_t chunk = released.size();
      const size_t warp = chunk % static_cast<size_t>(program_.producers);
      const int32_t arrives = progress_.add_node(), leaves = progress_.add_node();
      progress_.add_edge(last[warp], arrives);
      last[warp] = arrives;
      if (chunk >= static_cast<size_t>(program_.ring_chunks))
        progress_.add_edge(released[chunk - static_cast<size_t>(program_.ring_chunks)], arrives);
      progress_.add_edge(arrives, leaves);
      progress_.add_edge(taker.begin[0], leaves);
      if (n > 0) progress_.add_edge(released.back(), leaves);
      progress_.add_edge(leaves, taker.end[0]);
      released.push_back(leaves);
      // What the consumer knows then: this warp has come as far as this item.
      order_.add_edge(filler.begin[warp], taker.end[0]);
    }
    for (size_t warp = 0; warp < last.size(); ++warp) progress_.add_edge(last[warp], filler.end[warp]);
  }

  const Program& program_;
  uint64_t counts_;
  std::vector<std::map<Name, Place>> tasks_;                         // of each worker
  std::vector<std::map<std::pair<int32_t, int32_t>, Place>> words_;  // of each worker, by hop and use
  std::vector<std::vector<Span>> spans_;                             // of each lane
  std::vector<int32_t> launches_, reads_;                            // of each step
  Graph order_, progress_;
  std::string problem_;
};

}  // namespace boreas::testing_order
