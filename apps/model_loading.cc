#include "model_loading.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/prng.h"
#include "exec/cpu/cpu_executor.h"
#include "exec/cuda/cuda_executor.h"
#include "memory_report.h"

namespace boreas {

namespace {

constexpr size_t kTemplateBytesMax = 1 << 20;

// On a terminal, and to whoever else wants to know.
LoadProgress show_progress(const LoadProgress& also) {
  if (!::isatty(STDERR_FILENO)) return also;
  return [also](int64_t done, int64_t total) {
    if (also) also(done, total);
    const double share = total > 0 ? 100.0 * static_cast<double>(done) / static_cast<double>(total) : 100.0;
    std::fprintf(stderr, "\rloading weights %5.1f %%%s", share, done >= total ? "\n" : "");
  };
}

Result<std::shared_ptr<const Model>> load_weights(const ModelSource& source, const std::string& directory) {
  const LoadProgress progress = show_progress(source.progress);
  if (!directory.empty() && source.load_format != "dummy") return load_model(directory, {false, progress});
  ASSIGN_OR_RETURN(const ModelConfig config,
                   directory.empty() ? model_shape(source.model_shape) : load_model_config(directory));
  const DummyValues values = dummy_values_for(resolve_device(source.device, config));
  if (!directory.empty()) return load_model(directory, {true, progress, values});
  return make_dummy_model(config, progress, values);
}

Result<std::string> text_directory(const ModelSource& source, const std::string& directory) {
  if (!source.tokenizer.empty()) return resolve_model_directory(source.tokenizer);
  if (!directory.empty()) return directory;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const std::string& name : {source.model_shape, std::string("demo"), std::string("tiny")}) {
    for (const std::filesystem::path& base : {program / "..", std::filesystem::path(".")}) {
      const std::filesystem::path candidate = base / "models" / name;
      if (std::filesystem::exists(candidate / "tokenizer.json", error)) return candidate.lexically_normal().string();
    }
  }
  return Error{"made-up weights have no tokenizer; name a directory that has one: --tokenizer DIR", "tokenizer"};
}

Result<ChatTemplate> load_template(const ModelSource& source, const std::string& directory) {
  if (source.chat_template_file.empty()) return ChatTemplate::load(directory);
  std::ifstream file(source.chat_template_file, std::ios::binary);
  std::string text(kTemplateBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kTemplateBytesMax) {
    return Error{source.chat_template_file + " is too large for a chat template", "chat-template"};
  }
  return ChatTemplate::parse(text);
}

std::string fingerprint(const std::string& directory, const ExecutorInfo& info) {
  std::ostringstream text;
  text << BOREAS_VERSION << '\n' << info.name << '\n' << info.device << '\n';
  if (!directory.empty()) text << std::ifstream(directory + "/config.json").rdbuf();
  const std::string bytes = text.str();
  char out[32];
  std::snprintf(out, sizeof(out), "fp_%016llx", static_cast<unsigned long long>(fnv1a_64(bytes.data(), bytes.size())));
  return out;
}

}  // namespace

Result<int32_t> gpu_index(const std::string& device) {
  if (device == "cuda") return 0;
  int32_t index = -1;
  const char *first = device.data() + 5, *last = device.data() + device.size();
  if (device.rfind("cuda:", 0) == 0) {
    const auto parsed = std::from_chars(first, last, index);
    if (parsed.ec == std::errc() && parsed.ptr == last && index >= 0) return index;
  }
  return Error{"--device must be auto, cpu, cuda or cuda:INDEX, not '" + device + "'", "device"};
}

std::string resolve_device(const std::string& device, const ModelConfig& config) {
  if (device != "auto") return device;
  static const bool has_gpu = check_gpu(0).ok();
  return has_gpu && has_kernel_for(config) ? "cuda" : "cpu";
}

DummyValues dummy_values_for(const std::string& device) {
  return device.rfind("cuda", 0) == 0 ? DummyValues::kMadeByExecutor : DummyValues::kOnHost;
}

