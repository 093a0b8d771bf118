// lower: a model's shape becomes the graph of one step. One pass over the layers; per layer the consumer's order is
// router, QKV, attention, up and gate, O projection, down (measured best on Hopper by nine points: attention's hops
// hide under the long up-and-gate stream). With several rows QKV comes first.
//
//   embed -> x0 -> [norm -> router_logits -> top_k ------------> up_gate -> gather inner --.
//                      `-> qkv -> gather qkv -> attention -> merge -> gather -> out_proj -> down -> x(l+1)] -> norm ->
//                      lm_head -> filter -> sample
#include "program/compile.h"
#include "program/worker_memory.h"

namespace boreas {
namespace {

// From so many rows on router logits are computed while q, k and v travel; attention is long enough then for the
// choice of experts to be there before the stream wants it. With fewer rows up and gate would wait for it.
constexpr int32_t kQkvFirstRows = 3;

class Lowering {
 public:
  Lowering(const ModelConfig& config, int32_t rows_max)
      : qkv_first_(rows_max >= kQkvFirstRows), inner_in_two_(inner_first_vectors(config, rows_max) > 0) {
    graph_.config = config;
  }

  TaskGraph run() {
    embed();
    for (int32_t layer = 0; layer < graph_.config.layer_count(); ++layer) decoder_layer(layer);
    head();
    return std::move(graph_);
  }

 private:
  static int32_t id(Hop hop) { return static_cast<int32_t>(hop); }
  static int32_t id(Slot slot) { return static_cast<int32_t>(slot); }
  int32_t next_use(Hop hop) { return graph_.hop_uses[static_cast<size_t>(id(hop))]++; }
  int32_t last_use(Hop hop) const { return graph_.hop_uses[static_cast<size_t>(id(hop))] - 1; }

  TaskNode& add(Op op, int32_t layer, Cut cut, int32_t total) {
    TaskNode node;
    node.op = op;
    node.layer = layer;
    node.cut = cut;
    node.total = total;
    graph_.nodes.push_back(node);
    return graph_.nodes.back();
  }
  void reads_hop(TaskNode& node, Hop hop) {
    node.hop_in = id(hop);
    node.hop_in_use = last_use(hop);
  }
  void publishes(TaskNode& node, Hop hop) {
    node.hop_out = id(hop);
    node.hop_out_use = next_use(hop);
  }

  void embed() {
    TaskNode& node = add(Op::kEmbed, -1, Cut::kHidden, graph_.config.hidden_size);
    node.hop_in = id(Hop::kToken);
    node.hop_in_use = -1;  // what the step before drew
    node.slot_out = id(Slot::kResidual);
    publishes(node, Hop::kResidual);
  }

  TaskNode& gather(int32_t layer, Hop hop, Slot slot) {
    TaskNode& node = add(Op::kGather, layer, Cut::kEveryWorker, 0);
    reads_hop(node, hop);
    node.slot_out = id(slot);
    return node;
  }
  // Slots by number: [1] is the route's (compile.h).
  void gather_inner(int32_t layer, int32_t route_slot) {
    if (route_slot < 0 || !inner_in_two_) {
      gather(layer, Hop::kInner, Slot::kInner);
      return;
    }
    gather(layer, Hop::kInner, Slot::kInnerFirst).slots_in[1] = route_slot;
    gather(layer, Hop::kInner, Slot::kInner).slots_in[1] = route_slot;
  }

  void norm(int32_t layer) {
    TaskNode& node = add(Op::kGatherNorm, layer, Cut::kEveryWorker, 0);
    reads_hop(node, Hop::kResidual);
    node.slot_out = id(Slot::kNormed);
  }

