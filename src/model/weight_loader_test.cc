// Loading checkpoints: every naming variant gives the same table, the published layout (49 shards, 18,730 names) loads,
// and everything that is missing, twice, unknown, misshapen or quantised is named.
#include "model/weight_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>

#include "model/checkpoint_fixture.h"
#include "model/families/family.h"

namespace boreas {
namespace {

using testing::HasSubstr;

ModelConfig tiny() {
  ModelConfig config = *model_shape("tiny");
  config.eos_token_ids = {3};
  return config;
}

std::shared_ptr<const Model> tiny_dummy() {
  const auto model = make_dummy_model(tiny());
  CHECK(model.ok());
  return *model;
}

void write_config(const TempDirectory& directory, const ModelConfig& config) {
  write_file(directory / "config.json", boost::json::serialize(published_config_json(config)));
}

// The error of loading a single-file checkpoint of these tensors.
std::string load_error(const std::vector<FixtureTensor>& tensors) {
  const TempDirectory directory;
  write_config(directory, tiny());
  write_safetensors(directory / "model.safetensors", tensors);
  const auto model = load_model(directory.path());
  EXPECT_FALSE(model.ok());
  return model.ok() ? "" : model.error().message;
}

void expect_loads_equal(const std::vector<FixtureTensor>& tensors, const Model& expected) {
  const TempDirectory directory;
  write_config(directory, tiny());
  write_safetensors(directory / "model.safetensors", tensors);
  int64_t reported = 0;
  const auto model = load_model(directory.path(), {false, [&](int64_t done, int64_t total) {
                                                     EXPECT_LE(done, total);
                                                     reported = done;
                                                   }});
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_GT(reported, 0);
  EXPECT_EQ((*model)->directory(), directory.path());
  EXPECT_FALSE((*model)->is_dummy());
  EXPECT_EQ((*model)->weights().total_bytes(), expected.weights().total_bytes());
  for (const WeightKey& key : weight_keys(expected.config())) {
    const TensorView& view = (*model)->weights().at(key.role, key.layer, key.expert);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data) % 2, 0u);
    ASSERT_EQ(weight_data(**model, key), weight_data(expected, key))
        << published_tensor_name(key.role, key.layer, key.expert);
  }
}

