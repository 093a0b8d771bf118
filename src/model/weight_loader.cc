// Every tensor of a checkpoint to its place in the WeightTable (weight_loader.h).
#include "model/weight_loader.h"

#include <algorithm>
#include <cstring>

#include "model/families/family.h"
#include "model/quote.h"
#include "model/safetensors.h"
#include "model/weight_files.h"

namespace boreas {
namespace {

constexpr size_t kProgressCallsMax = 200;

bool is_dense_role(WeightRole role) {
  return role == WeightRole::kDenseGate || role == WeightRole::kDenseUp || role == WeightRole::kDenseDown;
}

bool is_moe_role(WeightRole role) {
  return role == WeightRole::kRouter || role == WeightRole::kExpertGate || role == WeightRole::kExpertUp ||
         role == WeightRole::kExpertDown;
}

bool is_norm_role(WeightRole role) { return role == WeightRole::kInputNorm || role == WeightRole::kFinalNorm; }

class Loader {
 public:
  Loader(const ModelConfig& config, const Family& family)
      : config_(config), family_(family), weights_{WeightTable(config), {}, {}} {}

  // Every entry of one file; `files` says which file of the index each tensor must be in.
  Status add_file(const std::shared_ptr<const SafetensorsFile>& file, size_t file_index, const WeightFiles& files) {
    weights_.files.push_back(file);
    for (const SafetensorsEntry& entry : file->entries()) {
      if (!files.index.empty()) {
        const auto found = files.index.find(entry.name);
        if (found == files.index.end() || found->second != file_index) {
          return fail(*file, entry, "is not listed for this file in model.safetensors.index.json");
        }
      }
      RETURN_IF_ERROR(add_tensor(*file, entry));
    }
    return Ok{};
  }

  // The table, if nothing is missing.
  Result<LoadedWeights> finish(const std::string& directory) {
    int64_t missing = 0;
    std::string first;
    for (const WeightKey& key : weight_keys(config_)) {
      if (!weights_.table.at(key.role, key.layer, key.expert).empty()) continue;
      if (missing++ == 0) first = published_tensor_name(key.role, key.layer, key.expert);
    }
    if (missing == 0) return std::move(weights_);
    const std::string more = missing > 1 ? " (and " + std::to_string(missing - 1) + " more)" : "";
    return Error{directory + ": tensor " + quote(first) + " is missing" + more};
  }

 private:
  static Error fail(const SafetensorsFile& file, const SafetensorsEntry& entry, const std::string& what) {
    return Error{file.path() + ": tensor " + quote(entry.name) + " " + what};
  }

  Status add_tensor(const SafetensorsFile& file, const SafetensorsEntry& entry) {
    const TensorMeaning meaning = family_.read_tensor_name(entry.name);
    switch (meaning.kind) {
      case TensorMeaning::Kind::kIgnored:
        return Ok{};
      case TensorMeaning::Kind::kBias:
        return check_bias(file, entry);
      case TensorMeaning::Kind::kQuantised:
        return fail(file, entry, "belongs to a quantised checkpoint, which is not supported; expected BF16 weights");
      case TensorMeaning::Kind::kUnknown:
        return fail(file, entry, "is unknown in a " + config_.family + " checkpoint");
      default:
        break;
    }
    RETURN_IF_ERROR(check_place(file, entry, meaning));
    RETURN_IF_ERROR(check_dtype(file, entry));
    return meaning.kind == TensorMeaning::Kind::kWeight ? place_weight(file, entry, meaning)
                                                        : place_stacked(file, entry, meaning);
  }

  // Conversions carry biases of zeros along; any other would be lost without a word.
  static Status check_bias(const SafetensorsFile& file, const SafetensorsEntry& entry) {
    const std::span<const uint8_t> bytes = file.bytes(entry);
    if (std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; })) return Ok{};
    return fail(file, entry, "is a bias that is not zero, which is not supported");
  }

  Status check_place(const SafetensorsFile& file, const SafetensorsEntry& entry, const TensorMeaning& meaning) const {
    if (meaning.layer >= config_.layer_count()) {
      return fail(file, entry,
                  "is of a layer that config.json does not have (num_hidden_layers is " +
                      std::to_string(config_.layer_count()) + ")");
    }
    const bool is_moe = config_.is_moe(meaning.layer);
    if (is_dense_role(meaning.role) && is_moe) {
      return fail(file, entry, "is a dense MLP, but config.json says that the layer has routed experts");
    }
    if (is_moe_role(meaning.role) && !is_moe) {
      return fail(file, entry, "is of routed experts, but config.json says that the layer has a dense MLP");
    }
    if (meaning.expert >= config_.experts) {
      return fail(
          file, entry,
          "is of an expert that config.json does not have (num_experts is " + std::to_string(config_.experts) + ")");
    }
    return Ok{};
  }

  static Status check_dtype(const SafetensorsFile& file, const SafetensorsEntry& entry) {
    if (entry.dtype == Dtype::kBF16) return Ok{};
    const bool is_float = entry.dtype == Dtype::kF16 || entry.dtype == Dtype::kF32 || entry.dtype == Dtype::kF64;
    return fail(file, entry,
                "has dtype " + std::string(dtype_name(entry.dtype)) +
                    (is_float ? "; expected BF16" : ", so it is quantised, which is not supported; expected BF16"));
  }

