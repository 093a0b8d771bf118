// The part of verify that looks at lists one task at a time: roles, id ranges, hops and their uses, barrier targets,
// streams, memory. Order is verify.cc's business.
#include "program/verify_state.h"
#include "program/worker_memory.h"

namespace boreas::verification {
namespace {

constexpr int32_t kNoLayer = -2;  // of a hop use that nobody has published yet

bool in_range(int32_t value, int32_t low, int32_t high) { return value >= low && value < high; }
std::string text_of(int64_t value) { return std::to_string(value); }
bool is_route_slot(int32_t slot) {
  return slot == static_cast<int32_t>(Slot::kRoute) || slot == static_cast<int32_t>(Slot::kRouteOdd);
}

class StructureCheck {
 public:
  explicit StructureCheck(const Program& program) : program_(program) {}

  std::string run() {
    check_machine();
    if (problem_.empty()) check_memory();
    if (problem_.empty()) check_hop_uses();
    for (int32_t worker = 0; worker < program_.workers() && problem_.empty(); ++worker) {
      for (int32_t role = 0; role < kRoles && problem_.empty(); ++role) check_list(worker, static_cast<Role>(role));
      if (problem_.empty()) check_publications(worker);
      if (problem_.empty()) check_barriers(worker);
      if (problem_.empty()) check_streams(worker);
    }
    for (int32_t worker = 0; worker < program_.workers() && problem_.empty(); ++worker) check_waits(worker);
    return problem_;
  }

 private:
  // ---- the whole program
  void check_machine() {
    const DeviceSpec& device = program_.device;
    const std::vector<int32_t>& first = program_.list_first;
    if (program_.workers() < 1 || program_.rows_max < 1) problem_ = "no workers or no rows";
    else if (program_.barrier_count != kSlots) problem_ = "barriers and slots differ in number";
    else if (!in_range(device.host_steps_ahead, 1, kHostStepsAheadMax + 1))
      problem_ = "the host runs " + text_of(device.host_steps_ahead) + " steps ahead, 1 to " +
                 text_of(kHostStepsAheadMax) + " can be proved";
    else if (static_cast<int64_t>(first.size()) != int64_t{program_.workers()} * kRoles + 1 || first.front() != 0 ||
             first.back() != static_cast<int64_t>(program_.tasks.size()) || !std::is_sorted(first.begin(), first.end()))
      problem_ = "not one list a worker and role";
  }

  void check_memory() {
    for (int32_t i = 0; i < kSlots && problem_.empty(); ++i) check_slot(i);
    if (!problem_.empty()) return;
    const DeviceSpec& device = program_.device;
    const int64_t needed = program_.slot_bytes + device.scratch_bytes(program_.rows_max) +
                           int64_t{program_.ring_chunks} * device.chunk_bytes;
    if (program_.ring_chunks < device.ring_chunks_min || program_.ring_chunks > device.ring_chunks_max)
      problem_ = "the ring has " + text_of(program_.ring_chunks) + " chunks, not " + text_of(device.ring_chunks_min) +
                 " to " + text_of(device.ring_chunks_max);
    else if (device.slot_ring_bytes > 0 && needed > device.slot_ring_bytes)
      problem_ = "slots and ring need " + text_of(needed) + " bytes, a worker has " + text_of(device.slot_ring_bytes);
    else if (device.consumer_groups < 1 || program_.ring_chunks % device.consumer_groups != 0)
      problem_ = "a ring of " + text_of(program_.ring_chunks) + " chunks is no multiple of the " +
                 text_of(device.consumer_groups) + " consumer groups";
    else if (!in_range(program_.producers, 1, std::min(device.producer_warps, program_.ring_chunks) + 1))
      problem_ = text_of(program_.producers) + " producer warps";
    else if (program_.ring_chunks % program_.producers != 0)
      problem_ = "a ring of " + text_of(program_.ring_chunks) + " chunks is no multiple of the " +
                 text_of(program_.producers) + " producer warps";
  }

