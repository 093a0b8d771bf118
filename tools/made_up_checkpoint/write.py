#!/usr/bin/env python3
"""Writes a checkpoint of North-Mini-Code-1.0's shape in its published layout, for `boreas bench load`: write.py DIR.

config.json, 49 shards of about 1.25 GB and their index, 18,730 tensors, 61 GB of random bytes (one block of 64 MB again
and again): what loads, but says nothing. --layers N makes it smaller, for the time of reading alone. Writes with eight
threads. Standard library only.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import struct

HIDDEN, QUERY, KV, DENSE, EXPERT, EXPERTS, VOCABULARY = 2048, 4096, 512, 3072, 768, 128, 262144
SHARD_BYTES = 1_250_000_000
BLOCK = os.urandom(64 << 20)


def config(layers):
    sliding = ["full_attention" if i % 4 == 0 else "sliding_attention" for i in range(layers)]
    return {
        "architectures": ["Cohere2MoeForCausalLM"], "model_type": "cohere2_moe", "dtype": "bfloat16",
        "hidden_size": HIDDEN, "num_hidden_layers": layers, "num_attention_heads": 32, "num_key_value_heads": 4,
        "head_dim": 128, "intermediate_size": EXPERT, "prefix_dense_intermediate_size": DENSE,
        "first_k_dense_replace": 1, "prefix_dense_sliding_window_pattern": 1, "layer_types": sliding,
        "sliding_window": 4096, "num_experts": EXPERTS, "num_experts_per_tok": 8, "num_shared_experts": 0,
        "expert_selection_fn": "sigmoid", "norm_topk_prob": False, "rms_norm_eps": 1e-6, "layer_norm_eps": 1e-5,
        "hidden_act": "silu", "attention_bias": False, "attention_dropout": 0.0, "use_qk_norm": False,
        "use_parallel_block": True, "rope_theta": 50000, "max_position_embeddings": 500000, "vocab_size": VOCABULARY,
        "logit_scale": 1.0, "tie_word_embeddings": True, "bos_token_id": 2, "eos_token_id": 255001, "pad_token_id": 0,
    }  # fmt: skip


def tensors(layers):
    """Names and shapes."""
    yield "model.embed_tokens.weight", [VOCABULARY, HIDDEN]
    for i in range(layers):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", [HIDDEN]
        yield layer + "self_attn.q_proj.weight", [QUERY, HIDDEN]
        yield layer + "self_attn.k_proj.weight", [KV, HIDDEN]
        yield layer + "self_attn.v_proj.weight", [KV, HIDDEN]
        yield layer + "self_attn.o_proj.weight", [HIDDEN, QUERY]
        mlps = [("mlp.", DENSE)] if i == 0 else [(f"mlp.experts.{e}.", EXPERT) for e in range(EXPERTS)]
        if i > 0:
            yield layer + "mlp.gate.weight", [EXPERTS, HIDDEN]
        for mlp, width in mlps:
            yield layer + mlp + "gate_proj.weight", [width, HIDDEN]
            yield layer + mlp + "up_proj.weight", [width, HIDDEN]
            yield layer + mlp + "down_proj.weight", [HIDDEN, width]
    yield "model.norm.weight", [HIDDEN]


def bytes_of(shape):
    count = 2
    for extent in shape:
        count *= extent
    return count


def shards(layers):
    """Lists of (name, shape), each of at most SHARD_BYTES or one tensor."""
    shard, size = [], 0
    for name, shape in tensors(layers):
        if shard and size + bytes_of(shape) > SHARD_BYTES:
            yield shard
            shard, size = [], 0
        shard.append((name, shape))
        size += bytes_of(shape)
    yield shard


def write_shard(path, shard):
    header, at = {}, 0
    for name, shape in shard:
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + bytes_of(shape)]}
        at += bytes_of(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        while at > 0:
            at -= file.write(BLOCK[: min(at, len(BLOCK))])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=49)
    flags = parser.parse_args()
    flags.directory.mkdir(parents=True, exist_ok=True)
    (flags.directory / "config.json").write_text(json.dumps(config(flags.layers), indent=1) + "\n")
    parts = list(shards(flags.layers))
    names = [f"model-{i + 1:05}-of-{len(parts):05}.safetensors" for i in range(len(parts))]
    index = {name: file for file, part in zip(names, parts) for name, _ in part}
    text = json.dumps({"metadata": {}, "weight_map": index}, indent=1)
    (flags.directory / "model.safetensors.index.json").write_text(text + "\n")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        writes = [pool.submit(write_shard, flags.directory / name, part) for name, part in zip(names, parts)]
        for done, write in enumerate(concurrent.futures.as_completed(writes)):
            write.result()
            print(f"\r{done + 1} of {len(parts)} files", end="", flush=True)
    print()


if __name__ == "__main__":
    main()
