// Prints numbers, decides nothing: time per draw of sampling.cc, and what the engine adds to a step of 64 decoding rows
// with many pages, over an executor that does nothing. Run it by hand.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "engine/core.h"
#include "exec/sampling.h"

namespace boreas {
namespace {

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Answers every row with token 1 at once.
class IdleExecutor final : public Executor {
 public:
  IdleExecutor(int32_t slots, int32_t context, int32_t pages) {
    info_.name = "idle";
    info_.vocab_size = 1000;
    info_.context_max = context;
    info_.window = 4096;
    info_.sequence_slots = info_.rows_max = slots;
    info_.tokens_max = 8192;
    info_.pages_full = info_.pages_sliding = pages;
  }
  const ExecutorInfo& info() const override { return info_; }
  void open_sequence(int32_t, const SequenceSpec&) override {}
  void close_sequence(int32_t) override {}
  Result<StepTicket> submit(const StepPlan& plan) override {
    rows_ = plan.rows.size();
    return StepTicket{0};
  }
  Result<StepResult> wait(StepTicket) override {
    StepResult result;
    result.rows.resize(rows_);
    for (RowResult& row : result.rows) row.sampled.id = 1;
    return result;
  }
  Status save_page(PagePoolKind, PageId, std::span<std::byte>) override { return Ok{}; }
  Status restore_page(PagePoolKind, PageId, std::span<const std::byte>) override { return Ok{}; }
  Status copy_page(PagePoolKind, PageId, PageId) override { return Ok{}; }

 private:
  ExecutorInfo info_;
  size_t rows_ = 0;
};

void measure_steps(int32_t rows, int32_t waiting, int32_t prompt) {
  constexpr int32_t kPages = 200000;
  IdleExecutor executor(rows, 262144, kPages);
  SteadyClock clock;
  EngineOptions options;
  options.running_max = rows;
  options.step_tokens_max = 8192;
  EngineCore core(executor, options, clock);
  int64_t events = 0;
  for (int32_t i = 0; i < rows + waiting; ++i) {
    Request request;
    request.prompt.assign(static_cast<size_t>(prompt), 1);
    request.max_tokens = 100000;
    core.add(RequestId(static_cast<uint64_t>(i) + 1), std::move(request), [&events](TokenEvent&&) { ++events; });
  }
  while (events < rows * 4) core.step();
  std::vector<double> times;
  for (int i = 0; i < 20000; ++i) {
    const double start = now_us();
    core.step();
    times.push_back(now_us() - start);
  }
  std::sort(times.begin(), times.end());
  const EngineStats stats = core.stats();
  std::printf("engine step: %d rows, %d waiting, %d pages in use: p50 %.1f us, p99 %.1f us\n", rows, waiting,
              stats.pages_full - stats.pages_full_free + stats.pages_sliding - stats.pages_sliding_free,
              times[times.size() / 2], times[times.size() * 99 / 100]);
  core.abort_all();
}

void measure_idle_thread() {
  IdleExecutor executor(8, 262144, 1000);
  SteadyClock clock;
  Engine engine(executor, {}, clock);
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  std::printf("idle engine: %.2f %% of a core\n", 100.0 * static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC);
}

void measure_draw(const char* name, const std::vector<float>& logits, const SamplingParams& given) {
  SamplingParams params = given;
  const PenaltyState penalties;
  std::vector<double> times;
  TokenId sum = 0;
  for (int i = 0; i < 60; ++i) {
    params.seed = static_cast<uint64_t>(i);
    const double start = now_us();
    sum += sample_token(logits, params, penalties, nullptr, i).id;
    times.push_back(now_us() - start);
  }
  std::sort(times.begin(), times.end());
  std::printf("draw, %zu entries, %s: p50 %.3f ms, min %.3f ms%s\n", logits.size(), name,
              times[times.size() / 2] / 1000, times[0] / 1000, sum < 0 ? " (none)" : "");
}

void measure_draws(size_t vocab_size) {
  Prng prng(1);
  std::vector<float> logits(vocab_size);
  for (float& logit : logits) logit = (prng.uniform() + prng.uniform() + prng.uniform() - 1.5f) * 10.0f;
  for (int i = 0; i < 20; ++i) logits[prng.below(static_cast<uint32_t>(vocab_size))] = 12.0f + prng.uniform() * 6.0f;
  SamplingParams params;
  params.temperature = 0;
  measure_draw("greedy", logits, params);
  params.temperature = 1;
  measure_draw("temperature 1", logits, params);
  params.top_p = 0.95f;
  measure_draw("temperature 1, top_p 0.95", logits, params);
  params.top_k = 50;
  measure_draw("temperature 1, top_p 0.95, top_k 50", logits, params);
  params.top_k = 0;
  params.top_logprobs = 20;
  measure_draw("temperature 1, top_p 0.95, 20 logprobs", logits, params);
  params.top_logprobs = -1;
  measure_draw("temperature 1, top_p 0.95, all equal", std::vector<float>(vocab_size), params);
}

}  // namespace
}  // namespace boreas

int main() {
  boreas::measure_steps(64, 0, 100);
  boreas::measure_steps(64, 0, 90000);
  boreas::measure_steps(64, 512, 90000);
  boreas::measure_idle_thread();
  boreas::measure_draws(32768);
  boreas::measure_draws(262144);
  return 0;
}
