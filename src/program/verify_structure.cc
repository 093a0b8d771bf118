// The part of verify that looks at lists one task at a time: roles, id ranges, hop uses, streams, memory. Order is
// verify.cc's business.
#include "program/verify_state.h"

namespace boreas::verification {
namespace {

constexpr const char* kRoleNames[kRoles] = {"producer", "router", "messenger", "consumer"};
constexpr const char* kHopNames[kHops] = {"residual",  "logit", "qkv",    "partial",
                                          "attention", "inner", "logits", "token"};
constexpr const char* kSlotNames[kSlots] = {"normed", "qkv",       "attention", "inner",
                                            "route",  "route_odd", "residual",  "projected"};

bool in_range(int32_t value, int32_t low, int32_t high) { return value >= low && value < high; }

class StructureCheck {
 public:
  explicit StructureCheck(const Program& program) : program_(program) {}

  std::string run() {
    check_memory();
    for (int32_t worker = 0; worker < program_.workers() && problem_.empty(); ++worker) {
      for (int32_t role = 0; role < kRoles && problem_.empty(); ++role) check_list(worker, static_cast<Role>(role));
      if (problem_.empty()) check_publications(worker);
      if (problem_.empty()) check_streams(worker);
    }
    return problem_;
  }

 private:
  void check_memory() {
    const DeviceSpec& device = program_.device;
    int64_t end = 0;
    for (const SlotSpec& slot : program_.slots) end = std::max(end, slot.offset + slot.bytes);
    if (end > program_.slot_bytes)
      problem_ = "slots end at byte " + std::to_string(end) + " of " + std::to_string(program_.slot_bytes);
    const int64_t needed = program_.slot_bytes + int64_t{program_.ring_chunks} * device.chunk_bytes;
    if (device.slot_ring_bytes > 0 && needed > device.slot_ring_bytes)
      problem_ = "slots and ring need " + std::to_string(needed) + " bytes, a worker has " +
                 std::to_string(device.slot_ring_bytes);
    if (program_.ring_chunks < device.ring_chunks_min)
      problem_ = "the ring has " + std::to_string(program_.ring_chunks) + " chunks, fewer than " +
                 std::to_string(device.ring_chunks_min);
    if (static_cast<int32_t>(program_.list_first.size()) != program_.workers() * kRoles + 1)
      problem_ = "not one list a worker and role";
  }

  void check_list(int32_t worker, Role role) {
    const std::span<const TaskDesc> list = program_.list(worker, role);
    for (size_t index = 0; index < list.size() && problem_.empty(); ++index) {
      const std::string text = check_task(list[index], role);
      if (!text.empty()) problem_ = describe_task(program_, worker, role, index) + " " + text;
    }
  }

  std::string check_task(const TaskDesc& task, Role role) const {
    if (!in_range(task.op, 0, kOps)) return "has opcode " + std::to_string(task.op);
    if (static_cast<Op>(task.op) != Op::kNop && op_role(static_cast<Op>(task.op)) != role)
      return "is in the list of another role";
    if (!in_range(task.layer, -1, program_.config.layer_count())) return "names layer " + std::to_string(task.layer);
    for (const BarrierWait& wait : task.barriers)
      if (!in_range(wait.id, -1, program_.barrier_count)) return "waits on barrier " + std::to_string(wait.id);
    if (!in_range(task.arrive, -1, program_.barrier_count)) return "arrives at barrier " + std::to_string(task.arrive);
    if (!in_range(task.wait.hop, -1, kHops) || !in_range(task.publish.hop, -1, kHops))
      return "names a hop that does not exist";
    if (task.wait.hop >= 0) {
      if (!in_range(task.wait.use, -1, uses(task.wait.hop)))
        return "waits for use " + std::to_string(task.wait.use) + " of a hop";
      if (task.wait.first < 0 || task.wait.count < 1 || task.wait.first + task.wait.count > program_.workers())
        return "waits for writers that do not exist";
    }
    if (task.publish.hop >= 0 && !in_range(task.publish.use, 0, uses(task.publish.hop)))
      return "publishes a use that does not exist";
    return check_accesses(task);
  }

