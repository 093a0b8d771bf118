// A second opinion on a program, for tests: explicit graphs over the unrolled steps, and reachability in them. Written
// from the meaning of the ops and nothing else: it uses no contract of ops/, no clocks and no code of verify.
//
// Two graphs for one choice of run-time counts (experts hit, KV pages). The order graph holds what the program
// guarantees; required facts are looked up in its transitive closure. The progress graph also holds chunks, stages of
// the ring and each producer warp by itself; it must have no cycle.
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

class OrderOracle {
 public:
  // counts: 0: no expert is hit and no page read; 1: one of each; else pseudo-random from this seed.
  OrderOracle(const Program& program, uint64_t counts) : program_(program), counts_(counts) {}

  // Empty if the program is right.
  std::string check() {
    index_tasks();
    if (problem_.empty()) build();
    if (problem_.empty() && !progress_.sort()) problem_ = "the progress graph has a cycle";
    if (problem_.empty() && !order_.sort()) problem_ = "the order graph has a cycle";
    if (!problem_.empty()) return problem_;
    order_.close();
    for (int32_t worker = 0; worker < workers(); ++worker) {
      check_slots(worker);
      check_barriers(worker);
      check_host(worker);
    }
    check_hops();
    check_kv();
    check_logits();
    return problem_;
  }

 private:
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
    std::vector<Name> names = {{Op::kEmbed, -1}, {Op::kGatherNorm, -1}, {Op::kLmHead, -1}, {Op::kSample, -1}};
    for (int32_t layer = 0; layer < layers(); ++layer) {
      for (Op op :
           {Op::kGatherNorm, Op::kQkv, Op::kAttention, Op::kAttentionMerge, Op::kUpGate, Op::kOutProj, Op::kDown})
        names.push_back({op, layer});
      for (Slot slot : {Slot::kQkv, Slot::kAttention, Slot::kInner})
        names.push_back({Op::kGather, layer, static_cast<int32_t>(slot)});
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
            add_edges(arrival->end, waiter.begin);
      const HopWait& wait = list[i].wait;
      if (wait.hop < 0) continue;
      const int64_t epoch = int64_t{step} * uses(wait.hop) + wait.use;  // counted from 0
      if (epoch < 0) continue;
      for (int32_t writer = wait.first; writer < wait.first + wait.count; ++writer)
        if (const Span* word = find_publication(writer, wait.hop, epoch)) add_edges(word->end, waiter.begin);
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
    const int32_t step = static_cast<int32_t>(epoch / uses(hop)), use = static_cast<int32_t>(epoch % uses(hop));
    const auto found = words_[static_cast<size_t>(worker)].find({hop, use});
    if (found != words_[static_cast<size_t>(worker)].end()) return &span(step, worker, found->second);
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
          loads[load].layer != tasks[i].layer || loads[load].stream_unit_chunks != tasks[i].stream_unit_chunks ||
          loads[load].stream_count != tasks[i].stream_count)
        return violation("the ring hands over another item than the consumer takes");
      const Span& filler = span(step, worker, Place{Role::kProducer, load});
      const Span& taker = span(step, worker, Place{Role::kConsumer, i});
      add_item(filler, taker, units(step, worker, tasks[i]) * tasks[i].stream_unit_chunks, released);
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

  // ---- required facts
  bool before(const Span& a, const Span& b) const {
    for (const int32_t from : a.end)
      for (const int32_t to : b.begin)
        if (!order_.is_before(from, to)) return false;
    return true;
  }
  void require(const Span& a, const Span& b, const std::string& what) {
    if (!before(a, b)) violation(what);
  }

  // A value in a slot: who writes it, who reads it.
  struct SlotValue {
    int32_t slot = 0;
    const Span* writer = nullptr;
    std::vector<const Span*> readers;
  };

