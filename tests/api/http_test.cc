// HTTP itself: routes, framing, limits, deadlines, and clients that misbehave in every way.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "base/prng.h"
#include "test_client.h"
#include "test_server.h"

namespace boreas {
using namespace std::string_literals;

namespace {

namespace json = boost::json;

constexpr char kChat[] = R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":3000,"stream":true})";

int raw_status(uint16_t port, const std::string& bytes) {
  TestSocket socket(port);
  socket.send(bytes);
  return parse_answer(socket.receive_all()).status;
}

int64_t server_load(TestServer& server) { return int_at(request(server.port(), "GET", "/load").json(), "server_load"); }

TEST(Http, SimpleRoutes) {
  TestServer server;
  const uint16_t port = server.port();
  for (const char* path :
       {"/health", "/health/", "/ping", "/live", "/ready", "/v1/health", "/version", "/v1/models", "/v1/models/tiny",
        "/v1/models/org/tiny", "/v1/models/org%2Ftiny", "/metrics", "/load", "/v1/models?limit=5"}) {
    const TestAnswer answer = request(port, "GET", path);
    EXPECT_EQ(answer.status, 200) << path;
    const TestAnswer head = request(port, "HEAD", path);
    EXPECT_EQ(head.status, 200) << path;
    EXPECT_TRUE(head.body.empty());
    if (std::string_view(path) != "/metrics") {  // it counts its own answers
      EXPECT_EQ(head.fields.at("content-length"), answer.fields.at("content-length"));
    }
    EXPECT_EQ(request(port, "OPTIONS", path).status, 204);
    EXPECT_FALSE(answer.fields.at("x-request-id").empty());
  }
  EXPECT_EQ(text_at(request(port, "GET", "/version").json(), "version"), "0.0.0-test");
  const json::value models = request(port, "GET", "/v1/models").json();
  EXPECT_EQ(text_at(models, "object"), "list");
  EXPECT_EQ(text_at(models, "data.0.id"), "tiny");
  EXPECT_EQ(text_at(models, "data.1.id"), "org/tiny");
  EXPECT_EQ(text_at(models, "data.0.owned_by"), "boreas");
  EXPECT_EQ(int_at(models, "data.0.max_model_len"), 4096);
  EXPECT_GT(int_at(models, "data.0.created"), 1'000'000'000);
  EXPECT_EQ(request(port, "GET", "/v1/models/none").error("code"), "model_not_found");
  EXPECT_EQ(request(port, "GET", "/v1/models/a%zz").status, 400);
  EXPECT_NE(request(port, "GET", "/metrics").body.find("vllm:num_requests_running{model_name=\"tiny\",engine=\"0\"} 0"),
            std::string::npos);
}

TEST(Http, UnknownPathsAndMethods) {
  TestServer server;
  EXPECT_EQ(request(server.port(), "GET", "/nothing").status, 404);
  EXPECT_EQ(request(server.port(), "POST", "/v1/embeddings", "{}", {"Content-Type: application/json"}).status, 404);
  const TestAnswer answer = request(server.port(), "GET", "/v1/chat/completions");
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.fields.at("allow"), "POST, OPTIONS");
  EXPECT_EQ(answer.error("type"), "invalid_request_error");
  EXPECT_EQ(request(server.port(), "DELETE", "/v1/models").status, 405);
  EXPECT_EQ(request(server.port(), "POST", "/v1/completions", "{}", {"Content-Type: text/plain"}).status, 415);
  EXPECT_EQ(request(server.port(), "POST", "/v1/completions", "{}").status, 415);
  EXPECT_EQ(request(server.port(), "POST", "/v1/completions", "{\"prompt\":\"a\"}",
                    {"Content-Type: Application/JSON; charset=utf-8"})
                .status,
            200);
  EXPECT_EQ(request(server.port(), "POST", "/v1/completions", "{}",
                    {"Content-Type: application/json", "Content-Encoding: gzip"})
                .status,
            415);
}

TEST(Http, RequestIds) {
  TestServer server;
  const TestAnswer given = request(server.port(), "POST", "/v1/completions", R"({"prompt":"a"})",
                                   {"Content-Type: application/json", "X-Request-Id: my-id"});
  EXPECT_EQ(given.fields.at("x-request-id"), "my-id");
  EXPECT_EQ(text_at(given.json(), "id"), "cmpl-my-id");
  const TestAnswer bad = request(server.port(), "GET", "/version", "", {"X-Request-Id: " + std::string(200, 'x')});
  EXPECT_EQ(bad.fields.at("x-request-id").size(), 24U);
  EXPECT_EQ(text_at(completion(server.port(), {{"request_id", "body-id"}}).json(), "id"), "cmpl-body-id");
}

TEST(Http, LiveRequestsWithOneIdAreToldApart) {
  TestServerOptions options;
  options.fake.step_ns = 2'000'000;  // the first one lives for seconds
  TestServer server(options);
  server.write_forever("x");
  const std::string text = post_text("/v1/chat/completions", kChat, {"X-Request-Id: twin"});
  TestSocket first(server.port());
  TestSocket second(server.port());
  first.send(text);
  EXPECT_NE(first.receive_until("data: ").find("200 OK"), std::string::npos);
  second.send(text);
  const std::string answer = second.receive_until("delta");
  EXPECT_NE(answer.find("chatcmpl-twin-"), std::string::npos) << answer;
}

TEST(Http, ApiKeys) {
  TestServerOptions options;
  options.server.api_keys = {"sk-one", "sk-two"};
  TestServer server(options);
  const uint16_t port = server.port();
  for (const char* path : {"/health", "/ping", "/live", "/ready", "/version", "/metrics"}) {
    EXPECT_EQ(request(port, "GET", path).status, 200) << path;
  }
  for (const char* path : {"/v1/models", "/v1/models/tiny", "/load", "/nothing"}) {
    const TestAnswer answer = request(port, "GET", path);
    EXPECT_EQ(answer.status, 401) << path;
    EXPECT_EQ(answer.fields.at("www-authenticate"), "Bearer");
    EXPECT_EQ(answer.error("code"), "invalid_api_key");
  }
  EXPECT_EQ(request(port, "GET", "/v1/models", "", {"Authorization: Bearer sk-two"}).status, 200);
  EXPECT_EQ(request(port, "GET", "/v1/models", "", {"authorization: bearer sk-one"}).status, 200);
  for (const char* value : {"Bearer sk-on", "Bearer sk-onee", "Bearer ", "Bearer", "Basic sk-one", "sk-one"}) {
    EXPECT_EQ(request(port, "GET", "/v1/models", "", {std::string("Authorization: ") + value}).status, 401) << value;
  }
  // Refused before the body is read.
  TestSocket socket(port);
  socket.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9999999\r\n\r\n");
  EXPECT_EQ(parse_answer(socket.receive_all()).status, 401);
}

TEST(Http, Cors) {
  TestServer any;
  const TestAnswer preflight = request(any.port(), "OPTIONS", "/v1/chat/completions", "",
                                       {"Origin: http://a.example", "Access-Control-Request-Method: POST",
                                        "Access-Control-Request-Headers: authorization,x-y"});
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.fields.at("access-control-allow-origin"), "*");
  EXPECT_NE(preflight.fields.at("access-control-allow-methods").find("POST"), std::string::npos);
  EXPECT_EQ(preflight.fields.at("access-control-allow-headers"), "authorization,x-y");
  EXPECT_FALSE(preflight.fields.at("access-control-max-age").empty());
  EXPECT_EQ(request(any.port(), "GET", "/v1/models", "", {"Origin: http://a.example"})
                .fields.at("access-control-allow-origin"),
            "*");
  EXPECT_EQ(request(any.port(), "POST", "/v1/models", "", {"Origin: http://a.example"})
                .fields.at("access-control-expose-headers"),
            "X-Request-Id, Retry-After, retry-after-ms");
  TestServerOptions options;
  options.server.allowed_origins = {"http://a.example"};
  TestServer one(options);
  EXPECT_EQ(
      request(one.port(), "GET", "/version", "", {"Origin: http://a.example"}).fields.at("access-control-allow-origin"),
      "http://a.example");
  EXPECT_FALSE(request(one.port(), "GET", "/version", "", {"Origin: http://b.example"})
                   .fields.count("access-control-allow-origin"));
  EXPECT_FALSE(request(one.port(), "GET", "/version", "", {"Origin: http://b.example"})
                   .fields.count("access-control-expose-headers"));
}

TEST(Http, AmbiguousFraming) {
  TestServer server;
  const uint16_t port = server.port();
  const std::string line = "POST /v1/completions HTTP/1.1\r\n";
  const std::string type = "Content-Type: application/json\r\n";
  const std::string body = "{\"prompt\":\"a\"}";
  const std::string host = "Host: x\r\n";
  const std::string close = "Connection: close\r\n";
  const std::string bad[] = {
      line + type + "Content-Length: 14\r\n\r\n" + body,                                       // no Host
      line + host + host + type + "Content-Length: 14\r\n\r\n" + body,                         // two
      line + host + type + "Content-Length: 14\r\nContent-Length: 14\r\n\r\n" + body,          // twice
      line + host + type + "Content-Length: 14\r\nContent-Length: 15\r\n\r\n" + body,          // differing
      line + host + type + "Content-Length: 14, 14\r\n\r\n" + body,                            //
      line + host + type + "Content-Length: +14\r\n\r\n" + body,                               //
      line + host + type + "Content-Length: 0x0e\r\n\r\n" + body,                              //
      line + host + type + "Content-Length: -1\r\n\r\n" + body,                                //
      line + host + type + "Content-Length: 99999999999999999999\r\n\r\n" + body,              //
      line + host + type + "Content-Length: 14\r\nTransfer-Encoding: chunked\r\n\r\n" + body,  // both
      line + host + type + "Transfer-Encoding: xchunked\r\n\r\n" + body,                       //
      line + host + type + "Transfer-Encoding: chunked, identity\r\n\r\n" + body,              //
      line + host + type + "Transfer-Encoding: gzip, chunked\r\n\r\n" + body,                  //
      line + host + type + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      line + host + type + "Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",  // bad size
      line + host + type + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",  //
      line + host + type + "X-A: b\r\n c\r\nContent-Length: 14\r\n\r\n" + body,        // folded
      line + host + type + "Content-Length : 14\r\n\r\n" + body,                       // blank before colon
      "POST /v1/completions HTTP/1.1\nHost: x\n\n",                                    // bare LF
      "GET /version HTTP/1.1\r\nHost: x\r\nBad\r\n\r\n",                               // no colon
      "GET /ver sion HTTP/1.1\r\nHost: x\r\n\r\n",                                     //
      "GET /version HTTP/2.0\r\nHost: x\r\n\r\n",                                      //
      "GET /version HTTP/3\r\nHost: x\r\n\r\n",                                        //
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",                                              //
      "\x16\x03\x01\x02\x00"s + std::string(100, 'x'),                                 // TLS
      "GET /version HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n"s,                          // NUL
  };
  for (const std::string& bytes : bad) EXPECT_EQ(raw_status(port, bytes), 400) << bytes;
  EXPECT_EQ(raw_status(port, line + host + close + type + "Content-Length: 14\r\n\r\n" + body), 200);
  EXPECT_EQ(raw_status(port, "GET /version HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(raw_status(port, "\r\nGET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), 200);
  EXPECT_EQ(raw_status(port, "GET http://x/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), 200);
  EXPECT_EQ(raw_status(port, "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), 204);
  EXPECT_EQ(raw_status(port, line + host + type + "Expect: magic\r\nContent-Length: 14\r\n\r\n" + body), 417);
  EXPECT_TRUE(server.idle_at_baseline());
}

TEST(Http, ChunkedBodies) {
  TestServer server;
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(raw_status(server.port(), head + "5;ext=1\r\n{\"pro\r\n9\r\nmpt\":\"a\"}\r\n0\r\nTrailer: x\r\n\r\n"), 200);
  // Byte by byte.
  TestSocket socket(server.port());
  for (const char byte : head + "e\r\n{\"prompt\":\"a\"}\r\n0\r\n\r\n") ASSERT_TRUE(socket.send(std::string(1, byte)));
  EXPECT_EQ(parse_answer(socket.receive_all()).status, 200);
  EXPECT_EQ(raw_status(server.port(), head + std::string(100'000, '1')), 400);  // a size line without end
}

TEST(Http, LimitsOnSizes) {
  TestServerOptions options;
  options.server.http.body_bytes_max = 100'000;
  TestServer server(options);
  const uint16_t port = server.port();
  const std::string large = "{\"prompt\":\"" + std::string(200'000, 'x') + "\"}";
  const TestAnswer answer = post(port, "/v1/completions", large);
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.error("code"), "request_too_large");
  std::string chunked =
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 200; ++i) chunked += "400\r\n" + std::string(1024, ' ') + "\r\n";
  EXPECT_EQ(raw_status(port, chunked), 413);
  std::string many = "GET /version HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < 300; ++i) many += "A: b\r\n";
  EXPECT_EQ(raw_status(port, many + "\r\n"), 431);
  EXPECT_EQ(raw_status(port, "GET /version HTTP/1.1\r\nHost: x\r\nA: " + std::string(70'000, 'x')), 431);
  EXPECT_EQ(raw_status(port, "GET /" + std::string(70'000, 'x')), 431);
  EXPECT_EQ(raw_status(port, "GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\nA: " + std::string(60'000, 'x') +
                                 "\r\n\r\n"),
            200);
}

TEST(Http, ExpectContinue) {
  TestServer server;
  TestSocket socket(server.port());
  socket.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
      "Content-Length: 14\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(socket.receive_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  socket.send("{\"prompt\":\"a\"}");
  EXPECT_EQ(parse_answer(socket.receive_all()).status, 200);
}

TEST(Http, KeepAliveAndPipelining) {
  TestServer server;
  TestSocket socket(server.port());
  const std::string get = "GET /version HTTP/1.1\r\nHost: x\r\n\r\n";
  for (int i = 0; i < 3; ++i) {
    socket.send(get);
    EXPECT_NE(socket.receive_until("-test\"}").find("keep-alive"), std::string::npos);
  }
  const std::string last = "GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  socket.send(get + post_text("/v1/completions", R"({"prompt":"a"})") + get + last);
  const std::string answers = socket.receive_all();
  size_t count = 0;
  for (size_t at = answers.find("HTTP/1.1 200"); at != std::string::npos; at = answers.find("HTTP/1.1 200", at + 1))
    ++count;
  EXPECT_EQ(count, 4U);
  EXPECT_LT(answers.find("text_completion"), answers.rfind("version"));
}

TEST(Http, Http10Stream) {
  TestServer server;
  server.write("a<|END_THINKING|><|START_TEXT|>b<|END_TEXT|><|END_OF_TURN_TOKEN|>");
  TestSocket socket(server.port());
  const std::string body = R"({"messages":[{"role":"user","content":"Hi"}],"stream":true})";
  socket.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  const TestAnswer answer = parse_answer(socket.receive_all());
  EXPECT_FALSE(answer.fields.count("transfer-encoding"));
  EXPECT_EQ(fold(answer.chunks()).content, "b");
}

TEST(Http, SlowSendersAreGivenUp) {
  TestServerOptions options;
  options.server.http.header_timeout_ms = 150;
  options.server.http.body_timeout_ms = 150;
  options.server.http.linger_timeout_ms = 300;
  TestServer server(options);
  TestSocket header(server.port());
  header.send("GET /version HTT");
  TestSocket body(server.port());
  body.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(parse_answer(header.receive_all()).status, 408);
  EXPECT_EQ(parse_answer(body.receive_all()).status, 408);
  // Dripping does not help.
  TestSocket drip(server.port());
  EXPECT_TRUE(eventually([&drip] { return !drip.send("x"); }));
}

TEST(Http, IdleConnectionsAreClosed) {
  TestServerOptions options;
  options.server.http.idle_timeout_ms = 100;
  TestServer server(options);
  EXPECT_TRUE(TestSocket(server.port()).closed_by_peer());
}

TEST(Http, ConnectionCap) {
  TestServerOptions options;
  options.server.http.connections_max = 5;
  TestServer server(options);
  std::vector<std::unique_ptr<TestSocket>> sockets;
  for (int i = 0; i < 5; ++i) {
    sockets.push_back(std::make_unique<TestSocket>(server.port()));
    sockets.back()->send("GET /version HTTP/1.1\r\nHost: x\r\n\r\n");
    ASSERT_NE(sockets.back()->receive_until("-test\"}"), "");
  }
  TestSocket refused(server.port());
  EXPECT_EQ(parse_answer(refused.receive_all()).status, 503);
  sockets.clear();
  EXPECT_TRUE(eventually([&server] { return request(server.port(), "GET", "/version").status == 200; }));
}

TEST(Http, SilentStreamsGetPings) {
  TestServerOptions options;
  options.server.http.ping_interval_ms = 50;
  TestServer server(options);
  server.hold();
  TestSocket socket(server.port());
  const std::string body = R"({"messages":[{"role":"user","content":"Hi"}],"stream":true,"max_tokens":1})";
  socket.send(post_text("/v1/chat/completions", body, {"Connection: close"}));
  const std::string begin = socket.receive_until(": ping\n\n");
  EXPECT_NE(begin.find(": ping\n\n"), std::string::npos);
  server.release();
  EXPECT_EQ(fold(parse_answer(begin + socket.receive_all()).chunks()).finishes, 1);
}

// 3,000 tokens take a minute, so what ends before was cancelled; the engine's counters say so as well.
TEST(Http, ClientsThatLeaveFreeTheirPages) {
  TestServerOptions options;
  options.fake.step_ns = 20'000'000;
  TestServer server(options);
  server.write_forever("and on ");
  const std::string plain = R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":3000})";
  for (const bool hard : {false, true}) {
    for (const bool stream : {false, true}) {
      const std::string text = post_text("/v1/chat/completions", stream ? kChat : plain);
      TestSocket socket(server.port());
      socket.send(text);
      if (stream) {
        ASSERT_NE(socket.receive_until("data: "), "");
      } else {
        ASSERT_TRUE(eventually([&server] { return server.engine().stats().running == 1; }));
      }
      hard ? socket.reset() : socket.close();
      EXPECT_TRUE(server.idle_at_baseline());
    }
  }
  // One that has sent more bytes, which hide the end of its stream.
  TestSocket socket(server.port());
  socket.send(post_text("/v1/chat/completions", kChat));
  ASSERT_NE(socket.receive_until("data: "), "");
  socket.send("GET /version");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // time to be read: one of two orders to try
  socket.close();
  EXPECT_TRUE(server.idle_at_baseline());
  EXPECT_EQ(server.engine().stats().finished[static_cast<size_t>(FinishReason::kAbort)], 5);
}

TEST(Http, ClientsLeaveAtAnyMoment) {
  TestServerOptions options;
  options.fake.step_ns = 300'000;
  TestServer server(options);
  server.write_forever("and on ");
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Prng prng(seed);
  const std::string many = R"({"prompt":["a","bc","def"],"n":2,"max_tokens":500,"stream":true,"stop":"never"})";
  for (int round = 0; round < 60; ++round) {
    std::vector<std::unique_ptr<TestSocket>> sockets;
    for (int i = 0; i < 4; ++i) {
      sockets.push_back(std::make_unique<TestSocket>(server.port()));
      const std::string text =
          prng.below(2) ? post_text("/v1/chat/completions", kChat) : post_text("/v1/completions", many);
      // The whole request, or a part of it.
      sockets.back()->send(prng.below(3) ? text : text.substr(0, prng.below(static_cast<uint32_t>(text.size()))));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(prng.below(8000)));
    for (auto& socket : sockets) prng.below(2) ? socket->reset() : socket->close();
  }
  EXPECT_TRUE(server.idle_at_baseline());
  EXPECT_EQ(request(server.port(), "GET", "/health").status, 200);
  EXPECT_TRUE(eventually([&server] { return server_load(server) == 0; }));
}

TEST(Http, SlowReadersDoNotStallOthersAndAreGivenUp) {
  TestServerOptions options;
  options.server.http.stream_bytes_max = 64 << 10;
  options.server.http.write_timeout_ms = 700;
  TestServer server(options);
  server.write_forever("and on ");
  const std::string body = R"({"prompt":"a","n":8,"max_tokens":4000,"ignore_eos":true,"logprobs":20,"stream":true})";
  TestSocket slow(server.port(), 4096);
  slow.send(post_text("/v1/completions", body));
  ASSERT_NE(slow.receive_until("data: "), "");
  // Others are served meanwhile.
  for (int i = 0; i < 5; ++i) EXPECT_EQ(completion(server.port(), {}).status, 200);
  // It reads nothing: after the write time-out it is gone and with it its load.
  EXPECT_TRUE(eventually([&server] { return server_load(server) == 0; }));
  EXPECT_TRUE(server.idle_at_baseline());
}

TEST(Http, SlowReadersGetEverythingIfTheyReadOn) {
  TestServerOptions options;
  options.server.http.stream_bytes_max = 64 << 10;
  TestServer server(options);
  server.write_forever("and on ");
  const std::string body =
      R"({"prompt":"a","max_tokens":3000,"ignore_eos":true,"logprobs":20,"stream":true,"stream_options":{"include_usage":true}})";
  TestSocket slow(server.port(), 4096);
  slow.send(post_text("/v1/completions", body, {"Connection: close"}));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const TestAnswer answer = parse_answer(slow.receive_all());
  int64_t tokens = 0;
  for (const json::object& chunk : answer.chunks()) {
    tokens += static_cast<int64_t>(array_at(chunk, "choices.0.logprobs.tokens").size());
  }
  EXPECT_EQ(tokens, 3000);
  EXPECT_EQ(int_at(answer.chunks().back(), "usage.completion_tokens"), 3000);
}

TEST(Http, HealthAnswersWhileLargeRequestsArrive) {
  TestServer server;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const std::string text(8 << 20, 'x');
      EXPECT_EQ(completion(server.port(), {{"prompt", text}}).status, 400);
    });
  }
  int64_t worst_ms = 0;
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(request(server.port(), "GET", "/health").status, 200);
    worst_ms = std::max<int64_t>(
        worst_ms,
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin).count());
  }
  for (std::thread& thread : threads) thread.join();
  RecordProperty("health_ms_max", static_cast<int>(worst_ms));
}

TEST(Http, RandomBytesNeverHurt) {
  TestServer server;
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Prng prng(seed);
  const std::string valid = post_text("/v1/chat/completions", R"({"messages":[{"role":"user","content":"Hi"}]})");
  for (int round = 0; round < 200; ++round) {
    std::string bytes = valid;
    for (uint32_t i = 0, count = 1 + prng.below(8); i < count; ++i) {
      const uint32_t at = prng.below(static_cast<uint32_t>(bytes.size()));
      switch (prng.below(3)) {
        case 0:
          bytes[at] = static_cast<char>(prng.below(256));
          break;
        case 1:
          bytes.erase(at, 1 + prng.below(4));
          break;
        default:
          bytes.insert(at, 1, static_cast<char>(prng.below(256)));
      }
    }
    TestSocket socket(server.port());
    socket.send(bytes);
    socket.shut_down_sending();
    socket.receive_all();
  }
  EXPECT_EQ(request(server.port(), "GET", "/health").status, 200);
  EXPECT_TRUE(server.idle_at_baseline());
}

}  // namespace
}  // namespace boreas
