// Any text as config.json, and as generation_config.json beside a good config.json: an error, or a config whose numbers
// keep their bounds.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/model.h"

namespace {

constexpr std::string_view kGoodConfig = R"({"model_type": "cohere2_moe", "hidden_size": 8, "num_hidden_layers": 2,
  "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 4,
  "prefix_dense_intermediate_size": 8, "first_k_dense_replace": 1, "prefix_dense_sliding_window_pattern": 1,
  "layer_types": ["full_attention", "sliding_attention"], "sliding_window": 4, "num_experts": 4,
  "num_experts_per_tok": 2, "expert_selection_fn": "sigmoid", "norm_topk_prob": false, "rms_norm_eps": 1e-6,
  "rope_theta": 50000, "max_position_embeddings": 64, "vocab_size": 16, "logit_scale": 1.0, "bos_token_id": 2,
  "eos_token_id": 3})";

void check(const boreas::Result<boreas::ModelConfig>& result) {
  if (!result.ok()) {
    CHECK(!result.error().message.empty());
    return;
  }
  const boreas::ModelConfig& config = *result;
  CHECK(config.hidden_size >= 1 && config.hidden_size <= 65536);
  CHECK(config.head_dim >= 2 && config.head_dim % 2 == 0 && config.head_dim <= 512);
  CHECK(config.kv_heads >= 1 && config.query_heads % config.kv_heads == 0);
  CHECK(config.experts_per_token >= 1 && config.experts_per_token <= config.experts);
  CHECK(config.layer_count() >= 1 && config.layer_count() <= 1024);
  CHECK(config.window >= 1 && config.context_max >= 1);
  CHECK(config.rope_theta >= 1 && config.rms_norm_eps > 0 && config.logit_scale > 0);
  CHECK(!config.eos_token_ids.empty());
  for (const boreas::TokenId id : config.eos_token_ids) CHECK(id >= 0 && id < config.vocab_size);
  CHECK(config.bos_token_id < config.vocab_size && config.pad_token_id < config.vocab_size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(boreas::parse_model_config(text));
  check(boreas::parse_model_config(kGoodConfig, text));
  return 0;
}
