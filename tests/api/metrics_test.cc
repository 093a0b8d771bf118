// GET /metrics: vLLM's names and what they count, compared with what the answers themselves say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "test_client.h"
#include "test_server.h"

namespace boreas {
namespace {

namespace json = boost::json;

// One reading of the page.
class Metrics {
 public:
  explicit Metrics(uint16_t port) : text_(request(port, "GET", "/metrics").body) {}

  // labels: those after model_name and engine, as in the text. NaN if there is no such line.
  double at(const std::string& name, const std::string& labels = {}) const {
    const std::string start = name + "{model_name=\"tiny\",engine=\"0\"" + (labels.empty() ? "" : "," + labels) + "} ";
    std::istringstream lines(text_);
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind(start, 0) == 0) return std::stod(line.substr(start.size()));
    }
    ADD_FAILURE() << "no line " << start;
    return std::nan("");
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

int64_t cached_tokens(const json::value& body) { return int_at(body, "usage.prompt_tokens_details.cached_tokens"); }

json::object prompt_of(int32_t tokens, int32_t first) {
  json::array ids;
  for (int32_t i = 0; i < tokens; ++i) ids.push_back(300 + (first + i) % 100);
  return {{"prompt", ids}, {"max_tokens", 4}, {"ignore_eos", true}};
}

TEST(Metrics, PrefixCacheCountsTokensAsUsageDoes) {
  TestServer server;
  const Metrics before(server.port());
  for (const char* name :
       {"vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_queries_total",
        "vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_hit_rate", "vllm:prompt_tokens_total"})
    EXPECT_EQ(before.at(name), 0) << name;
  int64_t prompt = 0, cached = 0;
  for (const int32_t length : {200, 200, 150, 64, 300, 1}) {
    const json::value body = completion(server.port(), prompt_of(length, 0)).json();
    prompt += int_at(body, "usage.prompt_tokens");
    cached += std::max<int64_t>(0, cached_tokens(body));
  }
  EXPECT_EQ(prompt, 915);
  EXPECT_EQ(cached, 0 + 192 + 128 + 0 + 192 + 0);
  const Metrics after(server.port());
  for (const std::string family : {"vllm:", "vllm:gpu_"}) {
    EXPECT_EQ(after.at(family + "prefix_cache_queries_total"), static_cast<double>(prompt));
    EXPECT_EQ(after.at(family + "prefix_cache_hits_total"), static_cast<double>(cached));
  }
  EXPECT_DOUBLE_EQ(after.at("vllm:gpu_prefix_cache_hit_rate"),
                   static_cast<double>(cached) / static_cast<double>(prompt));
  EXPECT_EQ(after.at("vllm:prompt_tokens_total"), static_cast<double>(prompt));
  EXPECT_EQ(after.at("vllm:prompt_tokens_cached_total"), static_cast<double>(cached));
  EXPECT_EQ(after.at("vllm:generation_tokens_total"), 6 * 4);
  EXPECT_EQ(after.at("vllm:request_success_total", "finished_reason=\"length\""), 6);
  // The cache holds the 4 full pages of the longest prompt; they count as free.
  EXPECT_EQ(after.at("boreas:pages_cached", "pool=\"full\""), 4);
  EXPECT_GT(after.at("boreas:pages_cached", "pool=\"sliding\""), 0);
  EXPECT_EQ(after.at("boreas:pages_free", "pool=\"full\""), 1024);
  EXPECT_EQ(after.at("vllm:kv_cache_usage_perc"), 0);
  EXPECT_EQ(after.at("vllm:num_requests_running"), 0);
  EXPECT_EQ(after.at("vllm:cache_config_info", "block_size=\"64\",num_gpu_blocks=\"1024\""), 1);
}

TEST(Metrics, WithoutPrefixCacheNothingIsQueried) {
  TestServerOptions options;
  options.engine.prefix_cache = false;
  TestServer server(std::move(options));
  for (int32_t i = 0; i < 2; ++i) completion(server.port(), prompt_of(200, 0));
  const Metrics metrics(server.port());
  EXPECT_EQ(metrics.at("vllm:prefix_cache_queries_total"), 0);
  EXPECT_EQ(metrics.at("vllm:prefix_cache_hits_total"), 0);
  EXPECT_EQ(metrics.at("vllm:gpu_prefix_cache_hit_rate"), 0);
}

// Four requests at once, each of which fills half of the pages.
Metrics after_preemptions(int64_t swap_bytes_max) {
  TestServerOptions options;
  options.fake.pages_full = 16;
  options.engine.swap_bytes_max = swap_bytes_max;
  TestServer server(std::move(options));
  server.write_forever("a");
  server.hold();
  std::vector<std::thread> clients;
  for (int32_t i = 0; i < 4; ++i) {
    clients.emplace_back([&server, i] {
      json::object extra = prompt_of(20, 20 * i);
      extra["max_tokens"] = 490;
      EXPECT_EQ(int_at(completion(server.port(), extra).json(), "usage.completion_tokens"), 490);
    });
  }
  EXPECT_TRUE(server.wait_for_requests(4));
  server.release();
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(server.idle_at_baseline());
  return Metrics(server.port());
}

TEST(Metrics, PreemptionsAndSwappedPages) {
  const Metrics swapped = after_preemptions(int64_t{1} << 30);
  EXPECT_GT(swapped.at("vllm:num_preemptions_total"), 0);
  EXPECT_EQ(swapped.at("boreas:preemption_recomputations_total"), 0);
  EXPECT_GT(swapped.at("boreas:swapped_out_pages_total"), 0);
  EXPECT_GT(swapped.at("boreas:swapped_in_pages_total"), 0);
  EXPECT_LE(swapped.at("boreas:swapped_in_pages_total"), swapped.at("boreas:swapped_out_pages_total"));
  EXPECT_EQ(swapped.at("boreas:swap_bytes_used"), 0);
  EXPECT_EQ(swapped.at("boreas:swap_bytes_max"), 1 << 30);

  const Metrics computed = after_preemptions(0);
  EXPECT_GT(computed.at("vllm:num_preemptions_total"), 0);
  EXPECT_EQ(computed.at("boreas:preemption_recomputations_total"), computed.at("vllm:num_preemptions_total"));
  EXPECT_EQ(computed.at("boreas:swapped_out_pages_total"), 0);
  EXPECT_GT(computed.at("boreas:computed_tokens_total"), 4 * (20 + 489));
}

TEST(Metrics, WhatDecodeStepsRead) {
  TestServerOptions options;
  options.fake.step_bytes = 1'000'000;
  options.fake.position_bytes = 10;
  options.fake.row_experts = 6;
  TestServer server(std::move(options));
  completion(server.port(), prompt_of(100, 0));  // four tokens, the first by the prompt's step
  EXPECT_TRUE(server.idle_at_baseline());
  const Metrics metrics(server.port());
  EXPECT_EQ(metrics.at("boreas:decode_read_steps_total"), 3);
  EXPECT_EQ(metrics.at("boreas:decode_read_rows_total"), 3);
  EXPECT_EQ(metrics.at("boreas:decode_read_experts_total"), 18);
  EXPECT_EQ(metrics.at("boreas:decode_read_bytes_total"), 3e6 + 10 * (101 + 102 + 103));
}

// A stop string ends a choice as well as a stop token does; only who leaves has aborted.
TEST(Metrics, AStopStringIsNoAbort) {
  TestServerOptions slow;
  slow.fake.step_ns = 5'000'000;  // 3,000 tokens take 15 s: the stop string comes before the engine is at their end
  TestServer server(slow);
  server.write_forever("and on ");
  for (int i = 0; i < 3; ++i) {
    const json::value body = completion(server.port(), {{"max_tokens", 3000}, {"stop", "on and"}, {"n", 2}}).json();
    EXPECT_EQ(text_at(body, "choices.0.finish_reason"), "stop");
  }
  EXPECT_TRUE(server.idle_at_baseline());
  const Metrics metrics(server.port());
  EXPECT_EQ(metrics.at("vllm:request_success_total", "finished_reason=\"stop\""), 6);
  EXPECT_EQ(metrics.at("vllm:request_success_total", "finished_reason=\"abort\""), 0);
}

TEST(Metrics, AClientThatLeavesIsAnAbort) {
  TestServerOptions slow;
  slow.fake.step_ns = 20'000'000;  // 3,900 tokens take longer than the test waits
  TestServer server(slow);
  server.write_forever("and on ");
  TestSocket socket(server.port());
  socket.send(post_text("/v1/completions", R"({"prompt":"a","max_tokens":3900,"stream":true})"));
  ASSERT_NE(socket.receive_until("data: "), "");
  socket.reset();
  EXPECT_TRUE(eventually(
      [&server] { return Metrics(server.port()).at("vllm:request_success_total", "finished_reason=\"abort\"") == 1; }));
}

TEST(Metrics, LatenciesAndLengthsOfRequests) {
  TestServer server;
  json::object streamed = prompt_of(100, 0);
  streamed["stream"] = true;
  completion(server.port(), streamed);
  json::object twice = prompt_of(30, 0);
  twice["n"] = 2;
  completion(server.port(), twice);
  completion(server.port(), {{"top_p", "much"}});  // refused: no latency
  const Metrics metrics(server.port());
  EXPECT_EQ(metrics.at("vllm:time_to_first_token_seconds_count"), 3);
  EXPECT_EQ(metrics.at("vllm:inter_token_latency_seconds_count"), 3 * (4 - 1));
  EXPECT_EQ(metrics.at("vllm:time_per_output_token_seconds_count"), 3 * (4 - 1));
  EXPECT_EQ(metrics.at("vllm:e2e_request_latency_seconds_count"), 2);
  EXPECT_GE(metrics.at("vllm:e2e_request_latency_seconds_sum"), 0);
  EXPECT_EQ(metrics.at("vllm:request_prompt_tokens_sum"), 130);
  EXPECT_EQ(metrics.at("vllm:request_prompt_tokens_bucket", "le=\"20\""), 0);
  EXPECT_EQ(metrics.at("vllm:request_prompt_tokens_bucket", "le=\"50\""), 1);
  EXPECT_EQ(metrics.at("vllm:request_prompt_tokens_bucket", "le=\"100\""), 2);  // a bound belongs to its bucket
  EXPECT_EQ(metrics.at("vllm:request_prompt_tokens_bucket", "le=\"+Inf\""), 2);
  EXPECT_EQ(metrics.at("vllm:request_generation_tokens_sum"), 12);
}

TEST(Metrics, EveryAnswerIsCountedByStatus) {
  TestServerOptions options;
  options.server.api_keys = {"secret"};
  TestServer server(options);
  const std::vector<std::string> key{"Authorization: Bearer secret", "Content-Type: application/json"};
  for (int i = 0; i < 2; ++i) request(server.port(), "GET", "/health");
  request(server.port(), "GET", "/v1/models");
  request(server.port(), "GET", "/v1/models/other", {}, key);
  request(server.port(), "POST", "/v1/completions", "{}", key);
  request(server.port(), "POST", "/v1/completions", R"({"prompt":"a","stream":true,"max_tokens":1})", key);
  request(server.port(), "BREW", "/coffee", {}, key);
  TestSocket socket(server.port());
  socket.send("garbage in\r\n\r\n");
  socket.receive_all();
  const Metrics metrics(server.port());
  const auto count = [&metrics](const std::string& handler, const std::string& method, int status) {
    return metrics.at("http_requests_total", "handler=\"" + handler + "\",method=\"" + method + "\",status=\"" +
                                                 std::to_string(status) + "\"");
  };
  EXPECT_EQ(count("/health", "GET", 200), 2);
  EXPECT_EQ(count("/v1/models", "GET", 401), 1);
  EXPECT_EQ(count("/v1/models/", "GET", 404), 1);
  EXPECT_EQ(count("/v1/completions", "POST", 400), 1);
  EXPECT_EQ(count("/v1/completions", "POST", 200), 1);
  EXPECT_EQ(count("none", "other", 404), 1);
  EXPECT_EQ(count("none", "other", 400), 1);
}

// What a scraper relies on: one TYPE line a family, counters end in _total, every value is a finite number.
TEST(Metrics, TheTextIsWellFormed) {
  TestServer server;
  completion(server.port(), prompt_of(100, 0));
  std::istringstream lines(Metrics(server.port()).text());
  std::set<std::string> families;
  std::string family, type;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word, name;
    words >> word;
    if (word == "#") {
      words >> word >> name;
      if (word != "TYPE") continue;
      words >> type;
      family = name;
      EXPECT_TRUE(families.insert(family).second) << family << " twice";
      EXPECT_EQ(type == "counter", family.size() > 6 && family.compare(family.size() - 6, 6, "_total") == 0) << family;
      continue;
    }
    const std::string sample = line.substr(0, line.find('{'));
    const std::vector<std::string> names =
        type == "histogram" ? std::vector<std::string>{family + "_bucket", family + "_sum", family + "_count"}
                            : std::vector<std::string>{family};
    EXPECT_NE(std::find(names.begin(), names.end(), sample), names.end()) << line;
    EXPECT_EQ(line.rfind(sample + "{model_name=\"tiny\",engine=\"0\"", 0), 0u) << line;
    EXPECT_TRUE(std::isfinite(std::stod(line.substr(line.rfind(' '))))) << line;
  }
  EXPECT_GT(families.size(), 20u);
}

}  // namespace
}  // namespace boreas
