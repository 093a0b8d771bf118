// place: the graph becomes one list per worker and role. Worker i owns slice i of everything, so every phase is
// balanced for any routing and any batch. Also the memory of a worker: slots first, the ring gets the rest.
#include <algorithm>

#include "program/compile.h"
#include "program/weight_tiles.h"
#include "program/worker_memory.h"

namespace boreas {
namespace {

// The inner slots may share memory with the normed, attention and qkv slots, which are over before, at the price of one
// more wait: that of the part in slot kInner for OUT_PROJ. Where inner vectors come in two parts DOWN does not feel it,
// and every stage gained is welcome. Else only with fewer stages than this, with which the stream starves between hops.
constexpr int32_t kRingChunksComfortable = 6;

int64_t align_up(int64_t bytes) { return ceil_div(bytes, kSlotAlign) * kSlotAlign; }

class Placement {
 public:
  Placement(const TaskGraph& graph, const DeviceSpec& device, int32_t rows_max) : graph_(graph), config_(graph.config) {
    program_.config = graph.config;
    program_.device = device;
    program_.rows_max = rows_max;
    program_.hop_uses = graph.hop_uses;
    program_.barrier_count = kSlots;
  }

  Result<Program> run() {
    RETURN_IF_ERROR(lay_out_slots());
    size_t tasks = graph_.nodes.size();
    for (const TaskNode& node : graph_.nodes) tasks += node.stream >= 0;
    program_.tasks.reserve(tasks * static_cast<size_t>(program_.workers()));
    program_.list_first.push_back(0);
    for (int32_t worker = 0; worker < program_.workers(); ++worker) place_worker(worker);
    if (!problem_.empty()) return Error{problem_};
    return std::move(program_);
  }

 private:
  // ---- memory of a worker
  static bool may_share(Slot slot) {
    return slot == Slot::kNormed || slot == Slot::kAttention || slot == Slot::kQkv || slot == Slot::kInner ||
           slot == Slot::kInnerFirst;
  }
  int64_t assign_offsets(bool shares) {
    int64_t offset = 0;
    for (int32_t i = 0; i < kSlots; ++i) {
      const Slot slot = static_cast<Slot>(i);
      SlotSpec& spec = program_.slots[static_cast<size_t>(i)];
      spec.bytes = slot_bytes(config_, program_.workers(), program_.rows_max, slot);
      spec.offset = offset;
      if (!shares || !may_share(slot)) offset += align_up(spec.bytes);
    }
    if (!shares) return offset;
    const auto put = [&](Slot slot, int64_t at) {
      SlotSpec& spec = program_.slots[static_cast<size_t>(slot)];
      spec.offset = at;
      return at + align_up(spec.bytes);
    };
    return std::max(put(Slot::kInner, put(Slot::kInnerFirst, offset)),
                    put(Slot::kQkv, put(Slot::kAttention, put(Slot::kNormed, offset))));
  }

  Status lay_out_slots() {
    const DeviceSpec& device = program_.device;
    program_.slot_bytes = assign_offsets(false);
    if (device.slot_ring_bytes == 0) {
      set_ring(device.ring_chunks_max);
      return Ok{};
    }
    const int64_t scratch = device.scratch_bytes(program_.rows_max);
    auto chunks_left = [&] { return (device.slot_ring_bytes - scratch - program_.slot_bytes) / device.chunk_bytes; };
    shares_memory_ = chunks_left() < (inner_first_vectors(config_, program_.rows_max) > 0 ? device.ring_chunks_max
                                                                                          : kRingChunksComfortable);
    if (shares_memory_) program_.slot_bytes = assign_offsets(true);
    if (chunks_left() < device.ring_chunks_min) {
      return Error{"a program of " + std::to_string(program_.rows_max) + " rows does not fit " + device.name +
                   ": slots need " + std::to_string(program_.slot_bytes) + " bytes, scratch " +
                   std::to_string(scratch) + " and the smallest ring " +
                   std::to_string(int64_t{device.ring_chunks_min} * device.chunk_bytes) + ", a worker has " +
                   std::to_string(device.slot_ring_bytes)};
    }
    set_ring(static_cast<int32_t>(std::min<int64_t>(chunks_left(), device.ring_chunks_max)));
    return Ok{};
  }

