// See cpu_backend.h. A Bench is the state of one run: everything is NaN or unset but what the contracts of the tasks
// say is read.
#include "tests/conformance/cpu_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "exec/cpu/blocks.h"
#include "exec/cpu/state.h"

namespace boreas::conformance {
namespace {

using cpu::Worker;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kStep = 5;  // neither the first nor an even one: epochs and halves are not those of a zeroed state

bool is_fp32(Hop hop) { return hop == Hop::kLogit || hop == Hop::kPartial; }

bf16 exact_bf16(float value) {
  const bf16 bits = float_to_bf16(value);
  CHECK(std::isnan(value) || bf16_to_float(bits) == value);
  return bits;
}

// Values of one array as workers hand them in; each must be handed in, and all must agree.
class Assembly {
 public:
  Assembly(size_t size, std::string what) : values_(size, kNan), set_(size, false), what_(std::move(what)) {}
  void put(int64_t index, float value) {
    const size_t i = static_cast<size_t>(index);
    CHECK(i < values_.size());
    if (set_[i] && std::memcmp(&values_[i], &value, sizeof(value)) != 0)
      ADD_FAILURE() << what_ << ": workers disagree on value " << i << ": " << values_[i] << " and " << value;
    values_[i] = value;
    set_[i] = true;
  }
  std::vector<float> take() {
    if (std::find(set_.begin(), set_.end(), false) != set_.end()) ADD_FAILURE() << what_ << ": no worker has a part";
    return std::move(values_);
  }

 private:
  std::vector<float> values_;
  std::vector<bool> set_;
  std::string what_;
};

constexpr Slot kFloatSlots[] = {Slot::kNormed, Slot::kAttention, Slot::kInner, Slot::kResidual, Slot::kProjected};
template <class W>  // Worker or const Worker; in the order of kFloatSlots
auto float_slots(W& worker) {
  return std::array{&worker.normed, &worker.attention, &worker.inner, &worker.residual, &worker.projected};
}

class Bench {
 public:
  Bench(const Machine& machine, const Step& step, const Call& call, const cpu::Kernels& kernels)
      : machine_(machine),
        config_(machine.config()),
        call_(call),
        workers_(static_cast<size_t>(machine.program.workers())) {
    shared_.model = machine.model;
    shared_.kernels = &kernels;
    shared_.workers = machine.program.workers();
    shared_.rows_max = machine.program.rows_max;
    shared_.program = &machine.program;
    shared_.step = kStep;
    cpu::allocate_hops(shared_);
    set_plan(step);
    for (size_t w = 0; w < workers_.size(); ++w) {
      workers_[w].id = static_cast<int32_t>(w);
      cpu::allocate_slots(shared_, workers_[w]);
      for (auto* slot : float_slots(workers_[w])) std::fill(slot->begin(), slot->end(), kNan);
      std::fill(workers_[w].qkv.begin(), workers_[w].qkv.end(), bf16{0xffff});
      tasks_.push_back(tasks_of(static_cast<int32_t>(w)));
      for (const TaskDesc& task : tasks_.back()) {
        task_reads(task, reads_);
        task_writes(task, writes_);
        merge_accesses();
      }
    }
  }

  void run(Data& data) {
    fill(data);
    const std::vector<Worker> before = workers_;
    for (size_t w = 0; w < workers_.size(); ++w) {
      // Neither ascending nor all at once: 7 is prime to all numbers of workers.
      Worker& worker = workers_[w * 7 % workers_.size()];
      cpu::OpContext context{shared_, worker};
      for (const TaskDesc& task : tasks_[static_cast<size_t>(worker.id)]) run_body(context, task);
    }
    expect_untouched(before);
    collect(data);
  }

 private:
  size_t rows() const { return static_cast<size_t>(shared_.block.rows()); }
  std::byte* payload(Hop hop, int64_t half) { return shared_.hops[static_cast<size_t>(hop)].payload(half); }
  size_t payload_bytes(Hop hop) const {
    const int64_t bytes_a_value = is_fp32(hop) ? 4 : 2;
    return static_cast<size_t>(shared_.rows_max) *
           static_cast<size_t>(hop == Hop::kInner
                                   ? std::max(config_.dense_width, config_.experts_per_token * config_.expert_width)
                                   : values_per_row(config_, call_.layer, hop)) *
           static_cast<size_t>(bytes_a_value);
  }

