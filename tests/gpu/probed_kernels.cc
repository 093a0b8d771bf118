#include "tests/gpu/probed_kernels.h"

#include <array>

namespace boreas {
namespace {

cuda::MegakernelEntry entry_of(const char* shape, const void* any_rows, const void* one_row) {
  cuda::MegakernelEntry entry{};
  entry.shape = shape;
  entry.workers = 128;
  entry.plain = {any_rows, one_row};
  return entry;
}

}  // namespace

std::span<const cuda::MegakernelEntry> probed_megakernels() {
  static const std::array<cuda::MegakernelEntry, 2> entries = {
      entry_of(cuda::NorthShape::kName, probed_north_kernel(), probed_north_one_row_kernel()),
      entry_of(cuda::GoldenShape::kName, probed_golden_kernel(), probed_golden_one_row_kernel())};
  return entries;
}

}  // namespace boreas
