// What live streams cost the server: many SSE streams at a steady rate against api_scripted_server in another process.
//   stream_load PATH_TO_api_scripted_server [--streams 512] [--seconds 10] [--step-us 20000] [--waiting]
// Prints one JSON line: CPU of the whole server and of its HTTP thread in percent of one core, resident memory added by
// the streams, tokens a second, gaps between a stream's tokens. --waiting: one request runs, the others wait in the
// queue.
// The clients look every 2 ms: a client that sleeps until a packet comes is woken by the server's own system call here,
// which no client on another machine costs. What the kernel does to receive is still counted, as it happens within
// send.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/resident_memory.h"
#include "child_process.h"
#include "test_client.h"

namespace boreas {
namespace {

using Steady = std::chrono::steady_clock;

double seconds_since(Steady::time_point begin) { return std::chrono::duration<double>(Steady::now() - begin).count(); }

// CPU seconds of a process or one of its threads, from its stat file.
double cpu_seconds(const std::string& directory) {
  std::ifstream file(directory + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double http_thread_cpu_seconds(pid_t pid) {
  double sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream name_file(entry.path() / "comm");
    std::string name;
    name_file >> name;
    if (name == "http") sum += cpu_seconds(entry.path());
  }
  return sum;
}

double resident_mb(pid_t pid) { return static_cast<double>(resident_bytes(std::to_string(pid))) / 1e6; }

// Counted by the server: what a client gets in one event may be several tokens.
double generated_tokens(uint16_t port) {
  const std::string page = request(port, "GET", "/metrics").body;
  const size_t line = page.find("\nvllm:generation_tokens_total{");
  return line == std::string::npos ? 0 : std::atof(page.c_str() + page.find("} ", line) + 2);
}

struct Stream {
  int fd = -1;
  int64_t events = 0;
  Steady::time_point last;
};

int connect_stream(uint16_t port, const std::string& request) {
  // TestSocket closes in its destructor; these stay open until the process ends.
  auto* socket = new TestSocket(port);
  socket->send(request);
  return socket->fd();
}

// Events in what was read; the few that are cut in two count as none or one.
int64_t count_events(std::string_view bytes) {
  constexpr std::string_view kBegin = "data: {";
  int64_t count = 0;
  for (size_t at = bytes.find(kBegin); at != std::string_view::npos; at = bytes.find(kBegin, at + 1)) ++count;
  return count;
}

struct Reading {
  std::vector<double> gaps_ms;
};

void read_streams(int poller, std::vector<Stream>& streams, double seconds, bool record, Reading& reading) {
  std::vector<epoll_event> ready(1024);
  std::vector<char> bytes(64 << 10);
  const Steady::time_point begin = Steady::now();
  while (seconds_since(begin) < seconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const int count = ::epoll_wait(poller, ready.data(), static_cast<int>(ready.size()), 0);
    for (int i = 0; i < count; ++i) {
      Stream& stream = streams[ready[static_cast<size_t>(i)].data.u64];
      const ssize_t n = ::recv(stream.fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n <= 0) continue;
      const int64_t events = count_events(std::string_view(bytes.data(), static_cast<size_t>(n)));
      if (events == 0) continue;
      const Steady::time_point now = Steady::now();
      if (record && stream.events > 0) {
        reading.gaps_ms.push_back(std::chrono::duration<double, std::milli>(now - stream.last).count());
      }
      stream.last = now;
      stream.events += events;
    }
  }
}

double quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(
        stderr,
        "usage: stream_load PATH_TO_api_scripted_server [--streams N] [--seconds N] [--step-us N] [--waiting]\n");
    return 2;
  }
  int streams_wanted = 512;
  double seconds = 10;
  std::string step_us = "20000";
  bool waiting = false;
  for (int i = 2; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--streams" && i + 1 < argc) streams_wanted = std::atoi(argv[++i]);
    if (flag == "--seconds" && i + 1 < argc) seconds = std::atof(argv[++i]);
    if (flag == "--step-us" && i + 1 < argc) step_us = argv[++i];
    if (flag == "--waiting") waiting = true;
  }
  const std::string count = std::to_string(streams_wanted);
  ChildProcess server({argv[1], "--forever", "--step-us", waiting ? "1000000" : step_us, "--slots",
                       waiting ? "1" : count, "--waiting", count});
  const auto port = static_cast<uint16_t>(std::atoi(server.read_line().c_str()));
  const std::string pid = std::to_string(server.pid());
  // One request first: what a first request allocates once is not the streams'.
  post(port, "/v1/completions", R"({"prompt":"a","max_tokens":1})");
  const double memory_before = resident_mb(server.pid());
  const std::string body =
      R"({"messages":[{"role":"user","content":")" + std::string(300, 'x') + R"("}],"max_tokens":3500,"stream":true})";
  const std::string request = post_text("/v1/chat/completions", body);
  std::vector<Stream> streams(static_cast<size_t>(streams_wanted));
  const int poller = ::epoll_create1(0);
  for (size_t i = 0; i < streams.size(); ++i) {
    streams[i].fd = connect_stream(port, request);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    ::epoll_ctl(poller, EPOLL_CTL_ADD, streams[i].fd, &event);
  }
  Reading warm;
  read_streams(poller, streams, 3, false, warm);
  Reading reading;
  const double cpu_before = cpu_seconds("/proc/" + pid);
  const double http_before = http_thread_cpu_seconds(server.pid());
  const double tokens_before = generated_tokens(port);
  const Steady::time_point begin = Steady::now();
  read_streams(poller, streams, seconds, true, reading);
  const double elapsed = seconds_since(begin);
  const double tokens = std::max(1.0, generated_tokens(port) - tokens_before);
  const double cpu = (cpu_seconds("/proc/" + pid) - cpu_before) / elapsed * 100;
  const double http = (http_thread_cpu_seconds(server.pid()) - http_before) / elapsed * 100;
  std::printf(
      "{\"bench\": \"stream_load\", \"streams\": %d, \"waiting\": %s, \"tok_s\": %.0f, \"cpu_percent\": %.1f, "
      "\"us_per_token\": %.2f, \"http_cpu_percent\": %.1f, \"http_us_per_token\": %.2f, \"rss_added_mb\": %.1f, "
      "\"gap_ms_p50\": %.1f, "
      "\"gap_ms_p99\": %.1f}\n",
      streams_wanted, waiting ? "true" : "false", tokens / elapsed, cpu, cpu / 100 * elapsed / tokens * 1e6, http,
      http / 100 * elapsed / tokens * 1e6, resident_mb(server.pid()) - memory_before, quantile(reading.gaps_ms, 0.5),
      quantile(reading.gaps_ms, 0.99));
  std::fflush(stdout);
  return 0;
}

}  // namespace
}  // namespace boreas

int main(int argc, char** argv) { return boreas::run(argc, argv); }
