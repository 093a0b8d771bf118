"""The golden checkpoints: shapes, weights and prompts' lengths. Shared by every script of this folder.

A case is a tiny cohere2_moe model that exercises one corner of the family. Its weights are a pure function of the case
name, the tensor's published name and the element's index, so they need no torch and no state: the C++ side rebuilds
them for the case that has no weight file (tests/golden/golden_checkpoint.cc).

    value = s * 2^-e,  s = the signed byte i mod 16 of Philox4x32-10(key, counter = i / 16) with its lowest bit set,
                       key = FNV-1a 64 of "golden/<case>/<published tensor name>", e by role (SHIFT)
    norm weights: (32 + b mod 25 - 12) / 32 with b the unsigned byte: 0.63 to 1.38

All values have at most 8 significant bits: exact in BF16.
"""

import dataclasses

import numpy as np

FULL_DENSE, SLIDING, FULL = "full_dense", "sliding", "full"


@dataclasses.dataclass(frozen=True)
class Sequence:
    """One prompt of a case. Every position's logits are stored unless last_logits says how many from the end."""

    name: str
    length: int
    per_layer: bool = False  # store what every layer puts out
    decode_from: int = 0  # > 0: also store logits of prefill(decode_from) + one token at a time through the KV cache
    last_logits: int = 0


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    hidden: int
    query_heads: int
    kv_heads: int
    head_dim: int
    layers: tuple  # of FULL_DENSE (RoPE, dense MLP), SLIDING (RoPE, experts), FULL (no position encoding, experts)
    window: int
    experts: int
    experts_per_token: int
    expert_width: int
    dense_width: int
    vocab: int
    eps: float
    theta: float
    logit_scale: float
    shift: dict  # role -> e
    sequences: tuple
    greedy_prompt: int  # length of the prompt whose 64 greedy tokens are stored; 0: none
    committed_weights: bool = True
    router_ties: bool = False  # experts come in pairs with equal router rows: tie_router_rows()
    token_routed: bool = False  # the token alone decides its experts: route_by_token()
    context: int = 512

    @property
    def group(self):
        return self.query_heads // self.kv_heads

    def rope(self, layer):
        return self.layers[layer] != FULL

    def dense(self, layer):
        return self.layers[layer] == FULL_DENSE


BASE = Case(
    name="base", hidden=64, query_heads=4, kv_heads=2, head_dim=16,
    layers=(FULL_DENSE, SLIDING, SLIDING, SLIDING, FULL, SLIDING), window=16,
    experts=8, experts_per_token=2, expert_width=16, dense_width=96, vocab=256,
    eps=1e-6, theta=50000.0, logit_scale=1.0,
    shift=dict(embed=7, q=9, k=9, v=9, o=9, router=9, gate=9, up=9, down=8, dense_gate=9, dense_up=9, dense_down=9),
    sequences=(
        Sequence("one", 1), Sequence("below_window", 15), Sequence("at_window", 16), Sequence("past_window", 17),
        Sequence("main", 40, per_layer=True, decode_from=13), Sequence("long", 130, last_logits=8),
    ),
    greedy_prompt=12)

UNEVEN = Case(
    name="uneven", hidden=72, query_heads=6, kv_heads=2, head_dim=24,
    layers=(FULL_DENSE, SLIDING, FULL, SLIDING), window=9,
    experts=6, experts_per_token=3, expert_width=24, dense_width=56, vocab=300,
    eps=1e-2, theta=1000.0, logit_scale=0.25,
    shift=dict(embed=9, q=9, k=9, v=9, o=10, router=9, gate=9, up=9, down=10, dense_gate=9, dense_up=9, dense_down=10),
    sequences=(
        Sequence("main", 31, per_layer=True, decode_from=7), Sequence("at_window", 9), Sequence("past_window", 10)),
    greedy_prompt=7)

TIES = Case(
    name="ties", hidden=64, query_heads=4, kv_heads=2, head_dim=16,
    layers=(FULL_DENSE, SLIDING, FULL), window=8,
    experts=8, experts_per_token=3, expert_width=16, dense_width=64, vocab=256,
    eps=1e-6, theta=50000.0, logit_scale=1.0,
    shift=dict(embed=7, q=9, k=10, v=9, o=9, router=9, gate=9, up=9, down=8, dense_gate=9, dense_up=9, dense_down=9),
    sequences=(Sequence("main", 24, per_layer=True),),
    greedy_prompt=0, router_ties=True)

# Long greedy runs: BF16 arithmetic cannot change an expert choice here, so only close logits can part two engines.
GREEDY = Case(
    name="greedy", hidden=64, query_heads=4, kv_heads=2, head_dim=16,
    layers=(FULL_DENSE, SLIDING, FULL, SLIDING), window=16,
    experts=8, experts_per_token=2, expert_width=16, dense_width=64, vocab=256,
    eps=1e-6, theta=50000.0, logit_scale=1.0,
    shift=dict(embed=8, q=9, k=9, v=9, o=8, router=8, gate=9, up=9, down=8, dense_gate=9, dense_up=9, dense_down=9),
    sequences=(Sequence("main", 20),), greedy_prompt=12, token_routed=True)

# The shape the GPU kernel is instantiated for. Its weights are not committed: the recipe above rebuilds them.
GPU = Case(
    name="gpu", hidden=256, query_heads=4, kv_heads=2, head_dim=128,
    layers=(FULL_DENSE, SLIDING, FULL, SLIDING), window=32,
    experts=8, experts_per_token=2, expert_width=64, dense_width=128, vocab=512,
    eps=1e-6, theta=50000.0, logit_scale=1.0,
    shift=dict(embed=7, q=10, k=10, v=10, o=10, router=10, gate=10, up=10, down=9, dense_gate=10, dense_up=10,
               dense_down=10),
    sequences=(Sequence("main", 40, per_layer=True, decode_from=20), Sequence("long", 150, last_logits=6)),
    greedy_prompt=10, committed_weights=False)

