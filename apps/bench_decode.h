// A decode loop over an executor with filled pages: what `boreas bench decode` measures and `boreas trace` looks into.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "command_line.h"
#include "exec/cuda/cuda_executor.h"
#include "exec/executor.h"
#include "model/model.h"

namespace boreas {

// How a GPU runs the step. An arm of comparison whose share of the limit at one row is below tuned_percent has not been
// worked on enough to say anything about the megakernel.
struct ArmName {
  const char* name;
  CudaArm arm;
  double tuned_percent;
};
constexpr ArmName kArms[] = {{"megakernel", CudaArm::kMegakernel, 0},
                             {"graph", CudaArm::kGraph, 45},
                             {"dependent", CudaArm::kDependentLaunch, 55}};
const ArmName& arm_named(const std::string& name);  // one of these
const ArmName& name_of(CudaArm arm);

struct DecodeSetup {
  std::string model;  // directory or hub id; empty: dummy weights of model_shape
  std::string model_shape = "bench";
  std::string load_format = "auto";  // or dummy: made-up weights of the model's shape
  std::string device = "cpu";        // cpu, cuda, cuda:INDEX
  int32_t threads = 0;               // CPU
  int32_t batch = 1;
  int32_t context = 128;   // positions before the first step, filled with seeded values
  int32_t steps = 16;      // of a run
  int32_t tokens_max = 0;  // of one plan, where that is more than the positions
  bool same_token = false;
  float temperature = 1, top_p = 1;    // of every row's sampling; temperature 0: greedy
  CudaArm arm = CudaArm::kMegakernel;  // GPU
  KernelCut cut = KernelCut::kLevels;
  cuda::TraceSink trace;
  std::shared_ptr<const cuda::CudaTuning> tuning;
};

// Flags of all that decode: model, its shape, where its weights come from, how rows sample, device.
void add_decode_options(Command command, DecodeSetup& setup);

// For commands that have nothing to say of a processor, `what` in the plural: an error without a GPU to run on.
Status check_has_gpu(const DecodeSetup& setup, const std::string& what);

// Model and executor with pages for `positions` of every row; dummy weights have values on the host only if the
// executor reads them there.
struct DecodeStack {
  std::shared_ptr<const Model> model;
  std::unique_ptr<Executor> executor;
};
Result<DecodeStack> make_decode_stack(const DecodeSetup& setup, int32_t positions);

// Which rows of a setup decode: the first `rows`, of which `kinds` go different ways and the others do what one of
// those does (row r as row r % kinds), so that they hit the same experts.
struct DecodeMix {
  int32_t rows = 1, kinds = 1;
};

struct DecodeRun {
  double seconds = 0;
  int64_t bytes = 0;              // of all steps
  int64_t distinct_experts = 0;   // of all steps and layers
  std::vector<double> device_us;  // by step, as the executor measured it
};

// A sequence a row, each with its own pages filled with seeded values (uniform, mean 0, standard deviation 0.01) up to
// the context; sliding layers the part that their window can reach.
class DecodeRows {
 public:
  DecodeRows(Executor& executor, const DecodeSetup& setup, int32_t positions);

  Status fill();
  // All rows from the context on, `steps` steps, as many in flight as the executor takes: each starts from a token of
  // its own by the seed, and goes on with what the executor draws.
  Result<DecodeRun> run(uint64_t seed);
  Result<DecodeRun> run(uint64_t seed, DecodeMix mix);  // of the setup's rows, or fewer

 private:
  void open(uint64_t seed, DecodeMix mix);
  Result<StepTicket> submit(int32_t step, int32_t rows);

  Executor& executor_;
  DecodeSetup setup_;
  std::vector<std::vector<PageId>> full_, sliding_;  // by row
  int32_t sliding_first_ = 0;
  std::vector<TokenId> tokens_;  // by row: the first one
};

// A stack for the setup's context and steps, its pages filled.
struct Decode {
  DecodeStack stack;
  DecodeRows rows;
};
Result<Decode> start_decode(const DecodeSetup& setup);

}  // namespace boreas
