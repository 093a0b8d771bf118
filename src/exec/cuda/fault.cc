#include "exec/cuda/fault.h"

#include "program/op_list.h"
#include "program/task.h"

namespace boreas::cuda {
namespace {

std::string role_text(int32_t role) {
  return role >= 0 && role < kRoles ? role_name(static_cast<Role>(role)) : "role " + std::to_string(role);
}

std::string op_text(int32_t op) {
  return op >= 0 && op < kOps ? op_name(static_cast<Op>(op)) : "op " + std::to_string(op);
}

std::string what_text(const FaultRecord& fault) {
  switch (fault.what) {
    case kWaitBarrier:
      return "barrier " + std::to_string(fault.hop_or_barrier) + " (slot " + slot_name(fault.hop_or_barrier) + ")";
    case kWaitHop:
      return "hop " + std::string(hop_name(fault.hop_or_barrier));
    case kWaitChunkFull:
      return "chunk " + std::to_string(fault.hop_or_barrier) + " of the stream to land";
    case kWaitChunkEmpty:
      return "room in the ring for chunk " + std::to_string(fault.hop_or_barrier) + " of the stream";
    case kWaitCredit:
      return "a credit of the ring";
    case kWaitPublication:
      return "its own worker's part of hop " + std::string(hop_name(fault.hop_or_barrier));
    default:
      return "wait " + std::to_string(fault.what) + " of " + std::to_string(fault.hop_or_barrier);
  }
}

}  // namespace

std::string describe(const FaultRecord& fault) {
  if (fault.claimed == 0) return "no fault record";
  if (fault.complete == 0) return "an incomplete fault record";
  return "worker " + std::to_string(fault.worker) + ", " + role_text(fault.role) + " (warp " +
         std::to_string(fault.warp) + "), task " + std::to_string(fault.task) + " (" + op_text(fault.op) + ", layer " +
         std::to_string(fault.layer) + ") waited too long for " + what_text(fault) + ": wanted " +
         std::to_string(fault.wanted) + ", seen " + std::to_string(fault.seen);
}

}  // namespace boreas::cuda
