// Machines by name, see device_spec.h.
#include "program/device_spec.h"

namespace boreas {
namespace {

constexpr int64_t kGb = 1000 * 1000 * 1000;
constexpr int64_t kHopperSharedBytes = 227 * 1024;  // of a block

DeviceSpec hopper_spec(const char* name, double read_bytes_per_s, int64_t memory_bytes) {
  DeviceSpec spec;
  spec.name = name;
  spec.workers = workers_for_sms(132);
  spec.slot_ring_bytes = kHopperSharedBytes;
  spec.scratch_fixed_bytes = 7 * 1024;  // checked against the kernel's own sum in exec/cuda/shared_memory.h
  spec.scratch_row_bytes = 768;
  // Measured: one lane issues a copy per 0.38 us, so one warp starves the stream (85.2 % of the bandwidth against 87.8
  // with two and 88.9 with four, whose registers the other roles need more). A warp's turn on a chunk is a chain of
  // latencies, so two groups that take chunks in turn get through twice as many (decision 0006).
  spec.producer_warps = 2;
  spec.consumer_groups = 2;
  spec.read_bytes_per_s = read_bytes_per_s;
  spec.memory_bytes = memory_bytes;
  return spec;
}

}  // namespace

DeviceSpec h200_spec() { return hopper_spec("h200", 4.8e12, 141 * kGb); }
DeviceSpec h100_spec() { return hopper_spec("h100", 3.35e12, 80 * kGb); }

DeviceSpec cpu_spec(int32_t threads) {
  DeviceSpec spec;
  spec.name = "cpu";
  spec.workers = threads;
  spec.host_steps_ahead = 1;
  return spec;
}

DeviceSpec toy_spec(int32_t workers) {
  DeviceSpec spec;
  spec.name = "toy";
  spec.workers = workers;
  spec.ring_chunks_max = 8;
  spec.producer_warps = 4;
  spec.consumer_groups = 2;
  return spec;
}

}  // namespace boreas
