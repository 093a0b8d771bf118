"""The demo's numbers, and the config files that say them. Read by every other script; the checkpoint's own truth."""

import json

HIDDEN, LAYERS, QUERY_HEADS, KV_HEADS, HEAD_DIM = 256, 9, 4, 2, 128
EXPERTS, EXPERTS_PER_TOKEN, EXPERT_WIDTH, DENSE_WIDTH = 16, 4, 64, 256
VOCAB, WINDOW, CONTEXT, EPS, THETA = 4096, 128, 65536, 1e-6, 50000.0
PARAMETERS = 11_110_912


def is_full(layer):
    return layer % 4 == 0


def has_rope(layer):
    return not is_full(layer) or layer == 0


def is_dense(layer):
    return layer == 0


# In the order of their ids. The first ones are dropped by decoders that skip special tokens; the others are markers that
# a parser must see, as in the published vocabularies.
SPECIAL = ["<PAD>", "<MASK_TOKEN>", "<BOS_TOKEN>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>"]
MARKERS = ["<|SYSTEM_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|START_TEXT|>", "<|END_TEXT|>", "<|START_THINKING|>",
           "<|END_THINKING|>", "<|START_ACTION|>", "<|END_ACTION|>", "<|START_TOOL_RESULT|>", "<|END_TOOL_RESULT|>",
           "<|IMG_PATCH|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"]
IDS = {name: i for i, name in enumerate(SPECIAL + MARKERS)}
END_OF_TURN = IDS["<|END_OF_TURN_TOKEN|>"]


def config():
    return {
        "architectures": ["Cohere2MoeForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 2,
        "dtype": "bfloat16", "eos_token_id": END_OF_TURN, "expert_selection_fn": "sigmoid", "first_k_dense_replace": 1,
        "head_dim": HEAD_DIM, "hidden_act": "silu", "hidden_size": HIDDEN, "initializer_range": 0.02,
        "intermediate_size": EXPERT_WIDTH, "layer_norm_eps": 1e-5,
        "layer_types": ["full_attention" if is_full(i) else "sliding_attention" for i in range(LAYERS)],
        "logit_scale": 1.0, "max_position_embeddings": CONTEXT,
        "mlp_layer_types": ["dense" if is_dense(i) else "sparse" for i in range(LAYERS)],
        "model_type": "cohere2_moe", "norm_topk_prob": False, "num_attention_heads": QUERY_HEADS, "num_experts": EXPERTS,
        "num_experts_per_tok": EXPERTS_PER_TOKEN, "num_hidden_layers": LAYERS, "num_key_value_heads": KV_HEADS,
        "num_shared_experts": 0, "pad_token_id": 0, "prefix_dense_intermediate_size": DENSE_WIDTH,
        "prefix_dense_sliding_window_pattern": 1, "rms_norm_eps": EPS, "rope_theta": THETA, "sliding_window": WINDOW,
        "tie_word_embeddings": True, "use_cache": True, "use_parallel_block": True, "use_qk_norm": False, "vocab_size": VOCAB}


def generation_config():
    return {"bos_token_id": 2, "eos_token_id": END_OF_TURN, "pad_token_id": 0}


def tokenizer_config():
    return {"add_bos_token": True, "add_eos_token": False, "bos_token": "<BOS_TOKEN>", "eos_token": "<|END_OF_TURN_TOKEN|>",
            "pad_token": "<PAD>", "clean_up_tokenization_spaces": False, "model_max_length": CONTEXT,
            "tokenizer_class": "CohereTokenizer"}


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def write_configs(directory):
    write_json(directory / "config.json", config())
    write_json(directory / "generation_config.json", generation_config())
    write_json(directory / "tokenizer_config.json", tokenizer_config())
