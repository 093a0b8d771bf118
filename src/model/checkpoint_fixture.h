// Writes small (or huge and sparse) checkpoints for the tests of model/. Only *_test.cc files include this.
#pragma once

#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "model/model.h"
#include "model/safetensors.h"

namespace boreas {

// A directory of its own, removed at the end.
class TempDirectory {
 public:
  TempDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "boreas-model-XXXXXX").string();
    CHECK(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TempDirectory() {
    std::error_code code;
    std::filesystem::remove_all(path_, code);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

inline void write_file(const std::string& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  CHECK(file.good());
}

struct FixtureTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::string data = {};  // empty: zeros that take no room on disk
  std::string dtype = "BF16";
  int64_t element_bytes = 2;

  int64_t bytes() const {
    int64_t bytes = element_bytes;
    for (const int64_t extent : shape) bytes *= extent;
    return bytes;
  }
};

// Header size and JSON, as they stand at the start of a file.
inline std::string with_header_size(std::string_view json) {
  std::string out(8, '\0');
  const uint64_t size = json.size();
  std::memcpy(out.data(), &size, 8);
  return out.append(json);
}

inline void write_safetensors(const std::string& path, const std::vector<FixtureTensor>& tensors) {
  boost::json::object header;
  header["__metadata__"] = {{"format", "pt"}};
  int64_t end = 0;
  for (const FixtureTensor& tensor : tensors) {
    const int64_t begin = end;
    end += tensor.bytes();
    boost::json::array shape;
    for (const int64_t extent : tensor.shape) shape.emplace_back(extent);
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", shape}, {"data_offsets", {begin, end}}};
  }
  std::string json = boost::json::serialize(header);
  json.resize((json.size() + 7) / 8 * 8, ' ');
  write_file(path, with_header_size(json));
  std::filesystem::resize_file(path, 8 + json.size() + static_cast<uint64_t>(end));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  int64_t at = 8 + static_cast<int64_t>(json.size());
  for (const FixtureTensor& tensor : tensors) {
    file.seekp(at);
    file.write(tensor.data.data(), static_cast<std::streamsize>(tensor.data.size()));
    at += tensor.bytes();
  }
  CHECK(file.good());
}

// The bytes of a weight of a model.
inline std::string weight_data(const Model& model, const WeightKey& key) {
  const TensorView& view = model.weights().at(key.role, key.layer, key.expert);
  return {static_cast<const char*>(view.data), view.bytes()};
}

inline std::vector<int64_t> published_shape(const ModelConfig& config, WeightRole role) {
  const WeightShape shape = weight_shape(config, role);
  if (role == WeightRole::kFinalNorm || role == WeightRole::kInputNorm) return {shape.cols};
  return {shape.rows, shape.cols};
}

// All tensors of a model under their published names, with their data.
inline std::vector<FixtureTensor> published_tensors(const Model& model) {
  std::vector<FixtureTensor> tensors;
  for (const WeightKey& key : weight_keys(model.config())) {
    tensors.push_back({published_tensor_name(key.role, key.layer, key.expert),
                       published_shape(model.config(), key.role), weight_data(model, key)});
  }
  return tensors;
}

// A config.json with the published generation of keys.
inline boost::json::object published_config_json(const ModelConfig& config) {
  boost::json::array kinds;
  int32_t dense = 0;
  for (const LayerConfig& layer : config.layers) {
    kinds.emplace_back(layer.sliding ? "sliding_attention" : "full_attention");
    dense += layer.dense_mlp ? 1 : 0;
  }
  return {{"architectures", {"Cohere2MoeForCausalLM"}},
          {"model_type", "cohere2_moe"},
          {"dtype", "bfloat16"},
          {"hidden_size", config.hidden_size},
          {"num_hidden_layers", config.layer_count()},
          {"num_attention_heads", config.query_heads},
          {"num_key_value_heads", config.kv_heads},
          {"head_dim", config.head_dim},
          {"intermediate_size", config.expert_width},
          {"prefix_dense_intermediate_size", config.dense_width},
          {"first_k_dense_replace", dense},
          {"prefix_dense_sliding_window_pattern", 1},
          {"layer_types", kinds},
          {"sliding_window_pattern", 4},
          {"sliding_window", config.window},
          {"num_experts", config.experts},
          {"num_experts_per_tok", config.experts_per_token},
          {"num_shared_experts", 0},
          {"shared_expert_combination_strategy", "average"},
          {"expert_selection_fn", "sigmoid"},
          {"norm_topk_prob", false},
          {"rms_norm_eps", 1e-6},
          {"layer_norm_eps", 1e-5},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"use_qk_norm", false},
          {"use_parallel_block", true},
          {"rope_theta", 50000},
          {"rope_scaling", nullptr},
          {"max_position_embeddings", config.context_max},
          {"vocab_size", config.vocab_size},
          {"logit_scale", 1.0},
          {"initializer_range", 0.02},
          {"use_cache", true},
          {"bos_token_id", 2},
          {"eos_token_id", config.eos_token_ids.empty() ? 3 : config.eos_token_ids.front()},
          {"pad_token_id", 0}};
}

// The same as transformers' save_pretrained writes it: MLP kinds as a list, RoPE in an object of its own.
inline boost::json::object saved_config_json(const ModelConfig& config) {
  boost::json::object json = published_config_json(config);
  for (const char* key : {"first_k_dense_replace", "rope_theta", "rope_scaling", "use_parallel_block", "use_qk_norm"}) {
    json.erase(key);
  }
  boost::json::array kinds;
  for (const LayerConfig& layer : config.layers) kinds.emplace_back(layer.dense_mlp ? "dense" : "sparse");
  json["mlp_layer_types"] = kinds;
  json["rope_parameters"] = {{"rope_theta", 50000}, {"rope_type", "default"}};
  json["transformers_version"] = "5.17.0";
  return json;
}

}  // namespace boreas
