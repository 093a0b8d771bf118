// The door of model/: what a checkpoint is. ModelConfig (shape as data), WeightTable (every tensor by role), Model
// (both, with the memory they live in), and the plain fp32 forward pass that everything else is measured against.
//
// Callers: program (shapes only), exec/* (shapes and weights), apps (loading), tests. Everything here is immutable
// after load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/tensor_view.h"

namespace boreas {

// One decoder layer. The block is parallel: one RMSNorm feeds attention and MLP, both are added to the residual.
struct LayerConfig {
  bool sliding = false;    // attends to the last ModelConfig::window positions only
  bool rope = false;       // rotary position encoding on q and k; false: no position encoding at all
  bool dense_mlp = false;  // one SwiGLU MLP of dense_width; false: routed experts
};

// The shape and the arithmetic of a decoder, family by family mapped from config.json. Source of the rules: the
// published config of North-Mini-Code-1.0 and transformers' Cohere2Moe classes.
struct ModelConfig {
  std::string family;       // "cohere2_moe"
  int32_t hidden_size = 0;  // residual width H
  int32_t query_heads = 0;
  int32_t kv_heads = 0;      // query head h reads KV head h / (query_heads / kv_heads)
  int32_t head_dim = 0;      // never derived from hidden_size / query_heads
  int32_t expert_width = 0;  // inner width of one routed expert
  int32_t dense_width = 0;   // inner width of the dense MLP, 0 if no layer is dense
  int32_t experts = 0;
  int32_t experts_per_token = 0;
  int32_t vocab_size = 0;
  int32_t window = 0;       // visible keys of a sliding layer, the query's own included
  int32_t context_max = 0;  // max_position_embeddings
  float rms_norm_eps = 0;
  double rope_theta = 0;  // pair i of head_dim/2 turns by position * theta^(-2i/head_dim); adjacent pairs (2i, 2i+1)
  float logit_scale = 1;
  std::vector<LayerConfig> layers;
  std::vector<TokenId>
      eos_token_ids;          // union of config.json and generation_config.json, sorted, may be empty for bare shapes
  TokenId bos_token_id = -1;  // -1: none
  TokenId pad_token_id = -1;
  // Sampling defaults of generation_config.json where present; negative = absent.
  float default_temperature = -1;
  float default_top_p = -1;
  int32_t default_top_k = -1;

  int32_t layer_count() const { return static_cast<int32_t>(layers.size()); }
  int32_t queries_per_kv() const { return query_heads / kv_heads; }
  int32_t query_width() const { return query_heads * head_dim; }
  int32_t kv_width() const { return kv_heads * head_dim; }
  int32_t full_layers() const;
  int32_t sliding_layers() const;
  int32_t moe_layers() const;  // is_moe()
  bool is_moe(int32_t layer) const { return !layers[static_cast<size_t>(layer)].dense_mlp; }
};

// Reads and checks config.json (and generation_config.json if present) of a checkpoint directory. Both key generations
// are understood (published keys; keys written by save_pretrained). A missing key whose class default differs from what
// the family needs is an error that names it.
Result<ModelConfig> load_model_config(const std::string& directory);
Result<ModelConfig> parse_model_config(std::string_view config_json, std::string_view generation_config_json = {});

// Shapes known by name, for --model-shape: "north" (the published full shape), "demo", "tiny", "bench" (over 1 GB of
// weights for CPU benchmarks).
Result<ModelConfig> model_shape(std::string_view name);
std::vector<std::string> model_shape_names();

enum class WeightRole : uint8_t {
  kEmbedding,   // [vocab_size, hidden], also the LM head
  kFinalNorm,   // [1, hidden]
  kInputNorm,   // [1, hidden]                       per layer
  kQuery,       // [query_width, hidden]             per layer
  kKey,         // [kv_width, hidden]                per layer
  kValue,       // [kv_width, hidden]                per layer
  kOutput,      // [hidden, query_width]             per layer
  kRouter,      // [experts, hidden]                 per MoE layer
  kExpertGate,  // [expert_width, hidden]            per MoE layer and expert
  kExpertUp,    // [expert_width, hidden]            per MoE layer and expert
  kExpertDown,  // [hidden, expert_width]            per MoE layer and expert
  kDenseGate,   // [dense_width, hidden]             per dense layer
  kDenseUp,     // [dense_width, hidden]             per dense layer
  kDenseDown,   // [hidden, dense_width]             per dense layer
};

// Every weight by (role, layer, expert), all BF16, row-major [out, in]. Views into memory that the owning Model keeps
// alive.
class WeightTable {
 public:
  explicit WeightTable(const ModelConfig& config);
  // Empty for a weight the config does not have (the router of a dense layer) and before set().
  const TensorView& at(WeightRole role, int32_t layer = 0, int32_t expert = 0) const;
  void set(WeightRole role, int32_t layer, int32_t expert, const TensorView& view);
  int64_t total_bytes() const;  // of distinct tensors

