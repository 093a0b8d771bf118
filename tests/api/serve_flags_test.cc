// The command line of `boreas serve`: what its flags set, and what it refuses.
#include "apps/serve_flags.h"

#include <gtest/gtest.h>

#include <optional>

#include "apps/memory_report.h"
#include "apps/model_loading.h"
#include "model/model.h"

namespace boreas {
namespace {

// Nothing if the command line is refused.
std::optional<ServeFlags> parsed(const std::string& line) {
  ServeFlags flags;
  if (!parse_line([&](Command command) { declare_serve_flags(command, flags); }, "model " + line)) return {};
  if (!complete_serve_flags(flags).ok()) return {};
  return flags;
}

TEST(ServeFlags, SwapSpaceIsInGib) {
  EXPECT_EQ(parsed("")->engine.swap_bytes_max, int64_t{4} << 30);
  EXPECT_EQ(parsed("--swap-space 2")->engine.swap_bytes_max, int64_t{2} << 30);
  EXPECT_EQ(parsed("--swap-space=0.5")->engine.swap_bytes_max, int64_t{1} << 29);
  EXPECT_EQ(parsed("--swap-space 0")->engine.swap_bytes_max, 0);
  EXPECT_EQ(parsed("--swap-space 65536")->engine.swap_bytes_max, int64_t{1} << 46);
  for (const char* refused : {"-1", "65537", "nan", "inf", "4GiB", "much", "''"})
    EXPECT_FALSE(parsed(std::string("--swap-space ") + refused)) << refused;
}

TEST(ServeFlags, StepLatency) {
  EXPECT_EQ(parsed("")->engine.step_latency_ms, 70);
  EXPECT_EQ(parsed("--step-latency-ms 25")->engine.step_latency_ms, 25);
  EXPECT_EQ(parsed("--step-latency-ms 0")->engine.step_latency_ms, 0);
  for (const char* refused : {"-1", "60001", "1.5", "fast", "''"})
    EXPECT_FALSE(parsed(std::string("--step-latency-ms ") + refused)) << refused;
}

TEST(ServeFlags, DecodePercent) {
  EXPECT_EQ(parsed("")->engine.decode_percent, 55);
  EXPECT_EQ(parsed("--decode-percent 0")->engine.decode_percent, 0);
  for (const char* refused : {"-1", "100", "half", "''"})
    EXPECT_FALSE(parsed(std::string("--decode-percent ") + refused)) << refused;
}

TEST(ServeFlags, StepsOfFewTokensAreRefused) {
  EXPECT_EQ(parsed("")->engine.step_tokens_max, 0) << "the executor's";
  EXPECT_EQ(parsed("--max-num-batched-tokens 3")->engine.step_tokens_max, kStepTokensMin);
  for (const char* refused : {"2", "1", "0", "-1", "1048577"})
    EXPECT_FALSE(parsed(std::string("--max-num-batched-tokens ") + refused)) << refused;
}

TEST(ServeFlags, AContextThatWasAskedForIsNotShortened) {
  const ModelConfig tiny = model_shape("tiny").value();
  const std::shared_ptr<const Model> model = make_dummy_model(tiny, {}, dummy_values_for("cpu")).value();
  DeviceChoice choice;
  choice.device = "cpu";
  choice.threads = 1;
  choice.kv_bytes = int64_t{1} << 20;
  const int32_t held = make_executor(choice, model).value()->info().context_max;
  ASSERT_LT(held, tiny.context_max) << "as many as the pages hold";
  choice.context_max = held;
  EXPECT_EQ(make_executor(choice, model).value()->info().context_max, held);
  choice.context_max = held + 1;
  const auto has = [](const Result<std::unique_ptr<Executor>>& made, const std::string& text) {
    return !made.ok() && made.error().message.find(text) != std::string::npos;
  };
  EXPECT_TRUE(has(make_executor(choice, model), "give --max-model-len " + std::to_string(held)));
  choice.context_max = tiny.context_max + 1;
  EXPECT_TRUE(has(make_executor(choice, model), "the model's context of 4096"));
}

// As many rows in a step as sequences that were asked for; a GPU takes more than 8 in several launches.
TEST(ServeFlags, SequencesThatRunAtOnce) {
  const ServeFlags given = parsed("--max-num-seqs 20").value(), not_given = parsed("").value();
  EXPECT_EQ(given.engine.running_max, 20);
  EXPECT_EQ(device_choice(given).sequence_slots, 20);
  EXPECT_EQ(gpu_options(device_choice(given), 0).rows_max, 20);
  EXPECT_EQ(not_given.engine.running_max, 64);
  EXPECT_EQ(gpu_options(device_choice(not_given), 0).rows_max, CudaExecutorOptions{}.rows_max);
  const ServeFlags few_tokens = parsed("--max-num-seqs 20 --max-num-batched-tokens 6").value();
  EXPECT_EQ(gpu_options(device_choice(few_tokens), 0).rows_max, 6) << "tokens_max is no less than rows_max";
  for (const char* refused : {"0", "-1", "4097", "many"})
    EXPECT_FALSE(parsed(std::string("--max-num-seqs ") + refused)) << refused;
}

TEST(ServeFlags, FewerSequencesThanAskedForAreExplained) {
  ExecutorInfo info;
  info.name = "cuda";
  info.device = "a GPU";
  info.sequence_slots = info.rows_max = 64;
  info.tokens_max = 8192;
  EXPECT_EQ(describe_running(info, 8, 0, 0),
            "8 sequences at once; others wait; --max-num-seqs raises that, at more launches a step");
  EXPECT_EQ(describe_running(info, 20, 20, 0), "20 sequences at once; others wait; 3 launches of up to 8 a step");
  EXPECT_NE(describe_running(info, 6, 64, 8).find("--max-num-seqs 64 is 6 here: a step has 8 tokens"),
            std::string::npos);
  info.rows_max = 8;
  EXPECT_NE(describe_running(info, 8, 64, 0).find("--max-num-seqs 64 is 8 here: a GPU takes no more rows"),
            std::string::npos);
  info.name = "cpu";
  EXPECT_EQ(describe_running(info, 64, 0, 0), "64 sequences at once; others wait");
}

TEST(ServeFlags, SecondsAreNumbers) {
  EXPECT_EQ(parsed("--request-timeout 1.5")->server.limits.request_timeout_ms, 1500);
  for (const char* refused : {"nan", "-1", "1e9", "soon"})
    EXPECT_FALSE(parsed(std::string("--request-timeout ") + refused)) << refused;
}

TEST(ServeFlags, PortsHaveSixteenBits) {
  EXPECT_EQ(parsed("--port 65535")->server.http.port, 65535);
  for (const char* refused : {"65536", "-1", "http"}) EXPECT_FALSE(parsed(std::string("--port ") + refused)) << refused;
}

}  // namespace
}  // namespace boreas
