"""What transformers itself answers to the held-out and the handwritten prompts, greedily and in FP32: the reference that
`boreas eval --reference` compares with.

usage: transformers_answers.py MODEL_DIRECTORY ANSWERS.jsonl OUT.jsonl [--device cuda]    # ANSWERS from evaluate.py

One forward pass over a prompt and its known answer tells whether transformers would have written that answer: then the
likeliest token is the answer's at each of its positions. Where it is not, transformers writes one of its own, and the
two best logits there are listed. OUT.jsonl: {"id", "output"} a line, as ANSWERS.jsonl.
"""

import argparse
import json
import pathlib

import held_out
import score
import shape

TOKENS_MAX = 320  # of an answer, as evaluate.py and boreas eval allow


def first_difference(logits, made):
    """Where the likeliest token is not the next of `made`, which ends with the end of turn unless cut off: (place, gap of
    the two best logits) or None. logits: [len(made) or more, vocabulary], of the answer's positions."""
    best = logits.topk(2, dim=-1)
    for place, token in enumerate(made):
        if int(best.indices[place, 0]) != token:
            return place, float(best.values[place, 0] - best.values[place, 1])
    return None


class Oracle:
    def __init__(self, directory, device):
        import torch
        import transformers
        from tokenizers import Tokenizer
        torch.set_float32_matmul_precision("highest")
        self.torch, self.device = torch, device
        self.tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self.model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32,
                                                                       attn_implementation="eager").to(device).eval()

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def logits(self, tokens, last):
        """Of the last so many positions."""
        with self.torch.no_grad():
            return self.model(input_ids=self.torch.tensor([tokens], device=self.device)).logits[0, -last:].float().cpu()

    def write(self, prompt):
        """Greedily, every token by a whole forward pass."""
        made = []
        while len(made) < TOKENS_MAX:
            token = int(self.logits(prompt + made, 1)[0].argmax())
            if token == shape.END_OF_TURN:
                break
            made.append(token)
        return self.tokenizer.decode(made, skip_special_tokens=False)

    def answer(self, prompt, known):
        """-> (text, None or what differs)"""
        made = self.encode(known)
        if len(made) < TOKENS_MAX:
            made.append(shape.END_OF_TURN)
        different = first_difference(self.logits(prompt + made[:-1], len(made)), made)
        if different is None:
            return known, None
        # Also where the known answer was written in other tokens than the tokenizer's for its text.
        text = self.write(prompt)
        return text, None if text == known else f"at token {different[0]}, where the two best are {different[1]:.5f} apart"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("answers", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    oracle = Oracle(arguments.model, arguments.device)
    items = [json.loads(line) for name in ("held_out.jsonl", "handwritten.jsonl")
             for line in (arguments.model / name).read_text().splitlines()]
    known = {a["id"]: a["output"] for a in map(json.loads, arguments.answers.read_text().splitlines())}
    texts, differ = [], 0
    for number, item in enumerate(items, 1):
        text, difference = oracle.answer(oracle.encode(held_out.prompt_text(item["request"])), known[item["id"]])
        texts.append(text)
        if difference:
            differ += 1
            print(f"{item['id']}: {text!r}, not {known[item['id']]!r}, {difference}", flush=True)
        if number % 200 == 0:
            print(f"{number} of {len(items)} prompts, {differ} answers differ", flush=True)
    arguments.out.write_text("".join(json.dumps({"id": i["id"], "output": t}, ensure_ascii=False) + "\n"
                                     for i, t in zip(items, texts)))
    print(f"transformers: {len(items) - differ} of {len(items)} answers are the known ones")
    score.print_table(score.table(items, score.score_all([score.parse_output(t) for t in texts],
                                                         [i["check"] for i in items])))


if __name__ == "__main__":
    main()
