// config.json -> ModelConfig: both generations of keys, each dangerous key missing, each value that is not implemented,
// wrong types, absurd numbers; generation_config.json; shapes by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "model/checkpoint_fixture.h"

namespace boreas {
namespace {

using boost::json::object;
using boost::json::value;
using testing::HasSubstr;

ModelConfig north() { return *model_shape("north"); }

Result<ModelConfig> parse(const object& json, std::string_view generation = {}) {
  return parse_model_config(boost::json::serialize(json), generation);
}

// The error of a config with one key changed.
Error error_with(std::string_view key, const value& changed) {
  object json = published_config_json(north());
  json[key] = changed;
  const Result<ModelConfig> result = parse(json);
  EXPECT_FALSE(result.ok()) << key << " = " << boost::json::serialize(changed);
  return result.ok() ? Error{} : result.error();
}

void expect_equal(const ModelConfig& a, const ModelConfig& b) {
  EXPECT_EQ(a.family, b.family);
  EXPECT_EQ(a.hidden_size, b.hidden_size);
  EXPECT_EQ(a.query_heads, b.query_heads);
  EXPECT_EQ(a.kv_heads, b.kv_heads);
  EXPECT_EQ(a.head_dim, b.head_dim);
  EXPECT_EQ(a.expert_width, b.expert_width);
  EXPECT_EQ(a.dense_width, b.dense_width);
  EXPECT_EQ(a.experts, b.experts);
  EXPECT_EQ(a.experts_per_token, b.experts_per_token);
  EXPECT_EQ(a.vocab_size, b.vocab_size);
  EXPECT_EQ(a.window, b.window);
  EXPECT_EQ(a.context_max, b.context_max);
  EXPECT_EQ(a.rms_norm_eps, b.rms_norm_eps);
  EXPECT_EQ(a.rope_theta, b.rope_theta);
  EXPECT_EQ(a.logit_scale, b.logit_scale);
  EXPECT_EQ(a.eos_token_ids, b.eos_token_ids);
  EXPECT_EQ(a.bos_token_id, b.bos_token_id);
  EXPECT_EQ(a.pad_token_id, b.pad_token_id);
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (size_t i = 0; i < a.layers.size(); ++i) {
    EXPECT_EQ(a.layers[i].sliding, b.layers[i].sliding) << i;
    EXPECT_EQ(a.layers[i].rope, b.layers[i].rope) << i;
    EXPECT_EQ(a.layers[i].dense_mlp, b.layers[i].dense_mlp) << i;
  }
}

TEST(ModelConfig, ReadsThePublishedGeneration) {
  const Result<ModelConfig> config = parse(published_config_json(north()));
  ASSERT_TRUE(config.ok()) << config.error().message;
  expect_equal(*config, north());
  EXPECT_EQ(config->full_layers(), 13);
  EXPECT_EQ(config->sliding_layers(), 36);
  EXPECT_EQ(config->query_width(), 4096);
  EXPECT_EQ(config->kv_width(), 512);
}

TEST(ModelConfig, ReadsTheSavedGeneration) {
  const Result<ModelConfig> config = parse(saved_config_json(north()));
  ASSERT_TRUE(config.ok()) << config.error().message;
  expect_equal(*config, north());
}

// Layers with position encoding: 0 (dense prefix) and the sliding ones; 4, 8, ..., 48 have none.
TEST(ModelConfig, RopeFollowsWindowAndDensePrefix) {
  const ModelConfig config = north();
  for (int32_t i = 0; i < 49; ++i) EXPECT_EQ(config.layers[static_cast<size_t>(i)].rope, i == 0 || i % 4 != 0) << i;
  for (const bool saved : {false, true}) {
    object json = saved ? saved_config_json(config) : published_config_json(config);
    json["prefix_dense_sliding_window_pattern"] = 2;
    const Result<ModelConfig> changed = parse(json);
    ASSERT_TRUE(changed.ok());
    EXPECT_FALSE(changed->layers[0].rope);
    EXPECT_TRUE(changed->layers[1].rope);
    EXPECT_FALSE(changed->layers[4].rope);
  }
}

TEST(ModelConfig, EachDangerousKeyIsRequired) {
  for (const char* key : {"logit_scale",
                          "expert_selection_fn",
                          "norm_topk_prob",
                          "num_experts",
                          "num_experts_per_tok",
                          "rope_theta",
                          "hidden_size",
                          "vocab_size",
                          "max_position_embeddings",
                          "bos_token_id",
                          "head_dim",
                          "layer_types",
                          "sliding_window",
                          "intermediate_size",
                          "prefix_dense_intermediate_size",
                          "num_hidden_layers",
                          "num_attention_heads",
                          "num_key_value_heads",
                          "first_k_dense_replace",
                          "prefix_dense_sliding_window_pattern",
                          "rms_norm_eps",
                          "eos_token_id",
                          "model_type"}) {
    object json = published_config_json(north());
    ASSERT_EQ(json.erase(key), 1u);
    const Result<ModelConfig> result = parse(json);
    ASSERT_FALSE(result.ok()) << key;
    EXPECT_THAT(result.error().message, HasSubstr(key));
    EXPECT_THAT(result.error().message, HasSubstr("missing"));
    EXPECT_EQ(result.error().param, key);
  }
  for (const char* key : {"mlp_layer_types", "rope_parameters"}) {
    object json = saved_config_json(north());
    ASSERT_EQ(json.erase(key), 1u);
    const Result<ModelConfig> result = parse(json);
    ASSERT_FALSE(result.ok()) << key;
    EXPECT_THAT(result.error().message, HasSubstr(key));
  }
}

TEST(ModelConfig, OptionalKeysMayBeAbsent) {
  object json = published_config_json(north());
  for (const char* key :
       {"architectures", "dtype", "num_shared_experts", "shared_expert_combination_strategy", "layer_norm_eps",
        "hidden_act", "attention_bias", "attention_dropout", "use_qk_norm", "use_parallel_block", "rope_scaling",
        "initializer_range", "use_cache", "pad_token_id", "sliding_window_pattern"}) {
    ASSERT_EQ(json.erase(key), 1u) << key;
  }
  const Result<ModelConfig> config = parse(json);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->pad_token_id, -1);
}

TEST(ModelConfig, ValuesThatAreNotImplementedAreNamed) {
  const std::vector<std::pair<const char*, value>> cases = {
      {"attention_bias", true},
      {"use_qk_norm", true},
      {"num_shared_experts", 1},
      {"expert_selection_fn", "softmax"},
      {"norm_topk_prob", true},
      {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}},
      {"rope_parameters", {{"rope_type", "linear"}, {"rope_theta", 50000}}},
      {"rope_parameters", {{"rope_theta", 50000}, {"partial_rotary_factor", 0.5}}},
      {"rope_parameters", {{"full_attention", {{"rope_theta", 50000}}}}},
      {"use_parallel_block", false},
      {"tie_word_embeddings", false},
      {"hidden_act", "gelu"},
      {"quantization_config", {{"quant_method", "compressed-tensors"}}},
      {"quantization", {{"bits", 4}}},
  };
  for (const auto& [key, changed] : cases) {
    const Error error = error_with(key, changed);
    EXPECT_THAT(error.message, HasSubstr(key));
    EXPECT_THAT(error.message, HasSubstr("not supported; supported: ")) << error.message;
  }
  EXPECT_THAT(error_with("model_type", "llama").message, HasSubstr("supported: cohere2_moe"));
  EXPECT_THAT(error_with("rms_norm_eps", nullptr).message, HasSubstr("LayerNorm"));
}

