// The part of verify that looks at all workers together: the slices of every matrix cover it exactly once in worker
// order, and a task waits for every worker that has a part of what it needs. Order is verify.cc's business.
#include "program/verify_state.h"

namespace boreas::verification {
namespace {

constexpr int32_t kHeadParts = 5;
// What is cut within a KV head.
enum HeadPart : int32_t { kQueryRows, kKeyRows, kValueRows, kPieces, kOutputs };
constexpr const char* kHeadPartNames[kHeadParts] = {"query rows", "key rows", "value rows", "attention pieces",
                                                    "attention outputs"};

class CoverCheck {
 public:
  explicit CoverCheck(const Program& program)
      : program_(program),
        config_(program.config),
        heads_(static_cast<size_t>(config_.layer_count()) * static_cast<size_t>(config_.kv_heads)) {
    for (auto& next : next_row_) next.assign(static_cast<size_t>(config_.layer_count()) + 1, 0);
  }

  std::string run() {
    for (int32_t worker = 0; worker < program_.workers() && problem_.empty(); ++worker)
      for (Role role : {Role::kMessenger, Role::kConsumer}) visit(worker, role, &CoverCheck::add_slices);
    for (const Op op : {Op::kEmbed, Op::kRouterLogits, Op::kUpGate, Op::kOutProj, Op::kDown, Op::kLmHead, Op::kFilter})
      if (problem_.empty()) check_rows(op);
    if (problem_.empty()) check_heads();
    for (int32_t worker = 0; worker < program_.workers() && problem_.empty(); ++worker) {
      gathered_.assign(static_cast<size_t>(config_.layer_count()), Range{});
      for (Role role : {Role::kRouter, Role::kMessenger, Role::kConsumer})
        visit(worker, role, &CoverCheck::check_needs);
    }
    return problem_;
  }

 private:
  struct Head {                     // of one layer
    int32_t next[kHeadParts] = {};  // rows or pieces covered so far
    int32_t first_worker[kHeadParts] = {};
    int32_t end_worker[kHeadParts] = {};  // 0: nobody
  };

  void visit(int32_t worker, Role role, void (CoverCheck::*check)(int32_t, const TaskDesc&)) {
    const std::span<const TaskDesc> list = program_.list(worker, role);
    for (size_t index = 0; index < list.size() && problem_.empty(); ++index) {
      (this->*check)(worker, list[index]);
      if (!problem_.empty()) problem_ = describe_task(program_, worker, role, index) + " " + problem_;
    }
  }

  int32_t total_of(Op op, int32_t layer) const {
    switch (op) {
      case Op::kRouterLogits:
        return layer >= 0 && config_.is_moe(layer) ? config_.experts : 0;
      case Op::kUpGate:
        return layer >= 0 ? (config_.is_moe(layer) ? config_.expert_width : config_.dense_width) : 0;
      case Op::kEmbed:
        return layer < 0 ? config_.hidden_size : 0;
      case Op::kOutProj:
      case Op::kDown:
        return layer >= 0 ? config_.hidden_size : 0;
      case Op::kLmHead:
      case Op::kFilter:
        return layer < 0 ? config_.vocab_size : 0;
      default:
        return 0;
    }
  }

  void add_slices(int32_t worker, const TaskDesc& task) {
    const int32_t* args = task.args;
    switch (static_cast<Op>(task.op)) {
      case Op::kEmbed:
      case Op::kRouterLogits:
      case Op::kUpGate:
      case Op::kOutProj:
      case Op::kDown:
      case Op::kLmHead:
      case Op::kFilter:
        add_rows(task, {args[0], args[1]});
        break;
      case Op::kQkv:
        if (args[QkvOp::kRope] != layer(task).rope) problem_ = "has RoPE where the layer has none, or the other way";
        if ((args[QkvOp::kQFirst] | args[QkvOp::kQCount] | args[QkvOp::kKFirst] | args[QkvOp::kKCount]) & 1)
          problem_ = "cuts a RoPE pair in two";
        add_heads(worker, task, kQueryRows, {args[QkvOp::kQFirst], args[QkvOp::kQCount]});
        add_heads(worker, task, kKeyRows, {args[QkvOp::kKFirst], args[QkvOp::kKCount]});
        add_heads(worker, task, kValueRows, {args[QkvOp::kVFirst], args[QkvOp::kVCount]});
        break;
      case Op::kAttention:
        if (args[AttentionOp::kSliding] != layer(task).sliding) problem_ = "has another window than the layer";
        add_heads(worker, task, kPieces, {args[AttentionOp::kPieceFirst], args[AttentionOp::kPieceCount]});
        break;
      case Op::kAttentionMerge:
        if (args[AttentionMergeOp::kSliding] != layer(task).sliding) problem_ = "has another window than the layer";
        add_heads(worker, task, kOutputs, {args[AttentionMergeOp::kFirst], args[AttentionMergeOp::kCount]});
        break;
      default:
        break;
    }
  }

  const LayerConfig& layer(const TaskDesc& task) const { return config_.layers[static_cast<size_t>(task.layer)]; }

