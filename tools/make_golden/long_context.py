"""One step at the last position that a checkpoint declares, behind a cache of all positions before it: the golden of
tests/golden/long_context.

usage: long_context.py MODEL_DIRECTORY OUT_DIRECTORY        (models/demo)

transformers' Cohere2MoeForCausalLM takes one token, in FP32 on the CPU and in BF16 on a GPU if there is one, behind
keys and values that any implementation can make: tests/golden/long_context/loud_cache.h has the recipe. Every token is
run alone. Of CANDIDATES the first KEPT are stored whose BF16 run chooses the same experts in every layer. The FP32 run
is compared with forward.py, a second implementation, in float64.

golden.json holds position, tokens, versions; golden.safetensors, FP32 but for logits_bf16:

    logits, logits_bf16     [tokens, vocabulary]
    attention, mlp          [tokens, layers, hidden]    before the residual add
    residual                [tokens, layers, hidden]    after both adds: the next layer's input
    layer_scale             [tokens, layers, 6]         rms of input, attention, MLP, residual; scores; router logits
    router_margin           [tokens]                    as in the other goldens
"""

import json
import pathlib
import platform
import re
import sys

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "compare_layers"))  # behind this folder, which has an oracle.py too

import cases
import dummy_weights
import forward

# Of 1,000 tokens those whose routing is the clearest: what parts the last chosen expert from the next, over the error
# that BF16 arithmetic may have made of the two logits by that layer, is 3 to 5.5 in the worst layer.
CANDIDATES = (544, 2193, 2050, 3599, 2290, 3471, 1235, 3657, 4046, 1864)
KEPT = 4
PAGE = 64  # positions

# log2 of what the recipe's keys and values are multiplied by.
KEY_GAIN = 5
SLIDING_GAIN, EDGE_GAIN = 10, 4
FULL_GAIN, END_GAIN = 16, 5

# The FP32 oracle's angles are off by up to 2^-8 radians here, those of forward.py are exact.
NUMPY_LIMIT = 0.02  # of the rms of the logits