FixtureTensor& tensor_named(std::vector<FixtureTensor>& tensors, std::string_view name) {
  for (FixtureTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  CHECK(false);
  return tensors.front();
}

void remove_tensor(std::vector<FixtureTensor>& tensors, std::string_view name) {
  std::erase_if(tensors, [&](const FixtureTensor& tensor) { return tensor.name == name; });
}

// Replaces per-expert tensors by stacked ones: transformers' form (gate and up in one) or mlx's.
std::vector<FixtureTensor> stacked(const Model& model, bool mlx) {
  const ModelConfig& config = model.config();
  std::vector<FixtureTensor> tensors;
  for (FixtureTensor& tensor : published_tensors(model)) {
    if (tensor.name.find(".experts.") == std::string::npos) tensors.push_back(std::move(tensor));
  }
  for (int32_t layer = 0; layer < config.layer_count(); ++layer) {
    if (!config.is_moe(layer)) continue;
    std::string gate, up, down, gate_up;
    for (int32_t expert = 0; expert < config.experts; ++expert) {
      const std::string one_gate = weight_data(model, {WeightRole::kExpertGate, layer, expert});
      const std::string one_up = weight_data(model, {WeightRole::kExpertUp, layer, expert});
      gate += one_gate;
      up += one_up;
      gate_up += one_gate + one_up;
      down += weight_data(model, {WeightRole::kExpertDown, layer, expert});
    }
    const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.";
    const int64_t experts = config.experts, width = config.expert_width, hidden = config.hidden_size;
    if (mlx) {
      tensors.push_back({prefix + "switch_mlp.gate_proj.weight", {experts, width, hidden}, gate});
      tensors.push_back({prefix + "switch_mlp.up_proj.weight", {experts, width, hidden}, up});
      tensors.push_back({prefix + "switch_mlp.down_proj.weight", {experts, hidden, width}, down});
    } else {
      tensors.push_back({prefix + "experts.gate_up_proj", {experts, 2 * width, hidden}, gate_up});
      tensors.push_back({prefix + "experts.down_proj", {experts, hidden, width}, down});
    }
  }
  if (mlx) {
    for (FixtureTensor& tensor : tensors) tensor.name = "language_model." + tensor.name;
  }
  return tensors;
}

TEST(WeightLoader, AllNamingVariantsGiveTheSameTable) {
  const auto model = tiny_dummy();
  expect_loads_equal(published_tensors(*model), *model);
  expect_loads_equal(stacked(*model, false), *model);
  expect_loads_equal(stacked(*model, true), *model);
}

TEST(WeightLoader, IgnoresWhatTheFormatAllows) {
  const auto model = tiny_dummy();
  std::vector<FixtureTensor> tensors = published_tensors(*model);
  tensors.push_back({"lm_head.weight", {512, 128}, ""});
  tensors.push_back({"model.layers.1.self_attn.rotary_emb.inv_freq", {64}, "", "F32", 4});
  tensors.push_back({"model.layers.1.self_attn.q_proj.bias", {512}, ""});
  expect_loads_equal(tensors, *model);
  tensors.back().data = std::string(1, '\1');
  EXPECT_THAT(load_error(tensors), HasSubstr("'model.layers.1.self_attn.q_proj.bias' is a bias that is not zero"));
}

TEST(WeightLoader, TensorsAtOddAddressesAreCopied) {
  const auto model = tiny_dummy();
  std::vector<FixtureTensor> tensors = published_tensors(*model);
  tensors.insert(tensors.begin(), {"model.layers.0.self_attn.q_proj.bias", {1}, "", "U8", 1});
  expect_loads_equal(tensors, *model);
}

TEST(WeightLoader, MissingTensorsAreNamed) {
  const auto model = tiny_dummy();
  std::vector<FixtureTensor> tensors = published_tensors(*model);
  remove_tensor(tensors, "model.layers.2.mlp.experts.5.up_proj.weight");
  EXPECT_THAT(load_error(tensors), HasSubstr("tensor 'model.layers.2.mlp.experts.5.up_proj.weight' is missing"));
  remove_tensor(tensors, "model.norm.weight");
  remove_tensor(tensors, "model.layers.4.input_layernorm.weight");
  EXPECT_THAT(load_error(tensors),
              HasSubstr("tensor 'model.layers.2.mlp.experts.5.up_proj.weight' is missing (and 2 more)"));
}

TEST(WeightLoader, UnknownAndMisplacedTensorsAreNamed) {
  const auto model = tiny_dummy();
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"model.layers.1.self_attn.q_norm.weight", "is unknown in a cohere2_moe checkpoint"},
      {"model.layers.1.mlp.shared_experts.gate_proj.weight", "is unknown"},
      {"model.layers.01.mlp.gate.weight", "is unknown"},
      {"model.layers.-1.mlp.gate.weight", "is unknown"},
      {"model.layers.99999999999.mlp.gate.weight", "is unknown"},
      {"model.layers.1.mlp.experts.0.gate_proj", "is unknown"},
      {"model.mtp.weight", "is unknown"},
      {"", "is unknown"},
      {"model.layers.5.input_layernorm.weight", "layer that config.json does not have (num_hidden_layers is 5)"},
      {"model.layers.1.mlp.experts.8.gate_proj.weight", "expert that config.json does not have (num_experts is 8)"},
      {"model.layers.1.mlp.gate_proj.weight", "is a dense MLP, but config.json says that the layer has routed experts"},
      {"model.layers.0.mlp.gate.weight", "is of routed experts, but config.json says that the layer has a dense MLP"},
      {"model.layers.0.mlp.experts.down_proj", "is of routed experts"},
      {"language_model.model.norm.weight", "gives the weight 'model.norm.weight' a second time"},
  };
  for (const auto& [name, message] : cases) {
    std::vector<FixtureTensor> tensors = published_tensors(*model);
    tensors.push_back({name, {128}, ""});
    const std::string error = load_error(tensors);
    EXPECT_THAT(error, HasSubstr(message)) << name;
    EXPECT_THAT(error, HasSubstr("tensor '" + std::string(name) + "'"));
    EXPECT_THAT(error, HasSubstr("model.safetensors"));
  }
}