  void check_slot(int32_t i) {
    const SlotSpec& slot = program_.slots[static_cast<size_t>(i)];
    const int64_t needed = slot_bytes(program_.config, program_.workers(), program_.rows_max, static_cast<Slot>(i));
    if (slot.bytes < needed)
      problem_ =
          std::string("slot ") + slot_name(i) + " has " + text_of(slot.bytes) + " bytes, needs " + text_of(needed);
    else if (slot.offset < 0 || slot.offset % kSlotAlign != 0 || slot.offset + slot.bytes > program_.slot_bytes)
      problem_ = std::string("slot ") + slot_name(i) + " lies at byte " + text_of(slot.offset) + " of " +
                 text_of(program_.slot_bytes) + ", not aligned or beyond the end";
  }

  void check_hop_uses() {
    const int32_t layers = program_.config.layer_count();
    const int32_t routed = program_.config.moe_layers();
    const std::array<int32_t, kHops> expected = {layers + 1, routed, layers, layers, layers, layers, 1, 1, 1};
    for (int32_t hop = 0; hop < kHops; ++hop) {
      if (uses(hop) != expected[static_cast<size_t>(hop)])
        problem_ = std::string("hop ") + hop_name(hop) + " has " + text_of(uses(hop)) + " uses a step, the model " +
                   text_of(expected[static_cast<size_t>(hop)]);
      published_layer_[static_cast<size_t>(hop)].assign(static_cast<size_t>(std::max(uses(hop), 0)), kNoLayer);
    }
  }

  // ---- one task
  void check_list(int32_t worker, Role role) {
    const std::span<const TaskDesc> list = program_.list(worker, role);
    if (list.size() > kListTasksMax)
      problem_ = "a list has " + text_of(static_cast<int64_t>(list.size())) + " tasks, at most " +
                 text_of(kListTasksMax) + " can be proved";
    for (size_t index = 0; index < list.size() && problem_.empty(); ++index) {
      const std::string text = check_task(list[index], role);
      if (!text.empty()) problem_ = describe_task(program_, worker, role, index) + " " + text;
    }
  }

  std::string check_task(const TaskDesc& task, Role role) const {
    if (!in_range(task.op, 0, kOps)) return "has opcode " + text_of(task.op);
    const Op op = static_cast<Op>(task.op);
    if (op != Op::kNop && op_role(op) != role) return "is in the list of another role";
    const bool has_layer =
        op != Op::kNop && op != Op::kEmbed && op != Op::kLmHead && op != Op::kFilter && op != Op::kSample;
    const bool may_lack_layer = !has_layer || op == Op::kLoad || op == Op::kGatherNorm;
    if (!in_range(task.layer, may_lack_layer ? -1 : 0, has_layer ? program_.config.layer_count() : 0))
      return "names layer " + text_of(task.layer);
    if (!in_range(task.arrive, -1, program_.barrier_count)) return "arrives at barrier " + text_of(task.arrive);
    const std::string slots = check_slots(task, op);
    return slots.empty() ? check_hops(task, op) : slots;
  }

  std::string check_slots(const TaskDesc& task, Op op) const {
    if (op == Op::kTopK && !is_route_slot(task.args[TopKOp::kSlot])) return "does not write a route slot";
    if (op == Op::kGather && gathered_hop(task.args[GatherOp::kSlot]) < 0) return "gathers into another's slot";
    if (std::string parts = check_inner_parts(task, op); !parts.empty()) return parts;
    const int32_t* route_slot = op == Op::kUpGate ? &task.args[UpGateOp::kRouteSlot]
                                : op == Op::kDown ? &task.args[DownOp::kRouteSlot]
                                                  : nullptr;
    if (route_slot != nullptr && (program_.config.is_moe(task.layer) ? !is_route_slot(*route_slot) : *route_slot != -1))
      return "takes its route from slot " + text_of(*route_slot);
    AccessList list;
    task_reads(task, list);
    for (int32_t i = 0; i < list.size; ++i) {
      const Access& access = list.items[i];
      if (access.space == Space::kSlot && !in_range(access.id, 0, kSlots)) return "touches slot " + text_of(access.id);
      if (access.space == Space::kKv && (task.layer < 0 || access.first < 0 || access.count < 0 ||
                                         access.count > program_.config.kv_heads - access.first))
        return "touches KV heads that do not exist";
    }
    return {};
  }