  static Status check_shape(const SafetensorsFile& file, const SafetensorsEntry& entry,
                            const std::vector<int64_t>& expected) {
    if (entry.shape == expected) return Ok{};
    return fail(file, entry, "has shape " + shape_text(entry.shape) + "; expected " + shape_text(expected));
  }

  Status place_weight(const SafetensorsFile& file, const SafetensorsEntry& entry, const TensorMeaning& meaning) {
    const WeightShape shape = weight_shape(config_, meaning.role);
    RETURN_IF_ERROR(check_shape(
        file, entry,
        is_norm_role(meaning.role) ? std::vector<int64_t>{shape.cols} : std::vector<int64_t>{shape.rows, shape.cols}));
    return set(file, entry, {meaning.role, meaning.layer, meaning.expert}, aligned_data(file, entry));
  }

  Status place_stacked(const SafetensorsFile& file, const SafetensorsEntry& entry, const TensorMeaning& meaning) {
    const bool gate_up = meaning.kind == TensorMeaning::Kind::kStackedGateUp;
    const WeightShape shape = weight_shape(config_, meaning.role);
    const int64_t parts = gate_up ? 2 : 1;
    RETURN_IF_ERROR(check_shape(file, entry, {config_.experts, parts * shape.rows, shape.cols}));
    const uint8_t* data = aligned_data(file, entry);
    const int64_t part_bytes = shape.rows * shape.cols * static_cast<int64_t>(sizeof(bf16));
    for (int32_t expert = 0; expert < config_.experts; ++expert) {
      for (int64_t part = 0; part < parts; ++part) {
        const WeightRole role = part == 1 ? WeightRole::kExpertUp : meaning.role;
        RETURN_IF_ERROR(set(file, entry, {role, meaning.layer, expert}, data + (expert * parts + part) * part_bytes));
      }
    }
    return Ok{};
  }

  Status set(const SafetensorsFile& file, const SafetensorsEntry& entry, const WeightKey& key, const uint8_t* data) {
    if (!weights_.table.at(key.role, key.layer, key.expert).empty()) {
      return fail(
          file, entry,
          "gives the weight " + quote(published_tensor_name(key.role, key.layer, key.expert)) + " a second time");
    }
    const WeightShape shape = weight_shape(config_, key.role);
    weights_.table.set(key.role, key.layer, key.expert, TensorView{data, Dtype::kBF16, shape.rows, shape.cols});
    return Ok{};
  }

  // The format promises no alignment, though its usual writers align headers to 8 bytes: a tensor at an odd address is
  // copied, so that everyone else may read whole bf16 values.
  const uint8_t* aligned_data(const SafetensorsFile& file, const SafetensorsEntry& entry) {
    const std::span<const uint8_t> bytes = file.bytes(entry);
    if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(bf16) == 0) return bytes.data();
    const auto copy = std::make_shared<std::vector<bf16>>((bytes.size() + 1) / sizeof(bf16));
    std::memcpy(copy->data(), bytes.data(), bytes.size());
    weights_.buffers.push_back(copy);
    return reinterpret_cast<const uint8_t*>(copy->data());
  }

  const ModelConfig& config_;
  const Family& family_;
  LoadedWeights weights_;
};

// The error for a tensor of the index that its file does not hold.
Error missing_from_file(const WeightFiles& files, const std::vector<std::shared_ptr<const SafetensorsFile>>& opened) {
  for (const auto& listed : files.index) {
    const SafetensorsFile& file = *opened[listed.second];
    const bool held = std::any_of(file.entries().begin(), file.entries().end(),
                                  [&](const SafetensorsEntry& entry) { return entry.name == listed.first; });
    if (held) continue;
    return Error{file.path() + ": tensor " + quote(listed.first) +
                 " is not in this file, but model.safetensors.index.json says so"};
  }
  CHECK(false);
  return {};
}

}  // namespace

Result<LoadedWeights> load_weights(const ModelConfig& config, const std::string& directory,
                                   const LoadProgress& progress) {
  const Family* family = find_family(config.family);
  CHECK(family != nullptr);
  ASSIGN_OR_RETURN(const WeightFiles files, find_weight_files(directory));
  std::vector<std::shared_ptr<const SafetensorsFile>> opened;
  int64_t bytes_total = 0;
  size_t tensors = 0;
  for (const std::string& name : files.names) {
    ASSIGN_OR_RETURN(opened.emplace_back(), SafetensorsFile::open(directory + "/" + name));
    bytes_total += static_cast<int64_t>(opened.back()->file_bytes());
    tensors += opened.back()->entries().size();
  }
  Loader loader(config, *family);
  int64_t bytes_done = 0;
  const size_t report_every = opened.size() / kProgressCallsMax + 1;
  for (size_t i = 0; i < opened.size(); ++i) {
    RETURN_IF_ERROR(loader.add_file(opened[i], i, files));
    bytes_done += static_cast<int64_t>(opened[i]->file_bytes());
    if (progress && (i % report_every == 0 || i + 1 == opened.size())) progress(bytes_done, bytes_total);
  }
  // Each tensor found was in the index at its file, and names are unique within a file: equal counts mean equal sets.
  if (!files.index.empty() && tensors != files.index.size()) return missing_from_file(files, opened);
  return loader.finish(directory);
}

}  // namespace boreas
