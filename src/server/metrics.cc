// GET /metrics: the engine's counters under the names that vLLM uses, because routers and dashboards know those, in the
// text format of Prometheus (version 0.0.4). Written here and not by prometheus-cpp: Debian has no static library of
// it, and the portable binary needs one (decision 0004).
#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "server/routes.h"
#include "server/traffic.h"

namespace boreas {

namespace {

// Backslash and line feed are escaped in help texts, quotes as well in label values.
std::string escaped(std::string_view text, bool in_quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') out += "\\n";
    else if (c == '\\' || (c == '"' && in_quotes)) out.append({'\\', c});
    else out += c;
  }
  return out;
}

// The shortest text that reads back as the same number.
std::string number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  CHECK(end.ec == std::errc());
  return {text, end.ptr};
}

class Page {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  explicit Page(std::string model) : model_(std::move(model)) {}

  void gauge(const char* name, const char* help, double value) {
    family(name, help, "gauge");
    sample(name, {}, value);
  }
  void counter(const char* name, const char* help, int64_t value) {
    family(name, help, "counter");
    sample(name, {}, static_cast<double>(value));
  }
  // A gauge of both page pools.
  void pools(const char* name, const char* help, int32_t full, int32_t sliding) {
    family(name, help, "gauge");
    sample(name, {{"pool", "full"}}, full);
    sample(name, {{"pool", "sliding"}}, sliding);
  }
  void cache_config(int32_t pages) {
    constexpr const char* kName = "vllm:cache_config_info";
    family(kName, "KV memory: positions of a page and pages of the full pool.", "gauge");
    sample(kName, {{"block_size", std::to_string(kPagePositions)}, {"num_gpu_blocks", std::to_string(pages)}}, 1);
  }
  void finished(const int64_t (&counts)[4]) {
    constexpr const char* kReasons[] = {"stop", "length", "abort", "error"};
    constexpr const char* kName = "vllm:request_success_total";
    family(kName, "Finished choices by reason.", "counter");
    for (size_t i = 0; i < 4; ++i) sample(kName, {{"finished_reason", kReasons[i]}}, static_cast<double>(counts[i]));
  }
  void histogram(const std::string& name, const char* help, const Histogram& values) {
    family(name, help, "histogram");
    int64_t count = 0;
    for (size_t i = 0; i < values.counts().size(); ++i) {
      count += values.counts()[i];
      const std::string bound = i < values.bounds().size() ? number(values.bounds()[i]) : "+Inf";
      sample(name + "_bucket", {{"le", bound}}, static_cast<double>(count));
    }
    sample(name + "_sum", {}, values.sum());
    sample(name + "_count", {}, static_cast<double>(count));
  }
  void answers(const std::map<Traffic::Answer, int64_t>& counts) {
    constexpr const char* kName = "http_requests_total";
    family(kName, "Answers by route, method and status.", "counter");
    for (const auto& [answer, count] : counts) {
      const auto& [handler, method, status] = answer;
      sample(kName,
             {{"handler", std::string(handler)}, {"method", std::string(method)}, {"status", std::to_string(status)}},
             static_cast<double>(count));
    }
  }
  const std::string& text() const { return text_; }

 private:
  void family(std::string_view name, std::string_view help, std::string_view type) {
    text_ += "# HELP " + std::string(name) + " " + escaped(help, false) + "\n";
    text_ += "# TYPE " + std::string(name) + " " + std::string(type) + "\n";
  }
  void sample(std::string_view name, const Labels& labels, double value) {
    text_ += std::string(name) + "{model_name=\"" + escaped(model_, true) + "\",engine=\"0\"";
    for (const auto& [label, its] : labels) text_ += "," + label + "=\"" + escaped(its, true) + "\"";
    text_ += "} " + number(value) + "\n";
  }

  std::string model_;
  std::string text_;
};

double share_used(int32_t free, int32_t all) {
  return all > 0 ? 1.0 - static_cast<double>(free) / static_cast<double>(all) : 0.0;
}

void add_pages(Page& page, const EngineStats& stats) {
  const double used = std::max(share_used(stats.pages_full_free, stats.pages_full),
                               share_used(stats.pages_sliding_free, stats.pages_sliding));
  page.gauge("vllm:kv_cache_usage_perc", "KV pages in use, 1 = all.", used);
  page.gauge("vllm:gpu_cache_usage_perc", "The same under its former name.", used);
  page.cache_config(stats.pages_full);
  page.pools("boreas:pages_free", "KV pages that no sequence uses, cached ones among them.", stats.pages_full_free,
             stats.pages_sliding_free);
  page.pools("boreas:pages_cached", "Of the free KV pages, those that the prefix cache holds.", stats.pages_full_cached,
             stats.pages_sliding_cached);
}

