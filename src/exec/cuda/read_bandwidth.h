// How fast a GPU can be read: the yardstick beside decode figures. Only apps/ call it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace boreas {

struct GpuReadBandwidth {
  double gb_s = 0;      // 1e9 bytes a second, best of all patterns, each the best of several passes
  std::string pattern;  // which one that was
};
// Reads `bytes` of device memory, which it allocates for the time of the call. Error: no CUDA in this build, no usable
// GPU, too little free memory.
Result<GpuReadBandwidth> measure_gpu_read_bandwidth(int32_t device_index, int64_t bytes);

}  // namespace boreas