  void set_plan(const Step& step) {
    const std::vector<TokenId> no_feedback(step.sequences.size(), 0);
    std::vector<cpu::Block> blocks = cpu::cut_into_blocks(step.plan, no_feedback, shared_.rows_max);
    CHECK(blocks.size() == 1);
    plan_ = std::move(blocks[0]);
    cpu::fill_rope(plan_, config_);
    for (const SequenceSpec& spec : step.sequences)
      shared_.samplers.push_back({true, spec.sampling, PenaltyState(spec.prompt, spec.output)});
    shared_.block.tokens.assign(plan_.tokens.size(), -1);  // all of the plan that an op may see unasked: how many rows
    shared_.block.positions.assign(plan_.tokens.size(), -1);
    for (int32_t hop = 0; hop < kHops; ++hop)
      for (int64_t half : {0, 1})
        std::fill_n(payload(static_cast<Hop>(hop), half), payload_bytes(static_cast<Hop>(hop)), std::byte{0xff});
  }

  std::vector<TaskDesc> tasks_of(int32_t worker) const {
    if (call_.op == Op::kNop) return {TaskDesc{}};
    std::vector<TaskDesc> tasks;
    for (const TaskDesc& task : machine_.program.list(worker, op_role(call_.op))) {
      if (static_cast<Op>(task.op) != call_.op || task.layer != call_.layer) continue;
      const Slot slot = static_cast<Slot>(task.args[GatherOp::kSlot]);
      if (call_.op == Op::kGather && (slot == Slot::kInnerFirst ? Slot::kInner : slot) != call_.slot) continue;
      tasks.push_back(task);
    }
    CHECK(!tasks.empty());
    return tasks;
  }

  // The contracts of all tasks together; every worker's tasks name the same spaces.
  struct Touched {
    bool hop[kHops] = {}, slot[kSlots] = {}, kv = false, logits = false, plan = false, mailbox = false;
    int64_t epoch = 0;  // of the hop
    void add(const cpu::Shared& shared, const AccessList& list) {
      for (int32_t i = 0; i < list.size; ++i) {
        const Access& access = list.items[i];
        if (access.space == Space::kSlot) slot[access.id] = true;
        if (access.space == Space::kKv) kv = true;
        if (access.space == Space::kLogits) logits = true;
        if (access.space == Space::kPlan) plan = true;
        if (access.space == Space::kMailbox) mailbox = true;
        if (access.space != Space::kHop) continue;
        hop[access.id] = true;
        epoch = shared.epoch(access.id, access.use);
      }
    }
  };
  void merge_accesses() {
    read_.add(shared_, reads_);
    written_.add(shared_, writes_);
    reads_ = writes_ = AccessList{};
  }

  // ---- in
  void fill(const Data& data) {
    for (int32_t hop = 0; hop < kHops; ++hop)
      if (read_.hop[hop]) fill_hop(static_cast<Hop>(hop), data.hops[static_cast<size_t>(hop)]);
    for (int32_t slot = 0; slot < kSlots; ++slot)
      if (read_.slot[slot])
        for (Worker& worker : workers_)
          fill_slot(worker, static_cast<Slot>(slot), data.slots[static_cast<size_t>(slot)]);
    if (read_.plan) shared_.block = plan_;
    else shared_.block.rope_cos.clear();
    fill_pages(data);
    shared_.logits.assign(plan_.logits_rows.size() * static_cast<size_t>(config_.vocab_size), kNan);
    if (read_.logits) shared_.logits = data.logits;
    shared_.sampled.assign(plan_.samples.size(), SampledToken{});
  }

