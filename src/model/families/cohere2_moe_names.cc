// Tensor names of cohere2_moe checkpoints -> weights. Known layouts: the published one (every expert a tensor of its
// own), transformers' in-memory one (experts stacked, gate and up in one tensor), and mlx-community's (prefix
// language_model., experts stacked under switch_mlp).
#include <array>
#include <charconv>
#include <optional>

#include "model/families/family.h"

namespace boreas {
namespace {

using Kind = TensorMeaning::Kind;

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool ends_with(std::string_view text, std::string_view ending) {
  return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
}

// "17." at the start of `text` -> 17. Plain decimal without leading zeros, below 10^9.
std::optional<int32_t> take_index(std::string_view& text) {
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos || dot == 0 || dot > 9 || (text[0] == '0' && dot > 1)) return std::nullopt;
  int32_t index = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + dot, index);
  if (code != std::errc() || end != text.data() + dot || index < 0) return std::nullopt;
  text.remove_prefix(dot + 1);
  return index;
}

struct NamedRole {
  std::string_view name;
  WeightRole role;
};

constexpr std::array<NamedRole, 9> kLayerTensors = {{
    {"input_layernorm.weight", WeightRole::kInputNorm},
    {"self_attn.q_proj.weight", WeightRole::kQuery},
    {"self_attn.k_proj.weight", WeightRole::kKey},
    {"self_attn.v_proj.weight", WeightRole::kValue},
    {"self_attn.o_proj.weight", WeightRole::kOutput},
    {"mlp.gate.weight", WeightRole::kRouter},
    {"mlp.gate_proj.weight", WeightRole::kDenseGate},
    {"mlp.up_proj.weight", WeightRole::kDenseUp},
    {"mlp.down_proj.weight", WeightRole::kDenseDown},
}};

constexpr std::array<NamedRole, 3> kExpertTensors = {{
    {"gate_proj.weight", WeightRole::kExpertGate},
    {"up_proj.weight", WeightRole::kExpertUp},
    {"down_proj.weight", WeightRole::kExpertDown},
}};

// Endings that only quantised checkpoints have: GPTQ and AWQ, compressed-tensors and FP8, mlx.
constexpr std::array<std::string_view, 13> kQuantisedEndings = {
    ".qweight",           ".qzeros",       ".g_idx",         ".scales",      ".biases",  ".weight_scale",
    ".weight_scale_inv",  ".weight_shape", ".weight_packed", ".input_scale", ".k_scale", ".v_scale",
    ".weight_zero_point",
};

TensorMeaning read_layer_tensor(int32_t layer, std::string_view rest) {
  for (const NamedRole& tensor : kLayerTensors) {
    if (rest == tensor.name) return {Kind::kWeight, tensor.role, layer, 0};
  }
  if (rest == "mlp.experts.gate_up_proj") return {Kind::kStackedGateUp, WeightRole::kExpertGate, layer, 0};
  if (rest == "mlp.experts.down_proj") return {Kind::kStacked, WeightRole::kExpertDown, layer, 0};
  const bool stacked = take_prefix(rest, "mlp.switch_mlp.");
  std::optional<int32_t> expert;
  if (!stacked && take_prefix(rest, "mlp.experts.")) expert = take_index(rest);
  if (!stacked && !expert) return {};
  for (const NamedRole& tensor : kExpertTensors) {
    if (rest != tensor.name) continue;
    if (stacked) return {Kind::kStacked, tensor.role, layer, 0};
    return {Kind::kWeight, tensor.role, layer, *expert};
  }
  return {};
}

}  // namespace

TensorMeaning read_cohere2_moe_tensor_name(std::string_view name) {
  for (const std::string_view ending : kQuantisedEndings) {
    if (ends_with(name, ending)) return {Kind::kQuantised};
  }
  if (ends_with(name, ".bias")) return {Kind::kBias};
  if (ends_with(name, "rotary_emb.inv_freq")) return {Kind::kIgnored};
  take_prefix(name, "language_model.");
  if (name == "lm_head.weight") return {Kind::kIgnored};
  if (!take_prefix(name, "model.")) return {};
  if (name == "embed_tokens.weight") return {Kind::kWeight, WeightRole::kEmbedding, 0, 0};
  if (name == "norm.weight") return {Kind::kWeight, WeightRole::kFinalNorm, 0, 0};
  if (!take_prefix(name, "layers.")) return {};
  const std::optional<int32_t> layer = take_index(name);
  if (!layer) return {};
  return read_layer_tensor(*layer, name);
}

std::string published_tensor_name(WeightRole role, int32_t layer, int32_t expert) {
  if (role == WeightRole::kEmbedding) return "model.embed_tokens.weight";
  if (role == WeightRole::kFinalNorm) return "model.norm.weight";
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  for (const NamedRole& tensor : kLayerTensors) {
    if (role == tensor.role) return prefix + std::string(tensor.name);
  }
  for (const NamedRole& tensor : kExpertTensors) {
    if (role == tensor.role) return prefix + "mlp.experts." + std::to_string(expert) + "." + std::string(tensor.name);
  }
  CHECK(false);
  return {};
}

}  // namespace boreas
