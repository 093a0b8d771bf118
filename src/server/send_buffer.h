// Bytes on their way to one socket. Used by http_server.cc, a buffer a connection: text is appended, flush() gives the
// socket as much as it takes with one system call and never blocks; what is left goes first the next time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace boreas {

class SendBuffer {
 public:
  enum class Outcome : uint8_t { kEmpty, kStalled, kBroken };

  std::string& tail() { return bytes_; }  // append here
  size_t waiting() const { return bytes_.size() - sent_; }
  // sent_bytes: how many left in this call. kBroken: the peer is gone; nothing more will leave.
  Outcome flush(int socket, size_t& sent_bytes);

 private:
  std::string bytes_;
  size_t sent_ = 0;  // of bytes_, already handed to the socket
};

}  // namespace boreas
