// The parts of `boreas bench serve` that need no server: streams with known times, figures, prompts.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "apps/bench_serve_load.h"
#include "apps/bench_serve_mixed.h"
#include "apps/bench_serve_stats.h"
#include "apps/bench_serve_stream.h"
#include "apps/bench_serve_workload.h"
#include "apps/bench_support.h"
#include "apps/build_commit.h"
#include "base/prng.h"
#include "test_client.h"

namespace boreas {
namespace {

namespace json = boost::json;

constexpr int64_t kMs = 1'000'000;

const std::string kWord = R"(data: {"choices": [{"delta": {"content": "word "}, "finish_reason": null}]})"
                          "\n\n";
const std::string kStop = R"(data: {"choices": [{"delta": {}, "finish_reason": "stop"}]})"
                          "\n\n";
const std::string kDone = "data: [DONE]\n\n";

std::string chunk(const std::string& delta, int64_t completion_tokens = -1) {
  std::string text = R"({"choices": [{"delta": )" + delta + R"(, "finish_reason": null}])";
  if (completion_tokens >= 0)
    text += R"(, "usage": {"prompt_tokens": 9, "completion_tokens": )" + std::to_string(completion_tokens) + "}";
  return "data: " + text + "}\n\n";
}

TEST(ServeBenchStream, EventsAreTheSameForEverySplit) {
  const std::string text =
      ": ping\r\n\r\ndata: one\n\nevent: x\nid: 1\ndata:two\ndata: lines\r\n\r\ndata\n\n\n\ndata: end\n\n";
  const std::vector<std::string> wanted = {"one", "two\nlines", "", "end"};
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); second += 5) {
      SseReader reader;
      std::vector<std::string> events;
      const auto keep = [&](std::string_view data) {
        events.emplace_back(data);
        return true;
      };
      const std::string_view all = text;
      EXPECT_TRUE(reader.feed(all.substr(0, first), keep));
      EXPECT_TRUE(reader.feed(all.substr(first, second - first), keep));
      EXPECT_TRUE(reader.feed(all.substr(second), keep));
      ASSERT_EQ(events, wanted) << first << " " << second;
    }
  }
}

TEST(ServeBenchStream, WhatIsNoEventOrTooLongIsRefused) {
  const auto any = [](std::string_view) { return true; };
  EXPECT_FALSE(SseReader().feed("{\"choices\": []}\n", any));
  SseReader endless;
  const std::string piece(1 << 20, 'x');
  bool good = endless.feed("data: ", any);
  for (int i = 0; i < 8 && good; ++i) good = endless.feed(piece, any);
  EXPECT_FALSE(good);
}

TEST(ServeBenchStream, TokensAreCountedByTheUsageOfChunks) {
  ChatRecord record;
  ChatStream stream(record);
  EXPECT_TRUE(stream.feed(chunk(R"({"role": "assistant", "content": ""})", 0), 10 * kMs));
  EXPECT_TRUE(stream.feed(chunk(R"({"reasoning": "a", "reasoning_content": "a"})", 2), 20 * kMs));
  EXPECT_TRUE(stream.feed(chunk(R"({"content": "b"})", 3) + chunk(R"({"content": "c"})", 7), 26 * kMs));
  EXPECT_TRUE(stream.feed(chunk("{}", 8), 28 * kMs));
  EXPECT_TRUE(stream.feed(kStop + kDone, 30 * kMs));
  stream.finish();
  EXPECT_EQ(record.error, "");
  EXPECT_EQ(record.output_tokens, 8);
  ASSERT_EQ(record.arrivals.size(), 3u);
  EXPECT_EQ(record.arrivals[0].tokens, 2);
  EXPECT_EQ(record.arrivals[0].at_ns, 20 * kMs);
  EXPECT_EQ(record.arrivals[1].tokens, 5);
  EXPECT_EQ(record.arrivals[2].tokens, 1);
}