TEST(ModelConfig, AbsurdValuesAreNamed) {
  const std::vector<std::pair<const char*, value>> cases = {
      {"num_hidden_layers", 0},
      {"num_hidden_layers", 1025},
      {"num_hidden_layers", 48},  // layer_types has 49
      {"hidden_size", 0},
      {"hidden_size", -2048},
      {"hidden_size", 65537},
      {"hidden_size", 18446744073709551615u},
      {"num_attention_heads", 31},
      {"num_key_value_heads", 0},
      {"num_key_value_heads", 5},
      {"head_dim", 127},
      {"head_dim", 514},
      {"vocab_size", 4194305},
      {"num_experts", 4097},
      {"num_experts", 0},
      {"num_experts_per_tok", 129},
      {"num_experts_per_tok", 0},
      {"sliding_window", 0},
      {"max_position_embeddings", 1 << 25},
      {"intermediate_size", 1 << 20},
      {"prefix_dense_intermediate_size", 0},
      {"first_k_dense_replace", 50},
      {"first_k_dense_replace", -1},
      {"rms_norm_eps", 0},
      {"rms_norm_eps", -1e-6},
      {"logit_scale", 0},
      {"logit_scale", 1e300},
      {"rope_theta", 0},
      {"rope_theta", 1e300},
      {"bos_token_id", 262144},
      {"eos_token_id", -1},
      {"eos_token_id", {1, 262144}},
  };
  for (const auto& [key, changed] : cases) {
    const Error error = error_with(key, changed);
    EXPECT_TRUE(error.message.find(key) != std::string::npos || error.message.find("layer_types") != std::string::npos)
        << error.message;
    EXPECT_THAT(error.message, HasSubstr("expected")) << error.message;
  }
}