TEST(WeightLoader, WrongShapesAreNamed) {
  const auto model = tiny_dummy();
  std::vector<FixtureTensor> tensors = published_tensors(*model);
  tensor_named(tensors, "model.layers.3.self_attn.k_proj.weight").shape = {128, 256};
  EXPECT_THAT(load_error(tensors),
              HasSubstr("'model.layers.3.self_attn.k_proj.weight' has shape [128, 256]; expected [256, 128]"));
  tensors = published_tensors(*model);
  tensor_named(tensors, "model.norm.weight").shape = {1, 128};
  EXPECT_THAT(load_error(tensors), HasSubstr("'model.norm.weight' has shape [1, 128]; expected [128]"));
  tensors = stacked(*model, false);
  tensor_named(tensors, "model.layers.1.mlp.experts.gate_up_proj").shape = {8, 128, 64};
  EXPECT_THAT(load_error(tensors), HasSubstr("has shape [8, 128, 64]; expected [8, 64, 128]"));
}

TEST(WeightLoader, WrongDtypesAndQuantisedCheckpointsAreNamed) {
  const auto model = tiny_dummy();
  const auto with_dtype = [&](const char* dtype, int64_t element_bytes) {
    std::vector<FixtureTensor> tensors = published_tensors(*model);
    FixtureTensor& tensor = tensor_named(tensors, "model.layers.1.self_attn.o_proj.weight");
    tensor.dtype = dtype;
    tensor.element_bytes = element_bytes;
    tensor.data.clear();
    return load_error(tensors);
  };
  EXPECT_THAT(with_dtype("F32", 4), HasSubstr("o_proj.weight' has dtype F32; expected BF16"));
  EXPECT_THAT(with_dtype("F16", 2), HasSubstr("o_proj.weight' has dtype F16; expected BF16"));
  EXPECT_THAT(with_dtype("F8_E4M3", 1), HasSubstr("has dtype F8_E4M3, so it is quantised, which is not supported"));
  EXPECT_THAT(with_dtype("U32", 4), HasSubstr("has dtype U32, so it is quantised, which is not supported"));
  for (const char* ending : {"weight_scale", "qweight", "weight_packed", "scales", "biases", "weight_scale_inv"}) {
    std::vector<FixtureTensor> tensors = published_tensors(*model);
    tensors.push_back({std::string("model.layers.1.self_attn.o_proj.") + ending, {128, 1}, ""});
    EXPECT_THAT(load_error(tensors), HasSubstr("quantised checkpoint, which is not supported")) << ending;
  }
}

TEST(WeightLoader, TensorNamesRoundTrip) {
  for (const WeightKey& key : weight_keys(*model_shape("north"))) {
    const std::string name = published_tensor_name(key.role, key.layer, key.expert);
    const TensorMeaning meaning = read_cohere2_moe_tensor_name(name);
    ASSERT_EQ(meaning.kind, TensorMeaning::Kind::kWeight) << name;
    ASSERT_TRUE(meaning.role == key.role && meaning.layer == key.layer && meaning.expert == key.expert) << name;
  }
  EXPECT_EQ(published_tensor_name(WeightRole::kExpertGate, 3, 17), "model.layers.3.mlp.experts.17.gate_proj.weight");
}

TEST(WeightLoader, DirectoriesWithoutWeightsAreNamed) {
  const TempDirectory directory;
  EXPECT_THAT(load_model(directory.path()).error().message, HasSubstr("config.json does not exist"));
  write_config(directory, tiny());
  EXPECT_THAT(load_model(directory.path()).error().message, HasSubstr("expected model.safetensors or model.safetens"));
  write_file(directory / "north-q4.gguf", "GGUF");
  EXPECT_THAT(load_model(directory.path()).error().message,
              HasSubstr("'north-q4.gguf' is in a format that is not supp"));
  const auto dummy = load_model(directory.path(), {true, {}});
  ASSERT_TRUE(dummy.ok());
  EXPECT_TRUE((*dummy)->is_dummy());
}

