#include "tests/gpu/layer_comparison.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>

#include "base/check.h"
#include "tests/gpu/seeded_pages.h"

namespace boreas {
namespace {

constexpr int32_t kPagesAtOnce = 64;  // made side by side, then copied

// BF16 numbers in order: neighbours differ by one.
int32_t order_of(bf16 bits) {
  const int32_t size = bits & 0x7fff;
  return bits & 0x8000 ? -size : size;
}

boost::json::object json_of(const VectorDistances& distances) {
  return {{"cosine_min", distances.cosine_min},
          {"cosine_layer", distances.cosine_layer},
          {"cosine_position", distances.cosine_position},
          {"rms_max", distances.rms_max},
          {"rms_layer", distances.rms_layer},
          {"rms_position", distances.rms_position},
          {"layer_cosine_min", distances.layer_cosine_min},
          {"layer_rms_max", distances.layer_rms_max},
          {"compared", distances.compared},
          {"outside", distances.outside}};
}

Status fill_pool(Executor& executor, const ModelConfig& config, PagePoolKind pool, int32_t context) {
  const bool full = pool == PagePoolKind::kFull;
  const ExecutorInfo& info = executor.info();
  const size_t bytes = static_cast<size_t>(full ? info.page_bytes_full : info.page_bytes_sliding);
  if (bytes == 0) return Ok{};
  const int32_t pages = full ? info.pages_full : info.pages_sliding;
  const int32_t oldest = full ? 0 : std::max(0, context - (config.window - 1)) / kPagePositions;
  const int32_t end = context / kPagePositions + 1;  // the first token's page included
  std::vector<std::vector<std::byte>> contents(kPagesAtOnce, std::vector<std::byte>(bytes));
  for (int32_t first = oldest; first < end; first += kPagesAtOnce) {
    const int32_t count = std::min(kPagesAtOnce, end - first);
    std::vector<std::thread> threads;
    const int32_t workers = std::clamp<int32_t>(static_cast<int32_t>(std::thread::hardware_concurrency()), 1, count);
    for (int32_t worker = 0; worker < workers; ++worker)
      threads.emplace_back([&, worker] {
        for (int32_t i = worker; i < count; i += workers)
          fill_seeded_page(config, pool, first + i, context, contents[static_cast<size_t>(i)]);
      });
    for (std::thread& thread : threads) thread.join();
    for (int32_t i = 0; i < count; ++i)
      RETURN_IF_ERROR(executor.restore_page(pool, PageId((first + i) % pages), contents[static_cast<size_t>(i)]));
  }
  return Ok{};
}

// Pages [first, end) of a sequence; page j lies in page j mod pages of the pool.
std::vector<PageId> page_table(int32_t first, int32_t end, int32_t pages) {
  std::vector<PageId> table;
  for (int32_t page = first; page < end; ++page) table.push_back(PageId(page % pages));
  return table;
}

Status run_tokens(Executor& executor, const ModelConfig& config, const OracleRun& run, int32_t plan_tokens) {
  const int32_t count = static_cast<int32_t>(run.tokens.size());
  for (int32_t done = 0; done < count;) {
    const int32_t take = std::min(count - done, plan_tokens);
    StepRow row;
    row.position = run.context + done;
    row.tokens = std::span(run.tokens).subspan(static_cast<size_t>(done), static_cast<size_t>(take));
    const int32_t end = (row.position + take - 1) / kPagePositions + 1;
    row.sliding_first = std::max(0, row.position - (config.window - 1)) / kPagePositions;
    const auto full = page_table(0, end, executor.info().pages_full);
    const auto sliding = page_table(row.sliding_first, end, executor.info().pages_sliding);
    row.full_pages = full;
    row.sliding_pages = sliding;
    StepPlan plan;
    plan.rows.push_back(row);
    ASSIGN_OR_RETURN(const StepTicket ticket, executor.submit(plan));
    const auto result = executor.wait(ticket);
    if (!result.ok()) return result.error();
    done += take;
  }
  return Ok{};
}

}  // namespace

// ---- one run's numbers

void LayerComparison::Sums::add(const Sums& other) {
  product += other.product;
  ours += other.ours;
  oracle += other.oracle;
  difference += other.difference;
}
double LayerComparison::Sums::cosine() const { return product / std::sqrt(ours * oracle); }
double LayerComparison::Sums::rms() const { return std::sqrt(difference / oracle); }

LayerComparison::Sums LayerComparison::compare(const float* ours, const bf16* oracle, int32_t count) {
  Sums sums;
  for (int32_t i = 0; i < count; ++i) {
    const double a = ours[i], b = bf16_to_float(oracle[i]);
    sums.product += a * b;
    sums.ours += a * a;
    sums.oracle += b * b;
    sums.difference += (a - b) * (a - b);
  }
  return sums;
}

void LayerComparison::begin(const OracleRun& run) {
  run_ = &run;
  report_ = {};
  report_.run = run.name;
  report_.context = run.context;
  report_.positions = static_cast<int32_t>(run.tokens.size());
  attention_layers_.assign(static_cast<size_t>(config_.layer_count()), {});
  mlp_layers_ = attention_layers_;
  tokens_seen_ = 0;
}

size_t LayerComparison::oracle_row(int32_t layer, int32_t token) const {
  return static_cast<size_t>(layer) * run_->tokens.size() + static_cast<size_t>(token);
}

void LayerComparison::give_inputs(const cuda::StepParams& step, std::span<uint16_t> inputs) {
  CHECK(run_ != nullptr);
  const size_t hidden = static_cast<size_t>(config_.hidden_size);
  for (int32_t layer = 0; layer < config_.layer_count(); ++layer) {
    for (int32_t row = 0; row < step.rows; ++row) {
      const int32_t token = step.row[row].position - run_->context;
      CHECK(token >= 0 && token < report_.positions);
      const size_t to = static_cast<size_t>(layer * cuda::kRowsMax + row) * hidden;
      std::copy_n(run_->inputs.data() + oracle_row(layer, token) * hidden, hidden, inputs.data() + to);
    }
  }
}

void LayerComparison::take_outputs(const cuda::StepParams& step, std::span<const float> outputs,
                                   std::span<const int32_t> routes) {
  const size_t hidden = static_cast<size_t>(config_.hidden_size),
               chosen = static_cast<size_t>(config_.experts_per_token);
  for (int32_t layer = 0; layer < config_.layer_count(); ++layer) {
    for (int32_t row = 0; row < step.rows; ++row) {
      const size_t attention = static_cast<size_t>(layer * 2 * cuda::kRowsMax + row) * hidden;
      const float* from = outputs.data() + attention;
      compare_row(layer, step.row[row].position - run_->context, from, from + cuda::kRowsMax * hidden,
                  routes.data() + static_cast<size_t>(layer * cuda::kRowsMax + row) * chosen);
    }
  }
  tokens_seen_ += step.rows;
}

void LayerComparison::compare_row(int32_t layer, int32_t token, const float* attention, const float* mlp,
                                  const int32_t* route) {
  const size_t at = oracle_row(layer, token) * static_cast<size_t>(config_.hidden_size);
  const Sums of_attention = compare(attention, run_->attention.data() + at, config_.hidden_size);
  take(of_attention, layer, token, report_.attention);
  attention_layers_[static_cast<size_t>(layer)].add(of_attention);
  if (config_.is_moe(layer) && !compare_routes(layer, token, route)) return;
  const Sums of_mlp = compare(mlp, run_->mlp.data() + at, config_.hidden_size);
  take(of_mlp, layer, token, report_.mlp);
  mlp_layers_[static_cast<size_t>(layer)].add(of_mlp);
}

void LayerComparison::take(const Sums& sums, int32_t layer, int32_t token, VectorDistances& into) const {
  const double cosine = sums.cosine(), rms = sums.rms();
  ++into.compared;
  if (!(cosine >= limits_.cosine_min && rms <= limits_.rms_max)) ++into.outside;  // NaN is outside
  if (!(cosine >= into.cosine_min)) {
    into.cosine_min = cosine;
    into.cosine_layer = layer;
    into.cosine_position = run_->context + token;
  }
  if (!(rms <= into.rms_max)) {
    into.rms_max = rms;
    into.rms_layer = layer;
    into.rms_position = run_->context + token;
  }
}

bool LayerComparison::compare_routes(int32_t layer, int32_t token, const int32_t* route) {
  const size_t chosen = static_cast<size_t>(config_.experts_per_token);
  std::vector<int32_t> ours(route, route + chosen);
  const int32_t* from = run_->routes.data() + oracle_row(layer, token) * chosen;
  std::vector<int32_t> theirs(from, from + chosen);
  std::sort(ours.begin(), ours.end());
  std::sort(theirs.begin(), theirs.end());
  RouteDifferences& routes = report_.routes;
  ++routes.compared;
  if (ours == theirs) return true;
  ++routes.different;
  const bf16* logits = run_->router.data() + oracle_row(layer, token) * static_cast<size_t>(config_.experts);
  int32_t best = std::numeric_limits<int32_t>::min(), least = std::numeric_limits<int32_t>::max();
  bool in_range = true;
  for (const int32_t expert : theirs)  // that only the oracle chose
    if (!std::binary_search(ours.begin(), ours.end(), expert)) best = std::max(best, order_of(logits[expert]));
  for (const int32_t expert : ours) {  // that only we chose
    if (expert < 0 || expert >= config_.experts) in_range = false;
    else if (!std::binary_search(theirs.begin(), theirs.end(), expert))
      least = std::min(least, order_of(logits[expert]));
  }
  const bool exchanged = in_range && least != std::numeric_limits<int32_t>::max();
  const int32_t ulps = exchanged ? std::max(0, best - least) : std::numeric_limits<int32_t>::max();
  ++routes.by_ulps[static_cast<size_t>(std::min(ulps, kUlpsCounted - 1))];
  if (ulps < routes.ulps_max || (ulps == routes.ulps_max && routes.worst_layer >= 0)) return false;
  routes.ulps_max = ulps;
  routes.worst_layer = layer;
  routes.worst_position = run_->context + token;
  return false;
}

LayerReport LayerComparison::end() {
  CHECK(run_ != nullptr && tokens_seen_ == report_.positions);
  for (int32_t layer = 0; layer < config_.layer_count(); ++layer) {
    for (VectorDistances* into : {&report_.attention, &report_.mlp}) {
      const Sums& sums = (into == &report_.attention ? attention_layers_ : mlp_layers_)[static_cast<size_t>(layer)];
      if (sums.oracle == 0) continue;  // all positions of the layer left out
      into->layer_cosine_min = std::min(into->layer_cosine_min, sums.cosine());
      into->layer_rms_max = std::max(into->layer_rms_max, sums.rms());
    }
  }
  report_.ok = report_.attention.outside == 0 && report_.mlp.outside == 0 && report_.attention.compared > 0 &&
               report_.mlp.compared > 0 && report_.routes.ulps_max <= limits_.route_ulps_max;
  run_ = nullptr;
  return report_;
}

std::string LayerReport::json_line() const {
  boost::json::array by_ulps;
  for (const int64_t count : routes.by_ulps) by_ulps.push_back(count);
  const boost::json::object route_object = {
      {"compared", routes.compared}, {"different", routes.different},     {"by_ulps", std::move(by_ulps)},
      {"ulps_max", routes.ulps_max}, {"worst_layer", routes.worst_layer}, {"worst_position", routes.worst_position}};
  return boost::json::serialize(boost::json::object{{"run", run},
                                                    {"context", context},
                                                    {"positions", positions},
                                                    {"attention", json_of(attention)},
                                                    {"mlp", json_of(mlp)},
                                                    {"routes", route_object},
                                                    {"ok", ok}});
}

// ---- running it

PagesNeeded pages_needed(const ModelConfig& config, const std::vector<OracleRun>& runs) {
  PagesNeeded needed;
  for (const OracleRun& run : runs)
    needed.context = std::max(needed.context, run.context + static_cast<int32_t>(run.tokens.size()));
  needed.full = (needed.context + kPagePositions - 1) / kPagePositions;
  needed.sliding = std::clamp((config.window + kLayerPlanTokens) / kPagePositions + 2, 2, std::max(2, needed.full));
  return needed;
}

Result<LayerReport> compare_run(Executor& executor, const ModelConfig& config, const OracleRun& run,
                                LayerComparison& comparison, int32_t plan_tokens) {
  CHECK(plan_tokens >= 1 && plan_tokens <= kLayerPlanTokens);
  if (run.context > 0) {
    RETURN_IF_ERROR(fill_pool(executor, config, PagePoolKind::kFull, run.context));
    RETURN_IF_ERROR(fill_pool(executor, config, PagePoolKind::kSliding, run.context));
  }
  comparison.begin(run);
  SequenceSpec spec;
  spec.prompt = run.tokens;
  executor.open_sequence(0, spec);
  const Status status = run_tokens(executor, config, run, plan_tokens);
  executor.close_sequence(0);
  if (!status.ok()) return status.error();
  return comparison.end();
}

}  // namespace boreas
