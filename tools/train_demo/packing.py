"""Batches of packed chats, made while training runs: every worker process draws its own endless stream.

A batch: tokens [rows, ROW] int64, chats [rows, ROW] int32 (which chat of the row a position belongs to), weights
[rows, ROW] FP32 (of predicting the token at this position from those before it). Chats longer than a row are left out.
"""

import bisect

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

import conversation
import shape

ROW = 2048
PROMPT_WEIGHT = 0.05
BUFFER = 384  # chats to choose from when a row is filled


def weights_of(ids):
    """1 for what the model must write, PROMPT_WEIGHT for the rest, 0 for the thinking marker that the prompt gives."""
    weights = np.full(len(ids), PROMPT_WEIGHT, dtype=np.float32)
    weights[0] = 0
    ends = np.flatnonzero(ids == shape.END_OF_TURN)
    for opened in np.flatnonzero(ids == shape.IDS["<|CHATBOT_TOKEN|>"]):
        weights[opened + 1] = 0
        if ids[opened + 1] != shape.IDS["<|START_THINKING|>"]:
            continue  # a past turn whose thinking is gone
        first = opened + 2
        if ids[first] == shape.IDS["<|END_THINKING|>"]:  # thinking is off: the empty pair is given
            weights[first] = 0
            first += 1
        weights[first:ends[np.searchsorted(ends, first)] + 1] = 1
    return weights


class Chats(IterableDataset):
    """Seeds: (seed, era, worker, number); an era is the step a run started from, so that a resumed run sees new chats."""

    def __init__(self, tokenizer_file, seed, era, rows):
        self.tokenizer_file, self.seed, self.era, self.rows = str(tokenizer_file), seed, era, rows

    def chats(self, worker):
        from tokenizers import Tokenizer
        tokenizer = Tokenizer.from_file(self.tokenizer_file)
        number = 0
        while True:
            texts = []
            for number in range(number, number + 32):
                try:
                    texts.append(conversation.sample(f"train:{self.seed}:{self.era}:{worker}:{number}"))
                except Exception as error:  # one bad chat in millions must not end a run; it is shown, and skipped
                    print(f"chat {self.seed}:{self.era}:{worker}:{number} failed: {error!r}", flush=True)
            number += 1
            for encoded in tokenizer.encode_batch(texts, add_special_tokens=False):
                if len(encoded.ids) <= ROW:
                    yield np.array(encoded.ids, dtype=np.int64)

    def __iter__(self):
        info = get_worker_info()
        source = self.chats(info.id if info else 0)
        waiting = []  # (length, order, ids), sorted
        order = 0
        while True:
            batch = [np.zeros((self.rows, ROW), dtype=t) for t in (np.int64, np.int32, np.float32)]
            for row in range(self.rows):
                at = chat = 0
                while True:
                    while len(waiting) < BUFFER:
                        ids = next(source)
                        order += 1
                        bisect.insort(waiting, (len(ids), order, ids))
                    fitting = bisect.bisect_right(waiting, (ROW - at, 1 << 60))
                    if not fitting:
                        break
                    # The first of a row is any one, so that long and short ones last equally; then the largest that fits.
                    place = (order * 7919 + row) % fitting if at < ROW // 2 else fitting - 1
                    length, _, ids = waiting.pop(place)
                    batch[0][row, at:at + length] = ids
                    batch[1][row, at:at + length] = chat
                    batch[2][row, at:at + length] = weights_of(ids)
                    at, chat = at + length, chat + 1
                batch[1][row, at:] = chat
            yield tuple(torch.from_numpy(b) for b in batch)