Result<LoadedModel> load_with_text(const ModelSource& source) {
  if (source.model.empty() && source.model_shape.empty()) {
    return Error{"name a checkpoint directory or hub id, or --model-shape for made-up weights", "model"};
  }
  LoadedModel loaded;
  loaded.root = source.model.empty() ? source.model_shape : source.model;
  if (!source.model.empty()) {
    ASSIGN_OR_RETURN(loaded.directory, resolve_model_directory(source.model));
  }
  ASSIGN_OR_RETURN(const std::string text, text_directory(source, loaded.directory));
  ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(text));
  loaded.tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer));
  if (source.needs_template) {
    ASSIGN_OR_RETURN(ChatTemplate chat_template, load_template(source, text));
    loaded.chat_template = std::make_unique<ChatTemplate>(std::move(chat_template));
    ASSIGN_OR_RETURN(loaded.markers, find_output_markers(*loaded.tokenizer));
  }
  ASSIGN_OR_RETURN(loaded.model, load_weights(source, loaded.directory));
  const int32_t vocab_size = loaded.model->config().vocab_size;
  if (loaded.tokenizer->vocab_size() > vocab_size) {
    return Error{"the tokenizer in " + text + " has " + std::to_string(loaded.tokenizer->vocab_size()) +
                     " tokens, the model only " + std::to_string(vocab_size),
                 "tokenizer"};
  }
  return loaded;
}

CudaExecutorOptions gpu_options(const DeviceChoice& choice, int32_t index) {
  CudaExecutorOptions options;
  options.device_index = index;
  options.sequence_slots = choice.sequence_slots;
  if (choice.step_tokens_max > 0) options.tokens_max = choice.step_tokens_max;
  if (choice.rows_max > 0) options.rows_max = choice.rows_max;
  options.rows_max = std::min(options.rows_max, options.tokens_max);
  options.context_max = choice.context_max;
  options.kv_bytes = choice.kv_bytes;
  options.progress = show_progress(choice.progress);
  return options;
}

namespace {

Result<std::unique_ptr<Executor>> make_gpu_executor(const DeviceChoice& choice, int32_t index,
                                                    const std::shared_ptr<const Model>& model) {
  if (!cuda_built()) {
    return Error{"this build has no GPU support (it wants nvcc 13: cmake --preset cuda); use --device cpu", "device"};
  }
  CudaExecutorOptions options = gpu_options(choice, index);
  if (choice.memory_plan != nullptr)
    options.planned = [out = choice.memory_plan](const ExecutorInfo& info) { print_memory(*out, info); };
  return make_cuda_executor(model, options);
}

}  // namespace

Result<std::unique_ptr<Executor>> make_executor(const DeviceChoice& choice, const std::shared_ptr<const Model>& model) {
  const int32_t longest = model->config().context_max;
  if (choice.context_max > longest) {
    return Error{"--max-model-len " + std::to_string(choice.context_max) + " is more than the model's context of " +
                     std::to_string(longest),
                 "max-model-len"};
  }
  const std::string device = resolve_device(choice.device, model->config());
  if (device != "cpu") {
    ASSIGN_OR_RETURN(const int32_t index, gpu_index(device));
    return make_gpu_executor(choice, index, model);
  }
  if (choice.require_gpu) return Error{"--require-gpu and --device cpu contradict each other", "device"};
  CpuExecutorOptions options;
  options.threads = choice.threads;
  options.sequence_slots = choice.sequence_slots;
  if (choice.step_tokens_max > 0) options.tokens_max = choice.step_tokens_max;
  options.context_max = choice.context_max;
  if (choice.kv_bytes > 0) options.kv_bytes = choice.kv_bytes;
  ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor, make_cpu_executor(model, options));
  if (choice.memory_plan != nullptr) print_memory(*choice.memory_plan, executor->info());
  if (choice.context_max > executor->info().context_max) {
    return Error{"a context of " + std::to_string(choice.context_max) + " tokens does not fit the KV pages: give " +
                     "--max-model-len " + std::to_string(executor->info().context_max) +
                     " or more --kv-cache-memory-bytes",
                 "max-model-len"};
  }
  return executor;
}

std::vector<TokenId> end_ids(const LoadedModel& loaded) {
  std::vector<TokenId> ids = loaded.model->config().eos_token_ids;
  const TokenId end_of_turn = loaded.markers.end_of_turn;
  if (end_of_turn >= 0 && std::find(ids.begin(), ids.end(), end_of_turn) == ids.end()) ids.push_back(end_of_turn);
  return ids;
}

ServedModel describe_served(const LoadedModel& loaded, Engine& engine, const ExecutorInfo& info, const Clock& clock,
                            const SamplingDefaults& sampling) {
  ServedModel served;
  served.engine = &engine;
  served.tokenizer = loaded.tokenizer.get();
  served.chat_template = loaded.chat_template.get();
  served.clock = &clock;
  served.markers = loaded.markers;
  served.eos_ids = end_ids(loaded);
  served.vocab_size = info.vocab_size;
  served.sampling = sampling;
  served.root = loaded.root;
  served.fingerprint = fingerprint(loaded.directory, info);
  served.dummy = loaded.model->is_dummy();
  return served;
}

}  // namespace boreas
