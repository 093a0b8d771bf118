#include "bench_serve_all.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <thread>
#include <utility>

#include "bench_serve.h"
#include "bench_support.h"
#include "eval_ask.h"

namespace boreas {

namespace {

constexpr int32_t kDecodeBatches[] = {1, 8};
constexpr int32_t kStreams = 4, kMixedClients = 8;
constexpr int32_t kStreamTokens = 1 << 14;  // longer than any prompt prefills
constexpr int32_t kDecodeRuns = 3;
constexpr int32_t kRoom = 256;  // of the context, for the template
constexpr int32_t kDecodeSteps = 128;
constexpr int32_t kAgentContext = 32000;  // that an agent's last turn may reach
constexpr const char* kMixedKinds[] = {"competition-maths", "coding-contest", "multiple-choice", "agent"};

int64_t resident_bytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

class ServeAll {
 public:
  explicit ServeAll(ServeAllOptions& options) : options_(options) {}

  Status run() {
    ASSIGN_OR_RETURN(server_, LocalServer::start(options_.source, options_.choice, options_.engine));
    const ExecutorInfo& info = server_->executor();
    line_ = result_line("serve_all", "http", info.device);
    std::cout << "figures of a server on " << info.device << ", context " << info.context_max << "\n";
    context_max_ = info.context_max - kRoom - options_.output_tokens;
    if (context_max_ <= 0)
      return Error{"the server's context is shorter than " + std::to_string(kRoom + options_.output_tokens) +
                   " tokens"};
    options_.load.target = server_->target();
    options_.load.ignore_eos = true;
    HttpClient client(options_.load.target, options_.load.timeout_ms);
    ASSIGN_OR_RETURN(options_.load.model, first_model(client));
    for (const int32_t tokens : options_.prompts) RETURN_IF_ERROR(first_tokens(tokens));
    for (const int32_t batch : kDecodeBatches) RETURN_IF_ERROR(decode_over_http(batch));
    RETURN_IF_ERROR(beside_long_prompt());
    RETURN_IF_ERROR(mixed_load());
    server_.reset();  // its memory is needed
    for (size_t i = 0; i < std::size(kDecodeBatches); ++i) {
      const std::string batch = "batch " + std::to_string(kDecodeBatches[i]);
      ASSIGN_OR_RETURN(const double tok_s, decode_in_process(kDecodeBatches[i], decode_context_));
      show("decode in process, " + batch + ", tok/s", tok_s, "");
      show("decode over HTTP, " + batch + ", % of in process", 100 * http_tok_s_[i] / tok_s, "at least 95");
    }
    ASSIGN_OR_RETURN(const double tok_s, decode_in_process(mixed_batch_, mixed_context_));
    show("decode in process, batch and lengths of the mixed load, tok/s", tok_s, "");
    show("mixed load without its prefill, % of that", 100 * mixed_tok_s_ / tok_s, "at least 85");
    if (!record_result(line_, options_.results_dir)) return Error{"the result was not recorded"};
    return Ok{};
  }

 private:
  void show(const std::string& what, double value, const char* wanted) {
    std::printf("%-72s %12.2f  %s\n", what.c_str(), value, wanted);
    std::fflush(stdout);
    line_[what] = value;
  }

  // A set of prompts with a seed of its own, as long as this server's tokens make them.
  Result<WorkloadOptions> prompt_set(const Workload& workload, int32_t requests, int32_t prompt_tokens) {
    WorkloadOptions wanted;
    ASSIGN_OR_RETURN(wanted.scale,
                     measure_scale(options_.load.target, options_.load.model, workload, options_.load.timeout_ms));
    wanted.seed = options_.load.seed * 1000 + ++sets_;
    wanted.requests = requests;
    wanted.prompt_tokens = std::min(prompt_tokens, context_max_);
    return wanted;
  }
  Result<std::vector<Conversation>> prompts(const char* kind, int32_t requests, int32_t prompt_tokens, int32_t answer) {
    const Workload& workload = *find_workload(kind);
    ASSIGN_OR_RETURN(WorkloadOptions wanted, prompt_set(workload, requests, prompt_tokens));
    wanted.output_tokens = answer;
    return make_conversations(workload, wanted);
  }

  static Status check(const LoadResult& result) {
    for (const ChatRecord& record : result.records)
      if (!record.error.empty() && record.error != kInterrupted)
        return Error{"a request failed: " + record.error + ": " + record.message};
    if (result.records.empty()) return Error{"no request was made"};
    return Ok{};
  }

