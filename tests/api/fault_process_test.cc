// What becomes of a server's process, not only of its objects, when the device is lost: api_faulty_server.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <future>
#include <tuple>
#include <utility>

#include "child_process.h"
#include "test_client.h"

namespace boreas {
namespace {

using Steady = std::chrono::steady_clock;

// After the banner's "URL"; 0: there is none.
uint16_t read_port(ChildProcess& server) {
  for (std::string line = server.read_line(); !line.empty(); line = server.read_line()) {
    const size_t url = line.find("http://127.0.0.1:");
    if (url != std::string::npos) return static_cast<uint16_t>(std::atoi(line.c_str() + url + 17));
  }
  return 0;
}

// How a process ends whose device is lost in the middle of two streams and a plain request.
struct End {
  std::string first, second;  // all bytes of the streams
  TestAnswer plain;
  TestAnswer health;  // the first one that is not 200
  int status = 0;
  double seconds = 0;  // from the fault to the end of the process
};

// signal: SIGUSR1: at once; SIGUSR2: it hangs.
void lose_the_device(End& end, int signal) {
  ChildProcess server({BOREAS_FAULTY_SERVER, std::string(BOREAS_SOURCE_DIR) + "/models/tiny"});
  const uint16_t port = read_port(server);
  ASSERT_NE(port, 0);
  ASSERT_EQ(request(port, "GET", "/health").status, 200);
  const std::string body = R"({"prompt":"a","max_tokens":100000,"ignore_eos":true,"stream":)";
  TestSocket first(port), second(port), plain(port);
  for (auto [socket, bytes] : {std::pair(&first, &end.first), std::pair(&second, &end.second)}) {
    socket->send(post_text("/v1/completions", body + "true}"));
    *bytes = socket->receive_until("data: ");
    ASSERT_NE(*bytes, "");
  }
  plain.send(post_text("/v1/completions", body + "false}"));

  const Steady::time_point lost = Steady::now();
  ASSERT_EQ(::kill(server.pid(), signal), 0);
  auto exit = std::async(std::launch::async, [&server, lost] {
    const int status = server.wait(kPatienceMs);
    return std::pair(status, std::chrono::duration<double>(Steady::now() - lost).count());
  });
  EXPECT_TRUE(eventually([&] { return (end.health = request(port, "GET", "/health")).status != 200; }));
  end.first += first.receive_all();
  end.second += second.receive_all();
  end.plain = parse_answer(plain.receive_all());
  std::tie(end.status, end.seconds) = exit.get();
}

void expect_a_clean_end(int signal) {
  // A machine that stands still for a second would be found too late here: it gets three tries at what is in time.
  End end;
  for (int i = 0; i < 3 && (i == 0 || end.health.status != 503 || end.seconds >= 2); ++i) {
    end = {};
    lose_the_device(end, signal);
    for (const std::string& bytes : {end.first, end.second}) {
      const std::vector<std::string> events = parse_answer(bytes).events();
      ASSERT_GE(events.size(), 2U);
      EXPECT_EQ(events.back(), "[DONE]");
      EXPECT_NE(events[events.size() - 2].find("\"internal_error\""), std::string::npos) << events[events.size() - 2];
    }
    EXPECT_TRUE(end.plain.status == 500 || end.plain.status == 503) << "before or after the engine had it";
    EXPECT_EQ(end.plain.error("type"), "server_error") << end.plain.body;
    EXPECT_EQ(end.status, 1);
  }
  EXPECT_EQ(end.health.status, 503);
  EXPECT_EQ(end.health.error("code"), "engine_dead");
  EXPECT_LT(end.seconds, 2);
  testing::Test::RecordProperty("seconds", std::to_string(end.seconds));
}

TEST(FaultProcess, StreamsEndWithAnErrorHealthSaysSoAndTheProcessFails) { expect_a_clean_end(SIGUSR1); }

// As long as a wait may be at most, and the end, together.
TEST(FaultProcess, AHungDeviceEndsTheProcessJustAsWell) { expect_a_clean_end(SIGUSR2); }

TEST(FaultProcess, AFaultBeforeTheFirstRequestEndsTheProcessToo) {
  ChildProcess server({BOREAS_FAULTY_SERVER, std::string(BOREAS_SOURCE_DIR) + "/models/tiny", "lost"});
  EXPECT_EQ(server.wait(kPatienceMs), 1) << "also if the device never gives its memory back";
}

}  // namespace
}  // namespace boreas
