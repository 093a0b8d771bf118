#include "test_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace boreas {

namespace json = boost::json;

namespace {

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string dechunk(std::string_view body) {
  std::string out;
  while (true) {
    const size_t line = body.find("\r\n");
    if (line == std::string_view::npos) return out;
    const size_t size = std::stoul(std::string(body.substr(0, line)), nullptr, 16);
    body.remove_prefix(line + 2);
    if (size == 0 || body.size() < size + 2) return out;
    out += body.substr(0, size);
    body.remove_prefix(size + 2);
  }
}

}  // namespace

bool eventually(const std::function<bool()>& is_so) {
  for (const int64_t deadline = now_ms() + kPatienceMs; !is_so();) {
    if (now_ms() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

TestSocket::TestSocket(uint16_t port, int receive_buffer_bytes) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
  if (receive_buffer_bytes > 0) {
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) close();
}

TestSocket::~TestSocket() { close(); }

void TestSocket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void TestSocket::reset() {
  const linger hard{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  close();
}

void TestSocket::shut_down_sending() { ::shutdown(fd_, SHUT_WR); }

bool TestSocket::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

std::string TestSocket::receive_some(int timeout_ms) {
  pollfd state{fd_, POLLIN, 0};
  if (::poll(&state, 1, timeout_ms) <= 0) return {};
  std::string bytes(64 << 10, '\0');
  const ssize_t n = ::recv(fd_, bytes.data(), bytes.size(), 0);
  bytes.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return bytes;
}

std::string TestSocket::receive_until(std::string_view text, int timeout_ms) {
  std::string bytes;
  const int64_t deadline = now_ms() + timeout_ms;
  while (bytes.find(text) == std::string::npos && now_ms() < deadline) {
    const std::string more = receive_some(static_cast<int>(deadline - now_ms()));
    if (more.empty()) break;
    bytes += more;
  }
  return bytes;
}

std::string TestSocket::receive_all(int timeout_ms) {
  return receive_until(std::string_view("\0\1\2\3", 4), timeout_ms);
}

bool TestSocket::closed_by_peer(int timeout_ms) {
  const int64_t deadline = now_ms() + timeout_ms;
  while (now_ms() < deadline) {
    pollfd state{fd_, POLLIN, 0};
    if (::poll(&state, 1, static_cast<int>(deadline - now_ms())) <= 0) continue;
    char bytes[4096];
    if (::recv(fd_, bytes, sizeof(bytes), 0) <= 0) return true;
  }
  return false;
}

TestAnswer parse_answer(const std::string& bytes) {
  TestAnswer answer;
  const size_t head_end = bytes.find("\r\n\r\n");
  if (head_end == std::string::npos || bytes.substr(0, 5) != "HTTP/") return answer;
  answer.status = std::stoi(bytes.substr(9, 3));
  size_t at = bytes.find("\r\n") + 2;
  while (at < head_end + 2) {
    const size_t end = bytes.find("\r\n", at);
    const std::string line = bytes.substr(at, end - at);
    const size_t colon = line.find(':');
    std::string name = line.substr(0, colon);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    answer.fields[name] = line.substr(std::min(line.size(), colon + 2));
    at = end + 2;
  }
  answer.body = bytes.substr(head_end + 4);
  if (answer.fields.count("transfer-encoding")) answer.body = dechunk(answer.body);
  return answer;
}

json::value TestAnswer::json() const {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = 200;
  json::value value = json::parse(body, error, {}, options);
  return error ? json::value() : value;
}

std::string TestAnswer::error(std::string_view member) const {
  const json::value value = at(json(), "error." + std::string(member));
  return value.is_string() ? std::string(value.get_string()) : std::string();
}

std::vector<std::string> TestAnswer::events() const {
  std::vector<std::string> events;
  size_t begin = 0;
  while (begin < body.size()) {
    const size_t end = body.find("\n\n", begin);
    if (end == std::string::npos) {
      ADD_FAILURE() << "an event is cut off: " << body.substr(begin);
      break;
    }
    const std::string event = body.substr(begin, end - begin);
    if (event.rfind("data: ", 0) == 0) {
      events.push_back(event.substr(6));
    } else {
      EXPECT_EQ(event.front(), ':') << event;
    }
    begin = end + 2;
  }
  return events;
}

std::vector<json::object> TestAnswer::chunks() const {
  std::vector<json::object> chunks;
  const std::vector<std::string> all = events();
  EXPECT_FALSE(all.empty());
  if (all.empty()) return chunks;
  EXPECT_EQ(all.back(), "[DONE]");
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    boost::system::error_code error;
    const json::value value = json::parse(all[i], error);
    EXPECT_FALSE(error) << all[i];
    if (value.is_object()) chunks.push_back(value.get_object());
  }
  return chunks;
}

std::string post_text(const std::string& path, const std::string& body, const std::vector<std::string>& fields) {
  std::string text = "POST " + path + " HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n";
  for (const std::string& field : fields) text += field + "\r\n";
  return text + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

TestAnswer request(uint16_t port, const std::string& method, const std::string& path, const std::string& body,
                   const std::vector<std::string>& fields) {
  TestSocket socket(port);
  std::string text = method + " " + path + " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n";
  for (const std::string& field : fields) text += field + "\r\n";
  if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  socket.send(text + "\r\n" + body);
  return parse_answer(socket.receive_all());
}

TestAnswer post(uint16_t port, const std::string& path, const std::string& body) {
  return request(port, "POST", path, body, {"Content-Type: application/json"});
}

TestAnswer post(uint16_t port, const std::string& path, const json::object& body) {
  return post(port, path, json::serialize(body));
}

TestAnswer chat(uint16_t port, json::object extra) {
  if (!extra.contains("messages")) extra["messages"] = json::array{json::object{{"role", "user"}, {"content", "Hi"}}};
  return post(port, "/v1/chat/completions", extra);
}

TestAnswer completion(uint16_t port, json::object extra) {
  if (!extra.contains("prompt")) extra["prompt"] = "def read";
  return post(port, "/v1/completions", extra);
}

json::value at(const json::value& value, std::string_view path) {
  const json::value* current = &value;
  while (!path.empty()) {
    const size_t dot = path.find('.');
    const std::string key(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
    if (const json::object* object = current->if_object()) {
      current = object->if_contains(key);
    } else if (const json::array* array = current->if_array()) {
      current = array->if_contains(std::stoul(key));
    } else {
      current = nullptr;
    }
    if (!current) return nullptr;
  }
  return *current;
}

json::array array_at(const json::value& value, std::string_view path) {
  const json::value found = at(value, path);
  return found.is_array() ? found.get_array() : json::array();
}

json::object object_at(const json::value& value, std::string_view path) {
  const json::value found = at(value, path);
  return found.is_object() ? found.get_object() : json::object();
}

std::string text_at(const json::value& value, std::string_view path) {
  const json::value found = at(value, path);
  return found.is_string() ? std::string(found.get_string()) : "(none)";
}

int64_t int_at(const json::value& value, std::string_view path) {
  const json::value found = at(value, path);
  return found.is_int64() ? found.get_int64() : -1;
}

namespace {

void fold_delta(FoldedChat& folded, const json::object& delta) {
  const auto text = [&](const char* key) {
    const json::value* value = delta.if_contains(key);
    return value && value->is_string() ? std::string(value->get_string()) : std::string();
  };
  if (delta.contains("role")) folded.role += text("role");
  folded.has_content = folded.has_content || !text("content").empty();
  folded.content += text("content");
  folded.reasoning += text("reasoning");
  folded.reasoning_content += text("reasoning_content");
  const int kinds = !text("content").empty() + delta.contains("reasoning") + delta.contains("tool_calls");
  EXPECT_LE(kinds, 1) << json::serialize(delta);
  if (!delta.contains("tool_calls")) return;
  for (const json::value& call : delta.at("tool_calls").as_array()) {
    const auto index = static_cast<size_t>(call.at("index").as_int64());
    if (call.as_object().contains("id")) {
      EXPECT_EQ(index, folded.calls.size());
      folded.calls.push_back({std::string(call.at("id").as_string()), text_at(call, "function.name"), ""});
    }
    if (index >= folded.calls.size()) {
      ADD_FAILURE() << "arguments before their call";
      return;
    }
    folded.calls[index].arguments += text_at(call, "function.arguments");
  }
}

}  // namespace

FoldedChat fold(const std::vector<json::object>& chunks, int64_t index) {
  FoldedChat folded;
  for (const json::object& chunk : chunks) {
    for (const json::value& choice : chunk.at("choices").as_array()) {
      if (choice.at("index").as_int64() != index) continue;
      EXPECT_EQ(folded.finishes, 0) << "a chunk after the last one";
      fold_delta(folded, choice.at("delta").as_object());
      const json::value entries = at(choice, "logprobs.content");
      if (entries.is_array())
        folded.logprobs.insert(folded.logprobs.end(), entries.get_array().begin(), entries.get_array().end());
      if (!choice.at("finish_reason").is_string()) continue;
      folded.finish_reason = std::string(choice.at("finish_reason").get_string());
      folded.stop_reason = at(choice, "stop_reason");
      ++folded.finishes;
    }
  }
  EXPECT_EQ(folded.finishes, 1);
  return folded;
}

}  // namespace boreas
