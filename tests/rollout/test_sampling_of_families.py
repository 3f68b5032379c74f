"""What the rollout samples of every family of models, against each prompt alone, step by step and without a cache."""

from __future__ import annotations

from inspect import signature

import pytest
import tiny
import torch
import zoo
from sampling import generate
from transformers import BertConfig, BertLMHeadModel

from hargo.engine.prompts import next_logits
from hargo.errors import UserError
from hargo.rollout import Request
from hargo.rollout.draw import uniforms
from hargo.rollout.ways import can_sample, way_of

#: longer and shorter than windows and chunks, of equal length, of one token
PROMPTS = [[1, 5, 6], [1, 7, 8, 9, 10, 11, 12, 13], [7], [1, *range(40, 58)], [1, 30, 6]]
#: of a log-probability: layers that compute in float32 by other formulas for one token than for many
TOLERANCE = 1e-2
#: how each is sampled: attention in groups, caches of every kind, none that serves; heads tied or scaled
QUICK = {
    "bloom": "padded",
    "cohere2": "packed",
    "deepseek_v3": "packed",  # values narrower than keys
    "falcon_h1": "padded",
    "gemma3_text": "packed",
    "gpt_oss": "padded",
    "granite": "packed",
    "granitemoehybrid": "padded",
    "jamba": "padded",
    "lfm2_moe": "padded",
    "llama4_text": "padded",
    "mamba": "padded",
    "minimax": "padded",
    "olmo_hybrid": "padded",
    "opt": "packed",
    "qwen3_next": "padded",
    "recurrent_gemma": "whole",
    "xlstm": "padded",
    "zamba2": "padded",
}
#: what a token is given depends on how many come after it, even where they are not seen
INCONSISTENT = ("doge", "hy_v4")


def assert_as_alone(model, temperature, samples):
    size = model.get_input_embeddings().weight.shape[0]
    requests = [Request([i % size for i in p], 3 + 2 * n, str(n)) for n, p in enumerate(PROMPTS)]
    stop = set(range(2, size, 9))
    got = generate(model, requests, stop=sorted(stop), samples=samples, temperature=temperature)
    for request, group in zip(requests, got, strict=True):
        assert len(group) == samples
        for sample, one in enumerate(group):
            draws = uniforms(request.stream, sample, request.limit)
            for k, (token, logp) in enumerate(zip(one.ids, one.logp, strict=True)):
                scaled = alone(model, request.prompt + one.ids[:k]) / (temperature or 1.0)
                everything = scaled.log_softmax(-1)
                assert logp == pytest.approx(float(everything[token]), abs=TOLERANCE)
                if temperature is None:
                    assert float(everything.max() - everything[token]) < TOLERANCE
                else:  # the draw lies in the token's part of the cumulative distribution
                    upto = everything.exp().cumsum(-1)
                    below = float(upto[token] - everything[token].exp())
                    assert below - TOLERANCE <= draws[k] <= float(upto[token]) + TOLERANCE
            assert one.ended == (one.ids[-1] in stop) and not stop & set(one.ids[:-1])
            assert one.ended or len(one.ids) == request.limit


@torch.no_grad()
def alone(model, text):
    return model(input_ids=torch.tensor([text]), use_cache=False).logits[0, -1].double()


@pytest.mark.parametrize("family", QUICK)
def test_samples_are_those_of_each_prompt_alone(family):
    model = zoo.build(family)
    assert can_sample(model) is None and way_of(model).kind == QUICK[family]
    assert_as_alone(model, None, 1)
    assert_as_alone(model, 0.6, 3)


@pytest.mark.slow
@pytest.mark.parametrize("family", [family for family in zoo.families() if family not in QUICK])
def test_every_family_is_sampled_as_alone_or_says_why_not(family):
    try:
        model = zoo.build(family)
    except zoo.Left as reason:
        pytest.skip(str(reason))
    reason = can_sample(model)
    if reason is not None:
        assert "\n" not in reason
        with pytest.raises(UserError, match=type(model).__name__):
            generate(model, [Request([5, 6], 2)], stop=[])
        return
    if family in INCONSISTENT:
        pytest.skip("what a token is given depends on how many come after it")
    assert_as_alone(model, None, 1)
    assert_as_alone(model, 0.6, 3)


def test_a_model_that_sees_what_comes_is_one_line():
    sizes = {key: tiny.SIZES[key] for key in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers")}
    model = BertLMHeadModel(BertConfig(**sizes, num_attention_heads=4, is_decoder=False)).eval()
    with pytest.raises(UserError, match="BertLMHeadModel predicts a token from those that come after it") as error:
        generate(model, [Request([5, 6], 2)], stop=[])
    assert str(error.value) == can_sample(model) and "\n" not in str(error.value)


@pytest.mark.parametrize("family", ["llama", "gpt2", "lfm2"])
def test_a_forward_pass_that_does_not_know_which_logits_are_wanted_gives_all_of_them(family, monkeypatch):
    asked = [Request([5, 6, 7], 4, "a"), Request([8, 9], 4, "b")]
    options = {"stop": [], "samples": 2, "temperature": 1.0}
    wanted = generate(tiny.model(family, dtype=torch.float64), asked, **options)
    kind = type(tiny.model(family))
    real, names = kind.forward, signature(kind.forward).parameters
    cache = next(name for name in ("cache", "past_key_values") if name in names)

    def forward(self, input_ids, attention_mask=None, position_ids=None, use_cache=None, **more):
        more.pop("logits_to_keep", None)
        return real(
            self,
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            use_cache=use_cache,
            **more,
        )

    known = [names[name] for name in names if name not in ("logits_to_keep", cache)]
    forward.__signature__ = signature(real).replace(parameters=[*known[:-1], names[cache], known[-1]])
    monkeypatch.setattr(kind, "forward", forward)
    found = generate(tiny.model(family, dtype=torch.float64), asked, **options)
    assert [[c.ids for c in group] for group in found] == [[c.ids for c in group] for group in wanted]


@pytest.mark.parametrize("family", ["bloom", "falcon_h1", "mamba", "opt", "recurrent_gemma", "xlstm"])
def test_what_comes_next_is_that_of_each_prompt_alone(family):
    model = zoo.build(family)
    wanted = torch.stack([alone(model, prompt).log_softmax(-1) for prompt in PROMPTS]).float()
    with torch.no_grad():
        found = next_logits(model, PROMPTS, 0).log_softmax(-1)
    torch.testing.assert_close(found, wanted, atol=TOLERANCE, rtol=0)
