// DeviceSpec: the machine a program is compiled for, real or toy. Numbers of real chips are from their data sheets or
// measured (said so).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "program/weight_tiles.h"

namespace boreas {

struct DeviceSpec {
  std::string name;
  int32_t workers = 1;              // SMs that own slices
  int64_t slot_ring_bytes = 0;      // memory of a worker for slots, ring and scratch together; 0: unlimited (CPU)
  int64_t scratch_fixed_bytes = 0;  // of that, what the kernel keeps beside them: barriers, reductions, page lists
  int64_t scratch_row_bytes = 0;    // and for every row
  int32_t chunk_bytes = kStreamChunkBytes;  // one ring stage
  int32_t ring_chunks_max = 64;             // as many stages as barriers exist for
  int32_t ring_chunks_min = 4;   // below this the pipeline of K and V pairs in two consumer groups cannot turn
  int32_t producer_warps = 1;    // that may share the producer's list, chunks in turn
  int32_t consumer_groups = 1;   // of warps that share the consumer's list, chunks in turn
  double read_bytes_per_s = 0;   // data-sheet memory bandwidth; 0: unknown
  int64_t memory_bytes = 0;      // device memory; 0: unknown
  int32_t host_steps_ahead = 2;  // steps the host may enqueue before it has read the first one's tokens

  int64_t scratch_bytes(int32_t rows) const { return scratch_fixed_bytes + rows * scratch_row_bytes; }
};

// 128 workers on a chip with 128 SMs or more, else the largest of 112, 96, 64, 32 that fits, else all.
constexpr int32_t workers_for_sms(int32_t sms) {
  for (int32_t workers : {128, 112, 96, 64, 32})
    if (sms >= workers) return workers;
  return sms;
}

DeviceSpec h200_spec();                // 132 SMs, 227 KB of shared memory a block, 4.8 TB/s, 141 GB
DeviceSpec h100_spec();                // 132 SMs, 3.35 TB/s, 80 GB
DeviceSpec cpu_spec(int32_t threads);  // a worker a thread; slots and ring live in main memory
DeviceSpec toy_spec(int32_t workers);  // any number of workers, small ring, for tests

}  // namespace boreas
