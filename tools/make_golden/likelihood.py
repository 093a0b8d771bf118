"""The texts and the oracle of `boreas eval --likelihood`, and the oracle's own BF16 run in the same figures.

usage: likelihood.py texts HELD_OUT.jsonl ANSWERS.jsonl OUT.jsonl [--every 40]
       likelihood.py oracle MODEL_DIRECTORY TEXTS.jsonl OUT_FOLDER [--device cpu]

texts: every 40th held-out prompt as the model sees it, and the reference answer: {"id", "prompt", "answer"} a line.
For models/demo alone, whose template tools/train_demo renders. Needs Python and jinja2.

oracle: transformers' logits in FP32, as OUT_FOLDER/<id>.f32 (little endian, [positions, vocabulary]), and
OUT_FOLDER/index.json with the tokens; boreas compares itself with them: `boreas eval MODEL --likelihood --oracle
OUT_FOLDER`. Prints what `boreas eval` prints, for the oracle's BF16 run. torch, transformers 5.17, tokenizers.
"""

import argparse
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def read_lines(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines() if line.strip()]


def write_texts(arguments):
    sys.path.insert(0, str(HERE.parent / "train_demo"))
    import held_out
    answers = {a["id"]: a["output"] for a in read_lines(arguments.answers)}
    items = read_lines(arguments.held_out)[::arguments.every]
    with open(arguments.out, "w") as file:
        for item in items:
            answer = answers[item["id"]]
            if answer.endswith("|>"):  # complete: the end of the turn came next
                answer += "<|END_OF_TURN_TOKEN|>"
            line = {"id": item["id"], "prompt": held_out.prompt_text(item["request"]), "answer": answer}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(f"{len(items)} texts")


class Figures:
    """Kullback-Leibler divergence of the oracle's distribution from another's, and how often their likeliest tokens are
    one, position by position; negative log likelihood of the text that really follows."""

    def __init__(self):
        self.kl, self.same, self.nll_here, self.nll_oracle = [], [], [], []

    def add(self, here, oracle, following):
        """Both [positions, vocabulary] logits, of all positions that another token follows."""
        import torch
        here, oracle = (torch.log_softmax(x.double(), dim=-1) for x in (here, oracle))
        self.kl += (oracle.exp() * (oracle - here)).sum(-1).tolist()
        self.same += (oracle.argmax(-1) == here.argmax(-1)).tolist()
        at = torch.tensor(following)[:, None]
        self.nll_here += (-here.gather(-1, at)[:, 0]).tolist()
        self.nll_oracle += (-oracle.gather(-1, at)[:, 0]).tolist()

    def line(self, name):
        count, ranked = len(self.kl), sorted(self.kl)
        p99 = ranked[min(count - 1, count * 99 // 100)]
        return (f"{name:<10}{count:>10}{sum(ranked) / count:>12.3e}{p99:>12.3e}{100 * sum(self.same) / count:>9.2f} %"
                f"{sum(self.nll_here) / count:>11.5f}{sum(self.nll_oracle) / count:>11.5f}")


def write_oracle(arguments):
    import numpy
    import torch
    from tokenizers import Tokenizer
    from transformers import AutoModelForCausalLM
    torch.set_float32_matmul_precision("highest")
    tokenizer = Tokenizer.from_file(str(arguments.model / "tokenizer.json"))
    fp32, bf16 = (AutoModelForCausalLM.from_pretrained(arguments.model, dtype=dtype, attn_implementation="eager")
                  .to(arguments.device).eval() for dtype in (torch.float32, torch.bfloat16))
    arguments.out.mkdir(parents=True, exist_ok=True)
    index, everything, answers = [], Figures(), Figures()
    for text in read_lines(arguments.texts):
        prompt, answer = (tokenizer.encode(text[k], add_special_tokens=False).ids for k in ("prompt", "answer"))
        tokens = prompt + answer
        with torch.no_grad():
            ids = torch.tensor([tokens], device=arguments.device)
            oracle, low = (m(input_ids=ids, use_cache=False).logits[0].float().cpu() for m in (fp32, bf16))
        oracle.numpy().astype(numpy.dtype("<f4")).tofile(arguments.out / f"{text['id']}.f32")
        index.append({"id": text["id"], "tokens": tokens})
        everything.add(low[:-1], oracle[:-1], tokens[1:])
        start = len(prompt) - 1  # predicts the answer's first token
        answers.add(low[start:-1], oracle[start:-1], tokens[start + 1:])
    vocabulary = fp32.config.vocab_size
    (arguments.out / "index.json").write_text(json.dumps({"vocab_size": vocabulary, "texts": index}))
    print("transformers BF16 beside transformers FP32")
    print(f"{'':<10}{'positions':>10}{'KL mean':>12}{'KL p99':>12}{'top-1':>11}{'NLL':>11}{'NLL oracle':>11}")
    print(everything.line("all"))
    print(answers.line("answers"))


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    texts = commands.add_parser("texts")
    texts.add_argument("held_out")
    texts.add_argument("answers")
    texts.add_argument("out")
    texts.add_argument("--every", type=int, default=40)
    texts.set_defaults(run=write_texts)
    oracle = commands.add_parser("oracle")
    oracle.add_argument("model", type=pathlib.Path)
    oracle.add_argument("texts")
    oracle.add_argument("out", type=pathlib.Path)
    oracle.add_argument("--device", default="cpu")
    oracle.set_defaults(run=write_oracle)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