  // A stage belongs to one consumer group and one producer for good (see pipeline.h): the ring is a multiple of both.
  // As many producer warps as the smallest O item has chunks: then taking it proves that all of them have come by, also
  // those that had nothing to do in the items before it, whose number of chunks only the step knows.
  void set_ring(int32_t stages) {
    const DeviceSpec& device = program_.device;
    program_.ring_chunks = stages / device.consumer_groups * device.consumer_groups;
    const int32_t smallest_slice = config_.hidden_size / program_.workers();
    const int64_t chunks = chunks_of_pieces(unit_pieces(smallest_slice, config_.query_width()));
    const int64_t limit = std::min(device.producer_warps, program_.ring_chunks);
    program_.producers = static_cast<int32_t>(std::clamp<int64_t>(chunks, 1, limit));
    while (program_.ring_chunks % program_.producers != 0) --program_.producers;
  }

  // ---- lists of one worker
  void place_worker(int32_t worker) {
    worker_ = worker;
    items_ = 0;
    std::fill(std::begin(slot_writes_), std::end(slot_writes_), 0);
    for (auto& known : known_arrivals_) std::fill(std::begin(known), std::end(known), 0);
    for (std::vector<TaskDesc>& list : lists_) list.clear();
    for (const TaskNode& node : graph_.nodes) place_node(node);
    for (const std::vector<TaskDesc>& list : lists_) {
      program_.tasks.insert(program_.tasks.end(), list.begin(), list.end());
      program_.list_first.push_back(static_cast<int32_t>(program_.tasks.size()));
    }
  }

  void place_node(const TaskNode& node) {
    TaskDesc task;
    task.op = static_cast<int32_t>(node.op);
    task.layer = node.layer;
    set_hops(node, task);
    set_args(node, task);
    set_barriers(node, task);
    if (node.stream >= 0) {
      task.stream_item = items_++;
      place_load(node, task);
    }
    lists_[static_cast<size_t>(op_role(node.op))].push_back(task);
  }

  void set_hops(const TaskNode& node, TaskDesc& task) const {
    if (node.hop_in >= 0) {
      Range writers{0, program_.workers()};
      const Hop hop = static_cast<Hop>(node.hop_in);
      if (hop == Hop::kQkv || hop == Hop::kPartial) writers = own_group();
      task.wait = {node.hop_in, node.hop_in_use, writers.first, writers.count};
    }
    if (node.hop_out >= 0) task.publish = {node.hop_out, node.hop_out_use};
  }

  Range own_heads() const { return heads_of_worker(program_.workers(), config_.kv_heads, worker_); }
  // The workers that share this worker's KV head; itself alone if it serves several. Without a head: itself.
  Range own_group() const {
    const Range heads = own_heads();
    return heads.count == 0 ? Range{worker_, 1} : head_group(program_.workers(), config_.kv_heads, heads.first);
  }
  Range own_slice(int32_t total) const { return slice(total, program_.workers(), worker_); }
  Range group_slice(int32_t total, int32_t granule = 1) const {
    const Range group = own_group();
    return own_heads().count == 0 ? Range{} : slice(total, group.count, worker_ - group.first, granule);
  }