  void fill_hop(Hop hop, const std::vector<float>& values) {
    CHECK(values.size() == rows() * static_cast<size_t>(values_per_row(config_, call_.layer, hop)));
    std::byte* out = payload(hop, read_.epoch);
    for (size_t i = 0; i < values.size(); ++i) {
      const bf16 narrow = is_fp32(hop) ? bf16{} : exact_bf16(values[i]);
      if (is_fp32(hop)) std::memcpy(out + i * sizeof(float), &values[i], sizeof(float));
      else std::memcpy(out + i * sizeof(bf16), &narrow, sizeof(bf16));
    }
  }

  void fill_slot(Worker& worker, Slot slot, const std::vector<float>& values) {
    CHECK(values.size() == rows() * static_cast<size_t>(values_per_row(config_, call_.layer, slot)));
    if (slot == Slot::kInnerFirst) return;  // in worker.inner, with the rest
    if (slot == Slot::kRoute || slot == Slot::kRouteOdd)
      return fill_route(worker.routes[slot == Slot::kRouteOdd], values);
    if (slot == Slot::kNormed) return pack(values, config_.hidden_size, worker.normed);
    if (slot == Slot::kAttention) return pack(values, config_.query_width(), worker.attention);
    if (slot == Slot::kInner)
      return pack(values, config_.is_moe(call_.layer) ? config_.expert_width : config_.dense_width, worker.inner);
    visit_own(worker, slot, [&](size_t own, int64_t whole) {
      const float value = values[static_cast<size_t>(whole)];
      if (slot == Slot::kQkv) worker.qkv[own] = exact_bf16(value);
      else (slot == Slot::kResidual ? worker.residual : worker.projected)[own] = value;
    });
  }

  void pack(const std::vector<float>& values, int32_t width, std::vector<float>& slot) const {
    std::vector<bf16> row(static_cast<size_t>(width));
    for (size_t first = 0; first < values.size(); first += row.size()) {
      std::transform(values.begin() + static_cast<int64_t>(first),
                     values.begin() + static_cast<int64_t>(first + row.size()), row.begin(), exact_bf16);
      shared_.kernels->pack(row.data(), width,
                            slot.data() + first / row.size() * static_cast<size_t>(cpu::padded(width)));
    }
  }

  void fill_route(cpu::Route& route, const std::vector<float>& values) const {
    const size_t pairs = values.size() / 2;
    route.expert.clear();
    route.weight.clear();
    route.pair.clear();
    for (size_t i = 0; i < pairs; ++i) {
      route.expert.push_back(static_cast<int32_t>(values[2 * i]));
      route.weight.push_back(values[2 * i + 1]);
    }
    for (int32_t e = 0; e < config_.experts; ++e) {
      for (size_t i = 0; i < pairs; ++i)
        if (route.expert[i] == e) route.pair.push_back(static_cast<int32_t>(i));
      route.first[static_cast<size_t>(e) + 1] = static_cast<int32_t>(route.pair.size());
    }
  }

  void fill_pages(const Data& data) {
    const auto pages = [](const std::vector<bf16>& values, int64_t page_bytes) {
      return page_bytes == 0 ? 0 : static_cast<int64_t>(values.size() * sizeof(bf16)) / page_bytes;
    };
    CHECK(cpu::allocate_pages(shared_, pages(data.kv_full, page_bytes_full(config_)),
                              pages(data.kv_sliding, page_bytes_sliding(config_)))
              .ok());
    if (!read_.kv) return;
    std::copy(data.kv_full.begin(), data.kv_full.end(), shared_.kv_full.get());
    std::copy(data.kv_sliding.begin(), data.kv_sliding.end(), shared_.kv_sliding.get());
  }

  // Calls with (index in the worker's slot, index in the whole) for a slot of which a worker has a part.
  template <class F>
  void visit_own(const Worker& worker, Slot slot, F&& call) const {
    const int64_t width = values_per_row(config_, call_.layer, slot);
    Range own = slice(config_.hidden_size, shared_.workers, worker.id);
    if (slot == Slot::kQkv) {
      const Range heads = heads_of_worker(shared_.workers, config_.kv_heads, worker.id);
      const int32_t per_head = static_cast<int32_t>(width / config_.kv_heads);
      own = {heads.first * per_head, heads.count * per_head};
    }
    size_t at = 0;
    for (int64_t row = 0; row < static_cast<int64_t>(rows()); ++row)
      for (int32_t i = own.first; i < own.end(); ++i) call(at++, row * width + i);
  }

