// Reader of .safetensors files: 8 bytes little-endian header size, a JSON header, then the tensors' bytes. The whole
// header is checked when the file is opened, against the file's size too, so a view handed out later is always inside
// the mapping. Used by weight_loader.cc, tests and the fuzz target. Format: huggingface/safetensors README.
//
// A file must not be truncated while its mapping is in use: touching what lies past its new end is a bus error that
// nobody can prevent. The Hub cache never rewrites files in place. read() does not touch the mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace boreas {

struct SafetensorsEntry {
  std::string name;
  Dtype dtype = Dtype::kBF16;
  std::vector<int64_t> shape;  // at most 8 dimensions, each >= 0
  uint64_t begin = 0;          // bytes from the start of the tensor data, [begin, end)
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes
  uint64_t data_offset = 0;               // where tensor data starts in the file
};

// Checks everything a header can get wrong: sizes, JSON, field types, dtype names, shapes that do not match their
// bytes, ranges outside the file, overlaps, holes, duplicate names. `start` holds the first bytes of the file, at least
// up to the end of the header if the file is that long; `file_bytes` is the size of the file. Messages begin with
// `label`.
Result<SafetensorsHeader> parse_safetensors_header(std::span<const uint8_t> start, uint64_t file_bytes,
                                                   const std::string& label);

// "BF16", "F8_E4M3", ... as the format spells it.
std::string_view dtype_name(Dtype dtype);
// "[2048, 768]"
std::string shape_text(std::span<const int64_t> shape);

// One mapped file. Immutable; keep the pointer for as long as bytes of it are used.
class SafetensorsFile {
 public:
  static Result<std::shared_ptr<const SafetensorsFile>> open(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  // The bytes of one of this file's entries; may be unaligned.
  std::span<const uint8_t> bytes(const SafetensorsEntry& entry) const;
  uint64_t file_bytes() const { return file_bytes_; }

  // Where in the file an address of the mapping lies, if it is one.
  std::optional<uint64_t> offset_of(const void* address) const;
  // The file's bytes from `offset` on, all of them: faster than through the mapping, page by page, and a file that was
  // cut meanwhile or a disk that fails is an Error. Any thread.
  Status read(uint64_t offset, std::span<std::byte> to) const;
  // These bytes will be read soon. Any thread.
  void expect(uint64_t offset, uint64_t bytes) const;

 private:
  SafetensorsFile() = default;
  std::string path_;
  int file_ = -1;
  SafetensorsHeader header_;
  const uint8_t* mapping_ = nullptr;  // [file_bytes_], read only
  uint64_t file_bytes_ = 0;
};

}  // namespace boreas
