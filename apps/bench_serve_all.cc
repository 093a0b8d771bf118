#include "bench_serve_all.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <thread>
#include <utility>

#include "base/check.h"
#include "bench_figures.h"
#include "bench_serve.h"
#include "bench_serve_fair.h"
#include "bench_serve_list.h"
#include "bench_serve_mixed.h"
#include "bench_support.h"
#include "eval_ask.h"
#include "program/compile.h"

namespace boreas {

namespace {

constexpr int32_t kDecodeBatches[] = {1, 8};
constexpr int32_t kStreams = 4;
constexpr int32_t kStreamTokens = 1 << 14;  // longer than any prompt prefills
constexpr int32_t kRoom = 256;              // of the context, for the template
constexpr int32_t kDecodeSteps = 128;
constexpr double kSustainedTokens = 200'000;  // that mixed load must last for
constexpr const char* kEqualWork = ", % of decode in process at equal work";

// The server's counters at a moment of a load.
struct Look {
  int64_t at_ns = 0;
  EngineStats stats;
};

// What is compared with decode in process when the server has gone.
struct ServedPart {
  std::string name;
  ServedDecode decode;
  Goal goal;
};

class ServeAll {
 public:
  explicit ServeAll(ServeAllOptions& options) : options_(options) {}

  Status run() {
    ASSIGN_OR_RETURN(server_, LocalServer::start(options_.source, options_.choice, options_.engine));
    const ExecutorInfo& info = server_->executor();
    list_.line = result_line("serve_all", "http", info.device);
    std::cout << "figures of a server on " << info.device << ", context " << info.context_max << "\n";
    context_max_ = info.context_max - kRoom - options_.output_tokens;
    if (context_max_ <= 0)
      return Error{"the server's context is shorter than " + std::to_string(kRoom + options_.output_tokens) +
                   " tokens"};
    options_.load.target = server_->target();
    options_.load.ignore_eos = true;
    HttpClient client(options_.load.target, options_.load.timeout_ms);
    ASSIGN_OR_RETURN(options_.load.model, first_model(client));
    const DecodeSetup& named = options_.decode;
    const bool made_up = named.model.empty() || named.load_format == "dummy";
    list_.line["model"] = (named.model.empty() ? named.model_shape : named.model) + (made_up ? " (dummy weights)" : "");
    list_.line["temperature"] = options_.load.temperature;
    list_.line["top_p"] = named.top_p;
    list_.line["seed"] = options_.load.seed;
    if (has(ServePart::kFirstTokens))
      for (const int32_t tokens : options_.prompts)
        attempt("a prompt of " + std::to_string(tokens), [&] { return first_tokens(tokens); });
    if (has(ServePart::kDecode))
      for (const int32_t batch : kDecodeBatches)
        attempt("decode over HTTP, batch " + std::to_string(batch), [&] { return decode_over_http(batch); });
    if (has(ServePart::kLongPrompt)) attempt("streams beside a long prompt", [&] { return beside_long_prompt(); });
    if (has(ServePart::kMixed)) attempt("mixed load", [&] { return mixed_load(); });
    server_.reset();  // its memory is needed
    for (const ServedPart& part : served_)
      attempt(part.name + ", beside decode in process", [&] { return beside_in_process(part); });
    list_.line["in_process"] = std::move(points_json_);
    return list_.finish(options_.goals_bind, options_.results_dir);
  }

 private:
  bool has(ServePart part) const {
    return std::find(options_.parts.begin(), options_.parts.end(), part) != options_.parts.end();
  }

  // What cannot be measured is a problem of the list and takes nothing else with it: a GPU's time is scarce.
  template <class Measure>
  void attempt(const std::string& what, const Measure& measure) {
    if (interrupted()) return list_.add_problem(what + ": the run was interrupted before its end");
    const Status status = measure();
    if (interrupted()) list_.add_problem(what + ": the run was interrupted");
    else if (!status.ok()) list_.add_problem(what + ": " + status.error().message);
  }
  bool interrupted() const { return options_.load.stop != nullptr && *options_.load.stop; }

