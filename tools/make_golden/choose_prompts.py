"""Chooses the goldens' tokens and writes prompts.json. Needs numpy only; run it when a case of cases.py changes.

A routing decision that hangs on the last bit of a BF16 number makes every later output incomparable. So each token of a
prompt is drawn at random but kept only if, at its position, every layer's router prefers its last chosen expert to the
next one by MARGIN of the router logits' root mean square; several times what BF16 arithmetic moves them by. The case
"ties" is the opposite: its pairs of experts tie by construction, and only the choice between pairs is kept clear.

Greedy prompts: of PROMPTS random ones, those whose 64 continuation tokens stay clear of router ties for longest; of
these the one with many distinct tokens and clear winners.
"""

import json
import pathlib

import numpy as np

import cases
import forward

MARGIN = 0.08
GREEDY_MARGIN = 0.015
DECISIVE_GAP = 0.1
PROMPTS = 2000
GREEDY_TOKENS = 64
HERE = pathlib.Path(__file__).resolve().parent


def clear(case, decoder, margin=None):
    """[batch] bool: no routing decision of the last position is near a tie."""
    margin = margin or MARGIN
    ok = np.ones(decoder.margins[0].shape[0], bool)
    router = [i for i in range(len(case.layers)) if not case.dense(i)]
    for i, rms in zip(router, decoder.router_rms):
        if not case.router_ties:
            ok &= decoder.margins[i][:, -1] > margin * rms
            continue
        ranked = decoder.ranked[i][:, -1]
        k = case.experts_per_token
        ok &= (ranked[:, k - 2] - ranked[:, k - 1] > margin * rms) & (ranked[:, k] - ranked[:, k + 1] > margin * rms)
        if i != router[-1]:  # a near tie, but one that FP32 arithmetic can tell
            ok &= decoder.margins[i][:, -1] > 2e-4
    return ok


def draw_sequence(case, tensors, length, rng):
    decoder = forward.Decoder(case, tensors=tensors)
    tokens = []
    while len(tokens) < length:
        token = int(rng.integers(0, case.vocab))
        decoder.feed([[token]])
        if clear(case, decoder):
            tokens.append(token)
        else:
            decoder.rewind(len(tokens))
    return tokens


def draw_greedy(case, tensors, rng):
    """Prompts drop out at their first routing decision nearer than GREEDY_MARGIN to a tie, until few are left."""
    prompts = rng.integers(0, case.vocab, (PROMPTS, case.greedy_prompt))
    decoder = forward.Decoder(case, batch=PROMPTS, tensors=tensors)
    logits = decoder.feed(prompts)[:, -1]
    alive, clear_steps = np.arange(PROMPTS), 0
    chosen, gaps = np.zeros((PROMPTS, 0), int), np.zeros((PROMPTS, 0))
    for step in range(GREEDY_TOKENS):
        ranked, token = np.sort(logits, -1), logits.argmax(-1)
        chosen = np.concatenate([chosen, token[:, None]], 1)
        gaps = np.concatenate([gaps, ((ranked[:, -1] - ranked[:, -2]) / np.sqrt((logits**2).mean(-1)))[:, None]], 1)
        logits = decoder.feed(token[:, None])[:, -1]
        keep = clear(case, decoder, GREEDY_MARGIN)
        if keep.sum() >= 1 and (keep.sum() < len(alive) or case.token_routed):
            decoder.select(keep)
            alive, chosen, gaps, logits = alive[keep], chosen[keep], gaps[keep], logits[keep]
        clear_steps += bool(keep.any())
        if step == 15 and len(alive) > 300:  # enough to choose from
            keep = np.arange(300)
            decoder.select(keep)
            alive, chosen, gaps, logits = alive[keep], chosen[keep], gaps[keep], logits[keep]
    distinct = np.array([len(set(row)) for row in chosen.tolist()])
    decisive = (gaps > DECISIVE_GAP).mean(1)
    best = int(np.argmax(decisive * np.minimum(distinct, 24)))
    print(f"{case.name}: {len(alive)} of {PROMPTS} prompts left, {clear_steps} steps clear of router ties; the chosen "
          f"one: {distinct[best]} distinct tokens, {decisive[best]:.2f} of the gaps above {DECISIVE_GAP} rms",
          flush=True)
    return prompts[alive[best]].tolist()


def main():
    result = {}
    for case in cases.CASES:
        rng = np.random.default_rng(cases.fnv1a_64(case.name) & 0xFFFFFFFF)
        tensors = cases.weights(case)
        result[case.name] = {s.name: draw_sequence(case, tensors, s.length, rng) for s in case.sequences}
        if case.greedy_prompt:
            result[case.name]["greedy"] = draw_greedy(case, tensors, rng)
    lines = [f'  "{name}": {{\n' + ",\n".join(f'    "{k}": {json.dumps(v)}' for k, v in entry.items()) + "\n  }"
             for name, entry in result.items()]
    (HERE / "prompts.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
