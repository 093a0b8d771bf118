// What a program does in a step, counted from its own tasks: see compile.h. Called by `boreas plan` and tests.
#include <algorithm>

#include "program/compile.h"
#include "program/worker_memory.h"

namespace boreas {
namespace {

constexpr int64_t kBytesBf16 = 2;

class Summary {
 public:
  Summary(const Program& program, int32_t rows, int32_t context)
      : program_(program), config_(program.config), rows_(rows), context_(context) {}

  ProgramSummary run() {
    for (OpTotals& op : summary_.ops) op.worker_bytes_min = INT64_MAX;
    summary_.worker_bytes_min = INT64_MAX;
    for (int32_t worker = 0; worker < program_.workers(); ++worker) add_worker(worker);
    for (OpTotals& op : summary_.ops)
      if (op.worker_bytes_min == INT64_MAX) op.worker_bytes_min = 0;
    summary_.tasks = static_cast<int64_t>(program_.tasks.size());
    add_hops();
    add_needed_bytes();
    return summary_;
  }

 private:
  void add_worker(int32_t worker) {
    std::array<int64_t, kOps> bytes{};
    int64_t worker_bytes = 0, worker_chunks = 0;
    for (int32_t role = 0; role < kRoles; ++role) {
      for (const TaskDesc& task : program_.list(worker, static_cast<Role>(role)))
        ++summary_.ops[static_cast<size_t>(task.op)].tasks;
    }
    const std::span<const TaskDesc> loads = program_.list(worker, Role::kProducer);
    size_t next = 0;
    for (const TaskDesc& task : program_.list(worker, Role::kConsumer)) {
      if (task.stream_item < 0) continue;
      const int64_t unit_bytes = loads[next++].args[LoadOp::kUnitBytes];
      const int64_t count = units(task);
      OpTotals& op = summary_.ops[static_cast<size_t>(task.op)];
      bytes[static_cast<size_t>(task.op)] += count * unit_bytes;
      worker_bytes += count * unit_bytes;
      const int64_t chunks = chunks_of_pieces(count * task.stream_unit_pieces);
      worker_chunks += chunks;
      op.chunks_max = std::max(op.chunks_max, chunks);
    }
    for (size_t op = 0; op < kOps; ++op) {
      summary_.ops[op].bytes += bytes[op];
      summary_.ops[op].worker_bytes_min = std::min(summary_.ops[op].worker_bytes_min, bytes[op]);
      summary_.ops[op].worker_bytes_max = std::max(summary_.ops[op].worker_bytes_max, bytes[op]);
    }
    summary_.worker_bytes_min = std::min(summary_.worker_bytes_min, worker_bytes);
    summary_.worker_bytes_max = std::max(summary_.worker_bytes_max, worker_bytes);
    summary_.chunks_max = std::max(summary_.chunks_max, worker_chunks);
  }

  int64_t units(const TaskDesc& task) const { return stream_units(config_, task, rows_, context_); }
  int64_t distinct_experts() const {
    return std::min<int64_t>(config_.experts, int64_t{rows_} * config_.experts_per_token);
  }

  // Hops of the last MoE layer (of the last layer if none is), each once however many tasks gather it, and the longest
  // chain of them: a task comes after the one before it in its list, after the arrivals it waits for, and one hop after
  // what it gathers.
  void add_hops() {
    int32_t layer = config_.layer_count() - 1;
    for (int32_t i = 0; i < config_.layer_count(); ++i)
      if (config_.is_moe(i)) layer = i;
    std::array<int32_t, kHops> published{};
    std::array<int32_t, kSlots> arrived{};
    std::array<int32_t, kRoles> role_depth{};
    std::array<size_t, kRoles> cursor{};
    bool done[kHops] = {}, counted[kHops] = {};
    done[static_cast<size_t>(Hop::kResidual)] = true;
    // Lists are in a possible order across roles: sweep until nothing moves. The producer is never behind.
    for (bool moved = true; moved;) {
      moved = false;
      for (Role role : {Role::kRouter, Role::kMessenger, Role::kConsumer}) {
        const size_t r = static_cast<size_t>(role);
        const std::span<const TaskDesc> list = program_.list(0, role);
        while (cursor[r] < list.size() && list[cursor[r]].layer != layer) ++cursor[r];
        if (cursor[r] == list.size()) continue;
        const TaskDesc& task = list[cursor[r]];
        if (task.wait.hop >= 0 && !done[task.wait.hop]) continue;
        int32_t depth = role_depth[r];
        bool blocked = false;
        for (const BarrierWait& wait : task.barriers) {
          if (wait.id < 0) continue;
          blocked = blocked || arrived[static_cast<size_t>(wait.id)] == 0;
          depth = std::max(depth, arrived[static_cast<size_t>(wait.id)]);
        }
        if (blocked) continue;
        if (task.wait.hop >= 0) {
          depth = std::max(depth, published[static_cast<size_t>(task.wait.hop)] + 1);
          summary_.hops_per_layer += counted[task.wait.hop] ? 0 : 1;
          counted[task.wait.hop] = true;
        }
        role_depth[r] = depth;
        if (task.arrive >= 0) arrived[static_cast<size_t>(task.arrive)] = depth;
        if (task.publish.hop >= 0) {
          published[static_cast<size_t>(task.publish.hop)] = depth;
          done[task.publish.hop] = true;
        }
        summary_.hop_chain_per_layer = std::max(summary_.hop_chain_per_layer, depth);
        ++cursor[r];
        moved = true;
      }
    }
  }

  void add_needed_bytes() {
    const int64_t hidden = config_.hidden_size;
    int64_t values = int64_t{config_.vocab_size} * hidden + hidden + int64_t{rows_} * hidden;
    for (const LayerConfig& layer : config_.layers) {
      values += hidden + 2 * config_.query_width() * hidden + 2 * config_.kv_width() * hidden;
      if (layer.dense_mlp) values += 3 * config_.dense_width * hidden;
      else values += config_.experts * hidden + 3 * distinct_experts() * config_.expert_width * hidden;
      const int64_t visible = context_ - first_visible(context_ - 1, layer.sliding, config_.window);
      values += int64_t{rows_} * visible * 2 * config_.kv_width();
    }
    summary_.step_bytes = values * kBytesBf16;
    if (program_.device.read_bytes_per_s > 0)
      summary_.predicted_us = static_cast<double>(summary_.step_bytes) / program_.device.read_bytes_per_s * 1e6;
  }

  const Program& program_;
  const ModelConfig& config_;
  int32_t rows_;
  int32_t context_;
  ProgramSummary summary_;
};

}  // namespace

ProgramSummary summarize(const Program& program, int32_t rows, int32_t context) {
  CHECK(rows >= 1 && context >= 1);
  return Summary(program, rows, context).run();
}

}  // namespace boreas