  void set_args(const TaskNode& node, TaskDesc& task) const {
    const Range own = own_slice(node.total);
    const Range heads = own_heads();
    const int32_t route_slot = node.slots_in[1];
    int32_t* args = task.args;
    switch (node.op) {
      case Op::kEmbed:
      case Op::kRouterLogits:
      case Op::kOutProj:
      case Op::kLmHead:
      case Op::kFilter:
        args[0] = own.first;  // kFirst, kCount of each of these ops
        args[1] = own.count;
        break;
      case Op::kUpGate:
        args[UpGateOp::kFirst] = own.first;
        args[UpGateOp::kCount] = own.count;
        args[UpGateOp::kRouteSlot] = route_slot;
        args[UpGateOp::kFirstVectors] = first_vectors(route_slot);
        break;
      case Op::kDown:
        args[DownOp::kFirst] = own.first;
        args[DownOp::kCount] = own.count;
        args[DownOp::kRouteSlot] = route_slot;
        args[DownOp::kFirstVectors] = first_vectors(route_slot);
        break;
      case Op::kTopK:
        args[TopKOp::kSlot] = node.slot_out;
        break;
      case Op::kGather:
        args[GatherOp::kSlot] = node.slot_out;
        args[GatherOp::kHeadFirst] = heads.first;
        args[GatherOp::kHeadCount] = heads.count;
        args[GatherOp::kRouteSlot] = route_slot;
        args[GatherOp::kFirstVectors] = first_vectors(route_slot);
        break;
      case Op::kQkv:
        set_qkv_args(node, heads, args);
        break;
      case Op::kAttention: {
        const Range group = own_group();
        const Range pieces = heads.count == 0 ? Range{} : pieces_of_worker(group.count, worker_ - group.first);
        args[AttentionOp::kHeadFirst] = heads.first;
        args[AttentionOp::kHeadCount] = heads.count;
        args[AttentionOp::kSliding] = layer(node).sliding;
        args[AttentionOp::kPieceFirst] = pieces.first;
        args[AttentionOp::kPieceCount] = pieces.count;
        break;
      }
      case Op::kAttentionMerge: {
        const Range outputs = group_slice(config_.queries_per_kv() * config_.head_dim);
        args[AttentionMergeOp::kHeadFirst] = heads.first;
        args[AttentionMergeOp::kHeadCount] = heads.count;
        args[AttentionMergeOp::kSliding] = layer(node).sliding;
        args[AttentionMergeOp::kFirst] = outputs.first;
        args[AttentionMergeOp::kCount] = outputs.count;
        break;
      }
      case Op::kSample:
        args[SampleOp::kWorkers] = program_.workers();
        break;
      case Op::kNop:
      case Op::kLoad:
      case Op::kGatherNorm:
        break;
    }
  }

  int32_t first_vectors(int32_t route_slot) const {
    return route_slot < 0 ? 0 : inner_first_vectors(config_, program_.rows_max);
  }

  void set_qkv_args(const TaskNode& node, Range heads, int32_t* args) const {
    const Range q = group_slice(config_.queries_per_kv() * config_.head_dim, 2);  // RoPE pairs stay together
    const Range kv = group_slice(config_.head_dim, 2);
    args[QkvOp::kHeadFirst] = heads.first;
    args[QkvOp::kHeadCount] = heads.count;
    args[QkvOp::kRope] = layer(node).rope;
    args[QkvOp::kQFirst] = q.first;
    args[QkvOp::kQCount] = q.count;
    args[QkvOp::kKFirst] = args[QkvOp::kVFirst] = kv.first;
    args[QkvOp::kKCount] = args[QkvOp::kVCount] = kv.count;
  }