  // Router logits and the experts of each row; returns the slot that holds them.
  int32_t route(int32_t layer) {
    const ModelConfig& config = graph_.config;
    TaskNode& logits = add(Op::kRouterLogits, layer, Cut::kExperts, config.experts);
    logits.slots_in[0] = id(Slot::kNormed);
    logits.stream = LoadOp::kRouter;
    publishes(logits, Hop::kLogit);
    TaskNode& top_k = add(Op::kTopK, layer, Cut::kEveryWorker, 0);
    reads_hop(top_k, Hop::kLogit);
    top_k.slot_out = id(top_k.hop_in_use % 2 == 0 ? Slot::kRoute : Slot::kRouteOdd);
    return top_k.slot_out;
  }

  void project(int32_t layer) {
    const ModelConfig& config = graph_.config;
    TaskNode& qkv = add(Op::kQkv, layer, Cut::kHeads, config.kv_heads);
    qkv.slots_in[0] = id(Slot::kNormed);
    qkv.stream = LoadOp::kQkv;
    publishes(qkv, Hop::kQkv);
    gather(layer, Hop::kQkv, Slot::kQkv);
  }

  void attention(int32_t layer) {
    const ModelConfig& config = graph_.config;
    TaskNode& attend = add(Op::kAttention, layer, Cut::kHeads, config.kv_heads);
    attend.slots_in[0] = id(Slot::kQkv);
    attend.stream = LoadOp::kKvPages;
    publishes(attend, Hop::kPartial);
    TaskNode& merge = add(Op::kAttentionMerge, layer, Cut::kHeads, config.kv_heads);
    reads_hop(merge, Hop::kPartial);
    publishes(merge, Hop::kAttention);
  }

  void decoder_layer(int32_t layer) {
    const ModelConfig& config = graph_.config;
    const bool moe = config.is_moe(layer);
    norm(layer);
    if (qkv_first_) project(layer);
    const int32_t route_slot = moe ? route(layer) : -1;
    if (!qkv_first_) project(layer);
    attention(layer);
    TaskNode& up = add(Op::kUpGate, layer, Cut::kInner, moe ? config.expert_width : config.dense_width);
    up.slots_in[0] = id(Slot::kNormed);
    up.slots_in[1] = route_slot;
    up.stream = moe ? LoadOp::kExpertUpGate : LoadOp::kDenseUpGate;
    publishes(up, Hop::kInner);
    gather(layer, Hop::kAttention, Slot::kAttention);
    TaskNode& out = add(Op::kOutProj, layer, Cut::kHidden, config.hidden_size);
    out.slots_in[0] = id(Slot::kAttention);
    out.slot_out = id(Slot::kProjected);
    out.stream = LoadOp::kOutput;
    gather_inner(layer, route_slot);
    TaskNode& down = add(Op::kDown, layer, Cut::kHidden, config.hidden_size);
    const bool in_two = moe && inner_in_two_;
    down.slots_in[0] = id(in_two ? Slot::kInnerFirst : Slot::kInner);
    down.slots_in[1] = route_slot;
    if (in_two) down.slots_in[2] = id(Slot::kInner);
    down.stream = moe ? LoadOp::kExpertDown : LoadOp::kDenseDown;
    publishes(down, Hop::kResidual);
  }

  void head() {
    norm(-1);
    TaskNode& head = add(Op::kLmHead, -1, Cut::kVocabulary, graph_.config.vocab_size);
    head.slots_in[0] = id(Slot::kNormed);
    head.stream = LoadOp::kLmHead;
    publishes(head, Hop::kLogits);
    TaskNode& filter = add(Op::kFilter, -1, Cut::kVocabulary, graph_.config.vocab_size);
    reads_hop(filter, Hop::kLogits);
    publishes(filter, Hop::kMass);
    TaskNode& sample = add(Op::kSample, -1, Cut::kRows, 0);
    reads_hop(sample, Hop::kMass);
    publishes(sample, Hop::kToken);
  }

  const bool qkv_first_, inner_in_two_;
  TaskGraph graph_;
};

}  // namespace

TaskGraph lower(const ModelConfig& config, int32_t rows_max) { return Lowering(config, rows_max).run(); }

}  // namespace boreas
