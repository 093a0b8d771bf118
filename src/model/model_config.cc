// config.json and generation_config.json -> ModelConfig: picks the family, adds what generation_config.json says, and
// checks what holds for every family. Called through the door (model.h).
#include <algorithm>
#include <filesystem>

#include "model/config_reader.h"
#include "model/families/family.h"
#include "model/quote.h"
#include "model/read_file.h"

namespace boreas {
namespace {

Status add_generation_config(std::string_view text, ModelConfig& config) {
  ASSIGN_OR_RETURN(const boost::json::object object, parse_json_object(text, "generation_config.json"));
  ConfigReader reader(object, "generation_config.json");
  for (const TokenId id : reader.ids_or_none("eos_token_id", config.vocab_size)) config.eos_token_ids.push_back(id);
  config.default_temperature = static_cast<float>(reader.number_or("temperature", 0, 100, -1));
  config.default_top_p = static_cast<float>(reader.number_or("top_p", 0, 1, -1));
  config.default_top_k = reader.integer_or("top_k", 0, 1 << 30, -1);
  if (reader.error()) return *reader.error();
  return Ok{};
}

std::string known_families() {
  std::string names;
  for (const Family& family : families()) names += (names.empty() ? "" : ", ") + std::string(family.model_type);
  return names;
}

}  // namespace

int32_t ModelConfig::moe_layers() const {
  return static_cast<int32_t>(
      std::count_if(layers.begin(), layers.end(), [](const LayerConfig& l) { return !l.dense_mlp; }));
}

int32_t ModelConfig::full_layers() const { return layer_count() - sliding_layers(); }

int32_t ModelConfig::sliding_layers() const {
  return static_cast<int32_t>(
      std::count_if(layers.begin(), layers.end(), [](const LayerConfig& layer) { return layer.sliding; }));
}

Result<ModelConfig> parse_model_config(std::string_view config_json, std::string_view generation_config_json) {
  ASSIGN_OR_RETURN(const boost::json::object object, parse_json_object(config_json, "config.json"));
  ConfigReader reader(object, "config.json");
  const std::string model_type = reader.string("model_type");
  if (reader.error()) return *reader.error();
  const Family* family = find_family(model_type);
  if (family == nullptr) {
    return Error{"config.json: model_type is " + quote(model_type) + "; supported: " + known_families(), "model_type"};
  }
  ASSIGN_OR_RETURN(ModelConfig config, family->parse_config(object));
  if (!generation_config_json.empty()) RETURN_IF_ERROR(add_generation_config(generation_config_json, config));
  std::vector<TokenId>& eos = config.eos_token_ids;
  std::sort(eos.begin(), eos.end());
  eos.erase(std::unique(eos.begin(), eos.end()), eos.end());
  if (eos.empty()) {
    return Error{
        "config.json: eos_token_id is missing, and generation_config.json does not give it; without it no "
        "generation would end",
        "eos_token_id"};
  }
  return config;
}

Result<ModelConfig> load_model_config(const std::string& directory) {
  constexpr int64_t kConfigBytesMax = 16 << 20;
  ASSIGN_OR_RETURN(const std::string config, read_text_file(directory + "/config.json", kConfigBytesMax));
  std::string generation;
  std::error_code code;
  if (std::filesystem::exists(directory + "/generation_config.json", code)) {
    ASSIGN_OR_RETURN(generation, read_text_file(directory + "/generation_config.json", kConfigBytesMax));
    if (generation.empty()) return Error{directory + "/generation_config.json is empty; expected a JSON object"};
  }
  Result<ModelConfig> parsed = parse_model_config(config, generation);
  if (!parsed.ok()) return Error{directory + "/" + parsed.error().message, parsed.error().param};
  return parsed;
}

}  // namespace boreas