TEST(ModelConfig, HugeProductsAreRefused) {
  object json = published_config_json(north());
  boost::json::array kinds(1024, "full_attention");
  json["num_hidden_layers"] = 1024;
  json["layer_types"] = kinds;
  json["num_experts"] = 4096;
  const Result<ModelConfig> result = parse(json);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("num_experts times num_hidden_layers"));
}

TEST(ModelConfig, WrongTypesAreNamed) {
  const object json = published_config_json(north());
  int checked = 0;
  for (const auto& entry : json) {
    const std::string key(entry.key());
    static const std::set<std::string> kUnused = {
        "architectures",     "dtype",     "sliding_window_pattern", "layer_norm_eps",
        "initializer_range", "use_cache", "attention_dropout",      "shared_expert_combination_strategy"};
    if (kUnused.count(key) != 0) continue;
    for (const value& wrong : {value("twelve"), value(boost::json::array{"a"}), value(object{{"a", 1}}), value(1.5)}) {
      const bool fits = (entry.value().is_string() && wrong.is_string()) ||
                        (entry.value().is_double() && wrong.is_double()) ||
                        (key == "rope_theta" && wrong.is_double()) || (key == "rope_scaling" && wrong.is_object()) ||
                        (key == "rms_norm_eps" && wrong.is_double());
      if (fits) continue;
      const Error error = error_with(key, wrong);
      EXPECT_THAT(error.message, HasSubstr(key)) << error.message;
      ++checked;
    }
  }
  EXPECT_GT(checked, 80);
  EXPECT_THAT(error_with("hidden_size", true).message, HasSubstr("hidden_size is true; expected an integer"));
  EXPECT_THAT(error_with("norm_topk_prob", 0).message, HasSubstr("norm_topk_prob is 0; expected true or false"));
}

TEST(ModelConfig, LayerListsAreChecked) {
  object json = saved_config_json(north());
  json["mlp_layer_types"].as_array()[3] = "conv";
  EXPECT_THAT(parse(json).error().message, HasSubstr("mlp_layer_types holds 'conv' at index 3"));
  json = published_config_json(north());
  json["layer_types"].as_array()[7] = "chunked_attention";
  EXPECT_THAT(parse(json).error().message, HasSubstr("layer_types holds 'chunked_attention' at index 7"));
  json = saved_config_json(north());
  json["first_k_dense_replace"] = 2;
  EXPECT_THAT(parse(json).error().message, HasSubstr("mlp_layer_types says layer 1 is sparse"));
  json["first_k_dense_replace"] = 1;
  EXPECT_TRUE(parse(json).ok());
  json["rope_theta"] = 10000;
  EXPECT_THAT(parse(json).error().message, HasSubstr("expected one value"));
}

TEST(ModelConfig, NoDenseLayersNeedNoDenseKeys) {
  object json = published_config_json(north());
  json["first_k_dense_replace"] = 0;
  json.erase("prefix_dense_intermediate_size");
  json.erase("prefix_dense_sliding_window_pattern");
  const Result<ModelConfig> config = parse(json);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->dense_width, 0);
  EXPECT_FALSE(config->layers[0].rope);
  EXPECT_TRUE(config->is_moe(0));
}

TEST(ModelConfig, NullBosMeansNone) {
  object json = published_config_json(north());
  json["bos_token_id"] = nullptr;
  const Result<ModelConfig> config = parse(json);
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->bos_token_id, -1);
}

