// GET /metrics: the engine's counters under the names that vLLM uses, because routers and dashboards know those.
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "server/routes.h"

namespace boreas {

namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

class Page {
 public:
  explicit Page(std::string model) : model_(std::move(model)) {}

  void gauge(const char* name, const char* help, double value) { add(name, help, MetricType::Gauge, value); }
  void counter(const char* name, const char* help, int64_t value) {
    add(name, help, MetricType::Counter, static_cast<double>(value));
  }
  // A gauge of both page pools.
  void pools(const char* name, const char* help, int32_t full, int32_t sliding) {
    MetricFamily family{
        name, help, MetricType::Gauge, {metric(MetricType::Gauge, full), metric(MetricType::Gauge, sliding)}};
    family.metric[0].label.push_back({"pool", "full"});
    family.metric[1].label.push_back({"pool", "sliding"});
    families_.push_back(std::move(family));
  }
  void cache_config(int32_t pages) {
    MetricFamily family{"vllm:cache_config_info",
                        "KV memory: positions of a page and pages of the full pool.",
                        MetricType::Gauge,
                        {metric(MetricType::Gauge, 1)}};
    for (const auto& [name, value] : {std::pair{"block_size", kPagePositions}, {"num_gpu_blocks", pages}}) {
      family.metric[0].label.push_back({name, std::to_string(value)});
    }
    families_.push_back(std::move(family));
  }
  void finished(const int64_t (&counts)[4]) {
    constexpr const char* kReasons[] = {"stop", "length", "abort", "error"};
    MetricFamily family{"vllm:request_success_total", "Finished choices by reason.", MetricType::Counter, {}};
    for (size_t i = 0; i < 4; ++i) {
      family.metric.push_back(metric(MetricType::Counter, static_cast<double>(counts[i])));
      family.metric.back().label.push_back({"finished_reason", kReasons[i]});
    }
    families_.push_back(std::move(family));
  }
  std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  prometheus::ClientMetric metric(MetricType type, double value) const {
    prometheus::ClientMetric out;
    out.label = {{"model_name", model_}, {"engine", "0"}};
    (type == MetricType::Gauge ? out.gauge.value : out.counter.value) = value;
    return out;
  }
  void add(const char* name, const char* help, MetricType type, double value) {
    families_.push_back({name, help, type, {metric(type, value)}});
  }

  std::string model_;
  std::vector<MetricFamily> families_;
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
  page.counter("boreas:computed_tokens_total", "Tokens that rows of all kinds computed, repeated work included.",
               stats.computed_tokens);
  page.finished(stats.finished);
  call.responder->send({200, {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}}, page.text()});
}

}  // namespace boreas
