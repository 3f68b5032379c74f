"""Pairs of answers, the methods that learn from them, and what methods add to a model while it trains."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import torch
from safetensors.torch import load_file

from hargo import tasks
from hargo.data.protocols import limit
from hargo.data.records import load_rows, save_rows
from hargo.engine.pack import Group, score
from hargo.errors import UserError
from hargo.io import read_json, read_jsonl, write_jsonl
from hargo.methods.dpo import Method as DPO
from hargo.methods.kto import Method as KTO
from hargo.models.adapt import add_critic
from hargo.models.load import load_model, load_tokenizer
from hargo.models.prepare import prepare
from hargo.rollout import open_sampler
from hargo.training import batch as base
from hargo.training import job
from hargo.training.job import Places
from hargo.training.preferences import load_pairs, preferences
from hargo.training.trainers import pairs as pair_batches
from hargo.training.trainers.pairs import Preferences
from hargo.training.trainers.rollouts import Rollouts
from hargo.training.update import OneLoss

METHODS = {
    "dpo": {},
    "simpo": {},
    "kto": {},
    "ppo": {},
    "hpc_gpt": {"max_steps": 4, "learning_rate": 1e-2},
    "dapo": {"temperature": 1.5},  # warm enough for groups of unequal rewards in every step
}


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    """Data, a base model, an SFT model and its pairs."""
    folder = tmp_path_factory.mktemp("start")
    study = tiny.study(sft={"epochs": 9, "max_steps": 60, "learning_rate": 1e-2}, rl={"temperature": 1.0})
    data = tiny.write_data(folder / "data")
    prepare(study, data, folder / "base")
    job.train(study, "sft", 0, Places(folder / "base", data, folder / "sft", folder / "checkpoints" / "sft"))
    preferences(study, 0, folder / "sft" / "model", data, folder / "pairs")
    return folder


def train(start: Path, method: str, out: Path, **rl: object) -> Path:
    study = tiny.study(methods=METHODS, rl={"max_steps": 4, **rl})
    begin = start / ("base" if method == "hpc_gpt" else "sft/model")
    pairs = start / "pairs" if study.spec(method).trainer == "pairs" else None
    job.train(study, method, 0, Places(begin, start / "data", out, out / "checkpoints", pairs))
    return out / "model" / "model.safetensors"


def test_pairs_are_ordered_by_reward_and_ties_are_counted(start):
    pairs = read_jsonl(start / "pairs" / "pairs.jsonl")
    assert pairs and all(better > worse for better, worse in (pair["rewards"] for pair in pairs))
    answers = {row.id: row.answer for row in load_rows(start / "data" / "train.jsonl")}
    assert all(pair["chosen"].strip().lower() == answers[pair["id"]] for pair in pairs)
    counts = read_json(start / "pairs" / "run.json")["pairs"]
    assert counts["race_c/kept"] == len(pairs) and sum(counts.values()) == len(answers)
    assert counts["race_c/tied"] > 0


def test_pairs_depend_on_the_seed_alone(start, tmp_path):
    study = tiny.study(rl={"temperature": 1.0})
    for seed in (0, 1):
        preferences(study, seed, start / "sft" / "model", start / "data", tmp_path / str(seed))
    first = (start / "pairs" / "pairs.jsonl").read_text()
    assert (tmp_path / "0" / "pairs.jsonl").read_text() == first != (tmp_path / "1" / "pairs.jsonl").read_text()


def test_prompts_without_room_for_an_answer_are_left_out_and_counted(start, tmp_path):
    rows = load_rows(start / "data" / "train.jsonl")
    rows[0] = replace(rows[0], prompt="x " * 9000)
    save_rows(tmp_path / "train.jsonl", rows)
    preferences(tiny.study(rl={"temperature": 1.0}), 0, start / "sft" / "model", tmp_path, tmp_path / "out")
    assert read_json(tmp_path / "out" / "run.json")["pairs"]["race_c/too_long"] == 1
    assert rows[0].id not in {pair["id"] for pair in read_jsonl(tmp_path / "out" / "pairs.jsonl")}


@pytest.mark.parametrize("method", METHODS)
def test_every_kind_of_method_trains_and_leaves_a_plain_model(start, tmp_path, method):
    path = train(start, method, tmp_path)
    before = start / ("base" if method == "hpc_gpt" else "sft/model") / "model.safetensors"
    old, new = load_file(before), load_file(path)
    assert old.keys() == new.keys() and any(not torch.equal(old[key], new[key]) for key in old)
    load_model(tmp_path / "model", torch.device("cpu"))
    steps = read_jsonl(tmp_path / "metrics.jsonl")
    assert len(steps) == 4 and all(step["grad_norm"] > 0 for step in steps)
    if method in ("dpo", "kto"):
        assert abs(steps[0]["pair_margin"]) < 1e-3  # the reference is the SFT model, in rows of another shape
    if method == "dpo":
        assert steps[0]["loss"] == pytest.approx(0.693147, abs=1e-3)
    if method == "hpc_gpt":
        changed = {key for key in old if not torch.equal(old[key], new[key])}
        assert changed and all("q_proj" in key or "v_proj" in key for key in changed)


@pytest.mark.parametrize("method", ["ppo", "dpo", "hpc_gpt"])
def test_interrupted_and_resumed_it_ends_in_the_same_bits(start, tmp_path, method, monkeypatch):
    whole = train(start, method, tmp_path / "whole").read_bytes()
    taken, step = [], OneLoss.apply

    def stop(*arguments):
        if len(taken) == 3:
            raise KeyboardInterrupt
        taken.append(1)
        return step(*arguments)

    monkeypatch.setattr(OneLoss, "apply", stop)
    with pytest.raises(KeyboardInterrupt):
        train(start, method, tmp_path / "part", checkpoint_every=2)
    monkeypatch.undo()
    assert train(start, method, tmp_path / "part", checkpoint_every=2).read_bytes() == whole


def test_the_reference_point_of_kto_is_over_answers_to_other_prompts(start):
    policy = load_model(start / "sft" / "model", torch.device("cpu"))
    reference = load_model(start / "base", torch.device("cpu"))
    groups = [Group([5 + i, 6], [[7, 8], [9 + i]]) for i in range(3)]
    options = tiny.study(methods=METHODS).method("kto")
    stage = Preferences(policy, reference, groups, options, KTO(options), seed=0)
    moved = [(groups[i].prompt, answer) for i in range(3) for answer in groups[(i + 1) % 3].responses]
    gaps = [whole(policy, *pair) - whole(reference, *pair) for pair in moved]
    with torch.no_grad():
        assert stage._reference_point([0, 1, 2]) == pytest.approx(sum(gaps) / 6, abs=1e-4)
        # the last pair of an epoch may be alone: it is held against the answers of the next pair all the same
        for alone in range(3):
            wanted = sum(gaps[2 * alone : 2 * alone + 2]) / 2
            assert stage._reference_point([alone]) == pytest.approx(wanted, abs=1e-4) != 0.0


def test_the_reference_is_asked_about_a_pair_once_and_the_same_in_every_step(start, monkeypatch):
    policy, reference = (load_model(start / "sft" / "model", torch.device("cpu")) for _ in range(2))
    groups = [Group([5 + i, 6], [[7, 8] * (1 + i % 2), [9 + i]]) for i in range(6)]
    options = tiny.study(methods=METHODS, rl={"prompts_per_step": 4}).method("dpo")
    asked = []
    real = pair_batches.score
    monkeypatch.setattr(
        pair_batches, "score", lambda model, *more, **kw: asked.append(model) or real(model, *more, **kw)
    )
    stage = Preferences(policy, reference, groups, options, DPO(options), seed=0)
    first = [stage.batch(step).ref_logp for step in range(6)]
    assert len(asked) == len(groups) and set(map(id, asked)) == {id(reference)}
    late = Preferences(policy, reference, groups, options, DPO(options), seed=0)  # as a resumed run begins
    assert all(map(torch.equal, late.batch(5).ref_logp, first[5]))
    batch = stage.batch(0)
    for packed, found in zip(batch.packed, batch.ref_logp, strict=True):
        torch.testing.assert_close(found, score(reference, packed).logp.detach(), rtol=1e-4, atol=1e-4)


def whole(model, prompt: list[int], answer: list[int]) -> float:
    """Log-probability of an answer, by itself."""
    with torch.no_grad():
        logp = model(torch.tensor([prompt + answer])).logits[0].log_softmax(-1)
    return float(sum(logp[len(prompt) - 1 + i, token] for i, token in enumerate(answer)))


def test_without_pairs_or_with_those_of_other_data_it_is_one_line(start, tmp_path):
    study = tiny.study(methods=METHODS)
    with pytest.raises(UserError, match="--pairs"):
        job.train(study, "dpo", 0, Places(start / "sft" / "model", start / "data", tmp_path / "a", tmp_path / "c"))
    shutil.copytree(start / "pairs", tmp_path / "pairs")
    pairs = read_jsonl(tmp_path / "pairs" / "pairs.jsonl")
    write_jsonl(tmp_path / "pairs" / "pairs.jsonl", [{**pairs[0], "id": "race_c/99999"}])
    with pytest.raises(UserError, match=r"pairs.jsonl: line 1: race_c/99999 is not a training row"):
        places = Places(start / "sft" / "model", start / "data", tmp_path / "a", tmp_path / "c", tmp_path / "pairs")
        job.train(study, "dpo", 0, places)


def test_pairs_made_under_wider_limits_are_left_out_and_counted(start, tmp_path, caplog):
    train(start, "dpo", tmp_path, train_limit=48)
    pairs = read_jsonl(start / "pairs" / "pairs.jsonl")
    kept = {row.id for row in limit(load_rows(start / "data" / "train.jsonl"), 48, 0, "rl")}
    outside = sum(pair["id"] not in kept for pair in pairs)
    assert 0 < outside < len(pairs)
    assert caplog.text.count(f"{outside} of {len(pairs)} pairs") == 1


def test_limits_that_leave_no_pair_are_one_line(start):
    with pytest.raises(UserError, match=r"none of its \d+ pairs is of a row within this method's limits"):
        load_pairs(start / "pairs", [], start / "data")


def test_a_reward_that_is_no_number_makes_no_pair(start, tmp_path, monkeypatch):
    task = tasks.load("race_c")
    odd = [float("nan"), 1.0, float("inf"), 0.0, None, 1.0, 0.25, 0.75]
    given = iter(odd * 24)
    holes = type(task)(**{**task.__dict__, "reward": lambda outputs, _: [next(given) for _ in outputs]})
    monkeypatch.setattr("hargo.tasks.race_c.TASK", holes)
    preferences(tiny.study(), 0, start / "sft" / "model", start / "data", tmp_path)
    pairs = read_jsonl(tmp_path / "pairs.jsonl")
    assert [pair["rewards"] for pair in pairs] == [[0.75, 0.25]] * 24
    assert read_json(tmp_path / "run.json")["pairs"] == {"race_c/unusable": 72, "race_c/kept": 24}


def test_kto_wants_two_pairs(start):
    options = tiny.study(methods=METHODS).method("kto")
    with pytest.raises(UserError, match="needs two"):
        Preferences(None, None, [Group([5], [[7], [8]])], options, KTO(options), seed=0)


@pytest.mark.parametrize("method", ["grpo", "dapo", "reinforce_pp", "ppo"])
def test_weights_by_task_reach_the_loss_of_every_kind_of_mean(start, method):
    """Shares stay of sum 1, and those of a task stand to the others as the study says."""
    plain, weighed = (rollouts(start, method, task_weights=w) for w in ({}, {"race_fortran": 3.0}))
    for stage in (plain, weighed):
        for number, example in enumerate(stage.examples):
            if number % 2:
                object.__setattr__(example.row, "task", "race_fortran")
    before, after = (stage.batch(0) for stage in (plain, weighed))
    assert [group.responses for group in before.groups] == [group.responses for group in after.groups]
    factor = (after.weights / before.weights).view(4, -1)
    assert float(after.weights.sum()) == pytest.approx(1.0)
    assert float(factor.max() / factor.min()) == pytest.approx(3.0, rel=1e-4)
    names = {tuple(example.prompt): example.row.task for example in plain.examples}
    weighty = torch.tensor([names[tuple(group.prompt)] == "race_fortran" for group in after.groups])
    assert factor[weighty].min() > factor[~weighty].max()


def rollouts(start: Path, method: str, **overrides: object) -> Rollouts:
    from hargo.config.tables import resolve
    from hargo.models.encode import encode

    study = tiny.study(tasks=["race_c", "race_fortran"], methods={method: overrides}, rl={"temperature": 1.0})
    policy, reference = (load_model(start / "sft" / "model", torch.device("cpu")) for _ in range(2))
    tokenizer = load_tokenizer(start / "sft" / "model")
    examples = encode(tokenizer, load_rows(start / "data" / "train.jsonl"))
    options = study.method(method)
    learner = resolve(study.spec(method).module, "Method")(options)
    if learner.critic:
        add_critic(policy)
    sampler = open_sampler(options.sampler, policy, tokenizer)
    return Rollouts(policy, reference, tokenizer, examples, options, learner, 0, sampler)


def test_dapo_replaces_groups_of_equal_rewards(start):
    plain, resampled = rollouts(start, "dapo", resample=0), rollouts(start, "dapo", resample=4)
    before = [plain.batch(step).metrics["zero_std"] for step in range(6)]
    after = [resampled.batch(step).metrics["zero_std"] for step in range(6)]
    assert sum(after) < sum(before) and all(a <= b for a, b in zip(after, before, strict=True))
    again = rollouts(start, "dapo", resample=4)
    assert [again.batch(step).metrics["reward/mean"] for step in range(6)] == [
        resampled.batch(step).metrics["reward/mean"] for step in range(6)
    ]


def test_dapo_never_has_a_prompt_twice_nor_the_same_samples(start, monkeypatch):
    """Few prompts and groups that are mostly equal: every turn draws prompts that the step has not seen."""
    asked: list[list] = []
    stage = rollouts(start, "dapo", resample=3, prompts_per_step=4)
    real = stage.sampler.sample
    monkeypatch.setattr(stage.sampler, "sample", lambda r, **kw: asked.append(list(r)) or real(r, **kw))
    stage.examples = stage.examples[:12]
    stage.order = base.Order(12, 4, 0, stage=1)
    for step in range(9):
        asked.clear()
        batch = stage.batch(step)
        seen = [tuple(request.prompt) for turn in asked for request in turn]
        assert len(set(seen)) == len(seen)
        assert len({tuple(group.prompt) for group in batch.groups}) == len(batch.groups) == 4
        streams = [request.stream for turn in asked for request in turn]
        assert len(set(streams)) == len(streams)
        assert all(request.stream.endswith(f"/{k}") for k, turn in enumerate(asked) for request in turn if k)


def test_dapo_says_when_there_are_no_more_prompts_and_keeps_its_groups(start, monkeypatch, caplog):
    stage = rollouts(start, "dapo", resample=5)
    stage.examples = stage.examples[:6]
    stage.order = base.Order(6, 4, 0, stage=1)
    equal = lambda self, examples, _: (torch.ones(len(examples), 4), torch.ones(len(examples), 4, dtype=torch.bool))  # noqa: E731
    monkeypatch.setattr(Rollouts, "_reward", equal)
    batches = [stage.batch(step) for step in range(3)]
    assert caplog.text.count("step 1 has sampled all prompts of the 6 training rows") == 1
    assert caplog.text.count("has sampled all prompts") == 1
    for batch in batches:
        assert batch.metrics["zero_std"] == 1.0 and (batch.advantages == 0).all()


def test_an_interrupted_dapo_draws_the_same_prompts(start):
    first, late = rollouts(start, "dapo", resample=4), rollouts(start, "dapo", resample=4)
    groups = [first.batch(step).groups for step in range(4)]
    assert late.batch(3).groups == groups[3]


def test_shuffled_rewards_are_those_of_the_group_in_another_order(start):
    stage = rollouts(start, "shuffled")
    rewards = torch.arange(32.0).view(8, 4)
    valid = torch.ones_like(rewards, dtype=torch.bool)
    valid[0, 1] = False
    mixed = stage._shuffled(rewards, valid, step=3)
    assert torch.equal(mixed.sort(-1).values, rewards) and mixed[0, 1] == rewards[0, 1]
    assert not torch.equal(mixed, rewards)
    assert torch.equal(mixed, stage._shuffled(rewards, valid, step=3))
    assert not torch.equal(mixed, stage._shuffled(rewards, valid, step=4))
