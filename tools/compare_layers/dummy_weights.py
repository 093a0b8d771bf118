"""Values that are a pure function of names: dummy weights (the recipe is in src/model/dummy_weights.h) and seeded KV
caches (tests/gpu/seeded_pages.h). Once as the recipe is written, with Python's integers, and once in torch integer
operations, 61 GB in seconds on a GPU. Called by oracle.py; run alone it checks both against the constants that
src/model/dummy_weights_test.cc holds, the second only where torch is installed."""

import sys

MASK = 0xFFFFFFFF
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
BLOCK = 16  # elements of one Philox call
NORM, KV = -1, 13  # exponents; KV: of seeded caches
BLOCKS_AT_ONCE = 1 << 20  # temporaries of 8 MB, which stay in a GPU's cache


def fnv1a_64(text):
    value = 0xCBF29CE484222325
    for byte in text if isinstance(text, bytes) else text.encode():
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value


def exponent_of(name):
    """e of value = s * 2^-e by published tensor name; NORM for norms."""
    if name.endswith(("input_layernorm.weight", "model.norm.weight")):
        return NORM
    if name.endswith("mlp.gate.weight"):
        return 10
    return 11 if name.endswith(("q_proj.weight", "k_proj.weight", "down_proj.weight")) else 12


# ---- as it is written


def philox(counter, key):
    """Philox4x32-10: four 32-bit words of a 64-bit counter and a 64-bit key."""
    c, k = [counter & MASK, counter >> 32, 0, 0], [key & MASK, key >> 32]
    for _ in range(ROUNDS):
        p0, p1 = MULTIPLIERS[0] * c[0], MULTIPLIERS[1] * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & MASK, p0 >> 32 ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + KEY_STEPS[0]) & MASK, (k[1] + KEY_STEPS[1]) & MASK]
    return c