  // Decode in process of as many rows at that length, then what was served.
  Status beside_in_process(const ServedPart& part) {
    ASSIGN_OR_RETURN(const std::vector<DecodePoint> points, decode_in_process(part.decode.work));
    list_.show(part.name + ", distinct experts a step", part.decode.work.experts);
    list_.show(part.name + ", read, GB a step", part.decode.work.bytes / 1e9);
    list_.show(part.name + ", read, GB/s", part.decode.gb_s());
    list_.show(part.name + ", read, % of the bandwidth limit", 100 * part.decode.gb_s() / limit_gb_s_);
    const double of_different = 100 * part.decode.gb_s() / points.front().gb_s();
    list_.show(part.name + ", read, % of decode in process of different rows", of_different);
    list_.show(part.name + kEqualWork, equal_work_percent(points, part.decode), part.goal);
    return Ok{};
  }

  void add_served(const std::string& name, const std::optional<DecodeWork>& work, double tok_s, Goal goal) {
    if (work) served_.push_back({name, {*work, tok_s}, goal});
    else list_.show(name + kEqualWork, std::nullopt, goal);
  }

  // With a seed of its own, as long as this server's tokens make them.
  Result<std::vector<Conversation>> prompts(const char* kind, int32_t requests, int32_t prompt_tokens, int32_t answer) {
    const Workload& workload = *find_workload(kind);
    WorkloadOptions wanted;
    wanted.prompt_tokens = std::min(prompt_tokens, context_max_);
    ASSIGN_OR_RETURN(wanted.scale, measure_scale(options_.load.target, options_.load.model, workload,
                                                 options_.load.timeout_ms, wanted.prompt_tokens));
    wanted.seed = options_.load.seed * 1000 + ++sets_;
    wanted.requests = requests;
    wanted.output_tokens = answer;
    return make_conversations(workload, wanted);
  }

  static Status no_errors(const LoadResult& result) {
    const std::string error = first_error_of(result);
    if (!error.empty()) return Error{"a request failed: " + error};
    return Ok{};
  }
  static Status check(const LoadResult& result) {
    if (result.records.empty()) return Error{"no request was made"};
    return no_errors(result);
  }