TEST(ServeBenchStream, WithoutItAChunkIsATokenAndTheLastUsageCounts) {
  ChatRecord record;
  ChatStream stream(record);
  for (int i = 1; i <= 3; ++i) EXPECT_TRUE(stream.feed(kWord, i * kMs));
  EXPECT_TRUE(stream.feed(chunk(R"({"tool_calls": [{"index": 0}]})"), 4 * kMs));
  EXPECT_TRUE(stream.feed(kStop, 5 * kMs));
  EXPECT_TRUE(
      stream.feed("data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 9, \"completion_tokens\": 6, "
                  "\"prompt_tokens_details\": {\"cached_tokens\": 4}}}\n\n" +
                      kDone,
                  6 * kMs));
  stream.finish();
  EXPECT_EQ(record.error, "");
  EXPECT_EQ(record.arrivals.size(), 4u);
  EXPECT_EQ(record.output_tokens, 6);
  EXPECT_EQ(record.prompt_tokens, 9);
  EXPECT_EQ(record.cached_tokens, 4);
  EXPECT_EQ(record.finish_reason, "stop");
  EXPECT_EQ(record.end_ns, 6 * kMs);
}

TEST(ServeBenchStream, BadStreamsAreErrorsOfTheirKind) {
  const std::pair<std::string, std::string> cases[] = {
      {kWord + "data: {\"choices\n\n", "malformed"},
      {kWord + "data: [1]\n\n", "malformed"},
      {"<html>\n", "malformed"},
      {kWord + "data: {\"error\": {\"message\": \"out of pages\"}}\n\n", "server_error"},
      {kWord, "incomplete"},
      {"", "incomplete"},
      {kWord + kStop, ""},
      {kWord + kDone, ""},
      {R"(data: {"choices": [5], "usage": [], "error": null})"
       "\n\n" +
           kDone,
       ""},
      {R"(data: {"choices": [{"delta": 5, "finish_reason": 5}], "usage": {"completion_tokens": -3}})"
       "\n\n" +
           kDone,
       ""},
  };
  for (const auto& [text, kind] : cases) {
    ChatRecord record;
    ChatStream stream(record);
    if (!text.empty()) {
      EXPECT_EQ(stream.feed(text, kMs), kind.empty() || kind == "incomplete") << text;
    }
    stream.finish();
    EXPECT_EQ(record.error, kind) << text;
    EXPECT_GE(record.output_tokens, 0);
  }
}

TEST(ServeBenchStats, PercentilesAreThoseOfTheSortedValues) {
  EXPECT_EQ(percentiles_of({}).count, 0);
  std::vector<Sample> hundred;
  for (int i = 100; i >= 1; --i) hundred.push_back({static_cast<double>(i)});
  const Percentiles even = percentiles_of(hundred);
  EXPECT_EQ(even.p50, 50);
  EXPECT_EQ(even.p90, 90);
  EXPECT_EQ(even.p99, 99);
  EXPECT_EQ(even.max, 100);
  EXPECT_DOUBLE_EQ(even.mean, 50.5);
  for (uint64_t seed = 0; seed < 200; ++seed) {  // samples with counts are as many samples
    Prng prng(seed);
    std::vector<Sample> samples;
    std::vector<double> all;
    for (int64_t i = prng.between(1, 40); i > 0; --i) {
      const Sample sample{static_cast<double>(prng.below(50)), prng.between(1, 9)};
      samples.push_back(sample);
      all.insert(all.end(), static_cast<size_t>(sample.times), sample.value);
    }
    std::sort(all.begin(), all.end());
    const Percentiles found = percentiles_of(samples);
    const auto ranked = [&](size_t percent) { return all[(all.size() * percent + 99) / 100 - 1]; };
    ASSERT_EQ(found.count, static_cast<int64_t>(all.size()));
    ASSERT_EQ(found.p50, ranked(50)) << "seed " << seed;
    ASSERT_EQ(found.p90, ranked(90)) << "seed " << seed;
    ASSERT_EQ(found.p99, ranked(99)) << "seed " << seed;
    ASSERT_EQ(found.max, all.back()) << "seed " << seed;
  }
}

