// Mapping of .safetensors files (safetensors.h); the header's checks are in safetensors_header.cc.
#include "model/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace boreas {
namespace {

Error system_error(const std::string& path, const char* what) {
  return Error{path + ": " + what + ": " + std::strerror(errno)};
}

}  // namespace

Result<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::open(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer; it is refused below.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return system_error(path, "cannot be opened");
  std::shared_ptr<SafetensorsFile> out(new SafetensorsFile());
  out->file_ = descriptor;
  out->path_ = path;
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) return system_error(path, "cannot be examined");
  if (!S_ISREG(status.st_mode)) return Error{path + " is not a regular file"};
  if (status.st_size < 8) {
    return Error{path + " has " + std::to_string(status.st_size) +
                 " bytes; expected a safetensors file, which starts with an 8-byte header size"};
  }
  const uint64_t file_bytes = static_cast<uint64_t>(status.st_size);
  void* mapping = ::mmap(nullptr, file_bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (mapping == MAP_FAILED) return system_error(path, "cannot be mapped");
  out->mapping_ = static_cast<const uint8_t*>(mapping);
  out->file_bytes_ = file_bytes;
  ASSIGN_OR_RETURN(out->header_, parse_safetensors_header({out->mapping_, file_bytes}, file_bytes, path));
  return std::shared_ptr<const SafetensorsFile>(std::move(out));
}

SafetensorsFile::~SafetensorsFile() {
  if (mapping_ != nullptr) ::munmap(const_cast<uint8_t*>(mapping_), file_bytes_);
  if (file_ >= 0) ::close(file_);
}

std::span<const uint8_t> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
  CHECK(entry.begin <= entry.end && header_.data_offset + entry.end <= file_bytes_);
  return {mapping_ + header_.data_offset + entry.begin, entry.end - entry.begin};
}

std::optional<uint64_t> SafetensorsFile::offset_of(const void* address) const {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address), first = reinterpret_cast<uintptr_t>(mapping_);
  if (at < first || at - first >= file_bytes_) return std::nullopt;
  return at - first;
}

Status SafetensorsFile::read(uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(file_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return Error{path_ + ": cannot be read at byte " + std::to_string(offset) + ": " + std::strerror(errno)};
    if (got == 0) {
      return Error{path_ + " ends at byte " + std::to_string(offset) + "; it had " + std::to_string(file_bytes_) +
                   " bytes when it was opened"};
    }
    offset += static_cast<uint64_t>(got);
    to = to.subspan(static_cast<size_t>(got));
  }
  return Ok{};
}

void SafetensorsFile::expect(uint64_t offset, uint64_t bytes) const {
  // Only a hint: where it is refused, reads wait.
  ::posix_fadvise(file_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

}  // namespace boreas
