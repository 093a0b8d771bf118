// Prints numbers, decides nothing: what the engine adds to a step of 64 decoding rows with many pages in use and in the
// cache, how long a long prompt takes to start, what a chat of many turns finds in the cache, all over an executor that
// does nothing; and time per draw of sampling.cc. Run it by hand. `engine_measure DIRECTORY` also appends the figures
// that have a target as JSON lines to the machine's file there, e.g. in bench/results.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/bench_support.h"
#include "base/prng.h"
#include "engine/core.h"
#include "exec/sampling.h"

namespace boreas {
namespace {

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of this thread: other processes that take the processor do not count.
double cpu_us() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

// Of sorted values.
double percentile(const std::vector<double>& values, size_t percent) { return values[values.size() * percent / 100]; }

struct Times {
  std::vector<double> wall_us, cpu_us;
  // The same work again and again: the round that others disturbed least.
  template <class F>
  static Times best_of(int32_t rounds, int32_t repetitions, F&& work) {
    Times best;
    for (int32_t round = 0; round < rounds; ++round) {
      Times times;
      for (int32_t i = 0; i < repetitions; ++i) {
        const double wall = now_us(), cpu = boreas::cpu_us();
        work();
        times.cpu_us.push_back(boreas::cpu_us() - cpu);
        times.wall_us.push_back(now_us() - wall);
      }
      std::sort(times.wall_us.begin(), times.wall_us.end());
      std::sort(times.cpu_us.begin(), times.cpu_us.end());
      if (round == 0 || percentile(times.wall_us, 99) < percentile(best.wall_us, 99)) best = std::move(times);
    }
    return best;
  }
};

// A line of the results file, finished by record().
boost::json::object line_of(const char* figure) {
  boost::json::object line = result_line("engine", figure, "host, 1 thread");
  double load[1] = {};
  if (getloadavg(load, 1) == 1) line["load"] = load[0];  // other jobs on the machine
  return line;
}

std::string results_dir;  // empty: figures are printed only
void record(const boost::json::object& line) {
  if (results_dir.empty()) return;
  if (!record_result(line, results_dir)) std::exit(1);
}

// Answers every row at once, with tokens without a pattern.
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
    info_.page_bytes_full = info_.page_bytes_sliding = 64;
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
    for (RowResult& row : result.rows) row.sampled.id = static_cast<TokenId>((++answers_ * 2654435761u >> 8) % 1000);
    return result;
  }
  Status save_page(PagePoolKind, PageId, std::span<std::byte>) override { return Ok{}; }
  Status restore_page(PagePoolKind, PageId, std::span<const std::byte>) override { return Ok{}; }
  Status copy_page(PagePoolKind, PageId, PageId) override { return Ok{}; }

 private:
  ExecutorInfo info_;
  size_t rows_ = 0;
  uint64_t answers_ = 0;
};

std::vector<TokenId> random_tokens(Prng& prng, int32_t count) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  for (TokenId& token : tokens) token = static_cast<TokenId>(prng.below(1000));
  return tokens;
}

// One request after another, alone, until it has ended.
class Client {
 public:
  explicit Client(EngineCore& core) : core_(core) {}
  struct Answer {
    std::vector<TokenId> tokens;
    int32_t cached_tokens = 0;
  };
  Answer ask(std::vector<TokenId> prompt, int32_t max_tokens) {
    Answer answer;
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    core_.add(RequestId(next_id_++), std::move(request), [&answer](TokenEvent&& event) {
      for (const SampledToken& token : event.tokens) answer.tokens.push_back(token.id);
      answer.cached_tokens = event.cached_tokens;
    });
    while (!core_.idle()) core_.step();
    return answer;
  }

 private:
  EngineCore& core_;
  uint64_t next_id_ = 1000000;
};

EngineOptions long_options() {
  EngineOptions options;
  options.step_tokens_max = 8192;
  options.step_latency_ms = 0;
  options.prefix_hash_seed = 1;
  return options;
}