  // Inner vectors come as one or in two parts, for who writes them and who reads them alike.
  std::string check_inner_parts(const TaskDesc& task, Op op) const {
    if (op != Op::kGather && op != Op::kDown && op != Op::kUpGate) return {};
    const int32_t slot = task.args[GatherOp::kSlot];
    const bool gathers_first = op == Op::kGather && slot == static_cast<int32_t>(Slot::kInnerFirst);
    const bool gathers = gathers_first || (op == Op::kGather && slot == static_cast<int32_t>(Slot::kInner));
    const bool moe = task.layer >= 0 && program_.config.is_moe(task.layer);
    const int32_t first = moe ? inner_first_vectors(program_.config, program_.rows_max) : 0;
    if (op == Op::kUpGate && task.args[UpGateOp::kFirstVectors] != first)
      return "publishes " + text_of(task.args[UpGateOp::kFirstVectors]) + " inner vectors as the first part, not " +
             text_of(first);
    if (op == Op::kDown && task.args[DownOp::kFirstVectors] != first)
      return "finds " + text_of(task.args[DownOp::kFirstVectors]) + " inner vectors in the first part, not " +
             text_of(first);
    if (op != Op::kGather) return {};
    if (gathers_first && first == 0) return "gathers a first part where all inner vectors come as one";
    const int32_t route_slot = task.args[GatherOp::kRouteSlot];
    if (gathers && first > 0 ? !is_route_slot(route_slot) : route_slot != -1)
      return "takes its route from slot " + text_of(route_slot);
    if (task.args[GatherOp::kFirstVectors] != (gathers ? first : 0))
      return "cuts inner vectors at " + text_of(task.args[GatherOp::kFirstVectors]) + ", not at " + text_of(first);
    return {};
  }

  std::string check_hops(const TaskDesc& task, Op op) const {
    OpHops hops = op_hops(op);
    if (op == Op::kGather) hops.wait = gathered_hop(task.args[GatherOp::kSlot]);
    if (task.wait.hop != hops.wait)
      return std::string("waits for hop ") + hop_name(task.wait.hop) + ", its op for " + hop_name(hops.wait);
    if (task.publish.hop != hops.publish)
      return std::string("publishes hop ") + hop_name(task.publish.hop) + ", its op " + hop_name(hops.publish);
    if (task.wait.hop >= 0) {
      if (op == Op::kEmbed ? task.wait.use != -1 : !in_range(task.wait.use, 0, uses(task.wait.hop)))
        return "waits for use " + text_of(task.wait.use) + " of a hop";
      if (task.wait.first < 0 || task.wait.count < 1 || task.wait.count > program_.workers() - task.wait.first)
        return "waits for writers that do not exist";
    }
    if (task.publish.hop >= 0 && !in_range(task.publish.use, 0, uses(task.publish.hop)))
      return "publishes a use that does not exist";
    return {};
  }

  int32_t uses(int32_t hop) const { return program_.hop_uses[static_cast<size_t>(hop)]; }

  // ---- one worker
  // Every worker publishes every use of every hop once a step, in order, from one role, and for the same layer as the
  // others: a word has one writer, and a use one meaning.
  void check_publications(int32_t worker) {
    for (int32_t hop = 0; hop < kHops && problem_.empty(); ++hop) {
      int32_t next = 0;
      for (int32_t role = 0; role < kRoles && problem_.empty(); ++role) {
        const int32_t before = next;
        for (const TaskDesc& task : program_.list(worker, static_cast<Role>(role))) {
          if (task.publish.hop != hop) continue;
          if (task.publish.use != next++ || (before > 0 && next > before) || !same_layer(task)) {
            problem_ = "worker " + text_of(worker) + " publishes hop " + hop_name(hop) + " use " +
                       text_of(task.publish.use) + " out of order, twice, from two roles or for another layer";
            return;
          }
        }
      }
      if (next != uses(hop))
        problem_ = "worker " + text_of(worker) + " publishes hop " + hop_name(hop) + " " + text_of(next) +
                   " times a step, not " + text_of(uses(hop));
    }
  }
  bool same_layer(const TaskDesc& task) {
    int32_t& layer = published_layer_[static_cast<size_t>(task.publish.hop)][static_cast<size_t>(task.publish.use)];
    if (layer == kNoLayer) layer = task.layer;
    return layer == task.layer;
  }