  void check_slots(int32_t worker) {
    std::vector<SlotValue> values;
    const int32_t last = layers() - 1;
    for (int32_t step = 0; step < kSteps; ++step) {
      const auto at = [&](Name name) { return &span(step, worker, name); };
      const auto add = [&](int32_t slot, Name writer, std::vector<const Span*> readers) {
        values.push_back({slot, at(writer), std::move(readers)});
      };
      add(static_cast<int32_t>(Slot::kNormed), {Op::kGatherNorm, -1}, {at({Op::kLmHead, -1})});
      for (int32_t layer = 0; layer <= last; ++layer) {
        std::vector<const Span*> normed = {at({Op::kQkv, layer}), at({Op::kUpGate, layer})};
        if (program_.config.is_moe(layer)) normed.push_back(at({Op::kRouterLogits, layer}));
        const Span* down = at({Op::kDown, layer});
        add(static_cast<int32_t>(Slot::kNormed), {Op::kGatherNorm, layer}, normed);
        add(static_cast<int32_t>(Slot::kQkv), gather(layer, Slot::kQkv), {at({Op::kAttention, layer})});
        add(static_cast<int32_t>(Slot::kAttention), gather(layer, Slot::kAttention), {at({Op::kOutProj, layer})});
        add(static_cast<int32_t>(Slot::kInner), gather(layer, Slot::kInner), {down});
        add(static_cast<int32_t>(Slot::kProjected), {Op::kOutProj, layer}, {down});
        add(static_cast<int32_t>(Slot::kResidual), layer == 0 ? Name{Op::kEmbed, -1} : Name{Op::kDown, layer - 1},
            {down});
        if (program_.config.is_moe(layer)) add_route(step, worker, layer, values);
      }
      add(static_cast<int32_t>(Slot::kResidual), {Op::kDown, last}, {});
    }
    for (const SlotValue& value : values)
      for (const Span* reader : value.readers)
        if (!before(*value.writer, *reader)) return violation(std::string("slot read early: ") + slot_name(value.slot));
    for (size_t a = 0; a < values.size(); ++a)
      for (size_t b = a + 1; b < values.size(); ++b)
        if (shares_memory(values[a].slot, values[b].slot) && !is_over_before(values[a], values[b]) &&
            !is_over_before(values[b], values[a]))
          return violation(std::string("values meet in slots ") + slot_name(values[a].slot) + " and " +
                           slot_name(values[b].slot));
  }

  void add_route(int32_t step, int32_t worker, int32_t layer, std::vector<SlotValue>& values) {
    SlotValue value;
    value.slot = find(worker, {Op::kTopK, layer}).args[TopKOp::kSlot];
    value.writer = &span(step, worker, Name{Op::kTopK, layer});
    for (const Name name : {Name{Op::kUpGate, layer}, Name{Op::kDown, layer}}) {
      if (find(worker, name).args[UpGateOp::kRouteSlot] != value.slot) violation("the route of another layer");
      value.readers.push_back(&span(step, worker, name));
    }
    const auto loads = program_.list(worker, Role::kProducer);
    for (size_t i = 0; i < loads.size(); ++i) {
      const int32_t* args = loads[i].args;
      const bool routed =
          args[LoadOp::kStream] == LoadOp::kExpertUpGate || args[LoadOp::kStream] == LoadOp::kExpertDown;
      if (loads[i].layer != layer || !routed || args[LoadOp::kUnitBytes] == 0) continue;
      if (args[LoadOp::kRouteSlot] != value.slot) violation("a load by the route of another layer");
      value.readers.push_back(&span(step, worker, Place{Role::kProducer, i}));
    }
    values.push_back(std::move(value));
  }

  bool shares_memory(int32_t a, int32_t b) const {
    const SlotSpec& left = program_.slots[static_cast<size_t>(a)];
    const SlotSpec& right = program_.slots[static_cast<size_t>(b)];
    return a == b || (left.offset < right.offset + right.bytes && right.offset < left.offset + left.bytes);
  }
  // All of a is over before b is written. A task may read the old value and write the next one.
  bool is_over_before(const SlotValue& a, const SlotValue& b) const {
    if (!before(*a.writer, *b.writer)) return false;
    for (const Span* reader : a.readers)
      if (reader != b.writer && !before(*reader, *b.writer)) return false;
    return true;
  }