void fill_cache(EngineCore& core, int32_t pages) {
  Prng prng(7);
  Client client(core);
  while (core.stats().pages_full_cached < pages) client.ask(random_tokens(prng, 100 * kPagePositions), 1);
}

// distinct: every prompt its own text; otherwise all are equal. evict: the pool is so small that every new page evicts
// a cached one.
void measure_steps(int32_t rows, int32_t waiting, int32_t prompt, bool distinct, int32_t cached_pages, bool evict) {
  const int32_t own = rows * (prompt / kPagePositions + 400);
  IdleExecutor executor(rows, 262144, evict ? cached_pages + rows * (prompt / kPagePositions + 1) : cached_pages + own);
  SteadyClock clock;
  EngineOptions options = long_options();
  options.running_max = rows;
  EngineCore core(executor, options, clock);
  fill_cache(core, cached_pages);
  int64_t events = 0;
  Prng prng(3);
  const std::vector<TokenId> text = random_tokens(prng, prompt);
  for (int32_t i = 0; i < rows + waiting; ++i) {
    Request request;
    request.prompt = distinct ? random_tokens(prng, prompt) : text;
    request.max_tokens = 100000;
    core.add(RequestId(static_cast<uint64_t>(i) + 1), std::move(request), [&events](TokenEvent&&) { ++events; });
  }
  while (core.stats().running < rows || events < rows * 4) core.step();
  const Times times = Times::best_of(5, 20000, [&core] { core.step(); });
  const EngineStats stats = core.stats();
  const int32_t used = stats.pages_full - stats.pages_full_free + stats.pages_sliding - stats.pages_sliding_free;
  std::printf(
      "engine step: %d rows of %d tokens and more, %d waiting, %d pages in use, %d cached%s: "
      "p50 %.1f us, p99 %.1f us (processor time %.1f, %.1f)\n",
      rows, prompt, waiting, used, stats.pages_full_cached + stats.pages_sliding_cached, evict ? ", evicting" : "",
      percentile(times.wall_us, 50), percentile(times.wall_us, 99), percentile(times.cpu_us, 50),
      percentile(times.cpu_us, 99));
  boost::json::object line = line_of("step");
  line["rows"] = rows;
  line["waiting"] = waiting;
  line["pages_used"] = used;
  line["pages_cached_full"] = stats.pages_full_cached;
  line["pages_cached_sliding"] = stats.pages_sliding_cached;
  line["evicting"] = evict;
  line["step_us_p50"] = percentile(times.wall_us, 50);
  line["step_us_p99"] = percentile(times.wall_us, 99);
  line["step_cpu_us_p99"] = percentile(times.cpu_us, 99);
  if (cached_pages > 0) record(line);
  core.abort_all();
}

// Beside so many pages of other texts in the cache.
void measure_admission(int32_t cached_pages) {
  constexpr int32_t kPrompt = 100000;
  IdleExecutor executor(8, 262144, 4000 + cached_pages);
  SteadyClock clock;
  EngineCore core(executor, long_options(), clock);
  fill_cache(core, cached_pages);
  Prng prng(5);
  const std::vector<TokenId> prompt = random_tokens(prng, kPrompt);
  Client(core).ask(prompt, 1);
  uint64_t next_id = 0;
  int32_t cached = 0;
  Request request;
  request.max_tokens = 1;
  const Times times = Times::best_of(5, 100, [&] {
    request.prompt = prompt;  // as the server hands it in; the copy is part of the figure
    bool ended = false;
    core.add(RequestId(++next_id), std::move(request), [&](TokenEvent&& event) {
      cached = event.cached_tokens;
      ended = event.finish.has_value();
    });
    while (!ended) core.step();
    request = Request();
    request.max_tokens = 1;
  });
  std::printf(
      "prompt of %d tokens, %d of them cached beside %d other pages, arrival to end: p50 %.2f ms, max %.2f ms\n",
      kPrompt, cached, cached_pages, percentile(times.wall_us, 50) / 1000, times.wall_us.back() / 1000);
  boost::json::object line = line_of("admission");
  line["prompt_tokens"] = kPrompt;
  line["cached_tokens"] = cached;
  line["other_pages_cached"] = cached_pages;
  line["admission_ms_p50"] = percentile(times.wall_us, 50) / 1000;
  line["admission_ms_max"] = times.wall_us.back() / 1000;
  record(line);
}

