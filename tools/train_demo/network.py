"""The architecture in PyTorch, for training and for batched greedy decoding. Equal to transformers' Cohere2MoeForCausalLM
(verify.py compares); experts are computed for all tokens and masked, which at this size is the fastest way.

Parameters are FP32; a forward pass runs in the dtype it is given (BF16 in training). Tensors: T tokens, S positions.
"""

import torch
import torch.nn.functional as F
from torch import nn

import shape


def norm(x, weight):
    """RMSNorm over the last dimension, statistics in FP32."""
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + shape.EPS)
    return (y * weight.float()).to(x.dtype)


def rope_table(positions, device):
    """cos and sin [positions, head_dim / 2] in FP32."""
    pairs = torch.arange(0, shape.HEAD_DIM, 2, dtype=torch.float64)
    frequency = 1.0 / shape.THETA ** (pairs / shape.HEAD_DIM)
    angle = torch.arange(positions, dtype=torch.float64)[:, None] * frequency.to(torch.float32).double()[None]
    return angle.cos().float().to(device), angle.sin().float().to(device)


def rotate(x, cos, sin):
    """x [..., S, head_dim]; cos, sin [..., S, head_dim / 2]; adjacent pairs."""
    even, odd = x[..., 0::2].float(), x[..., 1::2].float()
    return torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1).flatten(-2).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.index, self.rope, self.dense = index, shape.has_rope(index), shape.is_dense(index)
        hidden, heads = shape.HIDDEN, shape.HEAD_DIM

        def weight(*size, std):
            return nn.Parameter(torch.randn(*size) * std)
        near = hidden ** -0.5 * 0.8
        self.norm = nn.Parameter(torch.ones(hidden))
        self.q = weight(shape.QUERY_HEADS * heads, hidden, std=near)
        self.k = weight(shape.KV_HEADS * heads, hidden, std=near)
        self.v = weight(shape.KV_HEADS * heads, hidden, std=near)
        self.o = weight(hidden, shape.QUERY_HEADS * heads, std=0.005)
        if self.dense:
            self.gate = weight(shape.DENSE_WIDTH, hidden, std=near)
            self.up = weight(shape.DENSE_WIDTH, hidden, std=near)
            self.down = weight(hidden, shape.DENSE_WIDTH, std=0.005)
        else:
            self.router = weight(shape.EXPERTS, hidden, std=0.02)
            self.gate = weight(shape.EXPERTS, shape.EXPERT_WIDTH, hidden, std=near)
            self.up = weight(shape.EXPERTS, shape.EXPERT_WIDTH, hidden, std=near)
            self.down = weight(shape.EXPERTS, hidden, shape.EXPERT_WIDTH, std=0.005)

    def qkv(self, h, cos, sin):
        """h [B, S, hidden] -> q [B, query_heads, S, head_dim], k and v [B, kv_heads, S, head_dim]"""
        batch, length, _ = h.shape
        kv = shape.KV_HEADS * shape.HEAD_DIM
        weights = torch.cat([self.q, self.k, self.v]).to(h.dtype)
        q, k, v = F.linear(h, weights).split([shape.QUERY_HEADS * shape.HEAD_DIM, kv, kv], dim=-1)
        q, k, v = (t.reshape(batch, length, -1, shape.HEAD_DIM).transpose(1, 2) for t in (q, k, v))
        return (rotate(q, cos, sin), rotate(k, cos, sin), v) if self.rope else (q, k, v)

    def mlp(self, h):
        """-> (output, balance): balance is the load-balancing term, 1 at even load."""
        if self.dense:
            return F.linear(F.silu(F.linear(h, self.gate.to(h.dtype))) * F.linear(h, self.up.to(h.dtype)),
                            self.down.to(h.dtype)), 0.0
        logits = F.linear(h, self.router.to(h.dtype)).float()
        ahead = logits[..., None, :] > logits[..., :, None]
        earlier = torch.ones(shape.EXPERTS, shape.EXPERTS, dtype=torch.bool, device=h.device).tril(-1)
        ahead = ahead | ((logits[..., None, :] == logits[..., :, None]) & earlier)
        chosen = (ahead.sum(-1) < shape.EXPERTS_PER_TOKEN).float()
        scores = torch.sigmoid(logits)
        gate = F.linear(h, self.gate.flatten(0, 1).to(h.dtype))
        up = F.linear(h, self.up.flatten(0, 1).to(h.dtype))
        share = (scores * chosen).to(h.dtype)
        inner = F.silu(gate) * up
        inner = (inner.unflatten(-1, (shape.EXPERTS, shape.EXPERT_WIDTH)) * share[..., None]).flatten(-2)
        out = F.linear(inner, self.down.permute(1, 0, 2).flatten(1).to(h.dtype))
        dims = tuple(range(logits.dim() - 1))
        load = chosen.mean(dims) / shape.EXPERTS_PER_TOKEN
        wish = (scores / scores.sum(-1, keepdim=True)).mean(dims)
        return out, shape.EXPERTS * (load * wish).sum()

    def forward(self, x, cos, sin, attend, mask):
        """attend(q, k, v, mask) -> [B, query_heads, S, head_dim]"""
        h = norm(x, self.norm)
        out = attend(*self.qkv(h, cos, sin), mask)
        out = F.linear(out.transpose(1, 2).flatten(2), self.o.to(h.dtype))
        mlp, balance = self.mlp(h)
        return x + out + mlp, balance


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Parameter(torch.randn(shape.VOCAB, shape.HIDDEN) * 0.02)
        self.layers = nn.ModuleList(Layer(i) for i in range(shape.LAYERS))
        self.norm = nn.Parameter(torch.ones(shape.HIDDEN))

    def parameter_count(self):
        return sum(p.numel() for p in self.parameters())


def window_mask(queries, keys, sliding):
    """Boolean [.., Q, K] of positions [.., Q] and [.., K]: may the query see the key?"""
    distance = queries[..., :, None] - keys[..., None, :]
    return (distance >= 0) & (distance < shape.WINDOW) if sliding else distance >= 0


def plain_attention(q, k, v, mask):
    """By the formula; k and v [B, kv_heads, K, head_dim], mask broadcastable to [B, 1, Q, K]."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    scores = (q @ k.transpose(-1, -2)).float() * shape.HEAD_DIM ** -0.5
    weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
    return weights.to(v.dtype) @ v


def logits_of(network, tokens, dtype=torch.float32):
    """Logits [B, S, vocab] in FP32 of whole sequences, without a cache. For checks."""
    length = tokens.shape[1]
    cos, sin = rope_table(length, tokens.device)
    at = torch.arange(length, device=tokens.device)
    x = F.embedding(tokens, network.embed.to(dtype))
    for layer in network.layers:
        x, _ = layer(x, cos, sin, plain_attention, window_mask(at, at, not shape.is_full(layer.index)))
    return F.linear(norm(x, network.norm), network.embed.to(dtype)).float()
