// A server for tests of HTTP clients that says whatever the test wants, be it nonsense: on 127.0.0.1, one connection
// after the other, one answer a connection.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace boreas {

// Answers the n-th request, from 0 on, with these bytes and closes; `keeps_open`: not before it is destroyed.
class AnsweringServer {
 public:
  explicit AnsweringServer(std::function<std::string(int)> answer, bool keeps_open = false);
  ~AnsweringServer();
  AnsweringServer(const AnsweringServer&) = delete;
  AnsweringServer& operator=(const AnsweringServer&) = delete;

  uint16_t port() const { return port_; }
  int requests() const { return requests_; }

 private:
  void serve();

  const std::function<std::string(int)> answer_;
  const bool keeps_open_;
  int fd_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<int> requests_ = 0;
  std::thread thread_;
};

}  // namespace boreas
