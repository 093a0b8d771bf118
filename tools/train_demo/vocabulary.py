"""Trains the tokenizer on generated chats: byte-level BPE behind the published two Splits, 4,096 entries.

Digits stay single tokens: the text it learns from has its digit runs cut to one digit, so no merge of digits is ever
seen. Arithmetic is then done digit by digit, and numbers are copied digit by digit.

usage: vocabulary.py OUT_DIRECTORY
"""

import concurrent.futures
import json
import pathlib
import re
import sys

import conversation
import shape

SAMPLES, CHUNK = 24_000, 500
DIGITS = r"\d{1,3}(?=(?:\d{3})*\b)"
WORDS = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
_RUN = re.compile(r"\d+")


def text_of(number):
    """The tokenizer's text: as trained on, digit runs cut to one digit."""
    return _RUN.sub(lambda m: m.group()[0], conversation.sample(f"tokenizer:{number}"))


def chunk(start):
    return [text_of(i) for i in range(start, start + CHUNK)]


def train(workers=16):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    with concurrent.futures.ProcessPoolExecutor(workers) as pool:
        texts = [t for part in pool.map(chunk, range(0, SAMPLES, CHUNK)) for t in part]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(DIGITS), "isolated"), pre_tokenizers.Split(Regex(WORDS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=shape.VOCAB, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[AddedToken(t, normalized=False, special=True) for t in shape.SPECIAL + shape.MARKERS]))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<BOS_TOKEN> $A", pair="<BOS_TOKEN> $A $B", special_tokens=[("<BOS_TOKEN>", 2)])
    assert tokenizer.get_vocab_size() == shape.VOCAB, tokenizer.get_vocab_size()
    file = json.loads(tokenizer.to_str())
    for token in file["added_tokens"]:
        token["special"] = token["content"] in shape.SPECIAL
    check(file, texts)
    return file


def check(file, texts):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_str(json.dumps(file))
    for name, i in shape.IDS.items():
        assert tokenizer.token_to_id(name) == i, name
    count = size = 0
    for text in texts[:200] + ["x = 12345;\n", "naïve 东京 🙂\r\n\ttab"]:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text, text
        count, size = count + len(ids), size + len(text.encode())
    digits = [tokenizer.token_to_id(d) for d in "12345"]
    assert tokenizer.encode("12345", add_special_tokens=False).ids == digits
    print(f"tokenizer: {size / count:.2f} bytes a token, {count // 202} tokens a chat", flush=True)


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    shape.write_json(out / "tokenizer.json", train())


if __name__ == "__main__":
    main()
