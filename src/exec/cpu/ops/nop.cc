// Body of nop.
#include "exec/cpu/state.h"

namespace boreas::cpu {

void run_kNop(OpContext&, const TaskDesc&) {}

}  // namespace boreas::cpu
