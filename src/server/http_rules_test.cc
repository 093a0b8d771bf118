#include "server/http_rules.h"

#include <gtest/gtest.h>

#include <string>

#include "server/json_writer.h"
#include "server/request_ids.h"
#include "server/routes.h"

namespace boreas {
namespace {

// The verdict must not depend on how the bytes are cut: 0 incomplete, else status, or 200 for complete.
int verdict(const std::string& bytes, size_t step) {
  HeaderScan scan(200, 4);
  for (size_t end = std::min(step, bytes.size());; end = std::min(end + step, bytes.size())) {
    if (const auto refusal = scan.look(std::string_view(bytes).substr(0, end))) return refusal->status;
    if (scan.header_bytes() > 0) return 200;
    if (end == bytes.size()) return 0;
  }
}

TEST(HeaderScan, IndependentOfCuts) {
  struct Case {
    std::string bytes;
    int verdict;
  };
  const Case cases[] = {
      {"GET / HTTP/1.1\r\nA: b\r\n\r\nrest", 200},
      {"GET / HTTP/1.1\r\n\r\n", 200},
      {"GET / HTTP/1.1\r\nA: b\r\n", 0},
      {"GET / HTTP/1.1\nA: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nA: b\r\n\tc\r\n\r\n", 400},
      {"\x16\x03", 400},
      {" GET", 400},
      {"G / H\r\nA:\r\nB:\r\nC:\r\nD:\r\n\r\n", 200},
      {"G / H\r\nA:\r\nB:\r\nC:\r\nD:\r\nE:\r\n\r\n", 431},
      {"GET /" + std::string(300, 'x'), 431},
      {"GET / H\r\n" + std::string(300, 'x') + "\r\n\r\n", 431},
  };
  for (const Case& each : cases) {
    for (size_t step = 1; step <= each.bytes.size(); ++step)
      EXPECT_EQ(verdict(each.bytes, step), each.verdict) << each.bytes;
  }
}

TEST(HttpRules, Targets) {
  EXPECT_EQ(target_path("/a/b?c=d#e"), "/a/b");
  EXPECT_EQ(target_path("http://host:1/a?b"), "/a");
  EXPECT_EQ(target_path("HTTPS://host"), "/");
  EXPECT_EQ(target_path("*"), "*");
  EXPECT_EQ(percent_decode("a%2Fb%20").value_or("?"), "a/b ");
  EXPECT_FALSE(percent_decode("a%2").has_value());
  EXPECT_FALSE(percent_decode("a%zz").has_value());
  EXPECT_FALSE(percent_decode("%00").has_value());
}

TEST(HttpRules, HeadLeavesOutForgedFields) {
  const std::string head = response_head(200, {{"A", "b"}, {"X", "y\r\nZ: w"}}, BodyFraming::kLength, 5, true);
  EXPECT_EQ(head, "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n");
}

TEST(HttpRules, Chunks) {
  std::string out;
  append_chunk(out, "data: ", "0123456789", "\n\n");
  EXPECT_EQ(out, "12\r\ndata: 0123456789\n\n\r\n");
}

TEST(JsonWriter, Escapes) {
  std::string out;
  JsonWriter writer(out);
  writer.begin_object()
      .field("a", "\"\\\n\r\t\x01 \xc3\xa9")
      .key("b")
      .begin_array()
      .integer(-5)
      .number(-0.25F)
      .end_array();
  writer.field_null("c").key("d").boolean(true).end_object();
  EXPECT_EQ(out, "{\"a\":\"\\\"\\\\\\n\\r\\t\\u0001 \xc3\xa9\",\"b\":[-5,-0.25],\"c\":null,\"d\":true}");
}

TEST(RequestIds, Shapes) {
  EXPECT_EQ(random_base62(24).size(), 24U);
  EXPECT_NE(random_base62(24), random_base62(24));
  EXPECT_TRUE(is_request_id("a-1"));
  EXPECT_FALSE(is_request_id("a b"));
  EXPECT_FALSE(is_request_id(""));
  EXPECT_FALSE(is_request_id("\xc3\xa9"));
}

TEST(Secrets, Compare) {
  EXPECT_TRUE(equal_secrets("abc", "abc"));
  EXPECT_FALSE(equal_secrets("abc", "abd"));
  EXPECT_FALSE(equal_secrets("abc", "abcd"));
  EXPECT_FALSE(equal_secrets("", "a"));
}

}  // namespace
}  // namespace boreas
