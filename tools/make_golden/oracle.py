"""The oracle: transformers' Cohere2MoeForCausalLM, eager attention and eager experts, on the CPU (no GPU is needed, and
FP32 is FP32 there). Builds a case's checkpoint, runs it, and records what every layer puts out."""

import torch
from transformers import Cohere2MoeConfig, Cohere2MoeForCausalLM, DynamicCache

import cases


def config_of(case):
    config = Cohere2MoeConfig(
        vocab_size=case.vocab, hidden_size=case.hidden, intermediate_size=case.expert_width,
        prefix_dense_intermediate_size=case.dense_width, num_hidden_layers=len(case.layers),
        num_attention_heads=case.query_heads, num_key_value_heads=case.kv_heads, head_dim=case.head_dim,
        layer_types=["sliding_attention" if kind == cases.SLIDING else "full_attention" for kind in case.layers],
        mlp_layer_types=["dense" if kind == cases.FULL_DENSE else "sparse" for kind in case.layers],
        prefix_dense_sliding_window_pattern=1, sliding_window=case.window,
        num_experts=case.experts, num_experts_per_tok=case.experts_per_token, num_shared_experts=0,
        expert_selection_fn="sigmoid", norm_topk_prob=False, rms_norm_eps=case.eps, rope_theta=case.theta,
        max_position_embeddings=case.context, logit_scale=case.logit_scale, tie_word_embeddings=True,
        pad_token_id=0, bos_token_id=2, eos_token_id=3)
    assert config.rope_parameters["rope_theta"] == case.theta, config.rope_parameters
    return config


def state_dict_of(case, tensors):
    """Published names -> the class's own: experts stacked, gate above up."""
    state = {}
    for name, value in tensors.items():
        if ".experts." not in name:
            state[name] = torch.from_numpy(value)
    for i in range(len(case.layers)):
        if case.dense(i):
            continue
        def stack(kind, layer=i):
            names = [f"model.layers.{layer}.mlp.experts.{e}.{kind}_proj.weight" for e in range(case.experts)]
            return torch.stack([torch.from_numpy(tensors[n]) for n in names])
        state[f"model.layers.{i}.mlp.experts.gate_up_proj"] = torch.cat([stack("gate"), stack("up")], dim=1)
        state[f"model.layers.{i}.mlp.experts.down_proj"] = stack("down")
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    return state


def save_checkpoint(case, tensors, directory):
    model = Cohere2MoeForCausalLM(config_of(case))
    model.load_state_dict(state_dict_of(case, tensors), strict=True)
    model.to(torch.bfloat16).save_pretrained(directory)


def load(directory, dtype):
    model = Cohere2MoeForCausalLM.from_pretrained(
        directory, dtype=dtype, attn_implementation="eager", experts_implementation="eager")
    assert model.config._attn_implementation == "eager" and model.config._experts_implementation == "eager"
    assert all(p.dtype == dtype for p in model.parameters())
    return model.eval()


class Recorder:
    """Hooks on one model. While `inputs` is set, layer i computes on inputs[i] whatever came before it; the routers of
    the layers in `other_expert` replace their last choice by the next in line."""

    def __init__(self, model):
        self.model, self.inputs, self.other_expert = model, None, ()
        heads = model.config.num_attention_heads, model.config.num_key_value_heads
        for i, layer in enumerate(model.model.layers):
            layer.register_forward_pre_hook(self.replace_input(i), with_kwargs=True)
            layer.register_forward_hook(lambda m, a, out: self.residual.append(out.detach()[0]))
            layer.self_attn.register_forward_hook(lambda m, a, out: self.attention.append(out[0].detach()[0]))
            layer.self_attn.q_proj.register_forward_hook(lambda m, a, out: self.q.append(self.head_rms(out, heads[0])))
            layer.self_attn.k_proj.register_forward_hook(lambda m, a, out: self.k.append(self.head_rms(out, heads[1])))
            layer.mlp.register_forward_hook(lambda m, a, out: self.mlp.append(out.detach()[0]))
            if hasattr(layer.mlp, "gate"):
                layer.mlp.gate.register_forward_hook(self.router(i))
        self.clear()

    def clear(self):
        self.attention, self.mlp, self.residual, self.q, self.k, self.router_logits = [], [], [], [], [], {}

    @staticmethod
    def head_rms(out, heads):
        return out.detach().float().reshape(-1, heads, out.shape[-1] // heads).pow(2).mean(dim=(0, 2)).sqrt()

    def replace_input(self, i):
        def hook(module, args, kwargs):
            if self.inputs is None:
                return None
            given = self.inputs[i][None].to(self.model.dtype)
            return ((given,) + args[1:], kwargs) if args else (args, {**kwargs, "hidden_states": given})
        return hook

    def router(self, i):
        def hook(module, args, out):
            logits, scores, chosen = out
            self.router_logits[i] = logits.detach()
            if i not in self.other_expert:
                return None
            k = chosen.shape[-1]
            ranked = torch.topk(logits, k + 1, dim=-1).indices
            unused = (ranked[:, :, None] != chosen[:, None, :]).all(-1)
            other = torch.cat([chosen[:, :-1], ranked[unused][:, None]], dim=-1)
            return logits, torch.sigmoid(logits.gather(-1, other)).to(scores.dtype), other
        return hook

    def run(self, tokens, **kwargs):
        """Logits [positions, vocab] of one sequence; the lists hold one entry a layer."""
        self.clear()
        with torch.no_grad():
            ids = torch.tensor([tokens], device=self.model.device)
            return self.model(input_ids=ids, use_cache=bool(kwargs), **kwargs).logits[0]

    def score_rms(self):
        """Per layer: root mean square of q.k / sqrt(head_dim) if q and k were independent, of the loudest head."""
        result = []
        for q, k in zip(self.q, self.k):
            result.append(float((q * k.repeat_interleave(len(q) // len(k))).max()))
        return result

    def router_margin(self):
        """[positions]: the last chosen expert's lead over the next, over the logits' rms; the least of all layers."""
        k = self.model.config.num_experts_per_tok
        margins = []
        for logits in self.router_logits.values():
            ranked = logits.float().sort(dim=-1, descending=True).values
            margins.append((ranked[:, k - 1] - ranked[:, k]) / ranked.pow(2).mean(dim=-1).sqrt())
        return torch.stack(margins).min(dim=0).values


def cached_logits(recorder, tokens, prefill):
    """Logits of positions prefill-1 .. end: the first from one prefill, the others decoded one by one on its cache."""
    cache = DynamicCache(config=recorder.model.config)
    rows = [recorder.run(tokens[:prefill], past_key_values=cache)[-1]]
    rows += [recorder.run([token], past_key_values=cache)[-1] for token in tokens[prefill:]]
    return torch.stack(rows)


def greedy(recorder, prompt, count):
    """(tokens, gap between the two best logits, rms of the logits, router margin), one entry a generated token. The
    margin is the least among the positions computed since the token before, the prompt's for the first."""
    cache = DynamicCache(config=recorder.model.config)
    fed, tokens, gaps, rms, margins = prompt, [], [], [], []
    for _ in range(count):
        logits = recorder.run(fed, past_key_values=cache)[-1].float()
        best = torch.topk(logits, 2)
        tokens.append(int(best.indices[0]))
        gaps.append(best.values[0] - best.values[1])
        rms.append(logits.pow(2).mean().sqrt())
        margins.append(recorder.router_margin().min())
        fed = tokens[-1:]
    return tokens, torch.stack(gaps), torch.stack(rms), torch.stack(margins)
