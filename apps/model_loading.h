// What serve, generate and eval load before they differ: weights, tokenizer, chat template, executor. The only place
// that picks an executor for them.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "exec/cuda/cuda_executor.h"
#include "exec/executor.h"
#include "model/model.h"
#include "server/server.h"
#include "text/text.h"

namespace boreas {

struct ModelSource {
  std::string model;        // directory or hub id; empty: model_shape
  std::string model_shape;  // made-up weights of this shape, if model is empty
  std::string load_format = "auto";
  std::string tokenizer;           // directory or hub id of tokenizer and template; empty: the model's
  std::string chat_template_file;  // instead of the directory's
  bool needs_template = true;      // false: chat_template stays null and the markers stay unknown
  std::string device = "auto";     // what it will run on: says whether made-up weights need memory on the host
  LoadProgress progress;           // hears of the weights, too
};

struct DeviceChoice {
  std::string device = "auto";  // auto, cpu, cuda or cuda:INDEX
  bool require_gpu = false;
  int32_t threads = 0;  // of the CPU executor; 0: all
  int32_t sequence_slots = 64;
  int32_t rows_max = 0;                 // of one step; 0: 8 on a GPU, which takes 8 at a time; a processor: all slots
  int32_t step_tokens_max = 0;          // 0: 2,048 on a processor, 8,192 on a GPU
  LoadProgress progress;                // hears of the weights on their way to a GPU, too
  int32_t context_max = 0;              // 0: the model's
  int64_t kv_bytes = 0;                 // 0: 1 GiB on a processor, what is left of its memory on a GPU
  std::ostream* memory_plan = nullptr;  // if set, gets where memory goes, on a GPU before the weights do (print_memory)
};

// What "auto" means here: "cuda" if this build and machine have a GPU and a kernel for the model, else "cpu". Other
// names stay as they are.
std::string resolve_device(const std::string& device, const ModelConfig& config);
// Where the executor of a device, not "auto", wants the values of dummy weights.
DummyValues dummy_values_for(const std::string& device);
// Of "cuda" (0) or "cuda:INDEX"; an Error for any other device.
Result<int32_t> gpu_index(const std::string& device);

// What that means for an executor on GPU `index`, but for who hears of the memory plan.
CudaExecutorOptions gpu_options(const DeviceChoice& choice, int32_t index);

struct LoadedModel {
  std::string directory;  // empty for a bare shape
  std::string root;       // as the user named it
  std::shared_ptr<const Model> model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;
  OutputMarkers markers;
};

// Errors name the file, tensor, token or flag. A bare shape borrows the text side of the checkpoint bundled with the
// program. Shows progress on stderr if that is a terminal.
Result<LoadedModel> load_with_text(const ModelSource& source);

// Error: a device that this build or machine lacks, or options that do not fit it.
Result<std::unique_ptr<Executor>> make_executor(const DeviceChoice& choice, const std::shared_ptr<const Model>& model);

// The model's own end ids and the template's end of turn, if it has one.
std::vector<TokenId> end_ids(const LoadedModel& loaded);

// What Server::ready wants. Everything given must outlive the server.
ServedModel describe_served(const LoadedModel& loaded, Engine& engine, const ExecutorInfo& info, const Clock& clock,
                            const SamplingDefaults& sampling);

}  // namespace boreas