TEST(ServeBenchStats, SummariesCountWhatWasRecorded) {
  LoadResult result;
  result.seconds = 0.5;
  for (int i = 0; i < 2; ++i) {
    ChatRecord record;
    record.sent_ns = 100 * kMs;
    record.end_ns = 200 * kMs;
    record.arrivals = {{(110 + i) * kMs, 1}, {(120 + i) * kMs, 1}, {(150 + i) * kMs, 3}};
    record.prompt_tokens = 7;
    record.output_tokens = 5;
    record.has_usage = true;
    record.waits_429 = i;
    result.records.push_back(record);
  }
  ChatRecord failed = result.records.front();
  failed.error = "closed";
  failed.has_usage = false;
  result.records.push_back(failed);
  const ServeSummary summary = summarize(result);
  EXPECT_EQ(summary.requests, 3);
  EXPECT_EQ(summary.completed, 2);
  EXPECT_EQ(summary.errors.at("closed"), 1);
  EXPECT_EQ(summary.waits_429, 1);
  EXPECT_EQ(summary.output_tokens, 10);
  EXPECT_TRUE(summary.has_usage);
  EXPECT_DOUBLE_EQ(summary.tok_s, 20);
  EXPECT_DOUBLE_EQ(summary.requests_s, 4);
  EXPECT_DOUBLE_EQ(summary.under_way, 0.6);
  EXPECT_DOUBLE_EQ(summary.ttft_ms.p50, 10);
  EXPECT_DOUBLE_EQ(summary.ttft_ms.max, 11);
  EXPECT_EQ(summary.itl_ms.count, 8);
  EXPECT_DOUBLE_EQ(summary.itl_ms.p50, 10);
  EXPECT_DOUBLE_EQ(summary.itl_ms.mean, 10);
  EXPECT_DOUBLE_EQ(summary.gap_ms.max, 30);
  EXPECT_DOUBLE_EQ(summary.e2e_ms.p50, 100);
  json::object line;
  add_summary(summary, line);
  EXPECT_EQ(line["errors"], 1);
  EXPECT_EQ(line["itl_ms"].at("p99"), 10.0);
}

TEST(ServeBenchWorkload, TheSameSeedMakesTheSamePromptsOfTheirLengths) {
  for (const Workload& workload : workloads()) {
    WorkloadOptions options;
    options.requests = 30;
    options.answer_tokens_max = 500;
    options.scale = {2, 12};
    const std::vector<Conversation> first = make_conversations(workload, options);
    const std::vector<Conversation> second = make_conversations(workload, options);
    options.seed = 2;
    const std::vector<Conversation> other = make_conversations(workload, options);
    size_t turns = 0;
    ASSERT_EQ(first.size(), second.size()) << workload.name;
    for (size_t i = 0; i < first.size(); ++i) {
      const Conversation& one = first[i];
      EXPECT_EQ(json::serialize(one.messages), json::serialize(second[i].messages)) << workload.name;
      turns += one.turns.size();
      EXPECT_EQ(one.turns.back().messages, one.messages.size());
      for (const Turn& turn : one.turns) {
        EXPECT_GE(turn.answer_tokens, std::min(workload.answer.min, 500));
        EXPECT_LE(turn.answer_tokens, 500);
      }
      Conversation opening = one;
      opening.messages.resize(one.turns.front().messages);
      EXPECT_GE(words_of(opening) * 2 + 12, workload.prompt.min - 2) << workload.name;
      EXPECT_LE(words_of(opening) * 2 + 12, workload.prompt.max + 100) << workload.name;
    }
    EXPECT_EQ(turns, 30u) << workload.name;
    EXPECT_NE(json::serialize(first[0].messages), json::serialize(other[0].messages)) << workload.name;
  }
  EXPECT_EQ(find_workload("unheard-of"), nullptr);
}

