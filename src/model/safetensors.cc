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

// Closes a file descriptor at the end of a scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Error system_error(const std::string& path, const char* what) {
  return Error{path + ": " + what + ": " + std::strerror(errno)};
}

}  // namespace

Result<std::shared_ptr<const SafetensorsFile>> SafetensorsFile::open(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer; it is refused below.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return system_error(path, "cannot be opened");
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return system_error(path, "cannot be examined");
  if (!S_ISREG(status.st_mode)) return Error{path + " is not a regular file"};
  if (status.st_size < 8) {
    return Error{path + " has " + std::to_string(status.st_size) +
                 " bytes; expected a safetensors file, which starts with an 8-byte header size"};
  }
  std::shared_ptr<SafetensorsFile> out(new SafetensorsFile());
  out->path_ = path;
  const uint64_t file_bytes = static_cast<uint64_t>(status.st_size);
  void* mapping = ::mmap(nullptr, file_bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapping == MAP_FAILED) return system_error(path, "cannot be mapped");
  out->mapping_ = static_cast<const uint8_t*>(mapping);
  out->file_bytes_ = file_bytes;
  ASSIGN_OR_RETURN(out->header_, parse_safetensors_header({out->mapping_, file_bytes}, file_bytes, path));
  return std::shared_ptr<const SafetensorsFile>(std::move(out));
}

SafetensorsFile::~SafetensorsFile() {
  if (mapping_ != nullptr) ::munmap(const_cast<uint8_t*>(mapping_), file_bytes_);
}

std::span<const uint8_t> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
  CHECK(entry.begin <= entry.end && header_.data_offset + entry.end <= file_bytes_);
  return {mapping_ + header_.data_offset + entry.begin, entry.end - entry.begin};
}

}  // namespace boreas
