// What a model family has to say: how its config.json becomes a ModelConfig and which tensor names mean which weights.
// One file a family plus one line in the table of registry.cc. Called by model_config.cc and weight_loader.cc.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "model/model.h"

namespace boreas {

// What a tensor name of a checkpoint stands for.
struct TensorMeaning {
  enum class Kind : uint8_t {
    kWeight,         // one weight: role, layer, expert
    kStacked,        // [experts, rows, cols]: `role` of every expert of `layer`
    kStackedGateUp,  // [experts, 2 * expert_width, hidden]: gate rows, then up rows, of every expert of `layer`
    kIgnored,        // known and not needed: rotary tables, the LM head that repeats the embedding
    kBias,           // a bias: must be all zeros, the engine adds none
    kQuantised,      // belongs to a quantised checkpoint
    kUnknown,
  };
  Kind kind = Kind::kUnknown;
  WeightRole role = WeightRole::kEmbedding;
  int32_t layer = 0;   // >= 0, not checked against the config
  int32_t expert = 0;  // >= 0, not checked against the config
};

struct Family {
  std::string_view model_type;  // config.json's model_type
  // `config` is config.json, checked to be an object.
  Result<ModelConfig> (*parse_config)(const boost::json::object& config);
  TensorMeaning (*read_tensor_name)(std::string_view name);
};

std::span<const Family> families();
// nullptr if there is no such family.
const Family* find_family(std::string_view model_type);

// families/cohere2_moe.cc and cohere2_moe_names.cc
Result<ModelConfig> parse_cohere2_moe_config(const boost::json::object& config);
TensorMeaning read_cohere2_moe_tensor_name(std::string_view name);

}  // namespace boreas
