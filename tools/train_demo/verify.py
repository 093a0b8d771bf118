"""Loads the written checkpoint with transformers and compares it with network.py: logits, and greedy tokens.

usage: verify.py MODEL_DIRECTORY HELD_OUT.jsonl [--prompts 24]
"""

import argparse
import json
import pathlib

import torch

import checkpoint
import greedy
import held_out
import network as net
import shape


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("held_out", type=pathlib.Path)
    parser.add_argument("--prompts", type=int, default=24)
    arguments = parser.parse_args()
    from tokenizers import Tokenizer
    from transformers import AutoModelForCausalLM
    torch.set_float32_matmul_precision("highest")
    tokenizer = Tokenizer.from_file(str(arguments.model / "tokenizer.json"))
    oracle, info = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32, attn_implementation="eager",
                                                        output_loading_info=True)
    print({k: v for k, v in info.items() if v} or "transformers: every weight found its place")
    oracle = oracle.cuda().eval()
    model = net.Network()
    checkpoint.read_shards(model, arguments.model)
    model.cuda()
    items = [json.loads(line) for line in arguments.held_out.read_text().splitlines()]
    items = items[::len(items) // arguments.prompts]
    prompts = [tokenizer.encode(held_out.prompt_text(i["request"]), add_special_tokens=False).ids for i in items]
    ours = greedy.decode(model, prompts, limit=160)
    worst = agree = count = same = 0
    with torch.no_grad():
        for prompt, made in zip(prompts, ours):
            tokens = torch.tensor([prompt + made], device="cuda")
            theirs = oracle(input_ids=tokens).logits[0].float()
            logits = net.logits_of(model, tokens)[0]
            worst = max(worst, float((theirs - logits).norm() / theirs.norm()))
            agree, count = agree + int((theirs.argmax(-1) == logits.argmax(-1)).sum()), count + len(theirs)
            follows = theirs[len(prompt) - 1:].argmax(-1).tolist()
            same += follows[:len(made)] == made and (len(made) == 160 or follows[len(made)] == shape.END_OF_TURN)
    print(f"transformers: worst relative difference of logits {worst:.2e}, top-1 equal at {agree} of {count} positions, greedy "
          f"text equal for {same} of {len(prompts)} prompts")
    assert worst < 1e-3


if __name__ == "__main__":
    main()
