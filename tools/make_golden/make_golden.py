"""Writes the goldens of tests/golden/cohere2_moe from the oracle. See README.md for how to run it and for the format.

usage: make_golden.py OUT_DIRECTORY
"""

import json
import pathlib
import platform
import re
import sys
import tempfile

import numpy
import safetensors
import safetensors.torch
import torch
import transformers

import cases
import forward
import oracle

HERE = pathlib.Path(__file__).resolve().parent
GREEDY_TOKENS = 64


def rms(x):
    return float(x.float().pow(2).mean().sqrt())


def layer_scales(recorder, embedding):
    """[layers, 6] of what the recorder's last run saw."""
    scales, before = [], embedding
    for i, score in enumerate(recorder.score_rms()):
        router = rms(recorder.router_logits[i]) if i in recorder.router_logits else 0.0
        layer = [rms(x[i]) for x in (recorder.attention, recorder.mlp, recorder.residual)]
        scales.append([rms(before), *layer, score, router])
        before = recorder.residual[i]
    return torch.tensor(scales)


def per_layer(case, tokens, fp32, bf16, out):
    """Two runs of the FP32 oracle: whole (full.*), and each layer on the whole run's input to it, rounded to BF16
    (layer.*); and of the BF16 oracle on those same inputs (layer.*_bf16)."""
    fp32.run(tokens)
    inputs = [fp32.model.model.embed_tokens.weight.detach()[tokens]]
    inputs += [residual.bfloat16().float() for residual in fp32.residual[:-1]]
    for i in range(len(case.layers)):
        out[f"full.{i}.attention"], out[f"full.{i}.mlp"] = fp32.attention[i], fp32.mlp[i]
        out[f"full.{i}.residual"] = fp32.residual[i]
    for recorder, suffix in ((fp32, ""), (bf16, "_bf16")):
        recorder.inputs = inputs
        recorder.run(tokens)
        for i in range(len(case.layers)):
            out[f"layer.{i}.attention{suffix}"], out[f"layer.{i}.mlp{suffix}"] = recorder.attention[i], recorder.mlp[i]
            if i in recorder.router_logits and not suffix:
                out[f"layer.{i}.router_logits"] = recorder.router_logits[i]
    if case.router_ties:
        fp32.other_expert = routers = tuple(fp32.router_logits)
        fp32.run(tokens)
        for i in routers:
            out[f"layer.{i}.mlp_other_expert"] = fp32.mlp[i]
        # The last router's ties are exact, so a whole forward may take either expert there.
        fp32.inputs, fp32.other_expert = None, routers[-1:]
        out["full.logits_other_expert"] = fp32.run(tokens)
        out[f"full.{routers[-1]}.mlp_other_expert"] = fp32.mlp[-1]
        out[f"full.{routers[-1]}.residual_other_expert"] = fp32.residual[-1]
        fp32.other_expert = ()
    fp32.inputs = bf16.inputs = None


def check_against_numpy(case, tokens, logits):
    """Two independent implementations agree, or one of them is wrong. A tie may part them."""
    second = forward.Decoder(case).feed([tokens])[0]
    worst = float(numpy.abs(second - logits.numpy()).max() / numpy.sqrt((second**2).mean()))
    assert worst < 1e-4 or case.router_ties, (case.name, worst)
    return worst


def make_case(case, prompts, directory):
    directory.mkdir(parents=True, exist_ok=True)
    tensors = cases.weights(case)
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint = directory if case.committed_weights else pathlib.Path(scratch)
        oracle.save_checkpoint(case, tensors, checkpoint)
        if not case.committed_weights:
            (directory / "config.json").write_text((checkpoint / "config.json").read_text())
        fp32 = oracle.Recorder(oracle.load(checkpoint, torch.float32))
        bf16 = oracle.Recorder(oracle.load(checkpoint, torch.bfloat16))
    out, manifest = {}, {"case": case.name, "sequences": [], "versions": versions()}
    for sequence in case.sequences:
        tokens, name = prompts[sequence.name], sequence.name
        first = len(tokens) - sequence.last_logits if sequence.last_logits else 0
        entry = {"name": name, "tokens": tokens, "first_logits": first, "decode_from": sequence.decode_from}
        logits = fp32.run(tokens)
        difference = check_against_numpy(case, tokens, logits)
        out[name + ".logits"] = logits[first:]
        if name == "main":
            out["layer_scale"] = layer_scales(fp32, fp32.model.model.embed_tokens.weight.detach()[tokens])
        out[name + ".router_margin"] = fp32.router_margin()
        out[name + ".logits_bf16"] = bf16.run(tokens)[first:]
        if sequence.decode_from:
            out[name + ".decode_logits"] = oracle.cached_logits(fp32, tokens, sequence.decode_from)
        if sequence.per_layer:
            manifest["per_layer"] = name
            per_layer(case, tokens, fp32, bf16, out)
        manifest["sequences"].append(entry)
        error = (out[name + ".logits_bf16"].float() - out[name + ".logits"]).abs().max() / rms(logits)
        print(f"{case.name} {name}: {len(tokens)} tokens, logits rms {rms(logits):.3f}, numpy differs by "
              f"{difference:.1e}, BF16 by {error:.4f}, least router margin "
              f"{float(out[name + '.router_margin'].min()):.4f}", flush=True)
    if case.greedy_prompt:
        tokens, gaps, spread, margins = oracle.greedy(fp32, prompts["greedy"], GREEDY_TOKENS)
        manifest["greedy"] = {"prompt": prompts["greedy"], "tokens": tokens}
        out["greedy.gap"], out["greedy.logits_rms"], out["greedy.router_margin"] = gaps, spread, margins
        in_bf16 = oracle.greedy(bf16, prompts["greedy"], GREEDY_TOKENS)[0]
        same = next((i for i, (a, b) in enumerate(zip(tokens, in_bf16)) if a != b), GREEDY_TOKENS)
        print(f"{case.name} greedy: least gap {float((gaps / spread).min()):.4f} rms, least router margin "
              f"{float(margins.min()):.4f}, BF16 agrees for {same} tokens", flush=True)
    if not case.committed_weights:
        manifest["weights"] = {"recipe": "philox", "shift": case.shift}
    safetensors.torch.save_file({k: v.detach().contiguous().clone() for k, v in out.items()},
                                directory / "golden.safetensors")
    (directory / "golden.json").write_text(one_line_lists(json.dumps(manifest, indent=1)) + "\n")


def one_line_lists(text):
    return re.sub(r"\[[\d\s,]*\]", lambda match: re.sub(r"\s+", " ", match.group()), text)


def versions():
    return {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__,
            "safetensors": safetensors.__version__, "numpy": numpy.__version__, "machine": platform.machine()}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(4)
    prompts = json.loads((HERE / "prompts.json").read_text())
    for case in cases.CASES:
        make_case(case, prompts[case.name], pathlib.Path(sys.argv[1]) / case.name)


if __name__ == "__main__":
    main()
