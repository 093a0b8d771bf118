"""The oracle at full shape: transformers' Cohere2MoeForCausalLM with dummy weights, in BF16 on one GPU, layer by layer.

usage: oracle.py OUT_DIRECTORY [--only RUN ...] [--attention sdpa|eager]

Writes for every run what each layer got and what its attention and its MLP put out before the residual add, as raw
little-endian arrays, and manifest.json; tests/gpu/compare_layers.cc reads them. See README.md for formats, runs, needs.
"""

import argparse
import json
import pathlib
import time

import torch
import transformers
from transformers import Cohere2MoeConfig, Cohere2MoeForCausalLM, DynamicCache

import dummy_weights

FORMAT = 1
LAYERS, DENSE_LAYERS, WINDOW = 49, 1, 4096
PROMPTS = 1, 63, 64, 65, 4095, 4096, 4097, 8192
CONTEXTS = 65536, 262143  # the token's own position included


def north_config(attention):
    """The published shape, as src/model/model_shapes.cc has it."""
    config = Cohere2MoeConfig(
        vocab_size=262144, hidden_size=2048, intermediate_size=768, prefix_dense_intermediate_size=3072,
        num_hidden_layers=LAYERS, num_attention_heads=32, num_key_value_heads=4, head_dim=128,
        layer_types=["sliding_attention" if i % 4 else "full_attention" for i in range(LAYERS)],
        mlp_layer_types=["dense" if i < DENSE_LAYERS else "sparse" for i in range(LAYERS)],
        prefix_dense_sliding_window_pattern=1, sliding_window=WINDOW, num_experts=128, num_experts_per_tok=8,
        num_shared_experts=0, expert_selection_fn="sigmoid", norm_topk_prob=False, rms_norm_eps=1e-6, rope_theta=50000,
        max_position_embeddings=500000, logit_scale=1.0, tie_word_embeddings=True, attention_bias=False,
        pad_token_id=0, bos_token_id=2, eos_token_id=255001,
        attn_implementation=attention, experts_implementation="eager")
    assert config.rope_parameters["rope_theta"] == 50000, config.rope_parameters
    return config


def published_tensors(model):
    """Published name -> the part of the model's parameters that holds it: experts lie stacked, gate above up."""
    tensors = {}
    for name, parameter in model.named_parameters():
        data = parameter.data
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            tensors[name] = data
            continue
        stem, kind = name.rsplit(".", 1)
        for expert, part in enumerate(data):
            if kind == "down_proj":
                tensors[f"{stem}.{expert}.down_proj.weight"] = part
            else:
                width = part.shape[0] // 2
                tensors[f"{stem}.{expert}.gate_proj.weight"] = part[:width]
                tensors[f"{stem}.{expert}.up_proj.weight"] = part[width:]
    return tensors


