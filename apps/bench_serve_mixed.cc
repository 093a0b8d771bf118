#include "bench_serve_mixed.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <thread>
#include <utility>

#include "base/resident_memory.h"
#include "bench_serve.h"

namespace boreas {

namespace {

constexpr const char* kKinds[] = {"competition-maths", "coding-contest", "multiple-choice", "agent"};
constexpr int32_t kAgentContext = 32000;  // that an agent's last turn may reach
constexpr int32_t kSetRequests = 16;      // of a kind, made at a time
constexpr int64_t kIdleNs = 5'000'000'000;
constexpr double kWarmUpShare = 0.1;

// Conversations of all kinds in turn, each one different, until their answers are enough.
class Source {
 public:
  static Result<Source> make(const MixedLoadOptions& options) {
    Source source(options);
    for (const char* name : kKinds) {
      if (std::string_view(name) == "agent" && options.prompt_tokens_max < kAgentContext) continue;
      Kind& kind = source.kinds_.emplace_back();
      kind.workload = find_workload(name);
      ASSIGN_OR_RETURN(kind.scale,
                       measure_scale(options.load.target, options.load.model, *kind.workload, options.load.timeout_ms));
    }
    return source;
  }

  void want(int64_t tokens) { tokens_ = tokens; }

  std::shared_ptr<const Conversation> next() {
    if (tokens_ <= 0) return nullptr;
    Kind& kind = kinds_[turn_++ % kinds_.size()];
    if (kind.ready.empty()) refill(kind);
    auto conversation = std::make_shared<const Conversation>(std::move(kind.ready.front()));
    kind.ready.pop_front();
    for (const Turn& turn : conversation->turns) tokens_ -= turn.answer_tokens;
    return conversation;
  }

 private:
  struct Kind {
    const Workload* workload = nullptr;
    TextScale scale;
    std::deque<Conversation> ready;
  };

  explicit Source(const MixedLoadOptions& options) : options_(options) {}

  void refill(Kind& kind) {
    WorkloadOptions wanted;
    wanted.seed = (options_.load.seed << 32) + ++sets_;
    wanted.requests = kSetRequests;
    wanted.prompt_tokens = std::min(options_.prompt_tokens, options_.prompt_tokens_max);
    wanted.answer_tokens_max = options_.answer_tokens_max;
    wanted.scale = kind.scale;
    for (Conversation& conversation : make_conversations(*kind.workload, wanted))
      kind.ready.push_back(std::move(conversation));
  }

  MixedLoadOptions options_;
  std::vector<Kind> kinds_;
  uint64_t sets_ = 0;
  size_t turn_ = 0;
  int64_t tokens_ = 0;
};

int64_t pages_free(const EngineStats& stats) { return int64_t{stats.pages_full_free} + stats.pages_sliding_free; }

// Of the KV pages that hold or held something, as far as the engine knows: on a processor they become resident then.
int64_t bytes_of_used_pages(const ExecutorInfo& info, const EngineStats& stats) {
  if (info.name != "cpu") return 0;
  const int64_t full = stats.pages_full - (stats.pages_full_free - stats.pages_full_cached);
  const int64_t sliding = stats.pages_sliding - (stats.pages_sliding_free - stats.pages_sliding_cached);
  return full * info.page_bytes_full + sliding * info.page_bytes_sliding;
}

// Looks at the server while it is under load: the most KV memory that was in use at a time, and a line for people.
class Watch {
 public:
  explicit Watch(const LocalServer& server)
      : server_(server), used_first_(bytes_of_used_pages(server.executor(), server.stats())), used_max_(used_first_) {}

  void look() { used_max_ = std::max(used_max_, bytes_of_used_pages(server_.executor(), server_.stats())); }
  std::string note() {
    const EngineStats stats = server_.stats();
    const int64_t added = resident_bytes() - resident_first_ - (used_max_ - used_first_);
    char text[160];
    std::snprintf(text, sizeof(text), "; resident %+.1f MB beside KV pages, %lld pages free, %d waiting",
                  static_cast<double>(added) / 1e6, static_cast<long long>(pages_free(stats)), stats.waiting);
    return text;
  }
  int64_t used_max() const { return used_max_; }

