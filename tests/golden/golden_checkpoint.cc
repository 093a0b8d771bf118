// The weight recipe of golden_checkpoint.h, written to a scratch file and loaded like any checkpoint.
#include "tests/golden/golden_checkpoint.h"

#include <unistd.h>

#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/dtype.h"
#include "base/prng.h"

namespace boreas {
namespace {

namespace fs = std::filesystem;

struct RecipeRole {
  WeightRole role;
  const char* shift;  // its key in the manifest's "weights.shift"; nullptr: a norm
};

constexpr std::array<RecipeRole, 14> kRecipeRoles = {{
    {WeightRole::kEmbedding, "embed"},
    {WeightRole::kFinalNorm, nullptr},
    {WeightRole::kInputNorm, nullptr},
    {WeightRole::kQuery, "q"},
    {WeightRole::kKey, "k"},
    {WeightRole::kValue, "v"},
    {WeightRole::kOutput, "o"},
    {WeightRole::kRouter, "router"},
    {WeightRole::kExpertGate, "gate"},
    {WeightRole::kExpertUp, "up"},
    {WeightRole::kExpertDown, "down"},
    {WeightRole::kDenseGate, "dense_gate"},
    {WeightRole::kDenseUp, "dense_up"},
    {WeightRole::kDenseDown, "dense_down"},
}};

bool is_global(WeightRole role) { return role == WeightRole::kEmbedding || role == WeightRole::kFinalNorm; }

bool is_dense(WeightRole role) {
  return role == WeightRole::kDenseGate || role == WeightRole::kDenseUp || role == WeightRole::kDenseDown;
}

bool is_expert(WeightRole role) {
  return role == WeightRole::kExpertGate || role == WeightRole::kExpertUp || role == WeightRole::kExpertDown;
}

// One weight file under construction.
class RecipeWriter {
 public:
  RecipeWriter(const ModelConfig& config, std::string case_name, const boost::json::object& shift)
      : config_(config), case_name_(std::move(case_name)), shift_(shift) {
    for (const RecipeRole& role : kRecipeRoles) add_role(role);
  }

  void write(const fs::path& path) const {
    const std::string header = boost::json::serialize(header_);
    const uint64_t header_bytes = header.size();
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
    out.write(header.data(), static_cast<std::streamsize>(header.size()));
    out.write(reinterpret_cast<const char*>(data_.data()), static_cast<std::streamsize>(data_.size() * sizeof(bf16)));
    CHECK(out.good());
  }

 private:
  void add_role(const RecipeRole& role) {
    if (is_global(role.role)) return add_tensor(role, 0, 0);
    for (int32_t layer = 0; layer < config_.layer_count(); ++layer) {
      const bool only_moe = is_expert(role.role) || role.role == WeightRole::kRouter;
      if (config_.is_moe(layer) ? is_dense(role.role) : only_moe) continue;
      const int32_t copies = is_expert(role.role) ? config_.experts : 1;
      for (int32_t expert = 0; expert < copies; ++expert) add_tensor(role, layer, expert);
    }
  }

  void add_tensor(const RecipeRole& role, int32_t layer, int32_t expert) {
    const std::string name = published_tensor_name(role.role, layer, expert);
    const WeightShape shape = weight_shape(config_, role.role);
    const size_t begin = data_.size();
    append_values("golden/" + case_name_ + "/" + name, shape.rows * shape.cols,
                  role.shift == nullptr ? -1 : shift_.at(role.shift).to_number<int>());
    boost::json::array dims;
    if (role.shift != nullptr) dims.push_back(shape.rows);
    dims.push_back(shape.cols);
    header_[name] = {
        {"dtype", "BF16"}, {"shape", dims}, {"data_offsets", {begin * sizeof(bf16), data_.size() * sizeof(bf16)}}};
  }

  // shift < 0: norm weights.
  void append_values(const std::string& key_text, int64_t count, int shift) {
    const uint64_t key = fnv1a_64(key_text.data(), key_text.size());
    std::array<uint8_t, 16> bytes{};
    for (int64_t i = 0; i < count; ++i) {
      if (i % 16 == 0) {
        const auto block = Philox4x32::generate({static_cast<uint32_t>(i / 16), 0, 0, 0},
                                                {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
        std::memcpy(bytes.data(), block.data(), sizeof(block));
      }
      const uint8_t byte = bytes[static_cast<size_t>(i % 16)];
      const float value = shift < 0 ? static_cast<float>(32 + byte % 25 - 12) / 32.0f
                                    : std::ldexp(static_cast<float>(static_cast<int8_t>(byte | 1)), -shift);
      data_.push_back(float_to_bf16(value));
    }
  }

  const ModelConfig& config_;
  const std::string case_name_;
  const boost::json::object& shift_;
  boost::json::object header_;
  std::vector<bf16> data_;
};

}  // namespace

Result<std::shared_ptr<const Model>> load_golden_model(const std::string& folder, std::string_view manifest_json) {
  if (fs::exists(fs::path(folder) / "model.safetensors")) return load_model(folder);
  const boost::json::value manifest = boost::json::parse(manifest_json);
  CHECK(manifest.at("weights").at("recipe").as_string() == "philox");
  ASSIGN_OR_RETURN(const ModelConfig config, load_model_config(folder));
  std::string scratch_name = (fs::temp_directory_path() / "boreas-golden-XXXXXX").string();
  CHECK(mkdtemp(scratch_name.data()) != nullptr);
  const fs::path scratch(scratch_name);
  fs::copy_file(fs::path(folder) / "config.json", scratch / "config.json");
  const std::string case_name(manifest.at("case").as_string());
  RecipeWriter(config, case_name, manifest.at("weights").at("shift").as_object()).write(scratch / "model.safetensors");
  auto model = load_model(scratch.string());
  fs::remove_all(scratch);  // the weights stay mapped
  return model;
}

}  // namespace boreas