TEST(WeightLoader, WorkerFilesAreRead) {
  const auto model = tiny_dummy();
  const std::vector<FixtureTensor> tensors = published_tensors(*model);
  const TempDirectory directory;
  write_config(directory, tiny());
  const auto half = tensors.begin() + static_cast<ptrdiff_t>(tensors.size() / 2);
  write_safetensors(directory / "worker-000-000.safetensors", {tensors.begin(), half});
  write_safetensors(directory / "worker-000-001.safetensors", {half, tensors.end()});
  const auto loaded = load_model(directory.path());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ((*loaded)->weights().total_bytes(), model->weights().total_bytes());
}

// A sharded tiny checkpoint whose index can be damaged.
class ShardedCheckpoint : public testing::Test {
 protected:
  ShardedCheckpoint() {
    write_config(directory_, tiny());
    std::vector<FixtureTensor> tensors = published_tensors(*tiny_dummy());
    const auto half = tensors.begin() + static_cast<ptrdiff_t>(tensors.size() / 2);
    write_safetensors(directory_ / "model-00001-of-00002.safetensors", {tensors.begin(), half});
    write_safetensors(directory_ / "model-00002-of-00002.safetensors", {half, tensors.end()});
    for (auto it = tensors.begin(); it != tensors.end(); ++it) {
      map_[it->name] = it < half ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
    }
  }
  std::string error() {
    const auto model = load();
    EXPECT_FALSE(model.ok());
    return model.ok() ? "" : model.error().message;
  }
  Result<std::shared_ptr<const Model>> load() {
    write_file(directory_ / "model.safetensors.index.json",
               boost::json::serialize(boost::json::object{{"metadata", {{"total_size", 1}}}, {"weight_map", map_}}));
    return load_model(directory_.path());
  }

  TempDirectory directory_;
  boost::json::object map_;
};

TEST_F(ShardedCheckpoint, Loads) {
  const auto model = load();
  ASSERT_TRUE(model.ok()) << model.error().message;
  for (const WeightKey& key : weight_keys(tiny()))
    ASSERT_EQ(weight_data(**model, key), weight_data(*tiny_dummy(), key));
}

TEST_F(ShardedCheckpoint, MissingShardIsNamed) {
  std::filesystem::remove(directory_ / "model-00002-of-00002.safetensors");
  EXPECT_THAT(error(), HasSubstr("/model-00002-of-00002.safetensors is missing"));
}

TEST_F(ShardedCheckpoint, ShardNamesStayInTheDirectory) {
  for (const char* name : {"../model.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", "model.bin",
                           ".hidden.safetensors", "a\\b.safetensors", "x\ny.safetensors"}) {
    map_["model.norm.weight"] = name;
    EXPECT_THAT(error(), HasSubstr("expected a plain .safetensors file name in the same directory")) << name;
  }
}

TEST_F(ShardedCheckpoint, IndexAndFilesMustAgree) {
  const boost::json::object good = map_;
  map_["model.norm.weight"] = "model-00001-of-00002.safetensors";
  EXPECT_THAT(error(), HasSubstr("'model.norm.weight' is not listed for this file"));
  map_ = good;
  map_.erase("model.norm.weight");
  EXPECT_THAT(error(), HasSubstr("'model.norm.weight' is not listed for this file"));
  map_ = good;
  map_["model.extra.weight"] = "model-00001-of-00002.safetensors";
  EXPECT_THAT(error(), HasSubstr("'model.extra.weight' is not in this file"));
  map_["model.extra.weight"] = 7;
  EXPECT_THAT(error(), HasSubstr("weight_map gives 7 for tensor 'model.extra.weight'"));
  write_file(directory_ / "model.safetensors.index.json", R"({"weight_map": []})");
  EXPECT_THAT(load_model(directory_.path()).error().message, HasSubstr("weight_map is missing or no object"));
  write_file(directory_ / "model.safetensors.index.json", "{");
  EXPECT_THAT(load_model(directory_.path()).error().message, HasSubstr("not valid JSON"));
}

