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

}  // namespace

void serve_metrics(Serving& serving, Call&& call) {
  const EngineStats stats = serving.model().served.engine->stats();
  const double used = std::max(share_used(stats.pages_full_free, stats.pages_full),
                               share_used(stats.pages_sliding_free, stats.pages_sliding));
  Page page(serving.options().model_names.front());
  page.gauge("vllm:num_requests_running", "Sequences in the running batch.", stats.running);
  page.gauge("vllm:num_requests_waiting", "Requests waiting to start.", stats.waiting);
  page.gauge("vllm:kv_cache_usage_perc", "KV pages in use, 1 = all.", used);
  page.gauge("vllm:gpu_cache_usage_perc", "The same under its former name.", used);
  page.counter("vllm:prompt_tokens_total", "Prompt tokens computed or taken from the prefix cache.",
               stats.prompt_tokens + stats.cached_tokens);
  page.counter("vllm:prompt_tokens_cached_total", "Prompt tokens taken from the prefix cache.", stats.cached_tokens);
  page.counter("vllm:generation_tokens_total", "Tokens generated.", stats.output_tokens);
  page.counter("vllm:num_preemptions_total", "Sequences preempted.", stats.preemptions);
  page.finished(stats.finished);
  call.responder->send({200, {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}}, page.text()});
}

}  // namespace boreas
