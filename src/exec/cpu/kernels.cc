// Which SIMD level this processor has, and the table that goes with it.
#include "exec/cpu/kernels.h"

#include <initializer_list>

namespace boreas::cpu {

bool simd_supported(SimdLevel level) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  switch (level) {
    case SimdLevel::kPortable:
      return true;
    case SimdLevel::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case SimdLevel::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
  return false;
#else
  return level == SimdLevel::kPortable;
#endif
}

SimdLevel best_simd_level() {
  for (SimdLevel level : {SimdLevel::kAvx512, SimdLevel::kAvx2})
    if (simd_supported(level)) return level;
  return SimdLevel::kPortable;
}

const Kernels& kernels(SimdLevel level) {
  switch (level) {
    case SimdLevel::kAvx512:
      return avx512_kernels();
    case SimdLevel::kAvx2:
      return avx2_kernels();
    case SimdLevel::kPortable:
      break;
  }
  return portable_kernels();
}

}  // namespace boreas::cpu
