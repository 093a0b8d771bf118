// See bench_tune.h. Coordinate descent: one number at a time, a step up or down as long as the median step gets
// shorter, rounds over all numbers until nothing helps.
#include "bench_tune.h"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "bench_decode.h"
#include "bench_support.h"

namespace boreas {
namespace {

struct TuneFlags {
  DecodeSetup setup;
  std::string arm = "megakernel";
  int32_t rounds = 2;
  double gain_percent = 0.15;  // less is noise
  std::string results_dir;
};

constexpr int32_t kCreditsMax = 12;
constexpr uint32_t kDelayStep = 400, kDelayMax = 12000;  // clocks

class Tuner {
 public:
  Tuner(const TuneFlags& flags, DecodeRows& rows, cuda::CudaTuning& tuning)
      : flags_(flags), rows_(rows), tuning_(tuning) {}

  Status run() {
    RETURN_IF_ERROR(measure(best_));
    first_ = best_;
    for (int32_t round = 0; round < flags_.rounds; ++round) {
      const double before = best_;
      for (int32_t i = 0; i < cuda::kStreams; ++i) {
        int32_t& credits = tuning_.credits_for(flags_.setup.batch)[static_cast<size_t>(i)];
        RETURN_IF_ERROR(walk(credits, 1, 1, kCreditsMax));
      }
      const bool waits = flags_.setup.arm == CudaArm::kMegakernel;  // for words of other workers
      for (int32_t i = 0; waits && i < kHops; ++i) {
        uint32_t& delay = tuning_.poll_delay[static_cast<size_t>(i)];
        RETURN_IF_ERROR(walk(delay, kDelayStep, 0u, kDelayMax));
      }
      std::fprintf(stderr, "round %d: %.1f us\n", round + 1, best_);
      if (best_ > before * (1 - flags_.gain_percent / 100)) break;
    }
    return Ok{};
  }
  double first() const { return first_; }
  double best() const { return best_; }

 private:
  Status measure(double& median_us) {
    ASSIGN_OR_RETURN(const DecodeRun run, rows_.run(7));
    median_us = spread_of(run.device_us).median;
    return Ok{};
  }
  template <class Number>
  Status walk(Number& number, Number step, Number least, Number most) {
    for (const bool up : {true, false}) {
      bool helped = false;
      while (up ? number + step <= most : number >= least + step) {
        const Number before = number;
        number = up ? number + step : number - step;
        double us = 0;
        RETURN_IF_ERROR(measure(us));
        if (us >= best_ * (1 - flags_.gain_percent / 100)) {
          number = before;
          break;
        }
        best_ = us;
        helped = true;
      }
      if (helped) break;
    }
    return Ok{};
  }

  const TuneFlags& flags_;
  DecodeRows& rows_;
  cuda::CudaTuning& tuning_;
  double first_ = 0, best_ = 0;
};

Status run_tune(TuneFlags flags) {
  RETURN_IF_ERROR(check_has_gpu(flags.setup, "credits and delays"));
  flags.setup.arm = arm_named(flags.arm).arm;
  const auto tuning = std::make_shared<cuda::CudaTuning>(cuda::tuning_of(flags.setup.arm));
  flags.setup.tuning = tuning;
  ASSIGN_OR_RETURN(Decode decode, start_decode(flags.setup));
  RETURN_IF_ERROR(decode.rows.run(7));  // warms up
  Tuner tuner(flags, decode.rows, *tuning);
  RETURN_IF_ERROR(tuner.run());
  boost::json::object line = result_line("tune", flags.arm, decode.stack.executor->info().device);
  line["model_shape"] = flags.setup.model.empty() ? flags.setup.model_shape : flags.setup.model;
  line["batch"] = flags.setup.batch;
  line["context"] = flags.setup.context;
  line["step_us_before"] = tuner.first();
  line["step_us"] = tuner.best();
  const cuda::CudaTuning::Credits& credits = tuning->credits_for(flags.setup.batch);
  line["credits"] = boost::json::array(credits.begin(), credits.end());
  const cuda::CudaTuning::Delays& delays = tuning->poll_delay;
  line["poll_delay"] = boost::json::array(delays.begin(), delays.end());
  if (!record_result(line, flags.results_dir)) return Error{"the result was not recorded"};
  return Ok{};
}

}  // namespace

void add_tune_bench(Command bench, const std::function<void(const Status&)>& finish) {
  const Command tune = bench.add_subcommand("tune", "search the megakernel's credits and delays on this GPU");
  const auto flags = std::make_shared<TuneFlags>();
  flags->setup.device = "cuda";
  flags->setup.model_shape = "north";
  flags->setup.context = 8192;
  flags->setup.steps = 24;
  add_decode_options(tune, flags->setup);
  tune.add_option("--batch", flags->setup.batch, "rows").between(1, 8).show_default();
  tune.add_option("--context", flags->setup.context, "positions before the first step")
      .between(1, 1 << 20)
      .show_default();
  tune.add_option("--steps", flags->setup.steps, "steps a measurement").between(1, 10000).show_default();
  tune.add_option("--rounds", flags->rounds, "over all numbers, at most").between(1, 100).show_default();
  tune.add_option("--arm", flags->arm, "whose: megakernel, graph or dependent (see bench decode)")
      .one_of({"megakernel", "graph", "dependent"})
      .show_default();
  tune.add_option("--results", flags->results_dir, "append the line to <machine>.ndjson in this folder")
      .writable_folder();
  tune.callback([=] { finish(run_tune(*flags)); });
}

}  // namespace boreas
