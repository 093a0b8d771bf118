#include "tests/gpu/probed_kernels.h"

#include <array>

namespace boreas {
namespace {

cuda::MegakernelEntry entry_of(const char* shape, const void* kernel) {
  cuda::MegakernelEntry entry{};
  entry.shape = shape;
  entry.workers = 128;
  entry.plain = {kernel, kernel};
  return entry;
}

}  // namespace

std::span<const cuda::MegakernelEntry> probed_megakernels() {
  static const std::array<cuda::MegakernelEntry, 2> entries = {
      entry_of(cuda::NorthShape::kName, probed_north_kernel()),
      entry_of(cuda::GoldenShape::kName, probed_golden_kernel())};
  return entries;
}

}  // namespace boreas
