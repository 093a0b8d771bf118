// See bench_parts.h. One executor a batch size: whole and parts differ in what is handed over with a launch, so they
// run in turn, round after round from the same seeds, and a machine that slows down slows all of them. Bits must not
// differ, so neither may the experts they hit.
#include "bench_parts.h"

#include <cstdio>
#include <iostream>
#include <memory>

#include "bench_decode.h"
#include "bench_figures.h"
#include "bench_support.h"
#include "program/compile.h"

namespace boreas {
namespace {

struct PartsFlags {
  DecodeSetup setup;
  std::vector<int32_t> batches{1, 8};
  int32_t runs = 5;
  bool arms = true;
  std::string results_dir;
};

constexpr uint64_t kFirstSeed = 1000;
constexpr int32_t kRingChunks[] = {4, 8};  // that are tried, where the program's ring has more

struct Measured {
  std::string title;
  DecodeFigures figures;
  boost::json::object line;
};

Status record(const PartsFlags& flags, Measured& measured, boost::json::object line) {
  measured.line = std::move(line);
  if (!record_result(measured.line, flags.results_dir)) return Error{"the result was not recorded"};
  return Ok{};
}

// The whole design and that without a part, of one executor.
Status measure_parts(const PartsFlags& flags, DecodeSetup setup, std::vector<Measured>& measured) {
  const auto tuning = std::make_shared<cuda::CudaTuning>();
  setup.tuning = tuning;
  ASSIGN_OR_RETURN(Decode decode, start_decode(setup));
  // Only the ring is asked for; shared memory is the same on all Hopper chips.
  ASSIGN_OR_RETURN(const Program program, compile(decode.stack.model->config(), h200_spec(), setup.batch));
  const std::vector<DesignPart> parts = design_parts(setup.batch, program);
  for (const DesignPart& part : parts) measured.push_back({part.without, {}, {}});
  for (int32_t run = -1; run < flags.runs; ++run) {  // run -1 warms up
    int64_t bytes = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      *tuning = parts[i].tuning;
      ASSIGN_OR_RETURN(const DecodeRun done, decode.rows.run(kFirstSeed + static_cast<uint64_t>(run + 1)));
      if (i == 0) bytes = done.bytes;
      if (done.bytes != bytes)
        return Error{"\"" + parts[i].without + "\" read " + std::to_string(done.bytes) + " bytes, the whole design " +
                     std::to_string(bytes) + ": their tokens differ"};
      if (run >= 0) measured[i].figures.add(setup, done);
    }
  }
  ASSIGN_OR_RETURN(const ReadBandwidth read, read_bandwidth(setup));
  for (Measured& each : measured) {
    boost::json::object line = decode_line(setup, each.figures, decode.stack.executor->info().device, read);
    if (!each.title.empty()) {
      line["without"] = each.title;
      line["tok_s_with"] = measured.front().figures.tok_s().median;
    }
    RETURN_IF_ERROR(record(flags, each, std::move(line)));
  }
  measured.front().title = "megakernel";
  return Ok{};
}

Status measure_arm(const PartsFlags& flags, const DecodeSetup& setup, std::vector<Measured>& measured) {
  Measured& arm = measured.emplace_back();
  ASSIGN_OR_RETURN(arm.line, measure_decode(setup, flags.runs, kFirstSeed, flags.results_dir));
  arm.title = arm_title(name_of(setup.arm).name, arm.line.at("cut").as_string().c_str());
  return Ok{};
}

void print_parts(int32_t batch, const std::vector<Measured>& measured) {
  const double whole = number_of(measured.front().line, "tok_s");
  std::printf("\n%-42s %10s %10s %8s\n", ("batch " + std::to_string(batch)).c_str(), "tok/s", "of limit", "loss");
  for (const Measured& each : measured) {
    const double tok_s = number_of(each.line, "tok_s"), percent = number_of(each.line, "percent_of_limit");
    const bool untuned = is_untuned(each.line.at("arm").as_string().c_str(), batch, percent);
    std::printf("%-42s %10.1f %8.1f %% ", each.title.c_str(), tok_s, percent);
    if (untuned) std::printf(" untuned: no gain counts against it\n");
    else std::printf("%6.1f %%\n", 100 * (1 - tok_s / whole));
  }
  std::fflush(stdout);
}

Status run_parts(const PartsFlags& flags) {
  RETURN_IF_ERROR(check_has_gpu(flags.setup, "parts of the megakernel"));
  for (int32_t batch : flags.batches) {
    DecodeSetup setup = flags.setup;
    setup.batch = batch;
    std::vector<Measured> measured;
    RETURN_IF_ERROR(measure_parts(flags, setup, measured));
    for (const ArmName& arm : kArms) {
      if (!flags.arms || arm.arm == CudaArm::kMegakernel) continue;
      setup.arm = arm.arm;
      RETURN_IF_ERROR(measure_arm(flags, setup, measured));
    }
    print_parts(batch, measured);
  }
  return Ok{};
}

}  // namespace

std::vector<DesignPart> design_parts(int32_t batch, const Program& program) {
  const int32_t ring_chunks = program.ring_chunks;
  const cuda::CudaTuning whole;
  std::vector<DesignPart> parts{{"", whole}};
  const auto without = [&](const std::string& what) -> cuda::CudaTuning& {
    return parts.emplace_back(DesignPart{what, whole}).tuning;
  };
  for (int32_t chunks : kRingChunks)
    if (chunks < ring_chunks) without("ring: " + std::to_string(chunks) + " chunks").ring_chunks_max = chunks;
  without("credits: 1 chunk in flight").credits_for(batch).fill(1);
  without("no credits: as many as the ring holds").credits_for(batch).fill(ring_chunks);
  without("looks at hops at once: poll delays 0").poll_delay.fill(0);
  if (program.producers > 1) without("one producer warp").producers_max = 1;
  if (program.slots[static_cast<size_t>(Slot::kInnerFirst)].bytes > 0)
    without("inner vectors published at once").early_inner = false;
  if (batch == 1) without("kernel for any number of rows").one_row_kernel = false;
  return parts;
}

void add_parts_bench(Command bench, const std::function<void(const Status&)>& finish) {
  const Command parts = bench.add_subcommand(
      "parts", "the megakernel without one part of its design at a time, and the arms: what each part buys");
  const auto flags = std::make_shared<PartsFlags>();
  flags->setup.device = "cuda";
  flags->setup.model_shape = "north";
  flags->setup.context = 8192;
  flags->setup.steps = 64;
  add_decode_options(parts, flags->setup);
  parts.add_option("--batch", flags->batches, "rows; several, as in 1,8, make a table each")
      .between(1, 8)
      .separated_by(',')
      .show_default();
  parts.add_option("--context", flags->setup.context, "positions before the first step")
      .between(1, 1 << 20)
      .show_default();
  parts.add_option("--steps", flags->setup.steps, "tokens a row and run").between(1, 100000).show_default();
  parts.add_option("--runs", flags->runs, "repetitions after warm-up").between(1, 1000).show_default();
  parts.add_flag("--arms,!--no-arms", flags->arms, "measure the comparison arms too (default), or not");
  parts
      .add_option("--results", flags->results_dir,
                  "append the lines to <machine>.ndjson in this folder, e.g. bench/results")
      .writable_folder();
  parts.callback([=] { finish(run_parts(*flags)); });
}

}  // namespace boreas
