"""Seeded randomness for every generator here, and the split between training and held-out values.

Who calls it: all task generators. What always holds: the same seed gives the same draws on every machine (random.Random
and CRC-32 only), and a value made by `unseen` is on exactly one side of the split, whatever the seed.
"""

import functools
import random
import re
import zlib

HELD_OUT_ONE_IN = 8  # of the values of a kind, this share is never seen in training


def is_held_out(key):
    return zlib.crc32(key.encode()) % HELD_OUT_ONE_IN == 0


@functools.lru_cache(maxsize=None)
def _parse(template):
    """'[a|b [c|d]] e' -> nested lists: a sequence is a list of strings and of tuples, a tuple holds alternatives."""
    position = 0

    def sequence(depth):
        nonlocal position
        parts, text = [], []
        while position < len(template):
            char = template[position]
            if char == "[":
                position += 1
                alternatives = [sequence(depth + 1)]
                while template[position] == "|":
                    position += 1
                    alternatives.append(sequence(depth + 1))
                assert template[position] == "]", template
                position += 1
                parts += ["".join(text), tuple(alternatives)]
                text = []
            elif depth and char in "|]":
                break
            else:
                text.append(char)
                position += 1
        parts.append("".join(text))
        return [p for p in parts if p != ""]

    result = sequence(0)
    assert position == len(template), template
    return result


_SLOT = re.compile(r"\{(\w+)\}")


class Source:
    def __init__(self, seed, held_out=False):
        self.rng = random.Random(seed)
        self.held_out = held_out

    def pick(self, items):
        return items[int(self.rng.random() * len(items))]

    def sample(self, items, count):
        return self.rng.sample(items, count)

    def chance(self, probability):
        return self.rng.random() < probability

    def integer(self, low, high):  # both included
        return low + int(self.rng.random() * (high - low + 1))

    def weighted(self, table):  # {item: weight}
        return self.rng.choices(list(table), list(table.values()))[0]

    def shuffled(self, items):
        return self.rng.sample(items, len(items))

    def unseen(self, kind, make):
        """A value of make() on this source's side of the split. For kinds with too few values, the last draw."""
        for _ in range(400):
            value = make()
            if is_held_out(f"{kind}:{value}") == self.held_out:
                return value
        raise ValueError(f"no value of kind {kind} on this side of the split")

    def spin(self, template, **values):
        """Chooses among [a|b] alternatives, then fills in {names}; values are never expanded."""
        out = []

        def walk(parts):
            for part in parts:
                if isinstance(part, str):
                    out.append(part)
                else:
                    walk(self.pick(part))
        walk(_parse(template))
        return _SLOT.sub(lambda m: str(values[m.group(1)]), "".join(out))
