// A second opinion on a program, for tests: what must be ordered, read off the meaning of the ops and nothing else, and
// looked up in the closure of the graph of order_model_testing.h. It uses no contract of ops/, no clocks and no code of
// verify.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "program/order_model_testing.h"

namespace boreas::testing_order {

class OrderOracle : public OrderModel {
 public:
  using OrderModel::OrderModel;

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
  // ---- required facts
  bool before(const Span& a, const Span& b) const {
    for (const int32_t from : a.end)
      for (const int32_t to : b.begin)
        if (!order_.is_before(from, to)) return false;
    return true;
  }
  bool is_before_end(const Span& a, const Span& b) const {
    for (const int32_t from : a.end)
      for (const int32_t to : b.end)
        if (!order_.is_before(from, to)) return false;
    return true;
  }
  void require(const Span& a, const Span& b, const char* what) {
    if (!before(a, b)) violation(what);
  }

  // A value in a slot: who writes it, who reads it.
  struct SlotValue {
    int32_t slot = 0;
    const Span* writer = nullptr;
    std::vector<const Span*> readers;
    bool read_late = false;  // not from the reader's beginning on
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
        values.back().read_late = in_two_parts(layer);
        if (in_two_parts(layer)) add(static_cast<int32_t>(Slot::kInnerFirst), gather(layer, Slot::kInnerFirst), {down});
        add(static_cast<int32_t>(Slot::kProjected), {Op::kOutProj, layer}, {down});
        add(static_cast<int32_t>(Slot::kResidual), layer == 0 ? Name{Op::kEmbed, -1} : Name{Op::kDown, layer - 1},
            {down});
        if (program_.config.is_moe(layer)) add_route(step, worker, layer, values);
      }
      add(static_cast<int32_t>(Slot::kResidual), {Op::kDown, last}, {});
    }
    for (const SlotValue& value : values)
      for (const Span* reader : value.readers)
        if (!(value.read_late ? is_before_end(*value.writer, *reader) : before(*value.writer, *reader)))
          return violation(std::string("slot read early: ") + slot_name(value.slot));
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
    for (const Slot slot : {Slot::kInnerFirst, Slot::kInner}) {
      if (!in_two_parts(layer)) continue;
      if (find(worker, gather(layer, slot)).args[GatherOp::kRouteSlot] != value.slot)
        violation("the route of another layer");
      value.readers.push_back(&span(step, worker, gather(layer, slot)));
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
            const Span& waiter = span(step, worker, Place{static_cast<Role>(role), i});
            if (&waiter != next) require(waiter, *next, "a barrier passes a waiter");  // a task waits before it arrives
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
      case Op::kFilter:
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
        check_hop(writer, {Op::kLmHead, -1}, reader, {Op::kFilter, -1}, 0);
        check_hop(writer, {Op::kFilter, -1}, reader, {Op::kSample, -1}, 0);
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
    if (in_two_parts(layer)) check_hop(writer, {Op::kUpGate, layer}, reader, gather(layer, Slot::kInnerFirst), 0);
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
      const Span& written = span(step, writer, from);
      const bool early = comes_early(find(reader, to)) && writer != reader;
      require(early ? Span{written.begin, written.begin} : written, read, "a hop is read early");
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
        for (int32_t step = 0; step < kSteps; ++step)
          for (const Op op : {Op::kFilter, Op::kSample}) {
            const Span& read = span(step, reader, Name{op, -1});
            require(span(step, writer, Name{Op::kLmHead, -1}), read, "logits are read early");
            if (step + 1 < kSteps)
              require(read, span(step + 1, writer, Name{Op::kLmHead, -1}), "logits are overwritten");
          }
  }
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
