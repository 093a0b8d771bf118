"""A second opinion on the model, in numpy float64: used to choose prompts and to see what a deliberate mistake changes.

It is not the oracle (that is transformers, make_golden.py); it is what lets the prompts be chosen without PyTorch.
bf16=True rounds where the engine rounds: residual, normed input, q, k, v, attention output, inner MLP product, router
logits.
"""

import numpy as np

import cases


def round_bf16(x):
    bits = np.asarray(x, dtype=np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.astype(np.uint32).view(np.float32).astype(np.float64)


def silu(x):
    return x / (1 + np.exp(-x))


class Decoder:
    """A batch of sequences of equal length, [batch, positions]. feed() appends tokens; the lists hold what it saw."""

    def __init__(self, case, batch=1, bf16=False, flaw=None, tensors=None):
        self.case, self.flaw = case, flaw
        self.round = round_bf16 if bf16 else (lambda x: x)
        self.w = {k: v.astype(np.float64) for k, v in (tensors or cases.weights(case)).items()}
        shape = (batch, 0, case.kv_heads, case.head_dim)
        self.keys = [np.zeros(shape) for _ in case.layers]
        self.values = [np.zeros(shape) for _ in case.layers]
        self.length = 0

    def rewind(self, length):
        self.length = length
        self.keys = [k[:, :length] for k in self.keys]
        self.values = [v[:, :length] for v in self.values]

    def select(self, rows):
        self.keys = [k[rows] for k in self.keys]
        self.values = [v[rows] for v in self.values]

    def norm(self, x, name):
        eps = self.case.eps * (10 if self.flaw == "norm_eps" else 1)
        return self.round(x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * self.w[name])

    def rotate(self, x, positions):
        d = self.case.head_dim
        angle = positions[:, None] * self.case.theta ** (-np.arange(0, d, 2) / d)
        cos, sin = np.cos(angle)[None, :, None], np.sin(angle)[None, :, None]
        out = np.empty_like(x)
        if self.flaw == "half_split_rope":
            a, b = x[..., : d // 2], x[..., d // 2:]
            out[..., : d // 2], out[..., d // 2:] = a * cos - b * sin, b * cos + a * sin
        else:
            a, b = x[..., ::2], x[..., 1::2]
            out[..., ::2], out[..., 1::2] = a * cos - b * sin, b * cos + a * sin
        return out

    def attention(self, i, h):
        c, p = self.case, f"model.layers.{i}.self_attn."
        batch, count = h.shape[:2]
        positions = np.arange(self.length, self.length + count)
        q = self.round(h @ self.w[p + "q_proj.weight"].T).reshape(batch, count, c.query_heads, c.head_dim)
        k = self.round(h @ self.w[p + "k_proj.weight"].T).reshape(batch, count, c.kv_heads, c.head_dim)
        v = self.round(h @ self.w[p + "v_proj.weight"].T).reshape(batch, count, c.kv_heads, c.head_dim)
        rope = c.rope(i)
        if self.flaw == "no_rope_on_dense_layer" and c.dense(i):
            rope = False
        if self.flaw == "rope_on_nope_layer" and c.layers[i] == cases.FULL:
            rope = True
        if rope:
            q, k = self.round(self.rotate(q, positions)), self.round(self.rotate(k, positions))
        self.keys[i] = k = np.concatenate([self.keys[i], k], axis=1)
        self.values[i] = v = np.concatenate([self.values[i], v], axis=1)
        head_map = np.arange(c.query_heads) // c.group
        if self.flaw == "gqa_interleaved":
            head_map = np.arange(c.query_heads) % c.kv_heads
        scores = np.einsum("bqhd,bkhd->bhqk", q, k[:, :, head_map]) / np.sqrt(c.head_dim)
        distance = positions[:, None] - np.arange(k.shape[1])[None]
        window = c.window + {"window_plus_one": 1, "window_minus_one": -1}.get(self.flaw, 0)
        visible = (distance >= 0) & ((distance < window) | (c.layers[i] != cases.SLIDING))
        self.score_rms.append(np.sqrt((scores**2)[:, :, visible].mean()))
        scores = np.where(visible, scores, -np.inf)
        weight = np.exp(scores - scores.max(-1, keepdims=True))
        weight /= weight.sum(-1, keepdims=True)
        out = np.einsum("bhqk,bkhd->bqhd", weight, v[:, :, head_map]).reshape(batch, count, -1)
        return self.round(out) @ self.w[p + "o_proj.weight"].T

    def mlp(self, i, h):
        c, p = self.case, f"model.layers.{i}.mlp."
        if c.dense(i):
            self.margins.append(np.full(h.shape[:2], np.inf))
            self.ranked.append(None)
            if self.flaw == "dense_layer_skipped":
                return np.zeros_like(h)
            inner = self.round(silu(h @ self.w[p + "gate_proj.weight"].T) * (h @ self.w[p + "up_proj.weight"].T))
            return inner @ self.w[p + "down_proj.weight"].T
        logits = self.round(h @ self.w[p + "gate.weight"].T)
        order = np.argsort(-logits, axis=-1, kind="stable")
        ranked = np.take_along_axis(logits, order, -1)
        k = c.experts_per_token
        self.margins.append(ranked[..., k - 1] - ranked[..., k])
        self.ranked.append(ranked)
        self.router_rms.append(np.sqrt((logits**2).mean()))
        scores = 1 / (1 + np.exp(-ranked[..., :k]))
        if self.flaw == "softmax_router":
            scores = np.exp(ranked[..., :k]) / np.exp(ranked[..., :k]).sum(-1, keepdims=True)
        if self.flaw == "softmax_router_all":
            scores = np.exp(ranked[..., :k]) / np.exp(ranked).sum(-1, keepdims=True)
        if self.flaw == "renormalised_top_k":
            scores = scores / scores.sum(-1, keepdims=True)
        out = np.zeros_like(h)
        for e in range(c.experts):
            q = f"{p}experts.{e}."
            share = (scores * (order[..., :k] == e)).sum(-1)
            rows = share != 0
            he = h[rows]
            inner = self.round(silu(he @ self.w[q + "gate_proj.weight"].T) * (he @ self.w[q + "up_proj.weight"].T))
            out[rows] += share[rows][:, None] * (inner @ self.w[q + "down_proj.weight"].T)
        return out

    def feed(self, tokens, layer_inputs=None):
        """tokens [batch, count] -> logits [batch, count, vocab]. layer_inputs: per layer, replaces the residual."""
        c = self.case
        self.margins, self.ranked, self.score_rms, self.router_rms = [], [], [], []
        self.attention_out, self.mlp_out, self.residual = [], [], []
        x = self.w["model.embed_tokens.weight"][np.asarray(tokens)]
        for i in range(len(c.layers)):
            if layer_inputs is not None:
                x = layer_inputs[i]
            h = self.norm(x, f"model.layers.{i}.input_layernorm.weight")
            a, m = self.attention(i, h), self.mlp(i, h)
            x = self.round(x + a + m)
            self.attention_out.append(a), self.mlp_out.append(m), self.residual.append(x)
        self.length += np.asarray(tokens).shape[1]
        scale = {"logit_scale": 0.0625}.get(self.flaw, c.logit_scale)
        return self.norm(x, "model.norm.weight") @ self.w["model.embed_tokens.weight"].T * scale
