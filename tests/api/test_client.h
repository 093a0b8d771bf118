// A small HTTP client over a blocking socket, for tests that must see every byte and be as rude as real clients are.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace boreas {

// What a test that hangs waits for, so that it fails instead. Nothing may depend on it: a busy machine stops a process
// for seconds.
constexpr int kPatienceMs = 60'000;
// Asks again and again; false: it did not come true.
bool eventually(const std::function<bool()>& is_so);

// A TCP connection to 127.0.0.1. Closed by the destructor.
class TestSocket {
 public:
  explicit TestSocket(uint16_t port, int receive_buffer_bytes = 0);
  ~TestSocket();
  TestSocket(const TestSocket&) = delete;
  TestSocket& operator=(const TestSocket&) = delete;

  bool send(std::string_view bytes);         // false: the peer has closed
  std::string receive_some(int timeout_ms);  // "": closed or nothing came in time
  std::string receive_until(std::string_view text,
                            int timeout_ms = kPatienceMs);  // all up to and with `text`, or what came
  std::string receive_all(int timeout_ms = kPatienceMs);    // until the peer closes
  bool closed_by_peer(int timeout_ms = kPatienceMs);
  void shut_down_sending();
  void close();
  void reset();  // closes with RST
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

struct TestAnswer {
  int status = 0;                             // 0: no answer
  std::map<std::string, std::string> fields;  // lower-case names
  std::string body;                           // de-chunked

  boost::json::value json() const;  // null if it is none
  // Of an error object; "" for null.
  std::string error(std::string_view member) const;
  // The data of each event; comments left out.
  std::vector<std::string> events() const;
  // The events that are JSON; fails the test unless the last one is [DONE].
  std::vector<boost::json::object> chunks() const;
};

TestAnswer parse_answer(const std::string& bytes);
// One request on a connection of its own.
TestAnswer request(uint16_t port, const std::string& method, const std::string& path, const std::string& body = {},
                   const std::vector<std::string>& fields = {});
std::string post_text(const std::string& path, const std::string& body, const std::vector<std::string>& fields = {});
TestAnswer post(uint16_t port, const std::string& path, const std::string& body);
TestAnswer post(uint16_t port, const std::string& path, const boost::json::object& body);
TestAnswer chat(uint16_t port, boost::json::object extra);        // with one user message unless `extra` has messages
TestAnswer completion(uint16_t port, boost::json::object extra);  // with a prompt unless `extra` has one

// What a stream says for choice `index`, folded to what the plain answer would be.
struct FoldedChat {
  std::string role, content, reasoning, reasoning_content, finish_reason;
  bool has_content = false;
  struct Call {
    std::string id, name, arguments;
  };
  std::vector<Call> calls;
  boost::json::value stop_reason;
  boost::json::array logprobs;
  int finishes = 0;
};
FoldedChat fold(const std::vector<boost::json::object>& chunks, int64_t index = 0);

// Member by dotted path, with numbers as array indices; null if absent.
boost::json::value at(const boost::json::value& value, std::string_view path);
// The same of one kind; empty, "(none)" or -1 if it is another.
boost::json::array array_at(const boost::json::value& value, std::string_view path);
boost::json::object object_at(const boost::json::value& value, std::string_view path);
std::string text_at(const boost::json::value& value, std::string_view path);
int64_t int_at(const boost::json::value& value, std::string_view path);

}  // namespace boreas
