"""A packed row gives what each sequence alone gives: log-probabilities, entropy and gradients."""

from __future__ import annotations

import pytest
import tiny
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from hargo.engine.pack import Group, pack, plan, score

# answers of several tokens: the first one alone cannot tell a wrong mask from a right one
GROUPS = [
    Group([5, 6, 7, 8, 9], [[11, 12, 13, 2], [14, 2], [15, 16, 17, 18, 19]]),
    Group([20], [[21, 22, 23], [24, 25, 26, 2]]),
    Group([30, 31, 32], [[33, 2]]),
]


def alone(model, groups, temperature):
    """Log-probabilities of every response from its own unpadded sequence, and their entropies."""
    logps, entropies = [], []
    for group in groups:
        for response in group.responses:
            ids = torch.tensor([group.prompt + response])
            logits = model(input_ids=ids, use_cache=False).logits[0, len(group.prompt) - 1 : -1] / temperature
            log_softmax = F.log_softmax(logits, -1)
            logps.append(log_softmax.gather(-1, torch.tensor(response)[:, None])[:, 0])
            entropies.append(-(log_softmax.exp() * log_softmax).sum(-1))
    return logps, entropies


SHARED = [Group([*range(40, 50), *group.prompt], group.responses) for group in GROUPS]


def assert_scores_equal_separate(model, groups, exact):
    """Value, entropy and every gradient of `score` against each unpadded sequence alone."""
    weights = [
        torch.rand(len(r), generator=torch.Generator().manual_seed(i), dtype=torch.float64)
        for i, r in enumerate(r for g in groups for r in g.responses)
    ]
    logps, entropies = alone(model, groups, 0.6)
    sum((w * logp).sum() for w, logp in zip(weights, logps, strict=True)).backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()

    scores = score(model, pack(groups), 0.6, entropy=True)
    assert scores.mask.sum(-1).tolist() == [len(logp) for logp in logps]
    total = 0
    for i, (logp, entropy, w) in enumerate(zip(logps, entropies, weights, strict=True)):
        torch.testing.assert_close(scores.logp[i, : len(logp)], logp, rtol=exact, atol=exact)
        torch.testing.assert_close(scores.entropy[i, : len(logp)], entropy, rtol=exact, atol=exact)
        assert (scores.logp[i, len(logp) :] == 0).all()
        total = total + (w * scores.logp[i, : len(logp)]).sum()
    total.backward()
    for name, parameter in model.named_parameters():
        if name in expected:
            distance = (parameter.grad - expected[name]).norm() / expected[name].norm()
            assert distance < exact, (name, float(distance))


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("groups", [GROUPS, SHARED], ids=["no prefix", "common prefix"])
def test_packed_equals_separate_in_value_and_gradient(family, groups):
    assert pack(groups).layout.prefix == (10 if groups is SHARED else 0)
    model = tiny.in_full_precision(tiny.model(family, dtype=torch.float64))
    # gemma2's eager attention takes the softmax in float32
    assert_scores_equal_separate(model, groups, 1e-5 if family == "gemma2" else 1e-10)


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma3", "gpt2"])
def test_packed_equals_separate_in_single_precision(family):
    assert_scores_equal_separate(tiny.model(family), SHARED, 1e-4)


def test_a_model_that_cannot_take_a_packed_row_is_scored_row_by_row(caplog):
    model = tiny.in_full_precision(tiny.model("lfm2", dtype=torch.float64))
    assert_scores_equal_separate(model, SHARED, 1e-10)
    assert caplog.text.count("Lfm2ForCausalLM cannot compute packed rows") == 1


def test_plain_log_probabilities_are_at_temperature_one():
    model = tiny.model()
    at_one, _ = alone(model, GROUPS, 1.0)
    scores = score(model, pack(GROUPS), 0.6, plain=True)
    for i, logp in enumerate(at_one):
        torch.testing.assert_close(scores.plain[i, : len(logp)], logp, rtol=0, atol=1e-4)


def test_packing_two_samples_does_not_let_them_see_each_other():
    model = tiny.model()
    first, second = Group([5, 6], [[7, 8, 9]]), Group([5, 6], [[50, 51, 52]])
    together = score(model, pack([first, second])).logp
    torch.testing.assert_close(together[0], score(model, pack([first])).logp[0], rtol=0, atol=1e-4)
    changed = score(model, pack([Group([60, 61], [[62, 63, 64]]), second])).logp
    torch.testing.assert_close(together[1], changed[1], rtol=0, atol=1e-4)


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=30),
    budget=st.integers(1, 100),
)
@settings(deadline=None, max_examples=60)
def test_plan_places_every_group_once_within_the_budget(sizes, budget):
    groups = [Group([1] * size, [[2]]) for size in sizes]
    passes = plan(groups, budget)
    assert sorted(i for indices in passes for i in indices) == list(range(len(groups)))
    for indices in passes:
        assert sum(groups[i].tokens for i in indices) <= budget or len(indices) == 1