  // What the contract reads must be what the task waits for.
  std::string check_accesses(const TaskDesc& task) const {
    AccessList list;
    task_reads(task, list);
    task_writes(task, list);
    for (int32_t i = 0; i < list.size; ++i) {
      const Access& access = list.items[i];
      if (access.space == Space::kSlot && !in_range(access.id, 0, kSlots))
        return "touches slot " + std::to_string(access.id);
      if (access.space == Space::kHop && !in_range(access.id, 0, kHops))
        return "reads or writes a hop it does not name";
      if (access.space == Space::kKv &&
          (task.layer < 0 || access.first < 0 || access.first + access.count > program_.config.kv_heads))
        return "touches KV heads that do not exist";
    }
    return {};
  }

  int32_t uses(int32_t hop) const { return program_.hop_uses[static_cast<size_t>(hop)]; }

  // Every worker publishes every use of every hop once a step, in order, from one role.
  void check_publications(int32_t worker) {
    for (int32_t hop = 0; hop < kHops; ++hop) {
      int32_t next = 0;
      for (int32_t role = 0; role < kRoles; ++role) {
        const int32_t before = next;
        for (const TaskDesc& task : program_.list(worker, static_cast<Role>(role))) {
          if (task.publish.hop != hop) continue;
          if (task.publish.use != next++ || (before > 0 && next > before)) {
            problem_ = "worker " + std::to_string(worker) + " publishes hop " + hop_name(hop) + " use " +
                       std::to_string(task.publish.use) + " out of order, twice, or from two roles";
            return;
          }
        }
      }
      if (next != uses(hop)) {
        problem_ = "worker " + std::to_string(worker) + " publishes hop " + hop_name(hop) + " " + std::to_string(next) +
                   " times a step, not " + std::to_string(uses(hop));
        return;
      }
    }
  }

  // The producer fills what the consumer takes, in the same order, with equal counts and sizes.
  void check_streams(int32_t worker) {
    const std::span<const TaskDesc> loads = program_.list(worker, Role::kProducer);
    size_t next = 0;
    for (const TaskDesc& task : program_.list(worker, Role::kConsumer)) {
      if (task.stream_item < 0) continue;
      if (next == loads.size()) {
        problem_ = "worker " + std::to_string(worker) + " consumes item " + std::to_string(task.stream_item) +
                   " that nobody loads";
        return;
      }
      const TaskDesc& load = loads[next++];
      if (load.stream_item != task.stream_item || load.layer != task.layer || load.stream_count != task.stream_count ||
          load.stream_unit_chunks != task.stream_unit_chunks) {
        problem_ = "worker " + std::to_string(worker) + " loads item " + std::to_string(load.stream_item) +
                   " of layer " + std::to_string(load.layer) + " where its consumer takes item " +
                   std::to_string(task.stream_item) + " of layer " + std::to_string(task.layer) +
                   ", or counts and sizes differ";
        return;
      }
    }
    if (next != loads.size()) problem_ = "worker " + std::to_string(worker) + " loads more items than it consumes";
  }

  const Program& program_;
  std::string problem_;
};

}  // namespace

std::string check_structure(const Program& program) { return StructureCheck(program).run(); }

const char* role_name(Role role) { return kRoleNames[static_cast<size_t>(role)]; }
const char* hop_name(int32_t hop) { return in_range(hop, 0, kHops) ? kHopNames[hop] : "?"; }
const char* slot_name(int32_t slot) { return in_range(slot, 0, kSlots) ? kSlotNames[slot] : "?"; }

std::string describe_task(const Program& program, int32_t worker, Role role, size_t index) {
  const std::span<const TaskDesc> list = program.list(worker, role);
  std::string text = "worker " + std::to_string(worker) + " " + role_name(role) + " task " + std::to_string(index);
  if (index < list.size()) {
    const TaskDesc& task = list[index];
    text += std::string(" (") + (in_range(task.op, 0, kOps) ? op_name(static_cast<Op>(task.op)) : "?");
    if (task.layer >= 0) text += ", layer " + std::to_string(task.layer);
    text += ")";
  }
  return text;
}

}  // namespace boreas::verification
