// Any bytes as a .safetensors file: an error, or a header all of whose tensors lie inside the file, in order, without
// overlap, each as long as its shape says.
#include "model/safetensors.h"

#include <cstddef>
#include <cstdint>
#include <set>

#include "base/check.h"

namespace {

void check_header(const boreas::SafetensorsHeader& header, uint64_t file_bytes) {
  std::set<std::string> names;
  uint64_t at = 0;
  for (const boreas::SafetensorsEntry& entry : header.entries) {
    CHECK(names.insert(entry.name).second);
    CHECK(entry.begin == at && entry.end >= entry.begin);
    uint64_t bytes = boreas::dtype_bytes(entry.dtype);
    for (const int64_t extent : entry.shape) {
      CHECK(extent >= 0);
      if (extent == 0) bytes = 0;
    }
    if (bytes != 0) {
      for (const int64_t extent : entry.shape) bytes *= static_cast<uint64_t>(extent);
    }
    CHECK(bytes == entry.end - entry.begin);
    at = entry.end;
  }
  CHECK(header.data_offset + at == file_bytes);
}

void check(const uint8_t* data, size_t size) {
  const auto header = boreas::parse_safetensors_header({data, size}, size, "fuzz");
  if (header.ok()) {
    check_header(*header, size);
  } else {
    CHECK(!header.error().message.empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  check(data, size);
  // Once more with a header size that fits, so that most inputs reach the JSON: the last byte says how much of the rest
  // is tensor data.
  if (size < 1) return 0;
  const size_t rest = size - 1;
  const size_t data_bytes = data[rest] % (rest + 1);
  const uint64_t header_bytes = rest - data_bytes;
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header_bytes >> (8 * i) & 255u);
  file.append(reinterpret_cast<const char*>(data), rest);
  check(reinterpret_cast<const uint8_t*>(file.data()), file.size());
  return 0;
}
