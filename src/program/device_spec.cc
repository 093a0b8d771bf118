// Machines by name, see device_spec.h.
#include "program/device_spec.h"

namespace boreas {
namespace {

constexpr int64_t kGb = 1000 * 1000 * 1000;
// 227 KB a block, less 4 KB for barriers, routes and scratch that every kernel keeps beside slots and ring.
constexpr int64_t kHopperSlotRingBytes = (227 - 4) * 1024;

DeviceSpec hopper_spec(const char* name, double read_bytes_per_s, int64_t memory_bytes) {
  DeviceSpec spec;
  spec.name = name;
  spec.workers = workers_for_sms(132);
  spec.slot_ring_bytes = kHopperSlotRingBytes;
  // Measured: one lane issues a copy per 0.38 us, so one warp starves the stream (85.2 % of the bandwidth against 88.9
  // with four); eight warps take a chunk faster as two groups in turn than all at once.
  spec.producer_warps = 4;
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