  // The second of two different prompts, alone.
  Status first_tokens(int32_t tokens) {
    ASSIGN_OR_RETURN(const std::vector<Conversation> two, prompts("long-documents", 2, tokens, 1));
    const LoadResult result = run_load(two, options_.load);
    RETURN_IF_ERROR(check(result));
    const ChatRecord& record = result.records.back();
    const double seconds = static_cast<double>(record.end_ns - record.sent_ns) / 1e9;
    const std::string name = "prompt of " + std::to_string(tokens);
    list_.show(name + ", its tokens", static_cast<double>(record.prompt_tokens),
               tokens > context_max_ ? "cut to the context" : "");
    list_.show(name + ", its tokens found in the prefix cache", static_cast<double>(record.cached_tokens),
               "none but the template's");
    list_.show(name + ", first token, ms", 1e3 * seconds, tokens == 2048 ? below(120) : Goal{});
    const double tok_s = static_cast<double>(record.prompt_tokens - record.cached_tokens) / seconds;
    list_.show(name + ", tok/s", tok_s,
               tokens == 8192     ? at_least(30'000)
               : tokens == 131072 ? at_least(10'000)
                                  : Goal{});
    return Ok{};
  }

  // While all streams are under way.
  Status decode_over_http(int32_t batch) {
    ASSIGN_OR_RETURN(const std::vector<Conversation> all,
                     prompts("long-documents", batch, options_.context, options_.output_tokens));
    ServeLoadOptions load = options_.load;
    load.clients = batch;
    std::atomic<bool> done = false;
    std::vector<Look> looks;
    std::thread watcher([&] {
      for (; !done; std::this_thread::sleep_for(std::chrono::milliseconds(10)))
        looks.push_back({now_ns(), server_->stats()});
    });
    const LoadResult result = run_load(all, load);
    done = true;
    watcher.join();
    RETURN_IF_ERROR(check(result));
    int64_t from = 0, to = INT64_MAX;
    for (const ChatRecord& record : result.records) {
      if (record.arrivals.empty()) return Error{"an answer without text: give --temperature 1, or another --seed"};
      from = std::max(from, record.arrivals.front().at_ns);
      to = std::min(to, record.arrivals.back().at_ns);
    }
    if (from >= to)
      return Error{"answers of " + std::to_string(options_.output_tokens) + " tokens ended before all " +
                   std::to_string(batch) + " streams were under way: give more --output-tokens"};
    const std::string name = "decode over HTTP, batch " + std::to_string(batch);
    const auto first =
        std::find_if(looks.begin(), looks.end(), [from](const Look& look) { return look.at_ns >= from; });
    const auto last = std::find_if(looks.rbegin(), looks.rend(), [to](const Look& look) { return look.at_ns <= to; });
    if (first == looks.end() || last == looks.rend() || first->at_ns >= last->at_ns)
      return Error{"the streams were under way together for too short: give more --output-tokens"};
    const double tok_s = look_at_streams(result.records, first->at_ns, last->at_ns).tok_s;
    const double rate = decode_rate(first->stats, last->stats);
    list_.show(name + ", tok/s", tok_s);
    list_.show(name + ", % of the time inside its own steps",
               rate > 0 ? std::optional(100 * tok_s / rate) : std::nullopt);
    const std::optional<DecodeWork> work = decode_work(first->stats, last->stats);
    add_served(name, work, tok_s, at_least(95));
    return Ok{};
  }

  bool wait_for_tokens(int64_t count) const {
    const int64_t from = server_->stats().output_tokens;
    const int64_t deadline = now_ns() + options_.load.timeout_ms * 1'000'000;
    while (server_->stats().output_tokens < from + count) {
      if (now_ns() > deadline || !server_->stats().healthy || interrupted()) return false;
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
    RETURN_IF_ERROR(no_errors(result));  // a stream of which no text came is no record
    RETURN_IF_ERROR(check(long_result));
    const ChatRecord& record = long_result.records.front();
    const StreamWindow alone = look_at_streams(result.records, begin, record.sent_ns);
    const StreamWindow beside = look_at_streams(result.records, record.sent_ns, record.end_ns);
    const std::string name = "beside a prompt of " + std::to_string(record.prompt_tokens) + ": ";
    list_.show(name + "its first token, ms", static_cast<double>(record.end_ns - record.sent_ns) / 1e6);
    list_.show(name + "between arrivals of four streams, p99, ms", p99_of(beside), below(100));
    list_.show(name + "their tok/s, % of alone",
               alone.tok_s > 0 ? std::optional(100 * beside.tok_s / alone.tok_s) : std::nullopt, at_least(40));
    return Ok{};
  }

  Status mixed_load() {
    MixedLoadOptions mixed;
    mixed.load = options_.load;
    mixed.total_tokens = options_.total_tokens;
    mixed.seconds = options_.seconds;
    mixed.prompt_tokens = options_.mixed_prompt;
    mixed.prompt_tokens_max = context_max_;
    mixed.answer_tokens_max = options_.mixed_answer_max;
    ASSIGN_OR_RETURN(const MixedLoadResult result, run_mixed_load(*server_, mixed));
    const ServeSummary& summary = result.summary;
    for (const std::string& problem : problems_of(result)) list_.add_problem(problem);
    const bool ran = result.tokens > 0 && summary.seconds > result.prefill_s;
    const auto if_ran = [ran](double value) { return ran ? std::optional(value) : std::nullopt; };
    const double decode_s = summary.seconds - result.prefill_s;
    list_.show("mixed load of 8 clients, tokens", static_cast<double>(result.tokens), at_least(kSustainedTokens));
    list_.show("mixed load, seconds", summary.seconds);
    list_.show("mixed load, requests", static_cast<double>(summary.requests));
    list_.show("mixed load, requests that failed", static_cast<double>(summary.requests - summary.completed), "0");
    list_.show("mixed load, tok/s", if_ran(static_cast<double>(result.tokens) / summary.seconds));
    list_.show("mixed load, rows of a decode step", if_ran(result.batch));
    list_.show("mixed load, % of the time in prefill", if_ran(100 * result.prefill_s / summary.seconds));
    const std::string name = "mixed load without its prefill";
    const std::optional<double> decoding = if_ran(static_cast<double>(result.decode_rows) / decode_s);
    list_.show(name + ", tok/s", decoding);
    const bool has_rate = ran && result.decode_tok_s > 0;
    list_.show(name + ", % of the time inside its own steps",
               has_rate ? std::optional(100 * *decoding / result.decode_tok_s) : std::nullopt);
    const bool has_gaps = summary.gap_ms.count > 0;
    list_.show("mixed load, between arrivals, p99, ms", has_gaps ? std::optional(summary.gap_ms.p99) : std::nullopt);
    list_.show("mixed load, resident memory that it added, MB", static_cast<double>(result.resident_added) / 1e6,
               "a few, however many tokens");
    list_.show("mixed load, pages that did not come back", static_cast<double>(result.pages_lost), "0");
    if (ran) add_served(name, result.work, *decoding, at_least(85));
    return Ok{};
  }

  // The first point is of as many rows as the work has, rounded up, which all go different ways.
  Result<std::vector<DecodePoint>> decode_in_process(const DecodeWork& work) {
    const auto fewer = static_cast<int32_t>(work.rows);
    DecodeSetup setup = options_.decode;
    setup.batch = fewer + (work.rows > fewer ? 1 : 0);
    setup.steps = std::min(options_.output_tokens, kDecodeSteps);
    setup.context = std::max(static_cast<int32_t>(work.positions) - setup.steps / 2, 1);
    ASSIGN_OR_RETURN(Decode decode, start_decode(setup));
    std::vector<DecodePoint> points;
    for (int32_t rows = setup.batch; rows >= fewer; --rows) {
      ASSIGN_OR_RETURN(const std::vector<DecodePoint> of_rows, measure_points(decode, rows, setup.steps));
      for (const DecodePoint& point : of_rows) show_point(point, setup.context);
      points.insert(points.end(), of_rows.begin(), of_rows.end());
    }
    if (limit_gb_s_ > 0) return points;
    const std::string device = decode.stack.executor->info().device;
    ASSIGN_OR_RETURN(const ReadBandwidth read, read_bandwidth(setup, options_.read_bytes));
    limit_gb_s_ = bandwidth_limit(setup, device, read);
    list_.line["read_gb_s"] = read.gb_s;
    list_.line["limit_gb_s"] = limit_gb_s_;
    return points;
  }

  void show_point(const DecodePoint& point, int32_t context) {
    const std::string rows = std::to_string(point.rows) + (point.rows == 1 ? " row" : " rows");
    std::string name = "decode in process, " + rows + " at " + std::to_string(context);
    if (point.rows > 1) name += ", " + std::to_string(point.kinds) + " ways";
    list_.show(name + ", tok/s", point.tok_s());
    boost::json::object json;
    json["rows"] = point.rows;
    json["ways"] = point.kinds;
    json["context"] = context;
    json["tok_s"] = point.tok_s();
    json["bytes_per_step"] = point.bytes;
    json["distinct_experts"] = point.experts;
    json["gb_s"] = point.gb_s();
    points_json_.emplace_back(std::move(json));
  }

  ServeAllOptions& options_;
  std::unique_ptr<LocalServer> server_;
  FigureList list_;
  uint64_t sets_ = 0;  // of prompts so far, each with a seed of its own
  int32_t context_max_ = 0;
  std::vector<ServedPart> served_;
  double limit_gb_s_ = 0;
  boost::json::array points_json_;
};

}  // namespace

std::optional<double> p99_of(const StreamWindow& window) {
  return window.gap_ms.count > 0 ? std::optional(window.gap_ms.p99) : std::nullopt;
}

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

bool goals_are_for(const std::string& device, bool made_up, const ModelConfig& config) {
  const Result<ModelConfig> full = model_shape("north");
  CHECK(full.ok());
  return device != "cpu" && made_up && config.layer_count() == full->layer_count() &&
         weight_bytes(config) == weight_bytes(*full);
}

Status run_serve_all(ServeAllOptions& options) { return ServeAll(options).run(); }

}  // namespace boreas