def build(config, device):
    """The model with dummy weights, made where it stays."""
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = Cohere2MoeForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.lm_head = torch.nn.Identity()  # not run; the embedding is enough
    assert model.model.rotary_emb.inv_freq.dtype == torch.float32
    assert model.config._attn_implementation == config._attn_implementation
    assert model.config._experts_implementation == "eager"
    tensors = published_tensors(model)
    assert len(tensors) == 18730, len(tensors)
    assert sum(tensor.numel() for tensor in tensors.values()) == 30484303872
    assert all(tensor.dtype == torch.bfloat16 for tensor in tensors.values())
    dummy_weights.fill(tensors)
    for name in dummy_weights.GOLDENS:
        flat, exponent = tensors[name].reshape(-1), dummy_weights.exponent_of(name)
        for index in (0, len(flat) // 2 + 3, len(flat) - 1):
            assert float(flat[index]) == dummy_weights.element(name, exponent, index), (name, index)
    return model.eval()


class Recorder:
    """Hooks that append what passes by to a run's files, layer after layer."""

    ARRAYS = "inputs", "attention", "mlp", "router", "routes"

    def __init__(self, model, directory):
        self.config, self.directory, self.files = model.config, directory, {}
        for layer in model.model.layers:
            layer.register_forward_pre_hook(self.keep_input, with_kwargs=True)
            layer.self_attn.register_forward_hook(lambda module, args, out: self.write("attention", out[0]))
            layer.mlp.register_forward_hook(lambda module, args, out: self.write("mlp", out))
            if hasattr(layer.mlp, "gate"):
                layer.mlp.gate.register_forward_hook(self.keep_route)
            else:
                layer.mlp.register_forward_hook(self.keep_no_route)

    def write(self, array, tensor):
        tensor = tensor.detach().reshape(-1, tensor.shape[-1]).contiguous()
        if tensor.dtype == torch.bfloat16:
            assert torch.isfinite(tensor).all(), array
            tensor = tensor.view(torch.int16)
        tensor.cpu().numpy().tofile(self.files[array])

    def keep_input(self, module, args, kwargs):
        self.write("inputs", args[0] if args else kwargs["hidden_states"])

    def keep_route(self, module, args, out):
        logits, _, chosen = out
        self.write("router", logits)
        self.write("routes", chosen.to(torch.int32))

    def keep_no_route(self, module, args, out):
        rows = out.shape[0] * out.shape[1]
        self.write("router", torch.zeros(rows, self.config.num_experts, dtype=torch.bfloat16))
        self.write("routes", torch.full((rows, self.config.num_experts_per_tok), -1, dtype=torch.int32))

    def run(self, model, name, tokens, context):
        start = time.time()
        device = model.model.embed_tokens.weight.device
        cache = seeded_cache(model.config, context, device) if context else None
        self.files = {array: open(self.directory / f"{name}.{array}", "wb") for array in self.ARRAYS}
        with torch.no_grad():
            positions = torch.arange(context, context + len(tokens), device=device)[None]
            model.model(input_ids=torch.tensor([tokens], device=device), position_ids=positions, past_key_values=cache,
                        use_cache=cache is not None)
        for file in self.files.values():
            file.close()
        rows = self.config.num_hidden_layers * len(tokens)
        for array in ("inputs", "attention", "mlp"):
            size = (self.directory / f"{name}.{array}").stat().st_size
            assert size == rows * self.config.hidden_size * 2, (name, array, size)
        print(f"{name}: {time.time() - start:.1f} s", flush=True)
        return {"name": name, "context": context, "tokens": tokens}


def seeded_cache(config, context, device):
    """A cache that has seen `context` positions: full layers hold all of them, sliding ones the last window - 1."""
    cache = DynamicCache(config=config)
    for i, kind in enumerate(config.layer_types):
        sliding = kind == "sliding_attention"
        first = max(0, context - (config.sliding_window - 1)) if sliding else 0
        key, value = (dummy_weights.seeded_kv(i, what, first, context - first, config.num_key_value_heads,
                                              config.head_dim, device) for what in ("key", "value"))
        cache.update(key, value, i)
        layer = cache.layers[i]
        assert layer.is_sliding == sliding and layer.keys.shape[-2] == context - first
        if sliding:
            layer.cumulative_length = context  # what update() would have counted
        assert layer.get_seq_length() == context
    return cache


def runs_of(only):
    """(name, tokens, context)"""
    tokens = dummy_weights.tokens_of(max(PROMPTS), 262144)
    runs = [(f"prompt-{count}", tokens[:count], 0) for count in PROMPTS]
    runs += [(f"context-{count}", tokens[:1], count - 1) for count in CONTEXTS]
    return [run for run in runs if not only or run[0] in only]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--attention", choices=("sdpa", "eager"), default="sdpa")
    flags = parser.parse_args()
    # Partial sums of a product stay in FP32.
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    device = torch.device("cuda")
    dummy_weights.check_recipe()
    dummy_weights.check_torch(device)
    start = time.time()
    config = north_config(flags.attention)
    model = build(config, device)
    torch.cuda.synchronize()
    print(f"weights: {time.time() - start:.1f} s", flush=True)
    flags.directory.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(model, flags.directory)
    manifest = {
        "format": FORMAT, "shape": "north", "layers": LAYERS, "hidden": config.hidden_size,
        "experts": config.num_experts, "experts_per_token": config.num_experts_per_tok, "window": WINDOW,
        "made_by": {"torch": torch.__version__, "transformers": transformers.__version__,
                    "attention": flags.attention, "gpu": torch.cuda.get_device_name(device)},
        "runs": [recorder.run(model, *run) for run in runs_of(flags.only)]}
    (flags.directory / "manifest.json").write_text(json.dumps(manifest))


if __name__ == "__main__":
    main()