TEST(ServeBenchWorkload, TurnsOfAnAgentGrowByACallAndItsResult) {
  WorkloadOptions options;
  options.requests = 40;
  size_t longest = 0;
  for (const Conversation& conversation : make_conversations(*find_workload("agent"), options)) {
    EXPECT_EQ(conversation.tools.size(), 3u);
    longest = std::max(longest, conversation.turns.size());
    for (size_t turn = 1; turn < conversation.turns.size(); ++turn) {
      EXPECT_EQ(conversation.turns[turn].messages, conversation.turns[turn - 1].messages + 2);
      const json::value& call = conversation.messages[conversation.turns[turn - 1].messages];
      const json::value& result = conversation.messages[conversation.turns[turn].messages - 1];
      EXPECT_EQ(text_at(call, "tool_calls.0.id"), text_at(result, "tool_call_id"));
      EXPECT_TRUE(json::parse(text_at(call, "tool_calls.0.function.arguments")).is_object());
      EXPECT_FALSE(text_at(result, "content").empty());
    }
  }
  EXPECT_GE(longest, 6u);
}

TEST(ServeBenchLoad, EveryPromptHasASeedOfItsOwn) {
  WorkloadOptions wanted;
  wanted.requests = 50;
  ServeLoadOptions options;
  const auto seeds_with = [&](uint64_t seed) {
    options.seed = seed;
    std::set<int64_t> seeds;
    for (const Conversation& conversation : make_conversations(*find_workload("graduate-questions"), wanted))
      seeds.insert(json::parse(request_body(conversation, 0, options)).at("seed").as_int64());
    return seeds;
  };
  const std::set<int64_t> first = seeds_with(1);
  EXPECT_EQ(first.size(), 50U);
  EXPECT_GE(*first.begin(), 0);
  EXPECT_EQ(first, seeds_with(1)) << "the same in every run";
  EXPECT_NE(first, seeds_with(2));
}

// Not one of the folder that it happens to run in.
TEST(BenchLine, SaysWhichCommitTheBinaryIsMadeOf) {
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path("/");
  const json::object line = result_line("b", "a", "d");
  std::filesystem::current_path(here);
  EXPECT_EQ(line.at("commit").as_string(), build_commit());
  EXPECT_EQ(line.at("portable").as_bool(), build_is_portable());
  const std::string commit = build_commit();
  const bool known = commit.size() >= 12 && commit.find_first_not_of("0123456789abcdef") >= 12 &&
                     (commit.size() == 12 || commit.substr(12) == "-dirty");
  EXPECT_TRUE(known || commit == "unknown") << commit;
  EXPECT_EQ(line.at("time").as_string().size(), 20U);
}

MixedLoadResult good_mixed_load() {
  MixedLoadResult result;
  result.summary.requests = result.summary.completed = 10;
  result.tokens = 1000;
  return result;
}

TEST(MixedLoad, WhatAGoodRunHasNotIsAProblem) {
  EXPECT_TRUE(problems_of(good_mixed_load()).empty());
  const std::pair<const char*, std::function<void(MixedLoadResult&)>> bad[] = {
      {"1 of 10 requests failed; the first: timeout: late",
       [](MixedLoadResult& result) {
         --result.summary.completed;
         result.first_error = "timeout: late";
       }},
      {"the first: closed", [](MixedLoadResult& result) { result.first_error = "closed: in the warm-up"; }},
      {"no request was answered", [](MixedLoadResult& result) { result.tokens = 0; }},
      {"stopped after a fault", [](MixedLoadResult& result) { result.healthy = false; }},
      {"that no client waits for", [](MixedLoadResult& result) { result.idle = false; }},
      {"2 KV pages did not come back", [](MixedLoadResult& result) { result.pages_lost = 2; }},
      {"it left 50 MB in memory", [](MixedLoadResult& result) { result.resident_added = 50'000'000; }},
  };
  for (const auto& [what, spoil] : bad) {
    MixedLoadResult result = good_mixed_load();
    spoil(result);
    const std::vector<std::string> problems = problems_of(result);
    ASSERT_EQ(problems.size(), 1U) << what;
    EXPECT_NE(problems.front().find(what), std::string::npos) << problems.front();
  }
}

}  // namespace
}  // namespace boreas