  static void run_body(cpu::OpContext& context, const TaskDesc& task) {
    switch (static_cast<Op>(task.op)) {
#define BOREAS_RUN_BODY(enumerator, contract, name, role) \
  case Op::enumerator:                                    \
    return cpu::run_##enumerator(context, task);
      BOREAS_OPS(BOREAS_RUN_BODY)
#undef BOREAS_RUN_BODY
    }
  }

  // ---- out
  void collect(Data& data) {
    for (int32_t hop = 0; hop < kHops; ++hop)
      if (written_.hop[hop]) data.hops[static_cast<size_t>(hop)] = collect_hop(static_cast<Hop>(hop));
    for (int32_t slot = 0; slot < kSlots; ++slot)
      if (written_.slot[slot]) data.slots[static_cast<size_t>(slot)] = collect_slot(static_cast<Slot>(slot));
    if (written_.logits) data.logits = shared_.logits;
    if (written_.mailbox) data.sampled = shared_.sampled;
    if (written_.kv) {
      std::copy_n(shared_.kv_full.get(), data.kv_full.size(), data.kv_full.begin());
      std::copy_n(shared_.kv_sliding.get(), data.kv_sliding.size(), data.kv_sliding.begin());
    }
    data.loaded.clear();
    for (const Worker& worker : workers_) {
      data.loaded.emplace_back();
      for (const cpu::StreamItem& item : worker.ring) data.loaded.back().push_back(item.item);
    }
  }

  std::vector<float> collect_hop(Hop hop) {
    std::vector<float> values(rows() * static_cast<size_t>(values_per_row(config_, call_.layer, hop)));
    const std::byte* in = payload(hop, written_.epoch);
    for (size_t i = 0; i < values.size(); ++i) {
      bf16 narrow;
      std::memcpy(&narrow, in + i * sizeof(bf16), sizeof(bf16));
      if (is_fp32(hop)) std::memcpy(&values[i], in + i * sizeof(float), sizeof(float));
      else values[i] = bf16_to_float(narrow);
    }
    return values;
  }

  std::vector<float> collect_slot(Slot slot) {
    if (slot == Slot::kInnerFirst) return {};
    Assembly whole(rows() * static_cast<size_t>(values_per_row(config_, call_.layer, slot)), slot_label(slot));
    for (const Worker& worker : workers_) {
      if (slot == Slot::kRoute || slot == Slot::kRouteOdd) {
        const cpu::Route& route = worker.routes[slot == Slot::kRouteOdd];
        expect_sorted(route);
        for (size_t i = 0; i < route.expert.size(); ++i) {
          whole.put(static_cast<int64_t>(2 * i), static_cast<float>(route.expert[i]));
          whole.put(static_cast<int64_t>(2 * i + 1), route.weight[i]);
        }
      } else if (slot == Slot::kNormed) {
        unpack(worker.normed, config_.hidden_size, whole);
      } else if (slot == Slot::kAttention) {
        unpack(worker.attention, config_.query_width(), whole);
      } else if (slot == Slot::kInner) {
        unpack(worker.inner, config_.is_moe(call_.layer) ? config_.expert_width : config_.dense_width, whole);
      } else {
        visit_own(worker, slot, [&](size_t own, int64_t at) {
          if (slot == Slot::kQkv) whole.put(at, bf16_to_float(worker.qkv[own]));
          else whole.put(at, (slot == Slot::kResidual ? worker.residual : worker.projected)[own]);
        });
      }
    }
    return whole.take();
  }

