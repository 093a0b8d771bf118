// Body of filter: see program/ops/filter.h. Here SAMPLE has all logits of a row in one memory, and exec/sampling.h does
// the filtering.
#include "exec/cpu/state.h"

namespace boreas::cpu {

void run_kFilter(OpContext&, const TaskDesc&) {}

}  // namespace boreas::cpu