  // The second of two different prompts, alone.
  Status first_tokens(int32_t tokens) {
    ASSIGN_OR_RETURN(const std::vector<Conversation> two, prompts("long-documents", 2, tokens, 1));
    const LoadResult result = run_load(two, options_.load);
    RETURN_IF_ERROR(check(result));
    const ChatRecord& record = result.records.back();
    const double seconds = static_cast<double>(record.end_ns - record.sent_ns) / 1e9;
    const std::string name = "prompt of " + std::to_string(tokens);
    if (tokens > context_max_)
      show(name + ": cut to the context, tokens", static_cast<double>(record.prompt_tokens), "");
    show(name + ", first token, ms", 1e3 * seconds, tokens == 2048 ? "below 120" : "");
    show(name + ", tok/s", static_cast<double>(record.prompt_tokens - record.cached_tokens) / seconds,
         tokens == 8192     ? "at least 30000"
         : tokens == 131072 ? "at least 10000"
                            : "");
    return Ok{};
  }

  // While all streams are under way.
  Status decode_over_http(int32_t batch) {
    ASSIGN_OR_RETURN(const std::vector<Conversation> all,
                     prompts("long-documents", batch, options_.context, options_.output_tokens));
    ServeLoadOptions load = options_.load;
    load.clients = batch;
    const LoadResult result = run_load(all, load);
    RETURN_IF_ERROR(check(result));
    int64_t from = 0, to = INT64_MAX, prompt = 0;
    for (const ChatRecord& record : result.records) {
      if (record.arrivals.empty()) return Error{"an answer without text: give --temperature 1, or another --seed"};
      from = std::max(from, record.arrivals.front().at_ns);
      to = std::min(to, record.arrivals.back().at_ns);
      prompt += record.prompt_tokens;
    }
    decode_context_ = static_cast<int32_t>(prompt / batch) + options_.output_tokens / 2;
    if (from >= to)
      return Error{"answers of " + std::to_string(options_.output_tokens) + " tokens ended before all " +
                   std::to_string(batch) + " streams were under way: give more --output-tokens"};
    const StreamWindow window = look_at_streams(result.records, from, to);
    http_tok_s_.push_back(window.tok_s);
    show("decode over HTTP, batch " + std::to_string(batch) + ", tok/s", window.tok_s, "");
    return Ok{};
  }

