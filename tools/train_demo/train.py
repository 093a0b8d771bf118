"""Trains the demo on one GPU and writes the checkpoint in the published layout.

usage: train.py OUT [--steps N] [--rows N] [--seed N] [--seconds N] [--resume DIRECTORY] [--save DIRECTORY]

OUT must hold tokenizer.json (vocabulary.py). The learning rate follows the step. A run that reaches --seconds before
--steps saves FP32 weights under --save and stops; the next run --resumes there (the optimizers' moments start anew, the
learning rate climbs back over WARMUP steps). At the last step the weights are rounded to BF16 and written to OUT.
"""

import argparse
import json
import pathlib
import time

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import checkpoint
import network as net
import shape
from muon import Muon
from packing import ROW, Chats

MUON_LR, ADAM_LR, ROUTER_LR = 5e-3, 4e-3, 2e-3
WARMUP, DECAY_FROM = 150, 0.3
BALANCE = 0.01
WORKERS = 15


def rate(step, steps, since):
    """Share of the peak learning rate: up over WARMUP steps of this run, flat, then down to 0 in a line."""
    left = 1.0 if step < DECAY_FROM * steps else (steps - step) / (steps - DECAY_FROM * steps)
    return min(1.0, (since + 1) / WARMUP) * max(left, 0.0)


def attend(q, k, v, mask):
    return flex_attention(q, k, v, block_mask=mask, enable_gqa=True)


def head_loss(x, norm, embed, labels, weights):
    logits = F.linear(net.norm(x, norm), embed.to(x.dtype)).flatten(0, 1).float()
    losses = F.cross_entropy(logits, labels.flatten(), reduction="none")
    weights = weights.flatten()
    learnt = (weights == 1).float()
    return (losses * weights).sum() / weights.sum(), (losses * learnt).sum() / learnt.sum()


class Trainer:
    def __init__(self, arguments):
        self.a = arguments
        torch.manual_seed(arguments.seed)
        self.model = net.Network()
        assert self.model.parameter_count() == shape.PARAMETERS
        self.step = 0
        if arguments.resume:
            saved = checkpoint.load_parts(arguments.resume)
            self.model.load_state_dict(saved["weights"])
            self.step = saved["step"]
        self.first = self.step
        self.model.cuda()
        self.cos, self.sin = net.rope_table(ROW, "cuda")
        self.chats = torch.zeros(arguments.rows, ROW, dtype=torch.int32, device="cuda")
        self.rules = self.mask_rules()
        self.layer = torch.compile(net.Layer.forward, dynamic=False)
        self.head = torch.compile(head_loss, dynamic=False)
        self.block_mask = torch.compile(create_block_mask)
        named = dict(self.model.named_parameters())
        matrices = [p for n, p in named.items() if p.dim() > 1 and n != "embed" and "router" not in n]
        self.muon = Muon(matrices)
        self.adam = torch.optim.AdamW([
            {"params": [p for n, p in named.items() if n == "embed" or p.dim() == 1], "peak": ADAM_LR},
            {"params": [p for n, p in named.items() if "router" in n], "peak": ROUTER_LR}],
            betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0, fused=True)

    def mask_rules(self):
        """What a position may see, for full and sliding layers, in the chats that self.chats holds at the time."""
        chats = self.chats

        def full(b, h, q, k):
            return (q >= k) & (chats[b, q] == chats[b, k])

        def sliding(b, h, q, k):
            return (q >= k) & (q - k < shape.WINDOW) & (chats[b, q] == chats[b, k])
        return full, sliding

    def forward(self, tokens, weights):
        full, sliding = (self.block_mask(r, self.a.rows, None, ROW, ROW, device="cuda") for r in self.rules)
        x = F.embedding(tokens, self.model.embed.bfloat16())
        balances = []
        for layer in self.model.layers:
            mask = full if shape.is_full(layer.index) else sliding
            x, balance = self.layer(layer, x, self.cos, self.sin, attend, mask)
            if not layer.dense:
                balances.append(balance)
        labels = torch.cat([tokens[:, 1:], tokens[:, :1]], dim=1)
        shifted = torch.cat([weights[:, 1:], torch.zeros_like(weights[:, :1])], dim=1)
        loss, learnt = self.head(x, self.model.norm, self.model.embed, labels, shifted)
        return loss, learnt, torch.stack(balances)

    def update(self, share):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
        self.muon.step(MUON_LR * share)
        for group in self.adam.param_groups:
            group["lr"] = group["peak"] * share
        self.adam.step()
        for p in self.model.parameters():
            p.grad = None

    def run(self):
        loader = torch.utils.data.DataLoader(
            Chats(self.a.out / "tokenizer.json", self.a.seed, self.step, self.a.rows), batch_size=None, num_workers=WORKERS,
            prefetch_factor=8, pin_memory=True)
        begin = time.time()
        mark, mark_step, waited = begin, self.step, 0.0
        batches = iter(loader)
        while self.step < self.a.steps:
            wait_from = time.time()
            tokens, chats, weights = next(batches)
            waited += time.time() - wait_from
            tokens, weights = tokens.cuda(non_blocking=True), weights.cuda(non_blocking=True)
            self.chats.copy_(chats, non_blocking=True)
            loss, learnt, balance = self.forward(tokens, weights)
            (loss + BALANCE * balance.mean()).backward()
            self.update(rate(self.step, self.a.steps, self.step - self.first))
            self.step += 1
            if self.step % self.a.report == 0 or self.step == self.first + 1:
                learnt = learnt.item()  # waits for the device
                now = time.time()
                speed = (self.step - mark_step) * tokens.numel() / (now - mark)
                print(f"step {self.step} {now - begin:.0f} s, loss {loss.item():.4f} learnt {learnt:.4f} balance "
                      f"{balance.mean().item():.3f} (worst layer {balance.max().item():.3f}), {speed / 1e6:.2f} M tokens/s, "
                      f"waited {waited:.1f} s", flush=True)
                mark, mark_step, waited = now, self.step, 0.0
                if now - begin > self.a.seconds:
                    break
        print(f"trained {self.step - self.first} steps, {(self.step - self.first) * self.a.rows * ROW / 1e6:.0f} M tokens in "
              f"{time.time() - begin:.0f} s", flush=True)
        return self.step == self.a.steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--report", type=int, default=50)
    parser.add_argument("--resume", type=pathlib.Path)
    parser.add_argument("--save", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    trainer = Trainer(arguments)
    finished = trainer.run()
    if arguments.save and not finished:
        weights = {k: v.cpu() for k, v in trainer.model.state_dict().items()}
        checkpoint.save_parts(arguments.save, {"weights": weights, "step": trainer.step})
    checkpoint.write_shards(trainer.model, arguments.out)
    shape.write_configs(arguments.out)
    print(json.dumps({"finished": finished, "step": trainer.step, "seed": arguments.seed}), flush=True)


if __name__ == "__main__":
    main()
