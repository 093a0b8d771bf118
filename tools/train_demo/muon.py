"""Muon: momentum whose update is made (nearly) orthogonal, for weight matrices; matrices of a shape go through together."""

import torch


def orthogonal(g, steps=5):
    """[n, rows, columns] -> the same with singular values near 1, by a quintic Newton-Schulz iteration in BF16."""
    x = g.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.transpose(-1, -2)
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        a = x @ x.transpose(-1, -2)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.transpose(-1, -2) if tall else x


class Muon:
    """Parameters of two dimensions, or of three: a stack of matrices. Updates have the size of AdamW's (0.2 rms times lr)."""

    def __init__(self, parameters, momentum=0.95, decay=0.05):
        self.momentum, self.decay, self.groups = momentum, decay, {}
        for p in parameters:
            self.groups.setdefault(tuple(p.shape[-2:]), []).append(p)
        self.buffers = {k: [torch.zeros_like(p) for p in group] for k, group in self.groups.items()}

    @torch.no_grad()
    def step(self, lr):
        for size, group in self.groups.items():
            grads, kept = [p.grad for p in group], self.buffers[size]
            torch._foreach_mul_(kept, self.momentum)
            torch._foreach_add_(kept, grads, alpha=1 - self.momentum)
            blended = torch._foreach_mul(kept, self.momentum)
            torch._foreach_add_(blended, grads, alpha=1 - self.momentum)
            stacked = torch.cat([b.reshape(-1, *size) for b in blended])
            update = orthogonal(stacked).float() * (0.2 * max(size) ** 0.5)
            pieces = update.split([p.numel() // (size[0] * size[1]) for p in group])
            torch._foreach_mul_(group, 1 - lr * self.decay)
            torch._foreach_add_(group, [u.reshape(p.shape) for u, p in zip(pieces, group)], alpha=-lr)