class Shape:
    """What the cache needs to know of a config.json."""

    def __init__(self, config):
        self.layers, self.window = config["layer_types"], config["sliding_window"]
        self.kv_heads, self.head_dim = config["num_key_value_heads"], config["head_dim"]
        self.position = config["max_position_embeddings"] - 1  # of the token; as many are cached

    def sliding(self, layer):
        return self.layers[layer] == "sliding_attention"

    def first(self, layer):
        """The oldest position that the token sees in a layer."""
        return max(0, self.position - (self.window - 1)) if self.sliding(layer) else 0

    def gains(self, layer, what):
        """log2, of every cached position that the token sees."""
        positions = numpy.arange(self.first(layer), self.position)
        if what == "key":
            return numpy.full(len(positions), KEY_GAIN)
        if self.sliding(layer):
            return SLIDING_GAIN + EDGE_GAIN * (positions == self.first(layer))
        page = positions // PAGE
        return FULL_GAIN + END_GAIN * ((page == 0) | (page == self.position // PAGE))


def cached(shape, layer, what):
    """bf16 [1, KV heads, positions, head_dim]: the seeded recipe, louder by powers of two, so exact."""
    import torch
    first = shape.first(layer)
    plain = dummy_weights.seeded_kv(layer, what, first, shape.position - first, shape.kv_heads, shape.head_dim, "cpu")
    gains = shape.gains(layer, what)
    loud = plain * torch.from_numpy(2.0 ** gains).to(torch.bfloat16)[None, None, :, None]
    assert loud.dtype == torch.bfloat16 and loud.shape == plain.shape
    for at in (0, 1, len(gains) // 2, len(gains) - 1):
        index = ((first + at) * shape.kv_heads + 1) * shape.head_dim + 3  # head 1, dim 3
        wanted = dummy_weights.element(f"kv.layer.{layer}.{what}", dummy_weights.KV, index) * 2.0 ** int(gains[at])
        assert float(loud[0, 1, at, 3]) == wanted, (layer, what, at)
    return loud


def filled_cache(shape, config, tensors, dtype, device):
    """A DynamicCache that has seen shape.position positions: sliding layers hold the last window - 1."""
    from transformers import DynamicCache
    cache = DynamicCache(config=config)
    for i in range(len(shape.layers)):
        key, value = (tensors[i, what].to(device=device, dtype=dtype) for what in ("key", "value"))
        cache.update(key, value, i)
        layer = cache.layers[i]
        assert layer.is_sliding == shape.sliding(i) and layer.keys.shape[-2] == shape.position - shape.first(i)
        assert layer.keys.dtype == dtype
        if layer.is_sliding:
            layer.cumulative_length = shape.position  # what update() would have counted
        assert layer.get_seq_length() == shape.position
    return cache


class Oracle:
    """One model with hooks, and what its last step put out."""

    def __init__(self, shape, directory, tensors, dtype, device):
        import oracle
        import torch
        self.shape, self.tensors, self.dtype, self.device = shape, tensors, dtype, device
        self.model = oracle.load(directory, dtype).to(device)
        assert self.model.config.max_position_embeddings == shape.position + 1
        assert self.model.model.rotary_emb.inv_freq.dtype == torch.float32
        self.recorder = oracle.Recorder(self.model)
        self.weights = []
        for layer in self.model.model.layers:
            layer.self_attn.register_forward_hook(self.keep_weights)

    def keep_weights(self, module, args, out):
        self.weights.append(out[1].detach()[0, :, 0])  # [query heads, keys]

    def step(self, token):
        """Logits [vocabulary]."""
        import torch
        self.weights.clear()
        cache = filled_cache(self.shape, self.model.config, self.tensors, self.dtype, self.device)
        position = torch.tensor([[self.shape.position]], device=self.device)
        logits = self.recorder.run([token], past_key_values=cache, position_ids=position)
        assert logits.shape == (1, self.model.config.vocab_size) and torch.isfinite(logits).all()
        assert len(self.weights) == len(self.recorder.attention) == len(self.shape.layers)
        self.own = []  # (key, value) of the token itself, each [KV heads, head_dim]
        for i, layer in enumerate(cache.layers):
            seen = self.shape.position + 1 - self.shape.first(i)
            assert self.weights[i].shape[-1] == seen, (i, self.weights[i].shape, seen)
            assert layer.keys.shape[-2] == (seen - 1 if layer.is_sliding else seen)
            assert layer.get_seq_length() == self.shape.position + 1
            self.own.append((layer.keys[0, :, -1], layer.values[0, :, -1]))
        return logits[0].float().cpu()

    def routes(self):
        """Per MoE layer the chosen experts."""
        k = self.model.config.num_experts_per_tok
        logits = self.recorder.router_logits
        return {i: sorted(logits[i][0].float().topk(k).indices.tolist()) for i in sorted(logits)}

    def score_rms(self, layer):
        """The score term of tests/golden/tolerance.h: an error d_i of score i moves the output o = sum p_i v_i by
        p_i d_i (v_i - o), and d_i goes with S_i = rms(q) rms(k_i). So S^2 = sum p_i^2 S_i^2 |v_i - o|^2 / |o|^2, of the
        loudest head."""
        import torch
        key, value = (torch.cat([self.tensors[layer, what][0].double(), own[:, None].double().cpu()], dim=1)
                      for what, own in zip(("key", "value"), self.own[layer]))
        heads = self.weights[layer].double().cpu()
        loudest = 0.0
        for head, p in enumerate(heads):
            group = head * len(key) // len(heads)
            out = p @ value[group]
            score = self.recorder.q[layer][head].double().cpu() * key[group].pow(2).mean(-1).sqrt()
            moved = (p * score).pow(2) @ (value[group] - out).pow(2).sum(-1)
            loudest = max(loudest, float((moved / out.pow(2).sum()).sqrt()))
        return loudest

    def layer_scale(self, embedding):
        """[layers, 6]"""
        scale, before = [], embedding
        for i in range(len(self.shape.layers)):
            parts = self.recorder.attention[i], self.recorder.mlp[i], self.recorder.residual[i]
            router = self.recorder.router_logits.get(i)
            scale.append([rms(before), *map(rms, parts), self.score_rms(i), 0.0 if router is None else rms(router)])
            before = self.recorder.residual[i]
        return scale


def rms(x):
    return float(x.float().pow(2).mean().sqrt())


# ---- the second implementation


def case_of(config):
    """A checkpoint's shape, as cases.py describes one."""
    kinds = []
    for attention, mlp in zip(config["layer_types"], config["mlp_layer_types"]):
        assert (attention, mlp) != ("sliding_attention", "dense")
        kinds.append(cases.FULL_DENSE if mlp == "dense" else
                     cases.SLIDING if attention == "sliding_attention" else cases.FULL)
    return cases.Case(
        name="checkpoint", hidden=config["hidden_size"], query_heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"], head_dim=config["head_dim"], layers=tuple(kinds),
        window=config["sliding_window"], experts=config["num_experts"],
        experts_per_token=config["num_experts_per_tok"], expert_width=config["intermediate_size"],
        dense_width=config["prefix_dense_intermediate_size"], vocab=config["vocab_size"], eps=config["rms_norm_eps"],
        theta=config["rope_theta"], logit_scale=config["logit_scale"], shift={}, sequences=(), greedy_prompt=0,
        context=config["max_position_embeddings"])


def numpy_decoder(shape, config, weights, tensors):
    """forward.Decoder with the same cache; what lies before a window is zero, and must not be seen."""
    decoder = forward.Decoder(case_of(config), tensors=weights)
    for i in range(len(shape.layers)):
        for what, into in (("key", decoder.keys), ("value", decoder.values)):
            into[i] = numpy.zeros((1, shape.position, shape.kv_heads, shape.head_dim))
            into[i][0, shape.first(i):] = tensors[i, what][0].transpose(0, 1).double().numpy()
    decoder.length = shape.position
    return decoder


def difference_from_numpy(decoder, shape, token, logits):
    """Of the logits, in units of their rms."""
    second = decoder.feed([[token]])[0, 0]
    decoder.rewind(shape.position)
    return float(numpy.abs(second - logits.numpy()).max() / numpy.sqrt((second**2).mean()))


# ---- files


def load_weights(directory):
    import safetensors.torch
    weights = {}
    for path in sorted(directory.glob("*.safetensors")):
        for name, tensor in safetensors.torch.load_file(path).items():
            assert name not in weights
            weights[name] = tensor.float().numpy()
    return weights


def versions(device):
    import safetensors
    import torch
    import transformers
    return {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__,
            "safetensors": safetensors.__version__, "numpy": numpy.__version__, "machine": platform.machine(),
            "bf16_on": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"}


def one_line_lists(text):
    return re.sub(r"\[[\d\s,]*\]", lambda match: re.sub(r"\s+", " ", match.group()), text)


def record(token, fp32, bf16, decoder, out):
    """Runs a token in both; appends to the lists of `out` if both take the same experts."""
    import torch
    logits, low = fp32.step(token), bf16.step(token)
    flips = sum(a != b for a, b in zip(fp32.routes().values(), bf16.routes().values()))
    margin = float(fp32.recorder.router_margin()[0])
    spread = rms(logits)
    print(f"token {token}: logits rms {spread:.3f}, BF16 differs by {float((low - logits).abs().max()) / spread:.4f}, "
          f"other experts in {flips} layers, least router margin {margin:.4f}", flush=True)
    if flips:
        return False
    second = difference_from_numpy(decoder, fp32.shape, token, logits)
    print(f"    float64 forward differs by {second:.1e}", flush=True)
    assert second < NUMPY_LIMIT, (token, second)
    out["logits"].append(logits)
    out["logits_bf16"].append(low.to(torch.bfloat16))
    for name in ("attention", "mlp", "residual"):
        out[name].append(torch.cat(getattr(fp32.recorder, name)).float())
    embedding = fp32.model.model.embed_tokens.weight.detach()[token]
    scale = fp32.layer_scale(embedding)
    for i, row in enumerate(scale):
        print(f"    layer {i}: " + " ".join(f"{x:.3g}" for x in row), flush=True)
    out["layer_scale"].append(torch.tensor(scale))
    out["router_margin"].append(torch.tensor(margin))
    return True


def main():
    import safetensors.torch
    import torch
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    model, directory = map(pathlib.Path, sys.argv[1:])
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    # Partial sums of a product stay in FP32.
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    dummy_weights.check_recipe()
    dummy_weights.check_torch(torch.device("cpu"))
    config = json.loads((model / "config.json").read_text())
    shape = Shape(config)
    tensors = {(i, what): cached(shape, i, what) for i in range(len(shape.layers)) for what in ("key", "value")}
    print("cache made", flush=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    fp32 = Oracle(shape, model, tensors, torch.float32, torch.device("cpu"))
    bf16 = Oracle(shape, model, tensors, torch.bfloat16, device)
    decoder = numpy_decoder(shape, config, load_weights(model), tensors)
    names = "logits", "logits_bf16", "attention", "mlp", "residual", "layer_scale", "router_margin"
    out, kept = {name: [] for name in names}, []
    for token in CANDIDATES:
        if len(kept) < KEPT and record(token, fp32, bf16, decoder, out):
            kept.append(token)
    directory.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file({name: torch.stack(rows).contiguous() for name, rows in out.items() if rows},
                                directory / "golden.safetensors")
    manifest = {"model": "models/demo", "position": shape.position, "tokens": kept, "versions": versions(device)}
    (directory / "golden.json").write_text(one_line_lists(json.dumps(manifest, indent=1)) + "\n")
    print(f"kept {kept}")
    assert len(kept) == KEPT, "BF16 takes other experts than FP32: torch may sum up in BF16 on a CPU, so use a GPU"


if __name__ == "__main__":
    main()