  // An arrival never passes a waiter by a whole parity.
  void check_barriers(int32_t worker) {
    for (int32_t role = 0; role < kRoles; ++role) {
      const auto list = program_.list(worker, static_cast<Role>(role));
      for (size_t i = 0; i < list.size(); ++i) {
        for (const BarrierWait& wait : list[i].barriers) {
          if (wait.id < 0) continue;
          int32_t arrivals = 0;
          for (int32_t other = 0; other < kRoles; ++other)
            for (const TaskDesc& task : program_.list(worker, static_cast<Role>(other)))
              arrivals += task.arrive == wait.id;
          for (int32_t step = 0; step < kSteps; ++step) {
            const bool in_step = wait.target < arrivals;
            if (!in_step && step + 1 == kSteps) continue;
            const Span* next = find_arrival(in_step ? step : step + 1, worker, wait.id, in_step ? wait.target + 1 : 1);
            if (next == nullptr) return;
            require(span(step, worker, Place{static_cast<Role>(role), i}), *next, "a barrier passes a waiter");
          }
        }
      }
    }
  }

  // Plan and mailbox have a slot for each step in flight.
  void check_host(int32_t worker) {
    const int32_t ahead = program_.device.host_steps_ahead;
    for (int32_t step = 0; step + ahead < kSteps; ++step) {
      const Span launch{{launches_[static_cast<size_t>(step + ahead)]}, {}};
      const Span read{{}, {reads_[static_cast<size_t>(step)]}};
      for (int32_t role = 0; role < kRoles; ++role)
        for (size_t i = 0; i < program_.list(worker, static_cast<Role>(role)).size(); ++i) {
          const TaskDesc& task = program_.list(worker, static_cast<Role>(role))[i];
          if (reads_plan(task))
            require(span(step, worker, Place{static_cast<Role>(role), i}), launch, "a plan is overwritten");
        }
      require(read, span(step + ahead, worker, Name{Op::kSample, -1}), "a mailbox is overwritten");
    }
  }
  static bool reads_plan(const TaskDesc& task) {
    switch (static_cast<Op>(task.op)) {
      case Op::kEmbed:
      case Op::kQkv:
      case Op::kAttention:
      case Op::kAttentionMerge:
      case Op::kLmHead:
      case Op::kSample:
        return true;
      case Op::kLoad:
        return task.args[LoadOp::kStream] == LoadOp::kKvPages && task.args[LoadOp::kUnitBytes] > 0;
      default:
        return false;
    }
  }

  // ---- hops: every reader looks at the word that was published for it, after it is there; nobody overwrites earlier.
  void check_hops() {
    for (int32_t reader = 0; reader < workers() && problem_.empty(); ++reader) {
      for (int32_t writer = 0; writer < workers() && problem_.empty(); ++writer) {
        check_hop(writer, {Op::kLmHead, -1}, reader, {Op::kSample, -1}, 0);
        check_hop(writer, {Op::kSample, -1}, reader, {Op::kEmbed, -1}, 1);
        check_hop(writer, {Op::kEmbed, -1}, reader, {Op::kGatherNorm, 0}, 0);
        for (int32_t layer = 0; layer < layers(); ++layer) check_layer_hops(writer, reader, layer);
      }
    }
  }
  void check_layer_hops(int32_t writer, int32_t reader, int32_t layer) {
    check_hop(writer, {Op::kDown, layer}, reader, {Op::kGatherNorm, layer + 1 < layers() ? layer + 1 : -1}, 0);
    if (program_.config.is_moe(layer)) check_hop(writer, {Op::kRouterLogits, layer}, reader, {Op::kTopK, layer}, 0);
    check_hop(writer, {Op::kUpGate, layer}, reader, gather(layer, Slot::kInner), 0);
    check_hop(writer, {Op::kAttentionMerge, layer}, reader, gather(layer, Slot::kAttention), 0);
    const int32_t* qkv = find(writer, {Op::kQkv, layer}).args;
    const int32_t* attend = find(reader, {Op::kAttention, layer}).args;
    if (qkv[QkvOp::kQCount] + qkv[QkvOp::kKCount] + qkv[QkvOp::kVCount] > 0 && heads_meet(qkv, attend))
      check_hop(writer, {Op::kQkv, layer}, reader, gather(layer, Slot::kQkv), 0);
    const int32_t* pieces = find(writer, {Op::kAttention, layer}).args;
    const int32_t* merge = find(reader, {Op::kAttentionMerge, layer}).args;
    if (pieces[AttentionOp::kPieceCount] > 0 && heads_meet(pieces, merge))
      check_hop(writer, {Op::kAttention, layer}, reader, {Op::kAttentionMerge, layer}, 0);
  }
  static bool heads_meet(const int32_t* a, const int32_t* b) { return a[0] < b[0] + b[1] && b[0] < a[0] + a[1]; }

