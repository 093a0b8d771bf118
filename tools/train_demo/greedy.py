"""Batched greedy decoding with a KV cache: prompts of similar length together, rows that have ended leave the batch."""

import torch
import torch.nn.functional as F

import network as net
import shape


@torch.no_grad()
def decode_batch(model, prompts, limit, device, dtype):
    """prompts: lists of ids -> lists of generated ids, the end of turn not included."""
    rows = len(prompts)
    lengths = torch.tensor([len(p) for p in prompts], device=device)
    width = max(len(p) for p in prompts)
    tokens = torch.zeros(rows, width, dtype=torch.long)
    for i, prompt in enumerate(prompts):
        tokens[i, :len(prompt)] = torch.tensor(prompt)
    tokens = tokens.to(device)
    cos, sin = net.rope_table(width + limit, device)
    size = (rows, shape.KV_HEADS, width + limit, shape.HEAD_DIM)
    cache = [[torch.zeros(size, dtype=dtype, device=device) for _ in range(2)] for _ in model.layers]
    x = F.embedding(tokens, model.embed.to(dtype))
    at = torch.arange(width, device=device)
    for layer, kept in zip(model.layers, cache):
        def attend(q, k, v, mask, kept=kept):
            kept[0][:, :, :width], kept[1][:, :, :width] = k, v
            return attention(q, k, v, mask)
        x, _ = layer(x, cos[:width], sin[:width], attend, net.window_mask(at, at, not shape.is_full(layer.index)))
    last = x[torch.arange(rows, device=device), lengths - 1]
    out = [[] for _ in prompts]
    alive = torch.arange(rows, device=device)
    keys = torch.arange(width + limit, device=device)
    made = []
    for step in range(limit):
        chosen = F.linear(net.norm(last, model.norm), model.embed.to(dtype)).float().argmax(-1)
        made.append((alive, chosen))
        position = lengths[alive] + step
        x = F.embedding(chosen[:, None], model.embed.to(dtype))
        here = torch.arange(len(alive), device=device)
        for layer, kept in zip(model.layers, cache):
            def attend(q, k, v, mask, kept=kept):
                kept[0][here, :, position], kept[1][here, :, position] = k[:, :, 0], v[:, :, 0]
                return attention(q, kept[0], kept[1], mask)
            mask = net.window_mask(position[:, None], keys, not shape.is_full(layer.index))[:, None]
            x, _ = layer(x, cos[position][:, None, None], sin[position][:, None, None], attend, mask)
        last = x[:, 0]
        if step % 16 == 15 or step == limit - 1:
            ended = torch.zeros(rows, dtype=torch.bool, device=device)
            for row, token in made:
                ended[row] |= token == shape.END_OF_TURN
            flat = [(r.tolist(), t.tolist()) for r, t in made]
            for ids, values in flat:
                for i, value in zip(ids, values):
                    out[i].append(value)
            made = []
            left = (~ended[alive]).nonzero()[:, 0]
            if len(left) == 0:
                break
            if len(left) < len(alive):
                alive, last = alive[left], last[left]
                cache = [[t[left] for t in kept] for kept in cache]
    return [ids[:ids.index(shape.END_OF_TURN)] if shape.END_OF_TURN in ids else ids for ids in out]


def attention(q, k, v, mask):
    group = shape.QUERY_HEADS // shape.KV_HEADS
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    if not hasattr(F, "scaled_dot_product_attention"):
        return net.plain_attention(q, k, v, mask)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def decode(model, prompts, limit=320, device="cuda", dtype=torch.float32, tokens_a_batch=300_000):
    """All prompts, in batches by length."""
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    out = [None] * len(prompts)
    batch = []
    for place, i in enumerate(order):
        batch.append(i)
        following = len(prompts[order[place + 1]]) if place + 1 < len(order) else 1 << 30
        if (len(batch) + 1) * (following + limit) > tokens_a_batch:
            for j, ids in zip(batch, decode_batch(model, [prompts[j] for j in batch], limit, device, dtype)):
                out[j] = ids
            batch = []
    return out
