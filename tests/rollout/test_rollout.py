"""Generation: the same text as transformers' generate, whatever the batching, and masks that end where they should."""

from __future__ import annotations

import pytest
import tiny
import torch
from sampling import generate

from hargo.engine.capability import packs
from hargo.engine.pack import Group, pack, score
from hargo.errors import UserError
from hargo.models.load import stop_ids
from hargo.rollout import Request, packed, padded
from hargo.rollout.built_in import BuiltIn
from hargo.rollout.draw import pick, uniforms

PROMPTS = [[1, 5, 6], [1, 7, 8, 9, 10, 11, 12, 13], [1, 20], [1, 5, 6, 30, 31], [1, *list(range(40, 70))]]


def exact(family="llama"):
    """A model in double precision: two tokens that are as likely but for rounding are the same in any batch."""
    return tiny.in_full_precision(tiny.model(family, dtype=torch.float64))


def requests(limit=12):
    return [Request(prompt, limit, f"0/0/row{i}") for i, prompt in enumerate(PROMPTS)]


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_greedy_equals_transformers_generate(family):
    model = exact(family)
    got = generate(model, requests(), stop=[2], pad=0)
    for prompt, (completion,) in zip(PROMPTS, got, strict=True):
        out = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt)),
            max_new_tokens=12,
            do_sample=False,
            eos_token_id=2,
            pad_token_id=0,
        )
        assert completion.ids == out[0, len(prompt) :].tolist()


def test_samples_do_not_depend_on_batching():
    model = exact()
    options = dict(stop=[2], pad=0, samples=4, temperature=0.8)
    together = generate(model, requests(), **options)
    small = generate(model, requests(), batch_rows=4, **options)
    single = [generate(model, [request], **options)[0] for request in requests()]
    backwards = generate(model, requests()[::-1], **options)[::-1]
    ids = [[c.ids for c in group] for group in together]
    for other in (small, single, backwards):
        assert [[c.ids for c in group] for group in other] == ids
    assert len({tuple(c.ids) for group in together for c in group}) > 10  # they are samples, not copies


@pytest.mark.parametrize("temperature", [None, 0.8])
@pytest.mark.parametrize("family", ["llama", "gemma3-window", "gpt2"])
def test_packed_and_padded_decoding_give_the_same(family, temperature):
    model = exact(family)
    assert packs(model)
    shared = [Request([*range(40, 60), *request.prompt], request.limit + i, request.stream)
              for i, request in enumerate(requests())]  # fmt: skip
    with torch.no_grad():
        one = packed.complete(model, shared, 3, temperature, [2, 7, 8, 9]).completions
        other = padded.complete(model, shared, 3, temperature, [2, 7, 8, 9], 0)
    assert len({len(c.ids) for group in one for c in group}) > 3  # they leave the batch at different times
    for left, right in zip((c for g in one for c in g), (c for g in other for c in g), strict=True):
        assert (left.ids, left.ended) == (right.ids, right.ended)
        assert left.logp == pytest.approx(right.logp, abs=1e-4)


def test_a_token_is_the_inverse_of_the_cumulative_distribution():
    torch.manual_seed(0)
    logits = 3 * torch.randn(200, 700)
    draws = torch.rand(200, dtype=torch.float64)
    draws[:3] = torch.tensor([0.0, 1 - 2**-53, 0.5])
    token, logp = pick(logits, draws, 0.7)
    probability = (logits.double() / 0.7).softmax(-1)
    upto = probability.cumsum(-1)
    rows = torch.arange(200)
    assert (upto[rows, token] >= draws - 1e-6).all()
    assert (upto[rows, token] - probability[rows, token] <= draws + 1e-6).all()
    torch.testing.assert_close(logp.double(), probability[rows, token].log(), rtol=0, atol=1e-5)


def test_sampling_follows_the_distribution():
    """Frequencies of the first token over many streams match softmax(logits / T)."""
    model = tiny.model()
    count = 3000
    prompt = [1, 5, 6]
    got = generate(
        model, [Request(prompt, 1, f"{i}") for i in range(count)], stop=[2], pad=0, temperature=0.7, batch_rows=1000
    )
    frequency = torch.bincount(torch.tensor([c.ids[0] for (c,) in got]), minlength=97) / count
    expected = (model(torch.tensor([prompt])).logits[0, -1] / 0.7).softmax(-1)
    assert (frequency - expected).abs().max() < 0.03


def test_rollout_log_probabilities_are_those_of_training_at_the_same_temperature():
    model = tiny.model()
    got = generate(model, requests(), stop=[2], pad=0, samples=3, temperature=0.6)
    groups = [Group(prompt, [c.ids for c in group]) for prompt, group in zip(PROMPTS, got, strict=True)]
    scores = score(model, pack(groups), 0.6)
    for i, completion in enumerate(c for group in got for c in group):
        mine = torch.tensor(completion.logp)
        torch.testing.assert_close(scores.logp[i, : len(mine)], mine, rtol=0, atol=1e-4)


def test_every_stop_id_ends_an_answer_and_nothing_comes_after_it():
    model = exact()
    free = generate(model, requests(), stop=[], pad=0, samples=4, temperature=1.0)
    assert all(len(c.ids) == 12 and not c.ended for group in free for c in group)
    stops = sorted({group[0].ids[3] for group in free} | {free[0][1].ids[0]})
    stopped = generate(model, requests(), stop=stops, pad=0, samples=4, temperature=1.0)
    for before, after in zip((c for g in free for c in g), (c for g in stopped for c in g), strict=True):
        ends = [k for k, token in enumerate(before.ids) if token in stops]
        wanted = before.ids[: ends[0] + 1] if ends else before.ids
        assert after.ids == wanted and after.ended == bool(ends)