  void check_hop(int32_t writer, Name from, int32_t reader, Name to, int32_t steps_later) {
    const HopPublish& word = find(writer, from).publish;
    const HopWait& wait = find(reader, to).wait;
    if (word.hop < 0 || wait.hop != word.hop || wait.use + steps_later * uses(word.hop) != word.use ||
        writer < wait.first || writer >= wait.first + wait.count)
      return violation(std::string("a reader waits for another word than ") + op_name(from.op) + "'s");
    for (int32_t step = 0; step + steps_later < kSteps; ++step) {
      const Span& read = span(step + steps_later, reader, to);
      require(span(step, writer, from), read, "a hop is read early");
      const int64_t next = int64_t{step} * uses(word.hop) + word.use + 2;  // the same half again
      if (next >= int64_t{kSteps} * uses(word.hop)) continue;
      if (const Span* overwrite = find_publication(writer, word.hop, next))
        if (&read != overwrite) require(read, *overwrite, "a hop is overwritten");
    }
  }

  // A page may belong to another sequence, and so to another worker of the head, in the next step.
  void check_kv() {
    for (int32_t layer = 0; layer < layers() && problem_.empty(); ++layer) {
      for (int32_t a = 0; a < workers(); ++a) {
        for (int32_t b = 0; b < workers(); ++b) {
          if (!heads_meet(find(a, {Op::kAttention, layer}).args, find(b, {Op::kAttention, layer}).args)) continue;
          for (int32_t step = 0; step + 1 < kSteps; ++step) {
            const Span& append = span(step, a, Name{Op::kAttention, layer});
            const Span& next = span(step + 1, b, Name{Op::kAttention, layer});
            require(append, next, "KV rows are appended out of order");
            if (const Span* load = kv_load(step + 1, b, layer)) require(append, *load, "KV rows are streamed early");
            if (const Span* load = kv_load(step, a, layer)) require(*load, next, "a page is overwritten");
          }
        }
      }
    }
  }
  const Span* kv_load(int32_t step, int32_t worker, int32_t layer) const {
    const auto loads = program_.list(worker, Role::kProducer);
    for (size_t i = 0; i < loads.size(); ++i)
      if (loads[i].layer == layer && loads[i].args[LoadOp::kStream] == LoadOp::kKvPages &&
          static_cast<Op>(loads[i].op) == Op::kLoad && loads[i].args[LoadOp::kUnitBytes] > 0)
        return &span(step, worker, Place{Role::kProducer, i});
    return nullptr;
  }

  void check_logits() {
    for (int32_t writer = 0; writer < workers(); ++writer)
      for (int32_t reader = 0; reader < workers(); ++reader)
        for (int32_t step = 0; step + 1 < kSteps; ++step)
          require(span(step, reader, Name{Op::kSample, -1}), span(step + 1, writer, Name{Op::kLmHead, -1}),
                  "logits are overwritten");
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

// For no experts and pages, one of each, and two random choices.
inline std::string check_order(const Program& program) {
  for (const uint64_t counts : {0, 1, 2, 3}) {
    const std::string problem = OrderOracle(program, counts).check();
    if (!problem.empty()) return problem + " (counts " + std::to_string(counts) + ")";
  }
  return {};
}

}  // namespace boreas::testing_order