  bool wait_for_tokens(int64_t count) const {
    const int64_t from = server_->stats().output_tokens;
    const int64_t deadline = now_ns() + options_.load.timeout_ms * 1'000'000;
    while (server_->stats().output_tokens < from + count) {
      if (now_ns() > deadline || !server_->stats().healthy) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  Status beside_long_prompt() {
    const int32_t room = (server_->executor().context_max - kRoom) / 2;
    ASSIGN_OR_RETURN(const std::vector<Conversation> streams,
                     prompts("competition-maths", kStreams, 200, std::min(kStreamTokens, room)));
    ASSIGN_OR_RETURN(const std::vector<Conversation> one, prompts("long-documents", 1, options_.long_prompt, 1));
    std::atomic<bool> stop = false;
    ServeLoadOptions load = options_.load;
    load.clients = kStreams;
    load.stop = &stop;
    LoadResult result;
    std::thread thread([&] { result = run_load(streams, load); });
    bool in_time = wait_for_tokens(kStreams * 16);
    const int64_t begin = now_ns();
    in_time = in_time && wait_for_tokens(kStreams * 64);
    const LoadResult long_result = run_load(one, options_.load);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // what is on its way arrives
    stop = true;
    thread.join();
    if (!in_time) return Error{"the streams beside a long prompt did not begin"};
    RETURN_IF_ERROR(check(result));
    RETURN_IF_ERROR(check(long_result));
    const ChatRecord& record = long_result.records.front();
    const StreamWindow alone = look_at_streams(result.records, begin, record.sent_ns);
    const StreamWindow beside = look_at_streams(result.records, record.sent_ns, record.end_ns);
    const std::string name = "beside a prompt of " + std::to_string(record.prompt_tokens) + ": ";
    show(name + "its first token, ms", static_cast<double>(record.end_ns - record.sent_ns) / 1e6, "");
    show(name + "between arrivals of four streams, p99, ms", beside.gap_ms.p99, "below 100");
    show(name + "their tok/s, % of alone", alone.tok_s > 0 ? 100 * beside.tok_s / alone.tok_s : 0, "at least 40");
    return Ok{};
  }

  Result<std::vector<Conversation>> mixed(int64_t tokens) {
    std::vector<std::vector<Conversation>> kinds;
    const int32_t requests = static_cast<int32_t>(std::clamp<int64_t>(tokens / options_.mixed_answer_max, 2, 1 << 16));
    for (const char* kind : kMixedKinds) {
      if (std::string_view(kind) == "agent" && context_max_ < kAgentContext) continue;
      const Workload& workload = *find_workload(kind);
      ASSIGN_OR_RETURN(WorkloadOptions wanted, prompt_set(workload, requests, options_.mixed_prompt));
      wanted.answer_tokens_max = options_.mixed_answer_max;
      kinds.push_back(make_conversations(workload, wanted));
    }
    // In turn, until the answers are enough.
    std::vector<Conversation> all;
    for (size_t i = 0; tokens > 0; ++i) {
      bool any = false;
      for (std::vector<Conversation>& kind : kinds) {
        if (i >= kind.size() || tokens <= 0) continue;
        any = true;
        for (const Turn& turn : kind[i].turns) tokens -= turn.answer_tokens;
        all.push_back(std::move(kind[i]));
      }
      if (!any) break;
    }
    return all;
  }

  Status mixed_load() {
    ServeLoadOptions load = options_.load;
    load.clients = kMixedClients;
    ASSIGN_OR_RETURN(const std::vector<Conversation> warm_up, mixed(options_.total_tokens / 10));
    RETURN_IF_ERROR(check(run_load(warm_up, load)));
    ASSIGN_OR_RETURN(const std::vector<Conversation> all, mixed(options_.total_tokens));
    const int64_t resident = resident_bytes();
    const EngineStats before = server_->stats();
    const LoadResult result = run_load(all, load);
    const int64_t deadline = now_ns() + 5'000'000'000;
    while (server_->stats().running > 0 && now_ns() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const EngineStats after = server_->stats();
    const ServeSummary summary = summarize(result);
    const double prefill_s = static_cast<double>(after.prefill_ns - before.prefill_ns) / 1e9;
    const auto tokens = static_cast<double>(after.output_tokens - before.output_tokens);
    const int64_t steps = after.decode_steps - before.decode_steps, rows = after.decode_rows - before.decode_rows;
    const double batch = steps > 0 ? static_cast<double>(rows) / static_cast<double>(steps) : 1;
    mixed_batch_ = std::max(1, static_cast<int32_t>(batch + 0.5));
    const int64_t completed = std::max<int64_t>(summary.completed, 1);
    mixed_context_ = static_cast<int32_t>((summary.prompt_tokens + summary.output_tokens / 2) / completed);
    mixed_tok_s_ = tokens / std::max(summary.seconds - prefill_s, 1e-9);
    show("mixed load of 8 clients, tokens", tokens, "");
    show("mixed load, requests that failed", static_cast<double>(summary.requests - summary.completed), "0");
    show("mixed load, tok/s", tokens / std::max(summary.seconds, 1e-9), "");
    show("mixed load, rows of a decode step", batch, "");
    show("mixed load, % of the time in prefill", 100 * prefill_s / std::max(summary.seconds, 1e-9), "");
    show("mixed load, tok/s without prefill", mixed_tok_s_, "");
    show("mixed load, between arrivals, p99, ms", summary.gap_ms.p99, "");
    show("mixed load, resident memory that it added, MB", static_cast<double>(resident_bytes() - resident) / 1e6, "0");
    show("mixed load, pages that did not come back",
         static_cast<double>(before.pages_full_free - after.pages_full_free + before.pages_sliding_free -
                             after.pages_sliding_free),
         "0");
    return check(result);
  }

  Result<double> decode_in_process(int32_t batch, int32_t context) {
    DecodeSetup setup = options_.decode;
    setup.batch = batch;
    setup.context = std::max(context, 1);
    setup.steps = std::min(options_.output_tokens, kDecodeSteps);
    ASSIGN_OR_RETURN(Decode decode, start_decode(setup));
    std::vector<double> tok_s;
    for (int32_t run = -1; run < kDecodeRuns; ++run) {
      ASSIGN_OR_RETURN(const DecodeRun done, decode.rows.run(static_cast<uint64_t>(run) + 1000));
      if (run >= 0) tok_s.push_back(batch * setup.steps / done.seconds);
    }
    return spread_of(tok_s).median;
  }

  ServeAllOptions& options_;
  std::unique_ptr<LocalServer> server_;
  boost::json::object line_;
  uint64_t sets_ = 0;  // of prompts so far, each with a seed of its own
  int32_t context_max_ = 0;
  std::vector<double> http_tok_s_;  // by batch
  int32_t decode_context_ = 0;
  double mixed_tok_s_ = 0;
  int32_t mixed_batch_ = 1, mixed_context_ = 1;
};

}  // namespace

StreamWindow look_at_streams(const std::vector<ChatRecord>& records, int64_t from_ns, int64_t to_ns) {
  StreamWindow window;
  int64_t tokens = 0;
  std::vector<Sample> gaps;
  for (const ChatRecord& record : records) {
    for (size_t i = 1; i < record.arrivals.size(); ++i) {
      const Arrival& arrival = record.arrivals[i];
      if (arrival.at_ns <= from_ns || record.arrivals[i - 1].at_ns >= to_ns) continue;
      if (arrival.at_ns <= to_ns) tokens += arrival.tokens;  // else a stall beyond the window
      gaps.push_back({static_cast<double>(arrival.at_ns - record.arrivals[i - 1].at_ns) / 1e6});
    }
  }
  if (to_ns > from_ns) window.tok_s = static_cast<double>(tokens) * 1e9 / static_cast<double>(to_ns - from_ns);
  window.gap_ms = percentiles_of(std::move(gaps));
  return window;
}

Status run_serve_all(ServeAllOptions& options) { return ServeAll(options).run(); }

}  // namespace boreas
