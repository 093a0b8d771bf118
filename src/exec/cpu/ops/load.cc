// Body of load: weights are read where they lie, so the producer hands over which item comes next; the consumer checks
// that it is the one it needs.
#include "exec/cpu/state.h"

namespace boreas::cpu {

void run_kLoad(OpContext& context, const TaskDesc& task) {
  context.worker.ring.push_back({task.stream_item, task.args[LoadOp::kStream], task.layer});
}

}  // namespace boreas::cpu
