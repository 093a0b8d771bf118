"""Writes models/tiny: a checkpoint of 1.3 MB with random weights and a tokenizer. See README.md.

usage: make_tiny.py OUT_DIRECTORY
"""

import json
import pathlib
import random
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import cases
import oracle

TINY = cases.Case(
    name="tiny", hidden=128, query_heads=4, kv_heads=2, head_dim=32,
    layers=(cases.FULL_DENSE, cases.SLIDING, cases.SLIDING, cases.SLIDING, cases.FULL), window=128,
    experts=8, experts_per_token=2, expert_width=24, dense_width=96, vocab=512,
    eps=1e-6, theta=50000.0, logit_scale=1.0,
    shift=dict(embed=8, q=9, k=10, v=10, o=9, router=10, gate=10, up=10, down=9, dense_gate=10, dense_up=10,
               dense_down=10),
    sequences=(), greedy_prompt=0, context=4096)

# In the order of their ids. Those a skip-special-tokens decoder drops come first; the others are markers that a parser
# must see, as in the published Cohere vocabularies.
SPECIAL = ["<PAD>", "<MASK_TOKEN>", "<BOS_TOKEN>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>"]
MARKERS = ["<|SYSTEM_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|START_TEXT|>", "<|END_TEXT|>",
           "<|START_THINKING|>", "<|END_THINKING|>", "<|START_ACTION|>", "<|END_ACTION|>", "<|START_TOOL_RESULT|>",
           "<|END_TOOL_RESULT|>", "<|IMG_PATCH|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"]

DIGITS = r"\d{1,3}(?=(?:\d{3})*\b)"
WORDS = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")

VERBS = ("read write open close find count sort merge split join print parse build run test return check load "
         "store").split()
NOUNS = ("file line word list table number string value index tree node graph queue stack cache page server request "
         "answer token model layer weight input output error message function class module key path byte").split()
ADJECTIVES = "small large empty first last next previous sorted random short long valid wrong left right simple".split()


def corpus():
    """Sentences and code from a grammar, the same on every run."""
    rng = random.Random(7)
    lines = []
    for _ in range(6000):
        verb, noun, other, adjective = rng.choice(VERBS), rng.choice(NOUNS), rng.choice(NOUNS), rng.choice(ADJECTIVES)
        lines.append(rng.choice((
            f"Please {verb} the {adjective} {noun} and then the {other}.\n",
            f"What is the {adjective} {noun} of this {other}? It's the {noun} that we {verb}.\n",
            f"def {verb}_{noun}({other}, {noun}=None):\n    return {other}.{verb}({noun})\n\n",
            f"for {noun} in {other}s:\n    if {noun} == {rng.randrange(1000)}:\n        {verb}({noun})\n",
            f"int {noun}_{other} = {rng.randrange(100000)};  // {adjective} {noun}\n",
            f'{{"{noun}": "{adjective}", "{other}": [{rng.randrange(10)}, {rng.randrange(100)}]}}\n',
        )))
    return lines


def train_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(DIGITS), "isolated"), pre_tokenizers.Split(Regex(WORDS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=TINY.vocab, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[AddedToken(t, normalized=False, special=True) for t in SPECIAL + MARKERS]))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<BOS_TOKEN> $A", pair="<BOS_TOKEN> $A $B", special_tokens=[("<BOS_TOKEN>", 2)])
    assert tokenizer.get_vocab_size() == TINY.vocab, tokenizer.get_vocab_size()
    file = json.loads(tokenizer.to_str())
    for token in file["added_tokens"]:
        token["special"] = token["content"] in SPECIAL
    return file


def check_tokenizer(file):
    tokenizer = Tokenizer.from_str(json.dumps(file))
    for i, name in enumerate(SPECIAL + MARKERS):
        assert tokenizer.token_to_id(name) == i
    for text in ("Please sort the list.\n", "x = 12345;\n", "naïve 东京 🙂\r\n\ttab", "".join(corpus()[:50])):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text, text
    print(f"tiny: tokenizer ok, {len(text.encode()) / len(ids):.2f} bytes a token on its own text")


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    oracle.save_checkpoint(TINY, cases.weights(TINY), out)
    end_of_turn = SPECIAL.index("<|END_OF_TURN_TOKEN|>")
    for name in ("config.json", "generation_config.json"):
        value = json.loads((out / name).read_text())
        value.update(pad_token_id=0, bos_token_id=2, eos_token_id=end_of_turn)
        write_json(out / name, value)
    file = train_tokenizer()
    check_tokenizer(file)
    write_json(out / "tokenizer.json", file)
    write_json(out / "tokenizer_config.json", {
        "add_bos_token": True, "add_eos_token": False, "bos_token": "<BOS_TOKEN>",
        "eos_token": "<|END_OF_TURN_TOKEN|>", "pad_token": "<PAD>", "clean_up_tokenization_spaces": False,
        "model_max_length": TINY.context, "tokenizer_class": "CohereTokenizer"})
    print(f"tiny: written with tokenizers {tokenizers.__version__}", flush=True)


if __name__ == "__main__":
    main()