TEST(ModelConfig, GenerationConfigAddsStopsAndDefaults) {
  const object json = published_config_json(north());
  const Result<ModelConfig> config =
      parse(json, R"({"eos_token_id": [255001, 6, 3], "temperature": 0.7, "top_p": 0.95, "top_k": 40})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->eos_token_ids, (std::vector<TokenId>{3, 6, 255001}));
  EXPECT_FLOAT_EQ(config->default_temperature, 0.7f);
  EXPECT_FLOAT_EQ(config->default_top_p, 0.95f);
  EXPECT_EQ(config->default_top_k, 40);
  const Result<ModelConfig> bare = parse(json, "{}");
  ASSERT_TRUE(bare.ok());
  EXPECT_LT(bare->default_temperature, 0);
  EXPECT_LT(bare->default_top_p, 0);
  EXPECT_LT(bare->default_top_k, 0);
  object without = json;
  without.erase("eos_token_id");
  EXPECT_TRUE(parse(without, R"({"eos_token_id": 7})").ok());
  EXPECT_THAT(parse(json, R"({"top_p": "high"})").error().message,
              HasSubstr("generation_config.json: top_p is 'high'; expected a number"));
  EXPECT_THAT(parse(json, "[]").error().message, HasSubstr("generation_config.json holds a list"));
}

TEST(ModelConfig, BrokenJsonIsAnError) {
  EXPECT_THAT(parse_model_config("{\"a\": ").error().message, HasSubstr("config.json is not valid JSON"));
  EXPECT_THAT(parse_model_config("").error().message, HasSubstr("config.json is not valid JSON"));
  EXPECT_THAT(parse_model_config("7").error().message, HasSubstr("expected a JSON object"));
  const std::string deep = "{\"a\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  EXPECT_THAT(parse_model_config(deep).error().message, HasSubstr("not valid JSON"));
  EXPECT_THAT(parse_model_config(std::string(20 << 20, ' ')).error().message, HasSubstr("expected at most"));
}

TEST(ModelConfig, LoadsFromADirectory) {
  const TempDirectory directory;
  EXPECT_THAT(load_model_config(directory.path()).error().message, HasSubstr("/config.json does not exist"));
  write_file(directory / "config.json", boost::json::serialize(published_config_json(north())));
  ASSERT_TRUE(load_model_config(directory.path()).ok());
  write_file(directory / "generation_config.json", "{\"eos_token_id\": [9]}");
  EXPECT_EQ(load_model_config(directory.path())->eos_token_ids, (std::vector<TokenId>{9, 255001}));
  write_file(directory / "generation_config.json", "");
  EXPECT_THAT(load_model_config(directory.path()).error().message, HasSubstr("generation_config.json is empty"));
}

int64_t parameter_count(const ModelConfig& config) {
  int64_t count = 0;
  for (const WeightKey& key : weight_keys(config)) {
    const WeightShape shape = weight_shape(config, key.role);
    count += shape.rows * shape.cols;
  }
  return count;
}

TEST(ModelShapes, HaveTheSizesTheyPromise) {
  EXPECT_EQ(parameter_count(north()), 30'484'303'872);
  EXPECT_EQ(weight_keys(north()).size(), 18'730u);
  EXPECT_EQ(parameter_count(*model_shape("demo")), 11'110'912);
  const int64_t bench_bytes = 2 * parameter_count(*model_shape("bench"));
  EXPECT_GT(bench_bytes, 1'000'000'000);
  EXPECT_LT(bench_bytes, 1'600'000'000);
  EXPECT_LT(parameter_count(*model_shape("tiny")), 2'000'000);
  EXPECT_THAT(model_shape("huge").error().message, HasSubstr("north, demo, tiny, bench"));
}

TEST(ModelShapes, AreValidConfigs) {
  for (const std::string& name : model_shape_names()) {
    const ModelConfig shape = *model_shape(name);
    const Result<ModelConfig> config = parse(published_config_json(shape));
    ASSERT_TRUE(config.ok()) << name << ": " << config.error().message;
    for (size_t i = 0; i < shape.layers.size(); ++i) EXPECT_EQ(config->layers[i].rope, shape.layers[i].rope);
    bool nope = false;
    for (const LayerConfig& layer : shape.layers) nope = nope || !layer.rope;
    EXPECT_TRUE(nope) << name;
    EXPECT_GT(shape.sliding_layers(), 0);
    EXPECT_TRUE(shape.layers[0].dense_mlp);
  }
}

}  // namespace
}  // namespace boreas