// An agent: a long first prompt, then turns of an answer and a tool's output; each prompt repeats all that came before.
// reasoning: so many tokens of each answer are left out of the next prompt, as chat templates do.
void measure_chat(int32_t reasoning) {
  IdleExecutor executor(8, 262144, 2000);
  SteadyClock clock;
  EngineCore core(executor, long_options(), clock);
  Client client(core);
  Prng prng(11);
  std::vector<TokenId> history = random_tokens(prng, 10000);
  std::vector<TokenId> computed;  // whose keys and values an earlier turn has: its prompt and answer but the last token
  int64_t known = 0, known_pages = 0, cached = 0, prompts = 0;
  for (int32_t turn = 0; turn < 20; ++turn) {
    const auto same = static_cast<int64_t>(
        std::mismatch(history.begin(), history.end(), computed.begin(), computed.end()).first - history.begin());
    known += same;
    known_pages += same / kPagePositions * kPagePositions;
    prompts += static_cast<int64_t>(history.size());
    const auto answer = client.ask(history, 300 + reasoning + static_cast<int32_t>(prng.below(100)));
    cached += answer.cached_tokens;
    computed = history;
    computed.insert(computed.end(), answer.tokens.begin(), answer.tokens.end() - 1);
    history.insert(history.end(), answer.tokens.begin() + reasoning, answer.tokens.end());
    const std::vector<TokenId> tool = random_tokens(prng, 600 + static_cast<int32_t>(prng.below(150)));
    history.insert(history.end(), tool.begin(), tool.end());
  }
  std::printf(
      "chat of 20 turns up to %zu tokens, %d tokens of each answer dropped: %lld prompt tokens, %lld computed "
      "before, %lld in whole pages, %lld from the cache (%.2f %% of the whole pages)\n",
      history.size(), reasoning, static_cast<long long>(prompts), static_cast<long long>(known),
      static_cast<long long>(known_pages), static_cast<long long>(cached),
      100.0 * static_cast<double>(cached) / static_cast<double>(known_pages));
  boost::json::object line = line_of("agent trace");
  line["turns"] = 20;
  line["tokens"] = history.size();
  line["dropped_a_turn"] = reasoning;
  line["prompt_tokens"] = prompts;
  line["computed_before"] = known;
  line["computed_before_whole_pages"] = known_pages;
  line["cached_tokens"] = cached;
  line["percent"] = 100.0 * static_cast<double>(cached) / static_cast<double>(known_pages);
  record(line);
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

int main(int count, char** arguments) {
  if (count > 1) boreas::results_dir = arguments[1];
  boreas::measure_steps(64, 0, 100, true, 0, false);
  boreas::measure_steps(64, 0, 90000, false, 0, false);
  boreas::measure_steps(64, 512, 90000, false, 0, false);
  boreas::measure_steps(64, 0, 2000, true, 100000, false);
  boreas::measure_steps(64, 512, 2000, true, 100000, false);
  boreas::measure_steps(64, 0, 2000, true, 100000, true);
  boreas::measure_admission(0);
  boreas::measure_admission(100000);
  boreas::measure_chat(0);
  boreas::measure_chat(200);
  boreas::measure_idle_thread();
  boreas::measure_draws(32768);
  boreas::measure_draws(262144);
  return 0;
}
