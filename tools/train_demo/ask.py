"""Answers prompts with the checkpoint, for a look at it. Reads lines: plain questions, or chat requests as JSON objects.

usage: ask.py MODEL_DIRECTORY [--device cuda] < LINES
"""

import argparse
import json
import pathlib
import sys

import checkpoint
import greedy
import held_out
import network as net


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(arguments.model / "tokenizer.json"))
    model = net.Network()
    checkpoint.read_shards(model, arguments.model)
    model.to(arguments.device)
    lines = [line.strip() for line in sys.stdin if line.strip()]
    requests = [json.loads(x) if x[0] == "{" else {"messages": [{"role": "user", "content": x}]} for x in lines]
    prompts = [tokenizer.encode(held_out.prompt_text(r), add_special_tokens=False).ids for r in requests]
    for request, ids in zip(requests, greedy.decode(model, prompts, device=arguments.device)):
        print("> " + request["messages"][-1]["content"])
        print(tokenizer.decode(ids, skip_special_tokens=False) + "\n")


if __name__ == "__main__":
    main()
