// Odd requests to the endpoints that answer at once: model names that are none, methods, bodies where none belongs, and
// many clients that come and go. All answers are an error object or what was asked for.
#include <gtest/gtest.h>

#include "test_client.h"
#include "test_server.h"

namespace boreas {
namespace {

namespace json = boost::json;

struct Case {
  std::string path;
  int status = 0;
};

TEST(Endpoints, ModelNamesThatAreNone) {
  TestServer server;
  const Case cases[] = {
      {"tiny", 200},
      {"tiny/", 200},
      {"tiny//", 200},
      {"tiny?x=1", 200},
      {"%74iny", 200},
      {"org%2ftiny", 200},
      {"org%252Ftiny", 404},
      {"tiny%20", 404},
      {"TINY", 404},
      {"..", 404},
      {"../models/tiny", 404},
      {"%2e%2e%2f", 404},
      {"%ff%fe", 404},
      {"\xC3\xA9", 404},
      {"%22%0d%0aX-Evil:%20y", 404},
      {"%e2%80%a8", 404},
      {"<script>", 404},
      {"%", 400},
      {"%2", 400},
      {"%zz", 400},
      {"%00", 400},
      {"tiny%00", 400},
      {std::string(4000, 'x'), 404},
      {std::string(100'000, 'x'), 431},
  };
  for (const Case& one : cases) {
    const std::string name = one.path.substr(0, 30);
    const TestAnswer answer = request(server.port(), "GET", "/v1/models/" + one.path);
    EXPECT_EQ(answer.status, one.status) << name << ": " << answer.body;
    EXPECT_EQ(answer.fields.count("x-evil"), 0U);
    EXPECT_LT(answer.body.size(), 1000U) << name;
    EXPECT_TRUE(answer.json().is_object()) << name << ": " << answer.body;  // in valid UTF-8, too
    if (one.status == 404) {
      EXPECT_EQ(answer.error("code"), "model_not_found") << name;
    }
    if (one.status != 200) {
      EXPECT_EQ(answer.error("type"), "invalid_request_error") << name;
    }
  }
  for (const char* method : {"POST", "DELETE", "PUT", "TRACE", "CONNECT", "get"}) {
    const TestAnswer answer = request(server.port(), method, "/v1/models/tiny", "{}");
    EXPECT_EQ(answer.status, 405) << method;
    EXPECT_NE(answer.fields.at("allow").find("GET"), std::string::npos) << method;
  }
}

TEST(Endpoints, LoadOfAllSorts) {
  TestServerOptions options;
  options.server.http.body_bytes_max = 1 << 20;
  TestServer server(options);
  for (const Case& one : {Case{"/load", 200}, Case{"/load/", 200}, Case{"/load?x", 200}, Case{"/LOAD", 404},
                          Case{"/load%00", 404}, Case{"/load/x", 404}, Case{"/load;a=1", 404},
                          Case{"/load/../load", 404}, Case{"load", 404}, Case{"/\xff\xfe", 404}}) {
    const TestAnswer answer = request(server.port(), "GET", one.path);
    EXPECT_EQ(answer.status, one.status) << one.path;
    EXPECT_TRUE(answer.json().is_object()) << answer.body;
  }
  EXPECT_EQ(request(server.port(), "GET", "/load", std::string(10'000, 'x')).status, 200) << "a body is not looked at";
  EXPECT_EQ(request(server.port(), "GET", "/load", std::string((1 << 20) + 1, 'x')).status, 413);
  EXPECT_EQ(request(server.port(), "POST", "/load", "{}").status, 405);
}

// It counts those that the server works for: not those that have gone, whenever that was.
TEST(Endpoints, LoadReturnsToNothingWhenClientsVanish) {
  TestServer server;
  server.write_forever("and on ");
  const auto load = [&server] { return int_at(request(server.port(), "GET", "/load").json(), "server_load"); };
  std::vector<std::unique_ptr<TestSocket>> streams;
  for (int i = 0; i < 8; ++i) {
    streams.push_back(std::make_unique<TestSocket>(server.port()));
    streams.back()->send(post_text("/v1/completions", R"({"prompt":"a","max_tokens":3900,"stream":true})"));
    ASSERT_NE(streams.back()->receive_until("data: "), "");
  }
  for (int i = 0; i < 300; ++i) {
    TestSocket socket(server.port());
    if (i % 3 == 0) socket.send("GET /load HTTP/1.1\r\nHo");
    if (i % 3 == 1) socket.send("GET /v1/models/tiny HTTP/1.1\r\nHost: x\r\n\r\n");
    if (i % 2 == 0) socket.reset();
  }
  for (size_t i = 0; i < streams.size(); ++i) {
    if (i % 2 == 0) streams[i]->reset();
    else streams[i]->close();
  }
  EXPECT_TRUE(eventually([&load] { return load() == 0; }));
  EXPECT_TRUE(server.idle_at_baseline());
}

TEST(Endpoints, ManyRequestsInOnePiece) {
  TestServer server;
  TestSocket socket(server.port());
  constexpr int kRequests = 1000;
  std::string all;
  for (int i = 1; i < kRequests; ++i) all += "GET /load HTTP/1.1\r\nHost: x\r\n\r\n";
  all += "GET /load HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  socket.send(all);
  const std::string answers = socket.receive_all();
  int count = 0;
  for (size_t at = answers.find("{\"server_load\":"); at != std::string::npos;
       at = answers.find("{\"server_load\":", at + 1))
    ++count;
  EXPECT_EQ(count, kRequests);
}

}  // namespace
}  // namespace boreas
