"""Weights in and out: training checkpoints (FP32, in parts under 15 MiB), and the published layout in BF16 shards."""

import io
import json
import pathlib

import torch

import shape

PART_BYTES = 15 << 20
SHARD_BYTES = 8_000_000


def save_parts(directory, value):
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    torch.save(value, buffer)
    data = buffer.getvalue()
    for i in range(0, len(data), PART_BYTES):
        (directory / f"checkpoint.{i // PART_BYTES}").write_bytes(data[i:i + PART_BYTES])


def load_parts(directory):
    parts = sorted(pathlib.Path(directory).glob("checkpoint.*"), key=lambda p: int(p.suffix[1:]))
    return torch.load(io.BytesIO(b"".join(p.read_bytes() for p in parts)), map_location="cpu")


PLAIN = {"norm": "input_layernorm", "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
         "o": "self_attn.o_proj", "router": "mlp.gate"}


def published(network):
    """The network's weights under the published names, BF16, in the order of the layers."""
    out = {"model.embed_tokens.weight": network.embed}
    for i, layer in enumerate(network.layers):
        for name, value in layer.named_parameters():
            if name in PLAIN:
                out[f"model.layers.{i}.{PLAIN[name]}.weight"] = value
            elif layer.dense:
                out[f"model.layers.{i}.mlp.{name}_proj.weight"] = value
            else:
                for e in range(shape.EXPERTS):
                    out[f"model.layers.{i}.mlp.experts.{e}.{name}_proj.weight"] = value[e]
    out["model.norm.weight"] = network.norm
    return {name: value.detach().to(torch.bfloat16).cpu().contiguous() for name, value in out.items()}


def load_published(network, tensors):
    """The other way, in place."""
    names = {}
    for i, layer in enumerate(network.layers):
        for name, value in layer.named_parameters():
            if name in PLAIN:
                names[f"model.layers.{i}.{PLAIN[name]}.weight"] = value
            elif layer.dense:
                names[f"model.layers.{i}.mlp.{name}_proj.weight"] = value
            else:
                for e in range(shape.EXPERTS):
                    names[f"model.layers.{i}.mlp.experts.{e}.{name}_proj.weight"] = value[e]
    names |= {"model.embed_tokens.weight": network.embed, "model.norm.weight": network.norm}
    assert names.keys() == tensors.keys(), names.keys() ^ tensors.keys()
    with torch.no_grad():
        for name, value in names.items():
            value.copy_(tensors[name])


def write_shards(network, directory):
    """model-0000i-of-0000n.safetensors of at most SHARD_BYTES, and their index."""
    from safetensors.torch import save_file
    directory = pathlib.Path(directory)
    shards, size = [{}], 0
    for name, value in published(network).items():
        count = value.numel() * 2
        if size + count + 100_000 > SHARD_BYTES:  # room for the header
            shards.append({})
            size = 0
        shards[-1][name] = value
        size += count
    places = {}
    for i, shard in enumerate(shards, 1):
        file = f"model-{i:05}-of-{len(shards):05}.safetensors"
        save_file(shard, str(directory / file), metadata={"format": "pt"})
        places |= dict.fromkeys(shard, file)
    total = sum(v.numel() * 2 for shard in shards for v in shard.values())
    shape.write_json(directory / "model.safetensors.index.json",
                     {"metadata": {"total_size": total}, "weight_map": places})


def read_shards(network, directory):
    from safetensors.torch import load_file
    directory = pathlib.Path(directory)
    places = json.loads((directory / "model.safetensors.index.json").read_text())["weight_map"]
    tensors = {}
    for file in sorted(set(places.values())):
        tensors |= load_file(str(directory / file))
    load_published(network, tensors)