@pytest.mark.parametrize("family", ["llama", "lfm2"])
def test_a_limit_of_nothing_gives_nothing_and_answers_may_end_at_once(family):
    model = exact(family)
    prompts = [[5, 6, 7], [8], [9, 10]]
    free = generate(model, [Request(p, 1) for p in prompts], stop=[], samples=2)
    first = [group[0].ids[0] for group in free]
    asked = [Request(p, limit) for p, limit in zip(prompts, (0, 3, 1), strict=True)]
    got = generate(model, asked, stop=first, samples=2)
    assert [[(c.ids, len(c.logp), c.ended) for c in group] for group in got] == [
        [([], 0, False)] * 2,
        [([first[1]], 1, True)] * 2,
        [([first[2]], 1, True)] * 2,
    ]
    assert BuiltIn(model, []).sample(asked, samples=2, keep=100).past is None  # not of all prompts
    assert generate(model, [], stop=[]) == []


@pytest.mark.parametrize("family", ["llama", "lfm2"])
def test_any_id_serves_to_pad_with(family):
    model = exact(family)
    ids = [
        [c.ids for group in padded.complete(model, requests(), 2, 0.8, [2], pad) for c in group]
        for pad in (0, None, -1, 96, 97, 10**9)
    ]
    assert all(found == ids[0] for found in ids)


def test_tokens_that_cannot_come_are_not_picked_and_no_distribution_is_one_line():
    torch.manual_seed(0)
    logits = torch.randn(50, 700)
    logits[:, 300:] = -torch.inf  # a vocabulary filled up to a round number, whole blocks of it
    logits[:, 0] = -torch.inf
    draws = torch.rand(50, dtype=torch.float64)
    draws[:2] = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    for noise in (draws, None):
        token, logp = pick(logits, noise, 0.6)
        assert ((token > 0) & (token < 300)).all() and logp.isfinite().all()
    for bad in (torch.nan, torch.inf):
        broken = logits.clone()
        broken[7, 5] = bad
        for noise in (draws, None):
            with pytest.raises(UserError, match="not finite"):
                pick(broken, noise, 0.6)
    with pytest.raises(UserError, match="not finite"):
        pick(torch.full((1, 9), -torch.inf), None, None)


def test_limits_differ_per_request():
    model = tiny.model()
    got = generate(model, [Request(p, n) for p, n in zip(PROMPTS, (1, 4, 2, 9, 3), strict=True)], stop=[], pad=0)
    assert [len(c.ids) for (c,) in got] == [1, 4, 2, 9, 3]


def test_stop_ids_take_the_generation_configuration_and_id_zero_seriously():
    model = tiny.model()
    model.generation_config.eos_token_id = [0, 5]

    class Tokenizer:
        eos_token_id = 0

    assert stop_ids(model, Tokenizer()) == [0, 5]
    model.generation_config.eos_token_id = None
    assert stop_ids(model, Tokenizer()) == [0]


def test_uniform_streams_are_distinct_and_stable():
    assert uniforms("a", 0, 3).tolist() == uniforms("a", 0, 5).tolist()[:3]
    seen = {float(uniforms(stream, sample, 1)[0]) for stream in ("a", "b", "a/0") for sample in range(50)}
    assert len(seen) == 150


@pytest.mark.parametrize("family", [f for f in tiny.FAMILIES if f != "gemma2"])
@pytest.mark.parametrize("shared", [0, 10], ids=["no prefix", "common prefix"])
def test_prompts_read_for_the_rollout_serve_the_training_pass(family, shared):
    model = tiny.in_full_precision(tiny.model(family, dtype=torch.float64))
    prompts = [[*range(40, 40 + shared), *own] for own in ([5, 6, 7, 8, 9], [20], [30, 31, 32])]
    # limits in another order than prompts; one answer may be of one token
    requests = [Request(p, limit, str(i)) for i, (p, limit) in enumerate(zip(prompts, (6, 1, 4), strict=True))]
    rollout = BuiltIn(model, [2], 0).sample(requests, samples=3, temperature=1.0, keep=100)
    answers, past = rollout.completions, rollout.past
    assert past.order != sorted(past.order) and past.layout.prefix == shared
    row = pack([Group(p, [c.ids for c in found]) for p, found in zip(prompts, answers, strict=True)])
    whole, gradient = values_and_gradient(model, row, None)
    again, shorter = values_and_gradient(model, row, past)
    for name in ("logp", "mask", "plain", "entropy"):
        torch.testing.assert_close(getattr(again, name), getattr(whole, name), rtol=1e-10, atol=1e-10)
    assert (shorter - gradient).norm() < 1e-10 * gradient.norm()


def values_and_gradient(model, packed, past):
    model.zero_grad()
    scores = score(model, packed, 0.6, plain=True, entropy=True, past=past)
    weights = torch.rand(scores.logp.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    (weights * scores.logp).sum().backward()
    return scores, torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def test_prompts_are_kept_only_where_all_are_read_together_and_are_not_too_long():
    model, requests = tiny.model(), [Request([5, 6, 7], 2, "a"), Request([8, 9], 2, "b")]
    for keep, more in ((0, {}), (4, {}), (5, {"batch_rows": 1})):
        assert BuiltIn(model, [2], 0, **more).sample(requests, keep=keep).past is None
    past = BuiltIn(model, [2], 0).sample(requests, keep=5).past
    assert past.logits.requires_grad and len(past.layers) == 2
