"""Answers the held-out and the handwritten prompts by greedy decoding on the GPU and scores them.

usage: evaluate.py MODEL_DIRECTORY HELD_OUT.jsonl RESULTS.json [--answers FILE] [--device cuda] [--dtype float32] [--limit N]

RESULTS.json: the table, and every wrong answer. --answers: {"id", "output"} a line, the output with its markers. Weights
are what the directory's shards hold, so already BF16.
"""

import argparse
import json
import pathlib
import time

import torch

import checkpoint
import greedy
import handwritten
import held_out
import network as net
import score


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("held_out", type=pathlib.Path)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--answers", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--limit", type=int, default=10 ** 9)
    arguments = parser.parse_args()
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(arguments.model / "tokenizer.json"))
    model = net.Network()
    checkpoint.read_shards(model, arguments.model)
    model.to(arguments.device)
    items = [json.loads(line) for line in arguments.held_out.read_text().splitlines()][:arguments.limit]
    items += list(handwritten.items())
    prompts = [tokenizer.encode(held_out.prompt_text(i["request"]), add_special_tokens=False).ids for i in items]
    begin = time.time()
    outputs = greedy.decode(model, prompts, device=arguments.device, dtype=getattr(torch, arguments.dtype))
    texts = [tokenizer.decode(ids, skip_special_tokens=False) for ids in outputs]
    print(f"{sum(map(len, prompts))} prompt tokens (longest {max(map(len, prompts))}), {sum(map(len, outputs))} generated in "
          f"{time.time() - begin:.1f} s", flush=True)
    if arguments.answers:
        arguments.answers.write_text("".join(json.dumps({"id": i["id"], "output": t}, ensure_ascii=False) + "\n"
                                             for i, t in zip(items, texts)))
    passed = score.score_all([score.parse_output(t) for t in texts], [i["check"] for i in items])
    rows = score.table(items, passed)
    score.print_table(rows)
    wrong = [{"id": i["id"], "part": i["part"], "asked": i["request"]["messages"][-1]["content"], "check": i["check"], "output": t}
             for i, t, p in zip(items, texts, passed) if not p]
    arguments.results.write_text(json.dumps({"table": rows, "wrong": wrong}, ensure_ascii=False, indent=1))
    longest = max((len(p) for p, i in zip(prompts, items) if i["kind"] == "recall"), default=0)
    for least, most in ((0, 128), (128, 256), (256, 512), (512, 1 << 20)):
        hit = [good for good, p, i in zip(passed, prompts, items) if i["kind"] == "recall" and least < len(p) <= most]
        print(f"recall, prompts of {least} to {min(most, longest)} tokens: {sum(hit)}/{len(hit)}", flush=True)


if __name__ == "__main__":
    main()