 private:
  size_t index(WeightRole role, int32_t layer, int32_t expert) const;
  int32_t layers_ = 0;
  int32_t experts_ = 0;
  std::vector<TensorView> views_;
};

// The published tensor name of a role, e.g. "model.layers.3.mlp.experts.17.gate_proj.weight" (used for loading, dummy
// weights and errors).
std::string published_tensor_name(WeightRole role, int32_t layer, int32_t expert);
// Rows and columns a role must have under this config.
struct WeightShape {
  int64_t rows = 0;
  int64_t cols = 0;
};
WeightShape weight_shape(const ModelConfig& config, WeightRole role);

// Every weight that a config has, once each: embedding, layer by layer, final norm (18,730 for the published shape).
struct WeightKey {
  WeightRole role = WeightRole::kEmbedding;
  int32_t layer = 0;
  int32_t expert = 0;
};
std::vector<WeightKey> weight_keys(const ModelConfig& config);

// Called with bytes done and bytes in all while weights load; at most a few hundred times.
using LoadProgress = std::function<void(int64_t bytes_done, int64_t bytes_total)>;

// Where the values of dummy weights are. An executor that makes them where it keeps its weights (exec/cuda) needs none
// on the host: 61 GB of the published shape.
enum class DummyValues { kOnHost, kMadeByExecutor };

struct LoadOptions {
  bool dummy_weights = false;  // --load-format dummy: values from names (dummy_weights.h), no weight file is opened
  LoadProgress progress;
  DummyValues dummy_values = DummyValues::kOnHost;
};

class SafetensorsFile;

// A loaded checkpoint. Weights are mapped files (touched on first use) or, for dummy weights, memory of its own.
class Model {
 public:
  const ModelConfig& config() const { return config_; }
  const WeightTable& weights() const { return weights_; }
  const std::string& directory() const { return directory_; }  // empty for a bare shape
  bool is_dummy() const { return is_dummy_; }

  // Bytes of a weight from `first` on, `to.size()` of them: read from the file if that is where they lie, as fast as it
  // can be read and without mapping its pages. Error: the file was cut since it was opened, or its disk fails. Any
  // thread.
  Status read_weight(const TensorView& weight, size_t first, std::span<std::byte> to) const;
  // This weight will be read soon. Any thread.
  void expect_weight(const TensorView& weight) const;

 private:
  friend Result<std::shared_ptr<const Model>> load_model(const std::string& directory, const LoadOptions& options);
  friend Result<std::shared_ptr<const Model>> make_dummy_model(const ModelConfig& config, const LoadProgress& progress,
                                                               DummyValues values);
  explicit Model(const ModelConfig& config) : config_(config), weights_(config) {}
  ModelConfig config_;
  WeightTable weights_;
  std::string directory_;
  bool is_dummy_ = false;
  std::vector<std::shared_ptr<const SafetensorsFile>> files_;
  std::vector<std::shared_ptr<const void>> buffers_;
};

// A Hub id ("org/name") resolves in the local Hugging Face cache (HF_HOME, HF_HUB_CACHE, ~/.cache/huggingface/hub; main
// revision); a directory is itself. Absent: an Error whose message holds the exact download command.
Result<std::string> resolve_model_directory(const std::string& model_argument);

// Loads config and weights. Errors name the file, the tensor, what was found and what was expected.
Result<std::shared_ptr<const Model>> load_model(const std::string& directory, const LoadOptions& options = {});

// A model of this shape whose weights are a pure function of their names (value = s * 2^-e, s odd, at most 8 bits; see
// dummy_weights.h). With kMadeByExecutor weights() is empty.
Result<std::shared_ptr<const Model>> make_dummy_model(const ModelConfig& config, const LoadProgress& progress = {},
                                                      DummyValues values = DummyValues::kOnHost);

// ---------------------------------------------------------------------------------------------------------------------
// The oracle in C++: plain fp32 arithmetic, no rounding to BF16 anywhere but in the stored weights; sequential, slow,
// and obviously right.

// One deliberate mistake at a time, for tests that show the goldens would notice it.
enum class ReferenceFlaw {
  kNone,
  kHalfSplitRope,
  kNoRopeOnDenseLayer,
  kRopeOnNopeLayer,
  kWindowPlusOne,
  kWindowMinusOne,
  kSoftmaxRouter,
  kRenormalisedTopK,
  kLogitScale,
  kNormEps,
  kDenseLayerSkipped,
  kGqaInterleaved,
};

struct ReferenceOutput {
  std::vector<float> logits;                  // [positions, vocab_size]
  std::vector<std::vector<float>> attention;  // per layer [positions, hidden], before the residual add
  std::vector<std::vector<float>> mlp;        // per layer [positions, hidden], before the residual add
  std::vector<std::vector<float>> residual;   // per layer [positions, hidden], after both adds
};

// Full causal forward of one sequence from position 0.
ReferenceOutput reference_forward(const Model& model, std::span<const TokenId> tokens,
                                  ReferenceFlaw flaw = ReferenceFlaw::kNone);

}  // namespace boreas
