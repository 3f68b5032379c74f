"""Generation: the same text as transformers' generate, whatever the batching, and masks that end where they should."""

from __future__ import annotations

import pytest
import tiny
import torch

from hargo.models.attention import packs
from hargo.models.linear import few_rows
from hargo.models.load import stop_ids
from hargo.rollout import Request, generate, grouped, padded
from hargo.rollout.sample import pick, uniforms
from hargo.training.pack import Group, pack, score

PROMPTS = [[1, 5, 6], [1, 7, 8, 9, 10, 11, 12, 13], [1, 20], [1, 5, 6, 30, 31], [1, *list(range(40, 70))]]


def requests(limit=12):
    return [Request(prompt, limit, f"0/0/row{i}") for i, prompt in enumerate(PROMPTS)]


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_greedy_equals_transformers_generate(family):
    model = tiny.model(family)
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
    model = tiny.model()
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
def test_grouped_and_padded_decoding_give_the_same(family, temperature):
    model = tiny.model(family)
    assert packs(model)
    shared = [Request([*range(40, 60), *request.prompt], request.limit + i, request.stream)
              for i, request in enumerate(requests())]  # fmt: skip
    with torch.no_grad():
        one = grouped.complete(model, shared, 3, temperature, [2, 7, 8, 9])
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


@pytest.mark.parametrize("rows", [1, 4, 11, 12, 64, 65])
def test_linear_layers_for_few_rows_compute_the_same(rows):
    model = torch.nn.Sequential(torch.nn.Linear(700, 900), torch.nn.Linear(900, 50, bias=False))
    model.get_output_embeddings = lambda: model[1]
    x = torch.randn(1, rows, 700)
    with torch.no_grad():
        wanted = model(x)
        with few_rows(model):
            assert "forward" in vars(model[0])
            torch.testing.assert_close(model(x), wanted, rtol=1e-4, atol=1e-5)
    assert "forward" not in vars(model[0])


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
    model = tiny.model()
    free = generate(model, requests(), stop=[], pad=0, samples=4, temperature=1.0)
    assert all(len(c.ids) == 12 and not c.ended for group in free for c in group)
    stops = sorted({group[0].ids[3] for group in free} | {free[0][1].ids[0]})
    stopped = generate(model, requests(), stop=stops, pad=0, samples=4, temperature=1.0)
    for before, after in zip((c for g in free for c in g), (c for g in stopped for c in g), strict=True):
        ends = [k for k, token in enumerate(before.ids) if token in stops]
        wanted = before.ids[: ends[0] + 1] if ends else before.ids
        assert after.ids == wanted and after.ended == bool(ends)


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