CASES = (BASE, UNEVEN, TIES, GREEDY, GPU)


def fnv1a_64(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def philox_bytes(key, count):
    """The first `count` bytes of Philox4x32-10's blocks with counters 0, 1, 2, ... (each word little-endian)."""
    blocks = (count + 15) // 16
    counter = [np.arange(blocks, dtype=np.uint64), np.zeros(blocks, np.uint64), np.zeros(blocks, np.uint64),
               np.zeros(blocks, np.uint64)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * counter[0]
        p1 = np.uint64(0xCD9E8D57) * counter[2]
        counter = [(p1 >> shift) ^ counter[1] ^ np.uint64(k0), p1 & low, (p0 >> shift) ^ counter[3] ^ np.uint64(k1),
                   p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    words = np.stack(counter, axis=1).astype("<u4")
    return np.frombuffer(words.tobytes(), dtype=np.uint8)[:count]


def tensor_shapes(case):
    """Published tensor name -> (role, shape). Role "norm" has its own rule."""
    h, qw, kw = case.hidden, case.query_heads * case.head_dim, case.kv_heads * case.head_dim
    shapes = {"model.embed_tokens.weight": ("embed", (case.vocab, h)), "model.norm.weight": ("norm", (h,))}
    for i in range(len(case.layers)):
        p = f"model.layers.{i}."
        shapes[p + "input_layernorm.weight"] = ("norm", (h,))
        for name, role, shape in (("q", "q", (qw, h)), ("k", "k", (kw, h)), ("v", "v", (kw, h)), ("o", "o", (h, qw))):
            shapes[f"{p}self_attn.{name}_proj.weight"] = (role, shape)
        if case.dense(i):
            for name in ("gate", "up"):
                shapes[f"{p}mlp.{name}_proj.weight"] = ("dense_" + name, (case.dense_width, h))
            shapes[p + "mlp.down_proj.weight"] = ("dense_down", (h, case.dense_width))
            continue
        shapes[p + "mlp.gate.weight"] = ("router", (case.experts, h))
        for e in range(case.experts):
            for name in ("gate", "up"):
                shapes[f"{p}mlp.experts.{e}.{name}_proj.weight"] = (name, (case.expert_width, h))
            shapes[f"{p}mlp.experts.{e}.down_proj.weight"] = ("down", (h, case.expert_width))
    return shapes


def weights(case):
    """Published tensor name -> float32 array, every value exact in BF16."""
    result = {}
    for name, (role, shape) in tensor_shapes(case).items():
        data = philox_bytes(fnv1a_64(f"golden/{case.name}/{name}"), int(np.prod(shape)))
        if role == "norm":
            value = (32 + (data.astype(np.int64) % 25) - 12) / 32.0
        else:
            value = (data.view(np.int8).astype(np.int64) | 1) * 2.0 ** -case.shift[role]
        result[name] = value.reshape(shape).astype(np.float32)
    if case.router_ties:
        tie_router_rows(case, result)
    if case.token_routed:
        route_by_token(case, result)
    return result


def tie_router_rows(case, tensors):
    """Pairs of experts (e, e + experts/2) get equal router rows; in all MoE layers but the last, the second of a pair
    then differs by one unit in the last place of one element, so the pair's logits lie about 2^-9 apart: a near tie for
    BF16, none for FP32. In the last MoE layer the pairs tie exactly. With an odd number of experts a token the last
    choice always falls inside a pair."""
    moe = [i for i in range(len(case.layers)) if not case.dense(i)]
    half = case.experts // 2
    for i in moe:
        router = tensors[f"model.layers.{i}.mlp.gate.weight"]
        router[half:] = router[:half]
        if i != moe[-1]:
            router[half:, 0] += 2.0 * 2.0 ** -case.shift["router"]


def route_by_token(case, tensors):
    """The first 8 residual elements are written by the embedding alone and read by every router alone among routers'
    inputs: whatever the rest of the residual holds, it only scales all logits of a router alike. Embedding rows are
    redrawn until every router has a clear choice for the token, by at least a tenth of the logits' spread."""
    own = 8
    routers = []
    for i in range(len(case.layers)):
        if case.dense(i):
            tensors[f"model.layers.{i}.mlp.down_proj.weight"][:own] = 0
        else:
            router = tensors[f"model.layers.{i}.mlp.gate.weight"]
            router[:, own:] = 0
            router *= 4
            routers.append(router[:, :own] * tensors[f"model.layers.{i}.input_layernorm.weight"][:own])
            for e in range(case.experts):
                tensors[f"model.layers.{i}.mlp.experts.{e}.down_proj.weight"][:own] = 0
        tensors[f"model.layers.{i}.self_attn.o_proj.weight"][:own] = 0
    embed = tensors["model.embed_tokens.weight"]
    for token in range(case.vocab):
        for attempt in range(1000):
            data = philox_bytes(fnv1a_64(f"golden/{case.name}/token {token} attempt {attempt}"), own)
            embed[token, :own] = (data.view(np.int8).astype(np.int64) | 1) * 2.0 ** -case.shift["embed"]
            ranked = [np.sort(router @ embed[token, :own])[::-1] for router in routers]
            k = case.experts_per_token
            if all(r[k - 1] - r[k] > 0.15 * r.std() for r in ranked):
                break