  void add_rows(const TaskDesc& task, Range rows) {
    int32_t& next = next_row_[static_cast<size_t>(task.op)][static_cast<size_t>(task.layer + 1)];
    if (!extend(next, rows)) problem_ = "owns a slice that does not begin where the worker before it ends";
  }
  static bool extend(int32_t& next, Range rows) {
    if (rows.count < 0) return false;
    if (rows.count == 0) return true;
    if (rows.first != next || rows.count > INT32_MAX - next) return false;
    next += rows.count;
    return true;
  }

  // Arguments 0 and 1 of all ops on heads are the first head and their number.
  void add_heads(int32_t worker, const TaskDesc& task, HeadPart part, Range rows) {
    const Range heads{task.args[0], task.args[1]};
    if (heads.first < 0 || heads.count < 0 || heads.count > config_.kv_heads - heads.first) {
      problem_ = "names KV heads that do not exist";
      return;
    }
    for (int32_t head = heads.first; head < heads.end() && problem_.empty(); ++head) {
      Head& state = heads_[head_index(task.layer, head)];
      if (!extend(state.next[part], rows))
        problem_ = std::string("owns ") + kHeadPartNames[part] + " that do not begin where the worker before it ends";
      if (rows.count == 0) continue;
      if (state.end_worker[part] == 0) state.first_worker[part] = worker;
      state.end_worker[part] = worker + 1;
    }
  }
  size_t head_index(int32_t layer, int32_t head) const {
    return static_cast<size_t>(layer) * static_cast<size_t>(config_.kv_heads) + static_cast<size_t>(head);
  }

  void check_rows(Op op) {
    for (int32_t layer = -1; layer < config_.layer_count() && problem_.empty(); ++layer) {
      const int32_t covered = next_row_[static_cast<size_t>(op)][static_cast<size_t>(layer + 1)];
      if (covered != total_of(op, layer))
        problem_ = std::string(op_name(op)) + " of layer " + std::to_string(layer) + " covers " +
                   std::to_string(covered) + " of " + std::to_string(total_of(op, layer)) + " rows";
    }
  }

  void check_heads() {
    const int32_t queries = config_.queries_per_kv() * config_.head_dim;
    const int32_t totals[kHeadParts] = {queries, config_.head_dim, config_.head_dim, kAttentionPieces, queries};
    for (size_t index = 0; index < heads_.size(); ++index)
      for (int32_t part = 0; part < kHeadParts; ++part)
        if (heads_[index].next[part] != totals[part])
          problem_ = "layer " + std::to_string(index / static_cast<size_t>(config_.kv_heads)) + " covers " +
                     std::to_string(heads_[index].next[part]) + " of " + std::to_string(totals[part]) + " " +
                     kHeadPartNames[part] + " of a KV head";
  }

  // ---- whom a task must wait for
  void check_needs(int32_t, const TaskDesc& task) {
    const Op op = static_cast<Op>(task.op);
    const Range heads{task.args[0], task.args[1]};
    if (op == Op::kAttention && gathered_[static_cast<size_t>(task.layer)] != heads)
      problem_ = "attends for other KV heads than were gathered";
    if (task.wait.hop < 0) return;
    if (op == Op::kSample && task.args[SampleOp::kWorkers] != program_.workers()) problem_ = "counts other workers";
    const Hop hop = static_cast<Hop>(task.wait.hop);
    if (hop == Hop::kQkv) {
      const Range gathered{task.args[GatherOp::kHeadFirst], task.args[GatherOp::kHeadCount]};
      gathered_[static_cast<size_t>(task.layer)] = gathered;
      for (HeadPart part : {kQueryRows, kKeyRows, kValueRows}) need_heads(task, gathered, part);
    } else if (hop == Hop::kPartial) {
      need_heads(task, heads, kPieces);
    } else {
      need(task, 0, program_.workers());
    }
  }
  void need_heads(const TaskDesc& task, Range heads, HeadPart part) {
    if (heads.first < 0 || heads.count < 0 || heads.count > config_.kv_heads - heads.first) {
      problem_ = "names KV heads that do not exist";
      return;
    }
    for (int32_t head = heads.first; head < heads.end(); ++head) {
      const Head& state = heads_[head_index(task.layer, head)];
      need(task, state.first_worker[part], state.end_worker[part]);
    }
  }
  void need(const TaskDesc& task, int32_t first, int32_t end) {
    if (task.wait.first > first || task.wait.first + task.wait.count < end)
      problem_ = "waits for writers " + std::to_string(task.wait.first) + " to " +
                 std::to_string(task.wait.first + task.wait.count - 1) + " of hop " + hop_name(task.wait.hop) +
                 ", but needs " + std::to_string(first) + " to " + std::to_string(end - 1);
  }
  const Program& program_;
  const ModelConfig& config_;
  std::array<std::vector<int32_t>, kOps> next_row_;  // [layer + 1] of each op: rows covered so far
  std::vector<Head> heads_;                          // [layers, kv_heads]
  std::vector<Range> gathered_;                      // [layers], of the worker in hand: its messenger comes first
  std::string problem_;
};

}  // namespace

std::string check_cover(const Program& program) { return CoverCheck(program).run(); }

}  // namespace boreas::verification
