#include "server/send_buffer.h"

#include <sys/socket.h>

#include <cerrno>

namespace boreas {

namespace {
constexpr size_t kKeptBytes = 16 << 10;  // an idle connection keeps no more memory than this
}  // namespace

SendBuffer::Outcome SendBuffer::flush(int socket, size_t& sent_bytes) {
  sent_bytes = 0;
  while (waiting() > 0) {
    const ssize_t n = ::send(socket, bytes_.data() + sent_, waiting(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS && errno != ENOMEM)
      return Outcome::kBroken;
    if (n > 0) {
      sent_ += static_cast<size_t>(n);
      sent_bytes += static_cast<size_t>(n);
    }
    if (waiting() == 0) break;
    // A short write: the socket is full. Drop what is sent once it is the larger part, so that appends stay linear.
    if (sent_ > bytes_.size() / 2) {
      bytes_.erase(0, sent_);
      sent_ = 0;
    }
    return Outcome::kStalled;
  }
  sent_ = 0;
  if (bytes_.capacity() > kKeptBytes) {
    std::string().swap(bytes_);
  } else {
    bytes_.clear();
  }
  return Outcome::kEmpty;
}

}  // namespace boreas