def element(name, exponent, index):
    word = philox(index // BLOCK, fnv1a_64(name))[index % BLOCK // 4]
    byte = word >> 8 * (index % 4) & 255
    if exponent == NORM:
        return 0.25 + ((byte * 49 >> 8) - 24) / 512
    return ((byte | 1) - 256 * (byte > 127)) / (1 << exponent)


def tokens_of(count, vocabulary):
    """Token ids of a prompt; a shorter one is a longer one's beginning."""
    return [philox(i, fnv1a_64("tokens"))[0] % vocabulary for i in range(count)]


# ---- in torch


def bytes_of(names, first_block, blocks, device):
    """uint8 [names, 16 * blocks]: the recipe's bytes of blocks first_block ... of each name. int64 holds products of
    32-bit words: what overflows wraps, and the shift's sign is masked away."""
    import torch

    def keys(shift):
        values = [fnv1a_64(name) >> shift & MASK for name in names]
        return torch.tensor(values, dtype=torch.int64, device=device)[:, None]

    k0, k1 = keys(0), keys(32)
    counter = torch.arange(first_block, first_block + blocks, dtype=torch.int64, device=device)[None, :]
    a, b = (counter & MASK).expand(len(names), -1), (counter >> 32).expand(len(names), -1)
    c = d = torch.zeros_like(a)
    for _ in range(ROUNDS):
        p0, p1 = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, c = (p1 >> 32 ^ b ^ k0) & MASK, (p0 >> 32 ^ d ^ k1) & MASK
        b, d = p1 & MASK, p0 & MASK
        k0, k1 = (k0 + KEY_STEPS[0]) & MASK, (k1 + KEY_STEPS[1]) & MASK
    words = torch.stack([a | b << 32, c | d << 32], dim=-1)  # little-endian
    return words.view(len(names), -1).view(torch.uint8)


def values_of(names, exponent, first, count, device):
    """bf16 [names, count]: elements first ... of each name; both are multiples of 16."""
    import torch
    assert first % BLOCK == 0 and count % BLOCK == 0
    drawn = bytes_of(names, first // BLOCK, count // BLOCK, device)
    if exponent == NORM:
        k = (drawn.to(torch.int32) * 49 >> 8) - 24
        return ((k + 128).to(torch.float32) / 512).to(torch.bfloat16)
    s = torch.bitwise_or(drawn, 1).view(torch.int8)
    return s.to(torch.bfloat16) * 2.0 ** -exponent  # exact: s has 7 bits


def fill(tensors):
    """tensors: published name -> contiguous bf16 tensor, all of it overwritten."""
    alike = {}
    for name, tensor in tensors.items():
        assert tensor.is_contiguous() and tensor.numel() % BLOCK == 0, name
        alike.setdefault((tensor.numel(), exponent_of(name)), []).append(name)
    for (size, exponent), names in alike.items():
        at_once = max(1, BLOCKS_AT_ONCE // (size // BLOCK))
        piece = min(size, BLOCKS_AT_ONCE * BLOCK)
        for i in range(0, len(names), at_once):
            some = names[i:i + at_once]
            for first in range(0, size, piece):
                count = min(piece, size - first)
                values = values_of(some, exponent, first, count, tensors[some[0]].device)
                for name, row in zip(some, values):
                    tensors[name].view(-1)[first:first + count].copy_(row)


def seeded_kv(layer, what, first, count, kv_heads, head_dim, device):
    """bf16 [1, KV heads, count, head_dim], as a cache of transformers holds it: `what` ("key" or "value") of positions
    first ... of a layer. The recipe runs over [positions, KV heads, head_dim]."""
    width = kv_heads * head_dim
    pieces = []
    step = BLOCKS_AT_ONCE * BLOCK // width
    for at in range(first, first + count, step):
        some = min(step, first + count - at)
        drawn = values_of([f"kv.layer.{layer}.{what}"], KV, at * width, some * width, device)
        pieces.append(drawn.view(some, kv_heads, head_dim).transpose(0, 1))
    import torch
    return torch.cat(pieces, dim=1)[None].contiguous()


# ---- checks

GOLDENS = {  # published name: first four elements and FNV-1a 64 of the first 4,096, both as BF16 bits
    "model.embed_tokens.weight": ([0xBCF6, 0x3C9E, 0xBCB2, 0x3CCA], 0xB8C68C865C7A73F7),
    "model.norm.weight": ([0x3E64, 0x3E89, 0x3E82, 0x3E62], 0x1910431C6F75A553),
    "model.layers.1.self_attn.q_proj.weight": ([0xBCEC, 0x3CDC, 0xBC18, 0xBCFC], 0xDC8CB16BEFD4B43E),
    "model.layers.48.mlp.experts.127.down_proj.weight": ([0xBCAC, 0x3CDC, 0xBC68, 0x3CFC], 0x79BF6EA3F44A03F3),
    "model.layers.1.mlp.gate.weight": ([0xBDAE, 0xBD6C, 0xBCC8, 0xBDCA], 0x7F89B601C53B57B4),
}


def bf16_bits(value):
    """Of a value that BF16 holds exactly."""
    import struct
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    assert bits & 0xFFFF == 0, value
    return bits >> 16


def check_recipe():
    for name, (first, wanted) in GOLDENS.items():
        bits = [bf16_bits(element(name, exponent_of(name), i)) for i in range(4096)]
        seen = fnv1a_64(b"".join(b.to_bytes(2, "little") for b in bits))
        assert bits[:4] == first and seen == wanted, f"{name}: {[hex(b) for b in bits[:4]]} {seen:#x}"


def check_torch(device):
    """The bulk generator against the recipe: goldens, batches of names, pieces far into a tensor, and caches."""
    import torch
    for name in GOLDENS:
        exponent = exponent_of(name)
        values = values_of([name], exponent, 0, 4096, device)[0]
        assert values.tolist() == [element(name, exponent, i) for i in range(4096)], name
    names = list(GOLDENS)[2:4]
    far = (1 << 36) - 32  # across a counter of 32 bits
    drawn = values_of(names, 11, far, 64, device)
    for name, row in zip(names, drawn.tolist()):
        assert row == [element(name, 11, far + i) for i in range(64)], name
    cache = seeded_kv(7, "value", 40000, 33, 4, 128, device)
    assert tuple(cache.shape) == (1, 4, 33, 128) and cache.dtype == torch.bfloat16
    for position, head, dim in ((0, 0, 0), (0, 3, 127), (17, 2, 5), (32, 1, 64)):
        index = ((40000 + position) * 4 + head) * 128 + dim
        assert float(cache[0, head, position, dim]) == element("kv.layer.7.value", KV, index)


if __name__ == "__main__":
    check_recipe()
    try:
        import torch
    except ImportError:
        sys.exit("recipe ok; torch is not installed, so its generator was not checked")
    check_torch("cuda" if torch.cuda.is_available() else "cpu")
    print("recipe and generator ok")