  // Slots that another role reads are announced by a barrier of the slot's number; within a role the list order
  // suffices.
  void set_barriers(const TaskNode& node, TaskDesc& task) {
    const Role role = op_role(node.op);
    for (int32_t slot : node.slots_in)
      if (slot >= 0 && crosses_roles(slot)) wait_for(task, role, slot, slot_writes_[slot]);
    if (shares_memory_ && node.slot_out == static_cast<int32_t>(Slot::kInner)) {
      const int32_t projected = static_cast<int32_t>(Slot::kProjected);
      wait_for(task, role, projected, slot_writes_[projected]);
    }
    if (node.slot_out >= 0) {
      ++slot_writes_[node.slot_out];
      if (crosses_roles(node.slot_out)) task.arrive = node.slot_out;
    }
  }
  // A role that has waited for so many arrivals before need not do so again: a wait costs time, and one that comes too
  // late cannot use the parity of a barrier.
  void wait_for(TaskDesc& task, Role role, int32_t barrier, int32_t target) {
    int32_t& known = known_arrivals_[static_cast<size_t>(role)][barrier];
    if (target <= known) return;
    known = target;
    BarrierWait* free = std::find_if(std::begin(task.barriers), std::end(task.barriers),
                                     [](const BarrierWait& wait) { return wait.id < 0; });
    CHECK(free != std::end(task.barriers));
    *free = {barrier, target};
  }
  bool crosses_roles(int32_t slot) const {
    const Slot which = static_cast<Slot>(slot);
    return which != Slot::kResidual && (which != Slot::kProjected || shares_memory_);
  }

  // ---- the producer's side of a streaming node
  void place_load(const TaskNode& node, TaskDesc& consumer) {
    TaskDesc load;
    load.op = static_cast<int32_t>(Op::kLoad);
    load.layer = node.layer;
    load.stream_item = consumer.stream_item;
    load.stream_count = static_cast<int32_t>(stream_count_of(node.stream));
    const int64_t bytes = stream_unit_bytes(config_, static_cast<LoadOp::Stream>(node.stream), consumer);
    if (bytes > INT32_MAX) problem_ = "one stream item of " + std::to_string(bytes) + " bytes; use more workers";
    load.args[LoadOp::kStream] = node.stream;
    load.args[LoadOp::kUnitBytes] = static_cast<int32_t>(bytes);
    const int32_t route = node.slots_in[1];
    load.args[LoadOp::kRouteSlot] = route;
    const Range heads = own_heads();
    load.args[LoadOp::kHeadFirst] = heads.first;
    load.args[LoadOp::kHeadCount] = heads.count;
    load.stream_unit_pieces = stream_unit_pieces(config_, static_cast<LoadOp::Stream>(node.stream), consumer);
    if (bytes > 0 && route >= 0) wait_for(load, Role::kProducer, route, slot_writes_[route]);
    // Old KV rows may be streamed as soon as this step has begun here: the first norm of the step comes after every
    // worker's part of the step before, which appended the newest of them. Without it the producer's run-ahead could
    // pass the append, where no load waits for a route. It costs nothing: the layer's QKV fills the ring meanwhile.
    if (bytes > 0 && node.stream == LoadOp::kKvPages)
      wait_for(load, Role::kProducer, static_cast<int32_t>(Slot::kNormed), 1);
    consumer.stream_count = load.stream_count;
    consumer.stream_unit_pieces = load.stream_unit_pieces;
    lists_[static_cast<size_t>(Role::kProducer)].push_back(load);
  }

  const LayerConfig& layer(const TaskNode& node) const { return config_.layers[static_cast<size_t>(node.layer)]; }

  const TaskGraph& graph_;
  const ModelConfig& config_;
  Program program_;
  bool shares_memory_ = false;
  std::string problem_;
  int32_t worker_ = 0;
  int32_t items_ = 0;
  int32_t slot_writes_[kSlots] = {};
  int32_t known_arrivals_[kRoles][kSlots] = {};  // what a role has waited for
  std::vector<TaskDesc> lists_[kRoles];
};

}  // namespace

Result<Program> place(const TaskGraph& graph, const DeviceSpec& device, int32_t rows_max) {
  if (device.workers < 1)
    return Error{"a device needs at least one worker, " + device.name + " has " + std::to_string(device.workers)};
  if (rows_max < 1) return Error{"a program needs at least one row"};
  return Placement(graph, device, rows_max).run();
}

}  // namespace boreas