// In tokens.
void add_prefix_cache(Page& page, const EngineStats& stats) {
  const int64_t queries = stats.prefix_query_tokens, hits = stats.cached_tokens;
  page.counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", queries);
  page.counter("vllm:prefix_cache_hits_total", "Prompt tokens found there.", hits);
  page.counter("vllm:gpu_prefix_cache_queries_total", "Queries under their former name.", queries);
  page.counter("vllm:gpu_prefix_cache_hits_total", "Hits under their former name.", hits);
  page.gauge("vllm:gpu_prefix_cache_hit_rate", "Hits by queries, of all time.",
             queries > 0 ? static_cast<double>(hits) / static_cast<double>(queries) : 0.0);
}

void add_preemption(Page& page, const EngineStats& stats) {
  page.counter("vllm:num_preemptions_total", "Sequences preempted.", stats.preemptions);
  page.counter("boreas:preemption_recomputations_total",
               "Preemptions for which host memory had no room: computed again.", stats.recomputations);
  page.counter("boreas:swapped_out_pages_total", "KV pages copied to host memory.", stats.swapped_out_pages);
  page.counter("boreas:swapped_in_pages_total", "KV pages copied back.", stats.swapped_in_pages);
  page.gauge("boreas:swap_bytes_used", "Host memory that holds swapped pages.",
             static_cast<double>(stats.swap_bytes_used));
  page.gauge("boreas:swap_bytes_max", "Bound of that (--swap-space).", static_cast<double>(stats.swap_bytes_max));
}

void add_decode_reads(Page& page, const DecodeReads& reads) {
  page.counter("boreas:decode_read_steps_total", "Steps that decoded only and whose reads were counted.", reads.steps);
  page.counter("boreas:decode_read_rows_total", "Rows of those steps.", reads.rows);
  page.counter("boreas:decode_read_experts_total", "Experts that those steps read, over all layers.",
               reads.distinct_experts);
  page.counter("boreas:decode_read_bytes_total", "Weights and KV that those steps read.", reads.bytes);
}

void add_traffic(Page& page, const Traffic& traffic) {
  page.histogram("vllm:time_to_first_token_seconds", "From a request's arrival to a choice's first token.",
                 traffic.first_token_s);
  page.histogram("vllm:inter_token_latency_seconds", "From token to token of a choice.", traffic.between_tokens_s);
  page.histogram("vllm:time_per_output_token_seconds", "The same under its former name.", traffic.between_tokens_s);
  page.histogram("vllm:e2e_request_latency_seconds", "From a request's arrival to its end.", traffic.whole_s);
  page.histogram("vllm:request_prompt_tokens", "Prompt tokens of finished requests.", traffic.prompt_tokens);
  page.histogram("vllm:request_generation_tokens", "Generated tokens of finished requests.", traffic.output_tokens);
  page.answers(traffic.answers);
}

}  // namespace

void serve_metrics(Serving& serving, Call&& call) {
  const EngineStats stats = serving.model().served.engine->stats();
  Page page(serving.options().model_names.front());
  page.gauge("vllm:num_requests_running", "Sequences in the running batch.", stats.running);
  page.gauge("vllm:num_requests_waiting", "Requests waiting to start.", stats.waiting);
  add_pages(page, stats);
  page.counter("vllm:prompt_tokens_total", "Prompt tokens computed or taken from the prefix cache.",
               stats.prompt_tokens + stats.cached_tokens);
  page.counter("vllm:prompt_tokens_cached_total", "Prompt tokens taken from the prefix cache.", stats.cached_tokens);
  page.counter("vllm:generation_tokens_total", "Tokens generated.", stats.output_tokens);
  add_prefix_cache(page, stats);
  add_preemption(page, stats);
  page.counter("boreas:steps_total", "Steps of the executor.", stats.steps);
  add_decode_reads(page, stats.decode_reads);
  page.counter("boreas:computed_tokens_total", "Tokens that rows of all kinds computed, repeated work included.",
               stats.computed_tokens);
  page.finished(stats.finished);
  add_traffic(page, serving.traffic());
  call.responder->send({200, {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}}, page.text()});
}

}  // namespace boreas
