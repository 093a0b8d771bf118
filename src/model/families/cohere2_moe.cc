// config.json of model_type cohere2_moe (North-Mini-Code-1.0 and its kin) -> ModelConfig.
//
// Two generations of keys are in circulation: the published file (first_k_dense_replace, rope_theta at top level) and
// what transformers' save_pretrained writes (mlp_layer_types, rope_parameters.rope_theta). Both are understood, and if
// both are present they must agree. No class default of transformers is ever assumed for a key whose default differs
// from North's value (logit_scale 0.0625, softmax routing, renormalised top-k, theta 10000, ...): such a key must be
// there. Values that would change the arithmetic in a way the engine does not implement are errors.
#include <cmath>
#include <string>
#include <vector>

#include "model/config_reader.h"
#include "model/families/family.h"
#include "model/quote.h"

namespace boreas {
namespace {

// Bounds on what a config may ask for: far above any published model, low enough that products of them fit 64 bits.
constexpr int32_t kLayersMax = 1024;
constexpr int32_t kHiddenMax = 65536;
constexpr int32_t kHeadsMax = 1024;
constexpr int32_t kHeadDimMax = 512;
constexpr int32_t kWidthMax = 1 << 18;
constexpr int32_t kExpertsMax = 4096;
constexpr int32_t kVocabMax = 1 << 22;
constexpr int32_t kPositionsMax = 1 << 24;
constexpr int64_t kLayersTimesExpertsMax = 1 << 18;

void check_supported(ConfigReader& reader) {
  if (reader.has("quantization_config")) reader.refuse("quantization_config", "present", "BF16 weights only");
  if (reader.has("quantization")) reader.refuse("quantization", "present", "BF16 weights only");
  for (const char* key : {"attention_bias", "use_qk_norm"}) {
    if (reader.boolean_or(key, false)) reader.refuse(key, "true", "false");
  }
  for (const char* key : {"use_parallel_block", "tie_word_embeddings"}) {
    if (!reader.boolean_or(key, true)) reader.refuse(key, "false", "true");
  }
  const int32_t shared = reader.integer_or("num_shared_experts", 0, kExpertsMax, 0);
  if (shared != 0) reader.refuse("num_shared_experts", std::to_string(shared), "0");
  const std::string selection = reader.string("expert_selection_fn");
  if (selection != "sigmoid") reader.refuse("expert_selection_fn", quote(selection), "'sigmoid'");
  if (reader.boolean("norm_topk_prob")) reader.refuse("norm_topk_prob", "true", "false");
  const std::string activation = reader.string_or("hidden_act", "silu");
  if (activation != "silu") reader.refuse("hidden_act", quote(activation), "'silu'");
  if (!reader.has("rms_norm_eps")) {
    reader.fail("rms_norm_eps", "is missing, which selects LayerNorm; supported: RMSNorm, with rms_norm_eps given");
  }
}

// One of the objects that may describe RoPE (rope_parameters, or rope_scaling as older files call it). Returns its
// rope_theta, or 0 if it has none.
double read_rope_object(ConfigReader& reader, const std::string& key) {
  const boost::json::value* value = reader.find(key);
  if (value == nullptr) return 0;
  if (!value->is_object()) {
    reader.fail(key, "is " + describe_json(*value) + "; expected an object or null");
    return 0;
  }
  for (const auto& entry : value->get_object()) {
    if (entry.value().is_object()) reader.refuse(key, "a set of objects, one a layer type", "one rope_theta for all");
  }
  ConfigReader inner(value->get_object(), "config.json: " + key);
  for (const char* type_key : {"rope_type", "type"}) {
    const std::string type = inner.string_or(type_key, "default");
    if (type != "default") reader.refuse(key + "." + type_key, quote(type), "'default' (plain RoPE)");
  }
  const double rotated = inner.number_or("partial_rotary_factor", 0, 1, 1);
  if (rotated != 1) reader.refuse(key + ".partial_rotary_factor", std::to_string(rotated), "1");
  const double theta = inner.number_or("rope_theta", 1, 1e12, 0);
  if (inner.error()) reader.fail(key, "is wrong: " + inner.error()->message);
  return theta;
}

double read_rope_theta(ConfigReader& reader) {
  const double top = reader.number_or("rope_theta", 1, 1e12, 0);
  const double nested = read_rope_object(reader, "rope_parameters");
  const double scaling = read_rope_object(reader, "rope_scaling");
  double theta = 0;
  for (const double found : {top, nested, scaling}) {
    if (found == 0) continue;
    if (theta != 0 && theta != found) {
      reader.fail("rope_theta",
                  "is given as " + std::to_string(theta) + " and as " + std::to_string(found) + "; expected one value");
    }
    theta = found;
  }
  if (theta == 0) {
    reader.fail("rope_theta", "is missing; expected a number, here or in rope_parameters (no default is assumed)");
  }
  return theta;
}

// Which layers have the dense MLP: from mlp_layer_types, first_k_dense_replace, or both.
std::vector<bool> read_dense_layers(ConfigReader& reader, int32_t layer_count) {
  std::vector<bool> dense(static_cast<size_t>(layer_count), false);
  const bool has_list = reader.has("mlp_layer_types");
  const bool has_prefix = reader.has("first_k_dense_replace");
  if (!has_list && !has_prefix) {
    reader.fail("first_k_dense_replace", "is missing and so is mlp_layer_types; expected one of them");
    return dense;
  }
  if (has_list) {
    const std::vector<std::string> kinds = reader.strings("mlp_layer_types", dense.size());
    for (size_t i = 0; i < dense.size(); ++i) {
      dense[i] = kinds[i] == "dense";
      if (!dense[i] && kinds[i] != "sparse") {
        reader.fail("mlp_layer_types",
                    "holds " + quote(kinds[i]) + " at index " + std::to_string(i) + "; expected 'dense' or 'sparse'");
      }
    }
  }
  if (has_prefix) {
    const int32_t prefix = reader.integer("first_k_dense_replace", 0, layer_count);
    for (size_t i = 0; i < dense.size(); ++i) {
      const bool by_prefix = static_cast<int32_t>(i) < prefix;
      if (has_list && by_prefix != dense[i]) {
        reader.fail("first_k_dense_replace", "is " + std::to_string(prefix) + ", but mlp_layer_types says layer " +
                                                 std::to_string(i) + " is " + (dense[i] ? "dense" : "sparse"));
      }
      dense[i] = by_prefix;
    }
  }
  return dense;
}

// Attention kind, MLP kind and RoPE of each layer. The rule of the family's model class: a layer rotates q and k if it
// is sliding, or if its MLP is dense and prefix_dense_sliding_window_pattern is 1.
void read_layers(ConfigReader& reader, ModelConfig& config) {
  const int32_t layer_count = reader.integer("num_hidden_layers", 1, kLayersMax);
  const std::vector<std::string> kinds = reader.strings("layer_types", static_cast<size_t>(layer_count));
  const std::vector<bool> dense = read_dense_layers(reader, layer_count);
  bool any_dense = false;
  for (const bool is_dense : dense) any_dense = any_dense || is_dense;
  int32_t prefix_pattern = 0;
  if (any_dense) {
    prefix_pattern = reader.integer("prefix_dense_sliding_window_pattern", 1, kLayersMax);
    config.dense_width = reader.integer("prefix_dense_intermediate_size", 1, kWidthMax);
  }
  config.layers.resize(static_cast<size_t>(layer_count));
  for (size_t i = 0; i < config.layers.size(); ++i) {
    LayerConfig& layer = config.layers[i];
    layer.sliding = kinds[i] == "sliding_attention";
    if (!layer.sliding && kinds[i] != "full_attention") {
      reader.fail("layer_types", "holds " + quote(kinds[i]) + " at index " + std::to_string(i) +
                                     "; expected 'full_attention' or 'sliding_attention'");
    }
    layer.dense_mlp = dense[i];
    layer.rope = layer.sliding || (layer.dense_mlp && prefix_pattern == 1);
  }
}

void read_shape(ConfigReader& reader, ModelConfig& config) {
  config.hidden_size = reader.integer("hidden_size", 1, kHiddenMax);
  config.query_heads = reader.integer("num_attention_heads", 1, kHeadsMax);
  config.kv_heads = reader.integer("num_key_value_heads", 1, kHeadsMax);
  if (config.query_heads % config.kv_heads != 0) {
    reader.fail("num_key_value_heads", "is " + std::to_string(config.kv_heads) +
                                           "; expected a divisor of num_attention_heads, which is " +
                                           std::to_string(config.query_heads));
  }
  config.head_dim = reader.integer("head_dim", 2, kHeadDimMax);
  if (config.head_dim % 2 != 0) {
    reader.fail("head_dim", "is " + std::to_string(config.head_dim) + "; expected an even number");
  }
  config.expert_width = reader.integer("intermediate_size", 1, kWidthMax);
  config.experts = reader.integer("num_experts", 1, kExpertsMax);
  config.experts_per_token = reader.integer("num_experts_per_tok", 1, kExpertsMax);
  if (config.experts_per_token > config.experts) {
    reader.fail("num_experts_per_tok", "is " + std::to_string(config.experts_per_token) +
                                           "; expected at most num_experts, which is " +
                                           std::to_string(config.experts));
  }
  config.vocab_size = reader.integer("vocab_size", 1, kVocabMax);
  config.window = reader.integer("sliding_window", 1, kPositionsMax);
  config.context_max = reader.integer("max_position_embeddings", 1, kPositionsMax);
  config.rms_norm_eps = static_cast<float>(reader.number("rms_norm_eps", 1e-30, 1));
  config.logit_scale = static_cast<float>(reader.number("logit_scale", 1e-6, 1e6));
  config.rope_theta = read_rope_theta(reader);
}

}  // namespace

Result<ModelConfig> parse_cohere2_moe_config(const boost::json::object& object) {
  ConfigReader reader(object, "config.json");
  ModelConfig config;
  config.family = "cohere2_moe";
  check_supported(reader);
  read_shape(reader, config);
  read_layers(reader, config);
  if (int64_t{config.layer_count()} * config.experts > kLayersTimesExpertsMax) {
    reader.fail("num_experts", "times num_hidden_layers is " + std::to_string(config.layer_count() * config.experts) +
                                   "; expected at most " + std::to_string(kLayersTimesExpertsMax));
  }
  // An explicit null means that the model has none; absence would leave the class default 5 of an older vocabulary.
  if (!object.contains("bos_token_id")) reader.integer("bos_token_id", 0, config.vocab_size - 1);
  config.bos_token_id = reader.integer_or("bos_token_id", 0, config.vocab_size - 1, -1);
  config.pad_token_id = reader.integer_or("pad_token_id", 0, config.vocab_size - 1, -1);
  config.eos_token_ids = reader.ids_or_none("eos_token_id", config.vocab_size);
  if (reader.error()) return *reader.error();
  return config;
}

}  // namespace boreas