// The published layout at full size, as sparse files: 49 shards, 18,730 tensors, 61 GB of which nothing is on disk.
class PublishedLayout : public testing::Test {
 protected:
  static std::string shard_name(int shard) {
    char name[64];
    std::snprintf(name, sizeof name, "model-%05d-of-00049.safetensors", shard);
    return name;
  }

  // Shard boundaries do not follow layers, as in the published files: tensors in name order, cut by count.
  void SetUp() override {
    const ModelConfig config = *model_shape("north");
    write_config(directory_, config);
    const std::vector<WeightKey> keys = weight_keys(config);
    ASSERT_EQ(keys.size(), 18'730u);
    for (size_t i = 0; i < keys.size(); ++i) {
      const WeightKey& key = keys[i];
      shards_[static_cast<int>(i * 49 / keys.size()) + 1].push_back(
          {published_tensor_name(key.role, key.layer, key.expert), published_shape(config, key.role), ""});
    }
    boost::json::object map;
    for (const auto& [shard, tensors] : shards_) {
      write_safetensors(directory_ / shard_name(shard), tensors);
      for (const FixtureTensor& tensor : tensors) map[tensor.name] = shard_name(shard);
      struct stat status = {};
      ASSERT_EQ(::stat((directory_ / shard_name(shard)).c_str(), &status), 0);
      apparent_bytes_ += status.st_size;
      disk_bytes_ += status.st_blocks * 512;
      if (disk_bytes_ > 64 << 20) GTEST_SKIP() << "this file system has no sparse files";
    }
    write_file(directory_ / "model.safetensors.index.json",
               boost::json::serialize(
                   boost::json::object{{"metadata", {{"total_size", 60'968'607'744}}}, {"weight_map", map}}));
  }

  TempDirectory directory_;
  std::map<int, std::vector<FixtureTensor>> shards_;
  int64_t apparent_bytes_ = 0;
  int64_t disk_bytes_ = 0;
};

TEST_F(PublishedLayout, Loads) {
  EXPECT_EQ(shards_.size(), 49u);
  EXPECT_GT(apparent_bytes_, 60'968'607'744);
  int calls = 0;
  int64_t done = 0;
  const auto model = load_model(directory_.path(), {false, [&](int64_t bytes_done, int64_t bytes_total) {
                                                      ++calls;
                                                      EXPECT_GE(bytes_done, done);
                                                      done = bytes_done;
                                                      EXPECT_EQ(bytes_total, apparent_bytes_);
                                                    }});
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ((*model)->weights().total_bytes(), 60'968'607'744);
  EXPECT_EQ(done, apparent_bytes_);
  EXPECT_GE(calls, 1);
  EXPECT_LE(calls, 200);
  EXPECT_EQ((*model)->weights().at(WeightRole::kExpertDown, 48, 127).rows, 2048);
}

TEST_F(PublishedLayout, WrongDtypeInShard37IsNamed) {
  FixtureTensor& tensor = shards_[37][100];
  tensor.dtype = "F16";
  write_safetensors(directory_ / shard_name(37), shards_[37]);
  const auto model = load_model(directory_.path());
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.error().message, HasSubstr("model-00037-of-00049.safetensors"));
  EXPECT_THAT(model.error().message, HasSubstr("'" + tensor.name + "' has dtype F16; expected BF16"));
}

TEST_F(PublishedLayout, TruncatedShardIsNamed) {
  const std::string path = directory_ / shard_name(12);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4096);
  const auto model = load_model(directory_.path());
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.error().message, HasSubstr("model-00012-of-00049.safetensors"));
  EXPECT_THAT(model.error().message, HasSubstr("truncated?"));
}

}  // namespace
}  // namespace boreas
