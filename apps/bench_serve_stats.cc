#include "bench_serve_stats.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

namespace boreas {

namespace json = boost::json;

namespace {

constexpr double kNsPerMs = 1e6, kNsPerSecond = 1e9;
constexpr double kTokensPerArrivalNormal = 2;  // some come together in any stream

double ms(int64_t ns) { return static_cast<double>(ns) / kNsPerMs; }

struct Samples {
  std::vector<Sample> ttft, itl, gap, e2e;
};

void take_times(const ChatRecord& record, Samples& samples) {
  samples.e2e.push_back({ms(record.end_ns - record.sent_ns)});
  if (record.arrivals.empty()) return;
  samples.ttft.push_back({ms(record.arrivals.front().at_ns - record.sent_ns)});
  for (size_t i = 1; i < record.arrivals.size(); ++i) {
    const Arrival& arrival = record.arrivals[i];
    const double gap = ms(arrival.at_ns - record.arrivals[i - 1].at_ns);
    samples.gap.push_back({gap});
    samples.itl.push_back({gap / static_cast<double>(arrival.tokens), arrival.tokens});
  }
}

json::object percentiles_json(const Percentiles& of) {
  return {{"mean", of.mean}, {"p50", of.p50}, {"p90", of.p90}, {"p99", of.p99}, {"max", of.max}};
}

void print_percentiles(std::ostream& out, const char* name, const Percentiles& of) {
  char row[160];
  std::snprintf(row, sizeof row, "%-24s %10.2f %10.2f %10.2f %10.2f %10.2f\n", name, of.mean, of.p50, of.p90, of.p99,
                of.max);
  out << row;
}

}  // namespace

Percentiles percentiles_of(std::vector<Sample> samples) {
  Percentiles all;
  std::sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) { return a.value < b.value; });
  double sum = 0;
  for (const Sample& sample : samples) {
    all.count += sample.times;
    sum += sample.value * static_cast<double>(sample.times);
  }
  if (all.count == 0) return all;
  all.mean = sum / static_cast<double>(all.count);
  all.max = samples.back().value;
  const auto at = [&](int64_t percent) {
    int64_t left = (all.count * percent + 99) / 100;  // rank from 1 on
    for (const Sample& sample : samples) {
      left -= sample.times;
      if (left <= 0) return sample.value;
    }
    return all.max;
  };
  all.p50 = at(50);
  all.p90 = at(90);
  all.p99 = at(99);
  return all;
}

ServeSummary summarize(const LoadResult& result) {
  ServeSummary summary;
  Samples samples;
  int64_t arrivals = 0, arrived = 0;
  double busy_s = 0;
  summary.seconds = result.seconds;
  summary.requests = static_cast<int64_t>(result.records.size());
  for (const ChatRecord& record : result.records) {
    busy_s += static_cast<double>(record.end_ns - record.sent_ns) / kNsPerSecond;
    summary.waits_429 += record.waits_429;
    if (!record.error.empty()) {
      ++summary.errors[record.error];
      continue;
    }
    ++summary.completed;
    summary.has_usage = summary.has_usage && record.has_usage;
    summary.prompt_tokens += record.prompt_tokens;
    summary.cached_tokens += record.cached_tokens;
    summary.output_tokens += record.output_tokens;
    arrivals += static_cast<int64_t>(record.arrivals.size());
    for (const Arrival& arrival : record.arrivals) arrived += arrival.tokens;
    take_times(record, samples);
  }
  if (summary.seconds > 0) {
    summary.tok_s = static_cast<double>(summary.output_tokens) / summary.seconds;
    summary.requests_s = static_cast<double>(summary.completed) / summary.seconds;
    summary.under_way = busy_s / summary.seconds;
  }
  if (arrivals > 0) summary.tokens_per_arrival = static_cast<double>(arrived) / static_cast<double>(arrivals);
  summary.ttft_ms = percentiles_of(std::move(samples.ttft));
  summary.itl_ms = percentiles_of(std::move(samples.itl));
  summary.gap_ms = percentiles_of(std::move(samples.gap));
  summary.e2e_ms = percentiles_of(std::move(samples.e2e));
  return summary;
}

void add_summary(const ServeSummary& summary, json::object& line) {
  json::object kinds;
  int64_t errors = 0;
  for (const auto& error : summary.errors) {
    kinds[error.first] = error.second;
    errors += error.second;
  }
  line["requests"] = summary.requests;
  line["completed"] = summary.completed;
  line["errors"] = errors;
  line["error_kinds"] = std::move(kinds);
  line["waits_429"] = summary.waits_429;
  line["prompt_tokens"] = summary.prompt_tokens;
  line["cached_tokens"] = summary.cached_tokens;
  line["output_tokens"] = summary.output_tokens;
  line["tokens_from_usage"] = summary.has_usage;
  line["seconds"] = summary.seconds;
  line["tok_s"] = summary.tok_s;
  line["requests_s"] = summary.requests_s;
  line["under_way"] = summary.under_way;
  line["tokens_per_arrival"] = summary.tokens_per_arrival;
  line["ttft_ms"] = percentiles_json(summary.ttft_ms);
  line["itl_ms"] = percentiles_json(summary.itl_ms);
  line["gap_ms"] = percentiles_json(summary.gap_ms);
  line["e2e_ms"] = percentiles_json(summary.e2e_ms);
}

void print_summary(std::ostream& out, const ServeSummary& summary) {
  char row[256];
  std::snprintf(row, sizeof row, "\n%lld of %lld requests completed in %.2f s, %.1f under way on average\n",
                static_cast<long long>(summary.completed), static_cast<long long>(summary.requests), summary.seconds,
                summary.under_way);
  out << row;
  for (const auto& error : summary.errors) out << "  " << error.second << " failed: " << error.first << "\n";
  if (summary.waits_429 > 0) out << "  " << summary.waits_429 << " times told to come back later (429)\n";
  std::snprintf(row, sizeof row, "output %.1f tok/s, %.3f requests/s; %lld prompt tokens (%lld cached), %lld output\n",
                summary.tok_s, summary.requests_s, static_cast<long long>(summary.prompt_tokens),
                static_cast<long long>(summary.cached_tokens), static_cast<long long>(summary.output_tokens));
  out << row;
  if (!summary.has_usage) out << "the server tells no usage: every chunk with text counts as a token\n";
  if (summary.tokens_per_arrival > kTokensPerArrivalNormal) {
    std::snprintf(row, sizeof row,
                  "pieces hold %.1f tokens on average: tokens without text come unseen (markers; made-up weights at "
                  "temperature 0\nrepeat them), and the times below are then those of the next text\n",
                  summary.tokens_per_arrival);
    out << row;
  }
  std::snprintf(row, sizeof row, "%-24s %10s %10s %10s %10s %10s\n", "ms", "mean", "p50", "p90", "p99", "max");
  out << row;
  print_percentiles(out, "time to first token", summary.ttft_ms);
  print_percentiles(out, "between tokens", summary.itl_ms);
  print_percentiles(out, "between arrivals", summary.gap_ms);
  print_percentiles(out, "end to end", summary.e2e_ms);
}

double decode_rate(const EngineStats& before, const EngineStats& after) {
  const int64_t rows = after.decode_rows - before.decode_rows;
  const int64_t time_ns = (after.step_ns - before.step_ns) - (after.prefill_ns - before.prefill_ns);
  return time_ns > 0 ? static_cast<double>(rows) * 1e9 / static_cast<double>(time_ns) : 0;
}

}  // namespace boreas