  // A task waits for the use that was published for its layer; the residual comes from the layer before.
  void check_waits(int32_t worker) {
    for (const TaskDesc& task : program_.list(worker, Role::kMessenger)) check_wait(worker, task);
    for (const TaskDesc& task : program_.list(worker, Role::kRouter)) check_wait(worker, task);
  }
  void check_wait(int32_t worker, const TaskDesc& task) {
    if (task.wait.hop < 0 || task.wait.use < 0 || !problem_.empty()) return;
    int32_t expected = task.layer;
    if (static_cast<Hop>(task.wait.hop) == Hop::kResidual)
      expected = (task.layer < 0 ? program_.config.layer_count() : task.layer) - 1;
    const int32_t layer = published_layer_[static_cast<size_t>(task.wait.hop)][static_cast<size_t>(task.wait.use)];
    if (layer != expected)
      problem_ = "worker " + text_of(worker) + " waits for hop " + hop_name(task.wait.hop) + " use " +
                 text_of(task.wait.use) + " for layer " + text_of(task.layer) + ", but that is layer " +
                 text_of(layer) + "'s";
  }

  // Arrivals of a barrier come from one role, so that the n-th one is the same in every execution; nobody waits for
  // more of them than a step has.
  void check_barriers(int32_t worker) {
    int32_t arrivals[kSlots] = {}, owner[kSlots];
    std::fill(std::begin(owner), std::end(owner), -1);
    for (int32_t role = 0; role < kRoles; ++role) {
      for (const TaskDesc& task : program_.list(worker, static_cast<Role>(role))) {
        if (task.arrive < 0) continue;
        ++arrivals[task.arrive];
        if (owner[task.arrive] >= 0 && owner[task.arrive] != role)
          problem_ = "worker " + text_of(worker) + " arrives at barrier " + slot_name(task.arrive) + " from two roles";
        owner[task.arrive] = role;
      }
    }
    for (int32_t role = 0; role < kRoles; ++role) {
      const std::span<const TaskDesc> list = program_.list(worker, static_cast<Role>(role));
      for (size_t index = 0; index < list.size() && problem_.empty(); ++index) {
        for (const BarrierWait& wait : list[index].barriers) {
          if (wait.id == -1) continue;
          if (!in_range(wait.id, 0, program_.barrier_count) || !in_range(wait.target, 1, arrivals[wait.id] + 1))
            problem_ = describe_task(program_, worker, static_cast<Role>(role), index) + " waits for " +
                       text_of(wait.target) + " arrivals at barrier " + slot_name(wait.id) +
                       ", which a step does not have";
        }
      }
    }
  }

  // The producer fills what the consumer takes, in the same order, with equal counts and sizes, and with what the
  // consumer's op needs.
  void check_streams(int32_t worker) {
    const std::span<const TaskDesc> loads = program_.list(worker, Role::kProducer);
    const std::span<const TaskDesc> tasks = program_.list(worker, Role::kConsumer);
    size_t next = 0;
    for (size_t index = 0; index < tasks.size() && problem_.empty(); ++index) {
      const TaskDesc& task = tasks[index];
      const int32_t stream = stream_of(program_.config, static_cast<Op>(task.op), task.layer);
      if (stream < 0 && task.stream_item < 0) continue;
      while (next < loads.size() && static_cast<Op>(loads[next].op) == Op::kNop) ++next;
      if (next == loads.size() || stream < 0 || !stream_matches(loads[next++], task, stream))
        problem_ = describe_task(program_, worker, Role::kConsumer, index) + " takes item " +
                   text_of(task.stream_item) + ", but the producer does not load that, or with another size or count";
    }
    while (next < loads.size() && static_cast<Op>(loads[next].op) == Op::kNop) ++next;
    if (next != loads.size() && problem_.empty())
      problem_ = "worker " + text_of(worker) + " loads more items than it consumes";
  }

