#include "answering_server.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>
#include <vector>

namespace boreas {

namespace {

// Header and body, if a Content-Length says that there is one.
bool is_whole(const std::string& request) {
  const size_t end = request.find("\r\n\r\n");
  if (end == std::string::npos) return false;
  const size_t length = request.find("\r\nContent-Length: ");
  if (length > end) return true;
  return request.size() >= end + 4 + std::strtoull(request.c_str() + length + 18, nullptr, 10);
}

void read_request(int client) {
  std::string request;
  while (!is_whole(request)) {
    char bytes[16 << 10];
    const ssize_t got = ::recv(client, bytes, sizeof(bytes), 0);
    if (got <= 0) return;
    request.append(bytes, static_cast<size_t>(got));
  }
}

}  // namespace

AnsweringServer::AnsweringServer(std::function<std::string(int)> answer, bool keeps_open)
    : answer_(std::move(answer)), keeps_open_(keeps_open) {
  fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (::bind(fd_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(fd_, 16) != 0) ADD_FAILURE();
  ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

AnsweringServer::~AnsweringServer() {
  stop_ = true;
  thread_.join();
  ::close(fd_);
}

void AnsweringServer::serve() {
  std::vector<int> kept;
  while (!stop_) {
    pollfd state{fd_, POLLIN, 0};
    if (::poll(&state, 1, 10) <= 0) continue;
    const int client = ::accept(fd_, nullptr, nullptr);
    read_request(client);
    const std::string answer = answer_(requests_++);
    if (::send(client, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) ADD_FAILURE();
    if (keeps_open_) {
      kept.push_back(client);
    } else {
      ::shutdown(client, SHUT_WR);
      ::close(client);
    }
  }
  for (const int client : kept) ::close(client);
}

}  // namespace boreas
