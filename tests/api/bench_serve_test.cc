// Runs of `boreas bench serve` against a whole server over the fake executor, and against servers that misbehave.
#include "apps/bench_serve.h"

#include <gtest/gtest.h>

#include <atomic>

#include "answering_server.h"
#include "apps/bench_serve_all.h"
#include "apps/bench_serve_load.h"
#include "apps/bench_serve_stats.h"
#include "test_client.h"
#include "test_server.h"

namespace boreas {
namespace {

constexpr int64_t kMs = 1'000'000;

HttpTarget target_at(uint16_t port) { return {"127.0.0.1", std::to_string(port), "/v1", ""}; }

ServeLoadOptions load_for(uint16_t port) {
  ServeLoadOptions options;
  options.target = target_at(port);
  options.model = "tiny";
  options.timeout_ms = kPatienceMs;
  return options;
}

// Like so many prompts of a few words, each with an answer of that many tokens.
std::vector<Conversation> short_prompts(int32_t requests, int32_t answer_tokens) {
  WorkloadOptions options;
  options.requests = requests;
  options.prompt_tokens = 40;
  options.output_tokens = answer_tokens;
  return make_conversations(*find_workload("competition-maths"), options);
}

const std::string kHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
const std::string kWord = R"(data: {"choices": [{"delta": {"content": "word "}, "finish_reason": null}]})"
                          "\n\n";
const std::string kStop = R"(data: {"choices": [{"delta": {}, "finish_reason": "stop"}]})"
                          "\n\n";
const std::string kDone = "data: [DONE]\n\n";

std::string refusal(const std::string& fields) {
  return "HTTP/1.1 429 Too Many Requests\r\n" + fields + "Content-Length: 2\r\nConnection: close\r\n\r\n{}";
}

TEST(ServeBench, PromptsHaveTheirLengthInTheServersTokens) {
  TestServer server;
  server.write_forever("and on ");
  for (const char* name : {"coding-contest", "graduate-questions", "agent"}) {
    const Workload& workload = *find_workload(name);
    const Result<TextScale> scale = measure_scale(target_at(server.port()), "tiny", workload, kPatienceMs);
    ASSERT_TRUE(scale.ok()) << scale.error().message;
    WorkloadOptions prompts;
    prompts.requests = 8;
    prompts.prompt_tokens = 1500;
    prompts.output_tokens = 2;
    prompts.scale = *scale;
    std::vector<Conversation> conversations = make_conversations(workload, prompts);
    for (Conversation& conversation : conversations) conversation.turns.resize(1);
    const ServeSummary summary = summarize(run_load(conversations, load_for(server.port())));
    ASSERT_EQ(summary.completed, static_cast<int64_t>(conversations.size())) << name;
    const double mean = static_cast<double>(summary.prompt_tokens) / static_cast<double>(summary.completed);
    EXPECT_NEAR(mean, 1500, 150) << name;
  }
}

TEST(ServeBench, ClosedAndOpenLoopsCountEveryRequestAndToken) {
  TestServerOptions slow;
  slow.fake.step_ns = 2 * kMs;
  TestServer server(slow);
  server.write_forever("and on it goes ");
  for (const double rate : {0.0, 500.0}) {
    ServeLoadOptions options = load_for(server.port());
    options.clients = 4;
    options.rate = rate;
    options.ignore_eos = true;
    const LoadResult result = run_load(short_prompts(24, 10), options);
    const ServeSummary summary = summarize(result);
    EXPECT_EQ(summary.requests, 24);
    EXPECT_EQ(summary.completed, 24);
    EXPECT_EQ(summary.output_tokens, 240);
    EXPECT_TRUE(summary.has_usage);
    EXPECT_GT(summary.prompt_tokens, 24 * 10);
    for (const ChatRecord& record : result.records) {
      int64_t arrived = 0;
      for (const Arrival& arrival : record.arrivals) arrived += arrival.tokens;
      EXPECT_EQ(arrived, 10);
      EXPECT_EQ(record.finish_reason, "length");
      EXPECT_GE(record.end_ns - record.sent_ns, 10 * slow.fake.step_ns);  // a step a token, by construction
      EXPECT_GE(record.arrivals.front().at_ns - record.sent_ns, slow.fake.step_ns);
    }
    if (rate == 0) {
      EXPECT_LE(summary.under_way, 4.0);
    }
    EXPECT_TRUE(server.idle_at_baseline());
  }
}

TEST(ServeBench, AnAgentsTurnsAreAnswered) {
  TestServer server;
  server.write("thinking<|END_THINKING|><|START_TEXT|>done<|END_TEXT|>");
  WorkloadOptions prompts;
  prompts.requests = 7;
  prompts.prompt_tokens = 200;
  prompts.scale.tokens_per_word = 40;  // few words
  const ServeSummary summary =
      summarize(run_load(make_conversations(*find_workload("agent"), prompts), load_for(server.port())));
  EXPECT_EQ(summary.completed, 7);
  EXPECT_GT(summary.cached_tokens, 0);
}

TEST(ServeBench, A429IsWaitedOutByAClosedLoopAlone) {
  const auto answer = [](int request) {
    return request % 3 != 2 ? refusal("Retry-After: 0\r\n") : kHead + kWord + kWord + kStop + kDone;
  };
  AnsweringServer server(answer);
  ServeLoadOptions options = load_for(server.port());
  const ServeSummary closed = summarize(run_load(short_prompts(4, 2), options));
  EXPECT_EQ(closed.completed, 4);
  EXPECT_EQ(closed.waits_429, 8);
  EXPECT_TRUE(closed.errors.empty());
  EXPECT_FALSE(closed.has_usage);
  EXPECT_EQ(closed.output_tokens, 8);
  EXPECT_EQ(server.requests(), 12);
  options.rate = 1000;
  const ServeSummary open = summarize(run_load(short_prompts(6, 2), options));
  EXPECT_EQ(open.completed, 2);
  EXPECT_EQ(open.errors.at("http_429"), 4);
  EXPECT_EQ(open.waits_429, 0);
}

TEST(ServeBench, AWaitBeyondTheTimeoutIsAnError) {
  AnsweringServer server([](int) { return refusal("Retry-After: 3600\r\n"); });
  const ServeSummary summary = summarize(run_load(short_prompts(2, 2), load_for(server.port())));
  EXPECT_EQ(summary.completed, 0);
  EXPECT_EQ(summary.errors.at("http_429"), 2);
}

TEST(ServeBench, BrokenAnswersAreErrorsOfTheirKindAndTheRunGoesOn) {
  const std::string length = "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n";
  const std::string answers[] = {kHead + kWord + kStop + kDone,
                                 length + kWord,
                                 kHead + kWord,
                                 kHead + "data: {oops\n\n",
                                 "garbage\r\n\r\n",
                                 "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
                                 kHead + kWord + "data: {\"error\": {\"message\": \"m\"}}\n\n",
                                 kHead + kWord + kDone};
  AnsweringServer server([&](int request) { return answers[static_cast<size_t>(request) % std::size(answers)]; });
  const ServeSummary summary = summarize(run_load(short_prompts(8, 2), load_for(server.port())));
  EXPECT_EQ(summary.requests, 8);
  EXPECT_EQ(summary.completed, 2);
  for (const char* kind : {"closed", "incomplete", "malformed", "http", "http_500", "server_error"})
    EXPECT_EQ(summary.errors.count(kind), 1u) << kind;
}

TEST(ServeBench, SilenceIsATimeout) {
  AnsweringServer server([](int) { return kHead + kWord; }, true);
  ServeLoadOptions options = load_for(server.port());
  options.timeout_ms = 200;
  const ServeSummary summary = summarize(run_load(short_prompts(2, 2), options));
  EXPECT_EQ(summary.errors.at("timeout"), 2);
}

TEST(ServeBench, AServerThatIsGoneEndsTheRun) {
  uint16_t port = 0;
  {
    port = AnsweringServer([](int) { return std::string(); }).port();
  }
  const LoadResult result = run_load(short_prompts(50, 2), load_for(port));
  EXPECT_TRUE(result.lost_server);
  const ServeSummary summary = summarize(result);
  EXPECT_LT(summary.requests, 50);
  EXPECT_EQ(summary.errors.at("unreachable"), summary.requests);
  const Result<TextScale> scale = measure_scale(target_at(port), "m", workloads().front(), 1000);
  EXPECT_FALSE(scale.ok());
}

TEST(ServeBench, AnInterruptedRunKeepsWhatItHas) {
  std::atomic<bool> stop = false;
  AnsweringServer server([&](int request) {
    if (request == 2) stop = true;
    return request < 2 ? kHead + kWord + kStop + kDone : refusal("Retry-After: 30\r\n");
  });
  ServeLoadOptions options = load_for(server.port());
  options.stop = &stop;
  const LoadResult result = run_load(short_prompts(50, 2), options);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(summarize(result).completed, 2);
}

// Whoever has begun by then is answered to the end; nothing is cut off.
TEST(ServeBench, AfterItsSecondsNoRequestBegins) {
  TestServerOptions slow;
  slow.fake.step_ns = kMs;
  TestServer server(slow);
  server.write_forever("and on it goes ");
  ServeLoadOptions options = load_for(server.port());
  options.clients = 3;
  options.ignore_eos = true;
  options.seconds_max = 0.3;
  std::atomic<int> looks = 0;
  options.on_progress = [&looks] { ++looks; };
  const auto conversation = std::make_shared<const Conversation>(short_prompts(1, 20).front());
  std::atomic<int> made = 0;
  const auto endless = [&] {
    ++made;
    return conversation;
  };
  const LoadResult closed = run_load(endless, options);
  const ServeSummary summary = summarize(closed);
  EXPECT_FALSE(closed.interrupted);
  EXPECT_GE(summary.completed, 3);
  EXPECT_EQ(summary.completed, made);
  EXPECT_EQ(summary.requests, made);
  EXPECT_EQ(summary.output_tokens, 20 * summary.completed);
  EXPECT_GT(looks, 0);
  EXPECT_TRUE(server.idle_at_baseline());
  options.rate = 20;
  EXPECT_LT(summarize(run_load(short_prompts(2000, 2), options)).requests, 2000) << "100 s of arrivals";
}

TEST(ServeBench, AnInterruptEndsAStreamThatHangs) {
  std::atomic<bool> stop = false;
  AnsweringServer hanging(
      [&](int) {
        stop = true;
        return kHead + kWord;
      },
      true);
  ServeLoadOptions options = load_for(hanging.port());
  options.stop = &stop;
  const LoadResult result = run_load(short_prompts(5, 2), options);
  EXPECT_TRUE(result.interrupted);
  EXPECT_LE(result.records.size(), 1u);
}

TEST(BenchServeAll, LooksAtStreamsInAWindow) {
  ChatRecord one, two;
  for (int i = 0; i <= 10; ++i) one.arrivals.push_back({i * 10 * kMs, 1});
  for (int i = 0; i <= 5; ++i) two.arrivals.push_back({i * 20 * kMs, 2});
  const StreamWindow window = look_at_streams({one, two}, 20 * kMs, 60 * kMs);
  EXPECT_DOUBLE_EQ(window.tok_s, (4 + 2 * 2) / 0.040);
  EXPECT_EQ(window.gap_ms.count, 6);
  EXPECT_DOUBLE_EQ(window.gap_ms.max, 20);
  EXPECT_DOUBLE_EQ(window.gap_ms.p50, 10);
  EXPECT_EQ(p99_of(window), 20);
  EXPECT_EQ(look_at_streams({one}, 60 * kMs, 60 * kMs).tok_s, 0);
  EXPECT_FALSE(p99_of(look_at_streams({one, two}, 200 * kMs, 300 * kMs))) << "no text, no figure";
  ChatRecord stalled;
  stalled.arrivals = {{10 * kMs, 1}, {100 * kMs, 1}};
  const StreamWindow stall = look_at_streams({stalled}, 20 * kMs, 60 * kMs);
  EXPECT_EQ(stall.tok_s, 0);
  EXPECT_DOUBLE_EQ(stall.gap_ms.max, 90) << "also if it lasts beyond the window";
}

// A list that a single thread works off in seconds.
ServeAllOptions small_list() {
  ServeAllOptions options;
  options.choice.device = options.decode.device = "cpu";
  options.choice.threads = options.decode.threads = 1;
  options.output_tokens = 600;
  options.long_prompt = 1000;
  options.read_bytes = 1 << 24;
  options.load.timeout_ms = kPatienceMs;
  return options;
}

// Greedy made-up weights repeat a token, here one without text: the streams are there, their text is not.
TEST(BenchServeAll, WhatNothingWasMeasuredForIsNoFigure) {
  ServeAllOptions options = small_list();
  options.parts = {ServePart::kLongPrompt};
  options.source.model_shape = options.decode.model_shape = "tiny";
  options.load.temperature = 0;
  ::testing::internal::CaptureStdout();
  const Status status = run_serve_all(options);
  const std::string out = ::testing::internal::GetCapturedStdout();
  ASSERT_FALSE(status.ok()) << out;
  EXPECT_NE(status.error().message.find("between arrivals of four streams, p99, ms: n/a"), std::string::npos)
      << status.error().message;
  EXPECT_NE(out.find("n/a  below 100"), std::string::npos) << out;
  EXPECT_NE(out.find("p99, ms\":null"), std::string::npos) << out;
}

ServeAllOptions tiny_list() {
  ServeAllOptions options = small_list();
  options.source.model = options.decode.model = std::string(BOREAS_SOURCE_DIR) + "/models/tiny";
  options.prompts = {200};
  options.context = 200;
  options.load.temperature = 1;
  return options;
}

// What run_serve_all said and printed, the line read.
struct Listed {
  Status status;
  std::string out;
  boost::json::object line;
};
Listed list_of(ServeAllOptions options) {
  ::testing::internal::CaptureStdout();
  Status status = run_serve_all(options);
  Listed listed{std::move(status), ::testing::internal::GetCapturedStdout(), {}};
  const size_t begin = listed.out.rfind("\n{");
  if (begin != std::string::npos) listed.line = boost::json::parse(listed.out.substr(begin + 1)).as_object();
  return listed;
}

// Answers of one token are over before eight streams are under way.
TEST(BenchServeAll, APartThatFailsTakesNoOtherWithIt) {
  ServeAllOptions options = tiny_list();
  options.parts = {ServePart::kFirstTokens, ServePart::kDecode, ServePart::kLongPrompt};
  options.output_tokens = 1;
  const Listed listed = list_of(options);
  ASSERT_FALSE(listed.status.ok()) << listed.out;
  for (const char* problem : {"decode over HTTP, batch 1: ", "decode over HTTP, batch 8: "})
    EXPECT_NE(listed.status.error().message.find(problem), std::string::npos) << listed.status.error().message;
  for (const char* figure : {"prompt of 200, first token, ms", "beside a prompt of "})
    EXPECT_NE(listed.out.find(std::string("\"") + figure), std::string::npos) << listed.out;
  EXPECT_GE(listed.line.at("problems").as_array().size(), 2U) << listed.out;
}

TEST(BenchServeAll, AnInterruptedListIsPrintedAndNotKept) {
  const std::atomic<bool> stop = true;
  ServeAllOptions options = tiny_list();
  options.load.stop = &stop;
  const Listed listed = list_of(options);
  ASSERT_FALSE(listed.status.ok()) << listed.out;
  EXPECT_NE(listed.status.error().message.find("mixed load: the run was interrupted before its end"), std::string::npos)
      << listed.status.error().message;
  EXPECT_EQ(listed.line.at("problems").as_array().size(), 1U + 2 + 1 + 1) << listed.out;
  EXPECT_EQ(listed.line.at("seed"), 1);
}

// The whole list on the smallest checkpoint: every figure is measured, and nothing is lost on the way.
TEST(BenchServeAll, EveryFigureOfASmallServer) {
  ServeAllOptions options = tiny_list();
  options.total_tokens = 600;
  options.mixed_prompt = 60;
  options.mixed_answer_max = 40;
  const auto [status, out, line] = list_of(options);
  ASSERT_TRUE(status.ok()) << status.error().message << "\n" << out;
  const auto figure = [&line = line](const char* name) { return line.at(name).to_number<double>(); };
  for (const char* name :
       {"prompt of 200, first token, ms", "prompt of 200, tok/s", "decode over HTTP, batch 1, tok/s",
        "decode over HTTP, batch 8, tok/s", "decode over HTTP, batch 1, % of the time inside its own steps",
        "decode over HTTP, batch 8, % of the time inside its own steps", "mixed load, rows of a decode step",
        "mixed load, tok/s", "mixed load without its prefill, % of the time inside its own steps", "limit_gb_s"})
    EXPECT_GT(figure(name), 0) << name;
  for (const std::string part :
       {"decode over HTTP, batch 1", "decode over HTTP, batch 8", "mixed load without its prefill"})
    for (const char* what :
         {", distinct experts a step", ", read, GB a step", ", read, GB/s", ", read, % of the bandwidth limit",
          ", read, % of decode in process of different rows", ", % of decode in process at equal work"})
      EXPECT_GT(figure((part + what).c_str()), 0) << part << what;
  // One row, which has one way to go; eight rows that go 8, 4, 2 and 1 ways; what mixed load had on average.
  const boost::json::array& points = line.at("in_process").as_array();
  ASSERT_GE(points.size(), 1U + 4 + 1);
  const auto of = [&points](size_t i, const char* name) { return points[i].at(name).to_number<double>(); };
  EXPECT_EQ(of(0, "rows"), 1);
  EXPECT_DOUBLE_EQ(of(0, "distinct_experts"), figure("decode over HTTP, batch 1, distinct experts a step"));
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(of(i, "ways"), 16 >> i);
  EXPECT_GT(of(1, "distinct_experts"), of(4, "distinct_experts"));
  EXPECT_GT(of(1, "bytes_per_step"), of(4, "bytes_per_step"));
  EXPECT_EQ(of(4, "distinct_experts"), of(0, "distinct_experts")) << "rows of one kind hit what one row hits";
  EXPECT_GE(figure("mixed load of 8 clients, tokens"), 500);
  EXPECT_EQ(line.at("temperature").to_number<double>(), 1);
  EXPECT_FALSE(line.contains("problems"));
  EXPECT_EQ(figure("mixed load, requests that failed"), 0);
  EXPECT_EQ(figure("mixed load, pages that did not come back"), 0);
}

}  // namespace
}  // namespace boreas