  bool stream_matches(const TaskDesc& load, const TaskDesc& task, int32_t stream) const {
    const int64_t bytes = stream_unit_bytes(program_.config, static_cast<LoadOp::Stream>(stream), task);
    const int32_t pieces = stream_unit_pieces(program_.config, static_cast<LoadOp::Stream>(stream), task);
    const int32_t count = static_cast<int32_t>(stream_count_of(stream));
    if (load.stream_item != task.stream_item || task.stream_item < 0 || load.layer != task.layer) return false;
    if (load.stream_count != count || task.stream_count != count) return false;
    if (load.stream_unit_pieces != pieces || task.stream_unit_pieces != pieces) return false;
    if (load.args[LoadOp::kStream] != stream || load.args[LoadOp::kUnitBytes] != bytes) return false;
    if (stream == LoadOp::kKvPages)
      return load.args[LoadOp::kHeadFirst] == task.args[AttentionOp::kHeadFirst] &&
             load.args[LoadOp::kHeadCount] == task.args[AttentionOp::kHeadCount] && load.args[LoadOp::kRouteSlot] == -1;
    if (stream == LoadOp::kExpertUpGate) return load.args[LoadOp::kRouteSlot] == task.args[UpGateOp::kRouteSlot];
    if (stream == LoadOp::kExpertDown) return load.args[LoadOp::kRouteSlot] == task.args[DownOp::kRouteSlot];
    return load.args[LoadOp::kRouteSlot] == -1;
  }

  const Program& program_;
  std::array<std::vector<int32_t>, kHops> published_layer_;  // of each use
  std::string problem_;
};

}  // namespace

std::string check_structure(const Program& program) { return StructureCheck(program).run(); }

std::array<std::vector<int32_t>, kSlots> overlapping_slots(const Program& program) {
  std::array<std::vector<int32_t>, kSlots> overlaps;
  for (size_t a = 0; a < kSlots; ++a) {
    for (size_t b = 0; b < kSlots; ++b) {
      const SlotSpec& left = program.slots[a];
      const SlotSpec& right = program.slots[b];
      if (a == b || (left.offset < right.offset + right.bytes && right.offset < left.offset + left.bytes))
        overlaps[a].push_back(static_cast<int32_t>(b));
    }
  }
  return overlaps;
}

OpHops op_hops(Op op) {
  const auto hops = [](int32_t wait, int32_t publish) { return OpHops{wait, publish}; };
  const auto id = [](Hop hop) { return static_cast<int32_t>(hop); };
  switch (op) {
    case Op::kEmbed:
      return hops(id(Hop::kToken), id(Hop::kResidual));
    case Op::kGatherNorm:
      return hops(id(Hop::kResidual), -1);
    case Op::kRouterLogits:
      return hops(-1, id(Hop::kLogit));
    case Op::kTopK:
      return hops(id(Hop::kLogit), -1);
    case Op::kQkv:
      return hops(-1, id(Hop::kQkv));
    case Op::kAttention:
      return hops(-1, id(Hop::kPartial));
    case Op::kAttentionMerge:
      return hops(id(Hop::kPartial), id(Hop::kAttention));
    case Op::kUpGate:
      return hops(-1, id(Hop::kInner));
    case Op::kDown:
      return hops(-1, id(Hop::kResidual));
    case Op::kLmHead:
      return hops(-1, id(Hop::kLogits));
    case Op::kFilter:
      return hops(id(Hop::kLogits), id(Hop::kMass));
    case Op::kSample:
      return hops(id(Hop::kMass), id(Hop::kToken));
    case Op::kNop:
    case Op::kLoad:
    case Op::kGather:  // by its slot
    case Op::kOutProj:
      return {};
  }
  return {};
}

int32_t gathered_hop(int32_t slot) {
  if (slot == static_cast<int32_t>(Slot::kQkv)) return static_cast<int32_t>(Hop::kQkv);
  if (slot == static_cast<int32_t>(Slot::kAttention)) return static_cast<int32_t>(Hop::kAttention);
  if (slot == static_cast<int32_t>(Slot::kInner) || slot == static_cast<int32_t>(Slot::kInnerFirst))
    return static_cast<int32_t>(Hop::kInner);
  return -1;
}

std::string describe_task(const Program& program, int32_t worker, Role role, size_t index) {
  const std::span<const TaskDesc> list = program.list(worker, role);
  std::string text = "worker " + text_of(worker) + " " + role_name(role) + " task " + std::to_string(index);
  if (index < list.size()) {
    const TaskDesc& task = list[index];
    text += std::string(" (") + (in_range(task.op, 0, kOps) ? op_name(static_cast<Op>(task.op)) : "?");
    if (task.layer >= 0) text += ", layer " + text_of(task.layer);
    text += ")";
  }
  return text;
}

}  // namespace boreas::verification