 private:
  const LocalServer& server_;
  const int64_t resident_first_ = resident_bytes(), used_first_;
  int64_t used_max_;
};

bool wait_until_idle(const LocalServer& server) {
  const int64_t deadline = now_ns() + kIdleNs;
  while (server.stats().running + server.stats().waiting > 0) {
    if (now_ns() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

// Memory that the allocator keeps for later is nobody's.
int64_t resident_when_trimmed() {
  ::malloc_trim(0);
  return resident_bytes();
}

void count_steps(const EngineStats& before, const EngineStats& after, MixedLoadResult& result) {
  const int64_t steps = after.decode_steps - before.decode_steps, rows = after.decode_rows - before.decode_rows;
  result.batch = steps > 0 ? static_cast<double>(rows) / static_cast<double>(steps) : 0;
  result.tokens = after.output_tokens - before.output_tokens;
  result.prefill_s = static_cast<double>(after.prefill_ns - before.prefill_ns) / 1e9;
  result.decode_rows = rows;
  result.decode_tok_s = decode_rate(before, after);
  result.work = decode_work(before, after);
  result.pages_lost = pages_free(before) - pages_free(after);
  result.healthy = after.healthy;
}

}  // namespace

Result<MixedLoadResult> run_mixed_load(const LocalServer& server, const MixedLoadOptions& options) {
  ASSIGN_OR_RETURN(Source source, Source::make(options));
  const ConversationSource next = [&source] { return source.next(); };
  ServeLoadOptions load = options.load;
  load.clients = kMixedClients;
  load.show_progress = true;
  Watch watch(server);
  load.on_progress = [&watch] { watch.look(); };
  load.progress_note = [&watch] { return watch.note(); };
  MixedLoadResult result;
  source.want(static_cast<int64_t>(static_cast<double>(options.total_tokens) * kWarmUpShare));
  load.seconds_max = options.seconds * kWarmUpShare;
  result.first_error = first_error_of(run_load(next, load));
  result.idle = wait_until_idle(server);
  if (!result.first_error.empty() || !result.idle) return result;

  const EngineStats before = server.stats();
  const int64_t used_before = watch.used_max();
  const int64_t resident_before = resident_when_trimmed();
  load.seconds_max = options.seconds;
  source.want(options.total_tokens);
  {
    const LoadResult run = run_load(next, load);  // its records go before memory is looked at again
    result.summary = summarize(run);
    result.first_error = first_error_of(run);
  }
  result.idle = wait_until_idle(server);
  watch.look();
  count_steps(before, server.stats(), result);
  const int64_t used = watch.used_max() - used_before;
  result.resident_added = std::max<int64_t>(resident_when_trimmed() - resident_before - used, 0);
  return result;
}

std::vector<std::string> problems_of(const MixedLoadResult& result) {
  std::vector<std::string> problems;
  const int64_t failed = result.summary.requests - result.summary.completed;
  if (!result.first_error.empty() || failed > 0)
    problems.push_back("mixed load: " + std::to_string(failed) + " of " + std::to_string(result.summary.requests) +
                       " requests failed; the first: " + result.first_error);
  if (result.summary.completed == 0 || result.tokens == 0) problems.emplace_back("mixed load: no request was answered");
  if (!result.healthy) problems.emplace_back("mixed load: the engine has stopped after a fault");
  if (!result.idle) problems.emplace_back("mixed load: requests still run that no client waits for");
  if (result.pages_lost != 0)
    problems.push_back("mixed load: " + std::to_string(result.pages_lost) + " KV pages did not come back");
  if (result.resident_added > kMixedResidentBytesMax)
    problems.push_back("mixed load: it left " + std::to_string(result.resident_added / 1'000'000) +
                       " MB in memory, more than " + std::to_string(kMixedResidentBytesMax / 1'000'000));
  return problems;
}

}  // namespace boreas
