// The server's own life: loading, overload, draining, time limits, faults of the engine.
#include <gtest/gtest.h>

#include <future>

#include "test_client.h"
#include "test_server.h"

namespace boreas {
namespace {

namespace json = boost::json;

void wait_for(TestServer& server, int32_t running, int32_t waiting) {
  ASSERT_TRUE(eventually([&] {
    const EngineStats stats = server.engine().stats();
    return stats.running == running && stats.waiting == waiting;
  }));
}

TEST(Lifecycle, LoadingThenReady) {
  TestServerOptions options;
  options.ready = false;
  TestServer server(options);
  for (const char* path : {"/health", "/ready", "/v1/models", "/metrics"}) {
    const TestAnswer answer = request(server.port(), "GET", path);
    EXPECT_EQ(answer.status, 503) << path;
    EXPECT_EQ(answer.error("code"), "loading") << path;
    EXPECT_FALSE(answer.fields.at("retry-after").empty());
  }
  EXPECT_EQ(chat(server.port(), {}).error("code"), "loading");
  EXPECT_EQ(request(server.port(), "GET", "/live").status, 200);
  EXPECT_EQ(request(server.port(), "GET", "/version").status, 200);
  server.make_ready();
  EXPECT_EQ(request(server.port(), "GET", "/health").status, 200);
  EXPECT_EQ(chat(server.port(), {}).status, 200);
}

TEST(Lifecycle, HealthTellsHowFarLoadingIs) {
  TestServerOptions options;
  options.ready = false;
  TestServer server(options);
  const auto health = [&server] { return request(server.port(), "GET", "/health"); };
  EXPECT_EQ(text_at(health().json(), "status"), "loading");
  EXPECT_EQ(text_at(health().json(), "phase"), "starting");
  server.server().loading("reading weights", 0.425);
  EXPECT_EQ(health().status, 503);
  EXPECT_EQ(text_at(health().json(), "phase"), "reading weights");
  EXPECT_EQ(health().json().at("percent").as_int64(), 42);
  EXPECT_EQ(health().error("code"), "loading");
  EXPECT_EQ(text_at(chat(server.port(), {}).json(), "status"), "loading") << "every route says so";
  server.server().loading("warming up");
  EXPECT_EQ(text_at(health().json(), "phase"), "warming up");
  EXPECT_FALSE(health().json().as_object().contains("percent"));
  server.make_ready();
  EXPECT_EQ(health().status, 200);
  EXPECT_EQ(text_at(health().json(), "status"), "ok");
}

TEST(Lifecycle, FullQueueIs429) {
  TestServerOptions options;
  options.engine.running_max = 1;
  options.engine.waiting_max = 1;
  options.fake.step_ns = 20'000'000;
  TestServer server(options);
  server.write_forever("and on ");
  std::vector<std::unique_ptr<TestSocket>> sockets;
  for (int i = 0; i < 2; ++i) {
    sockets.push_back(std::make_unique<TestSocket>(server.port()));
    sockets.back()->send(post_text("/v1/completions", R"({"prompt":"a","max_tokens":4000,"stream":true})"));
    wait_for(server, 1, i);
  }
  const TestAnswer answer = completion(server.port(), {});
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.error("type"), "rate_limit_error");
  EXPECT_EQ(answer.error("code"), "queue_full");
  // Whole seconds, rounded up.
  const int64_t retry_ms = std::stoll(answer.fields.at("retry-after-ms"));
  EXPECT_EQ(std::stoll(answer.fields.at("retry-after")), (retry_ms + 999) / 1000);
  EXPECT_GE(retry_ms, 1'000);
  EXPECT_LE(retry_ms, 60'000);
  // A request of several prompts of which only some fit leaves nothing behind.
  EXPECT_EQ(completion(server.port(), {{"prompt", json::array{"a", "b", "c"}}}).status, 429);
  sockets.clear();
  EXPECT_TRUE(server.idle_at_baseline());
}

TEST(Lifecycle, NeverFitsIs400) {
  TestServerOptions options;
  options.fake.pages_full = 4;
  options.fake.pages_sliding = 8;
  TestServer server(options);
  json::array ids;
  for (int i = 0; i < 1000; ++i) ids.push_back(100);
  const TestAnswer answer = completion(server.port(), {{"prompt", ids}});
  EXPECT_EQ(answer.status, 400) << answer.body;
  EXPECT_EQ(completion(server.port(), {}).status, 200);
}

TEST(Lifecycle, DrainLetsRunningRequestsFinish) {
  TestServerOptions options;
  options.server.shutdown_timeout_ms = 10 * kPatienceMs;
  TestServer server(options);
  server.write_forever("and on ");
  server.hold();
  TestSocket running(server.port());
  running.send(post_text("/v1/completions", R"({"prompt":"a","max_tokens":100,"stream":true})"));
  server.wait_until_held();
  TestSocket idle(server.port());
  idle.send("GET /version HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_NE(idle.receive_until("-test\"}"), "");
  server.server().shut_down();
  EXPECT_TRUE(eventually([&server] { return request(server.port(), "GET", "/health").status == 503; }));
  EXPECT_EQ(completion(server.port(), {}).error("code"), "draining");
  server.release();
  const TestAnswer answer = parse_answer(running.receive_all());
  EXPECT_EQ(text_at(answer.chunks().back(), "choices.0.finish_reason"), "length");
  EXPECT_TRUE(idle.closed_by_peer());
  EXPECT_EQ(server.server().wait(), 0);
}

TEST(Lifecycle, DrainEndsAtItsDeadline) {
  TestServerOptions options;
  options.fake.step_ns = 20'000'000;
  options.server.shutdown_timeout_ms = 100;
  TestServer server(options);
  server.write_forever("and on ");
  TestSocket stream(server.port());
  stream.send(post_text("/v1/completions", R"({"prompt":"a","max_tokens":4000,"stream":true})"));
  const std::string begin = stream.receive_until("data: ");
  TestSocket plain(server.port());
  plain.send(post_text("/v1/completions", R"({"prompt":"a","max_tokens":4000})"));
  wait_for(server, 2, 0);
  server.server().shut_down();
  const std::vector<std::string> events = parse_answer(begin + stream.receive_all()).events();
  ASSERT_GE(events.size(), 2U);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_NE(events[events.size() - 2].find("\"draining\""), std::string::npos);
  const TestAnswer answer = parse_answer(plain.receive_all());
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.error("code"), "draining");
  EXPECT_EQ(server.server().wait(), 0);
}

TEST(Lifecycle, RequestTimeout) {
  TestServerOptions options;
  options.fake.step_ns = 20'000'000;
  options.server.limits.request_timeout_ms = 150;
  TestServer server(options);
  server.write_forever("and on ");
  const TestAnswer plain = completion(server.port(), {{"max_tokens", 4000}});
  EXPECT_EQ(plain.status, 503);
  EXPECT_EQ(plain.error("code"), "timeout");
  const std::vector<std::string> events = completion(server.port(), {{"max_tokens", 4000}, {"stream", true}}).events();
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_NE(events[events.size() - 2].find("\"timeout\""), std::string::npos);
  EXPECT_TRUE(server.idle_at_baseline());
}

TEST(Lifecycle, EngineFaultEndsTheServer) {
  TestServer server;
  FakeFaults faults;
  faults.wait_error_step = 20;
  server.executor().set_faults(faults);
  server.write_forever("and on ");
  server.hold();
  auto stream_answer = std::async(std::launch::async, [&] {
    return completion(server.port(), {{"max_tokens", 4000}, {"stream", true}});
  });
  auto plain = std::async(std::launch::async, [&] { return completion(server.port(), {{"max_tokens", 4000}}); });
  EXPECT_TRUE(server.wait_for_requests(2));
  server.release();
  const TestAnswer stream = stream_answer.get();
  const std::vector<std::string> events = stream.events();
  ASSERT_GE(events.size(), 2U);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_NE(events[events.size() - 2].find("\"internal_error\""), std::string::npos);
  EXPECT_EQ(plain.get().status, 500);
  const TestAnswer health = request(server.port(), "GET", "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.error("code"), "engine_dead");
  EXPECT_EQ(text_at(health.json(), "status"), "dead");
  EXPECT_EQ(completion(server.port(), {}).error("code"), "engine_dead");
  EXPECT_EQ(server.server().wait(), 1);
}

TEST(Lifecycle, CorruptedLogitsFailOneRequest) {
  TestServer server;
  FakeFaults faults;
  faults.corrupt_row = [](int64_t step, const StepRow&) { return step == 3; };
  server.executor().set_faults(faults);
  server.write_forever("and on ");
  const TestAnswer answer = completion(server.port(), {{"max_tokens", 50}});
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.error("type"), "server_error");
  EXPECT_EQ(completion(server.port(), {}).status, 200);
  EXPECT_EQ(request(server.port(), "GET", "/health").status, 200);
  EXPECT_TRUE(server.idle_at_baseline());
}

TEST(Lifecycle, RefusesOpenAddressesWithoutKeys) {
  ServerOptions options;
  options.model_names = {"tiny"};
  options.http.host = "0.0.0.0";
  EXPECT_FALSE(Server::start(options).ok());
  options.api_keys = {"sk"};
  EXPECT_TRUE(Server::start(options).ok());
  options.api_keys.clear();
  options.allow_no_auth = true;
  EXPECT_TRUE(Server::start(options).ok());
  options.default_chat_template_kwargs = "[]";
  EXPECT_FALSE(Server::start(options).ok());
  options.default_chat_template_kwargs = R"({"tokenize": true})";
  EXPECT_FALSE(Server::start(options).ok());
}

TEST(Lifecycle, PortInUse) {
  ServerOptions options;
  options.model_names = {"tiny"};
  auto first = Server::start(options);
  ASSERT_TRUE(first.ok());
  options.http.port = (*first)->port();
  const auto second = Server::start(options);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("in use"), std::string::npos) << second.error().message;
}

}  // namespace
}  // namespace boreas