  // The same pairs once more, by expert: what the products go by.
  void expect_sorted(const cpu::Route& route) const {
    int32_t hit = 0;
    ASSERT_EQ(route.pair.size(), route.expert.size());
    for (int32_t e = 0; e < config_.experts; ++e) {
      const int32_t first = route.first[static_cast<size_t>(e)], end = route.first[static_cast<size_t>(e) + 1];
      hit += end > first;
      for (int32_t i = first; i < end; ++i) {
        const int32_t pair = route.pair[static_cast<size_t>(i)];
        ASSERT_EQ(route.expert[static_cast<size_t>(pair)], e);
        ASSERT_TRUE(i == first || route.pair[static_cast<size_t>(i - 1)] < pair);
      }
    }
    EXPECT_EQ(route.first.back(), static_cast<int32_t>(route.expert.size()));
    EXPECT_EQ(route.hit, hit);
  }

  void unpack(const std::vector<float>& slot, int32_t width, Assembly& whole) const {
    std::vector<float> row(static_cast<size_t>(width));
    const int64_t count = values_per_row(config_, call_.layer, call_slot()) / width * static_cast<int64_t>(rows());
    for (int64_t i = 0; i < count; ++i) {
      shared_.kernels->unpack(slot.data() + i * cpu::padded(width), width, row.data());
      for (size_t k = 0; k < row.size(); ++k) whole.put(i * width + static_cast<int64_t>(k), row[k]);
    }
  }
  // The one packed slot that the op writes.
  Slot call_slot() const { return call_.op == Op::kGatherNorm ? Slot::kNormed : call_.slot; }
  static std::string slot_label(Slot slot) { return "slot " + std::to_string(static_cast<int32_t>(slot)); }

  bool is_written(Slot slot) const { return written_.slot[static_cast<size_t>(slot)]; }
  static bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
  }

  // What the contract does not name keeps its bits: slots, rows that the step does not have, halves that it does not
  // use.
  void expect_untouched(const std::vector<Worker>& before) {
    for (size_t w = 0; w < workers_.size(); ++w) {
      const Worker &now = workers_[w], &old = before[w];
      for (size_t i = 0; i < std::size(kFloatSlots); ++i) {
        const bool same = same_bits(*float_slots(now)[i], *float_slots(old)[i]);
        EXPECT_TRUE(same || is_written(kFloatSlots[i])) << slot_label(kFloatSlots[i]);
      }
      EXPECT_TRUE(now.qkv == old.qkv || is_written(Slot::kQkv));
      for (Slot slot : {Slot::kRoute, Slot::kRouteOdd}) {
        const cpu::Route &a = now.routes[slot == Slot::kRouteOdd], &b = old.routes[slot == Slot::kRouteOdd];
        EXPECT_TRUE((a.expert == b.expert && same_bits(a.weight, b.weight)) || is_written(slot)) << slot_label(slot);
      }
    }
    for (int32_t hop = 0; hop < kHops; ++hop)
      for (int64_t half : {0, 1}) expect_hop_untouched(static_cast<Hop>(hop), half);
  }

  void expect_hop_untouched(Hop hop, int64_t half) {
    const bool read = read_.hop[static_cast<size_t>(hop)] && (read_.epoch & 1) == half;
    const bool written = written_.hop[static_cast<size_t>(hop)] && (written_.epoch & 1) == half;
    size_t used = 0;
    if (read || written)
      used = rows() * static_cast<size_t>(values_per_row(config_, call_.layer, hop)) * (is_fp32(hop) ? 4 : 2);
    const std::byte* bytes = payload(hop, half);
    EXPECT_TRUE(std::all_of(bytes + used, bytes + payload_bytes(hop), [](std::byte b) { return b == std::byte{0xff}; }))
        << "hop " << static_cast<int32_t>(hop) << " half " << half;
  }

  const Machine& machine_;
  const ModelConfig& config_;
  const Call& call_;
  cpu::Shared shared_;
  cpu::Block plan_;
  std::vector<Worker> workers_;
  std::vector<std::vector<TaskDesc>> tasks_;  // by worker
  AccessList reads_, writes_;                 // of one task
  Touched read_, written_;                    // of all
};

}  // namespace

void CpuBackend::run(const Machine& machine, const Step& step, const Call& call, Data& data) {
  Bench(machine, step, call, kernels_).run(data);
}

}  // namespace boreas::conformance
