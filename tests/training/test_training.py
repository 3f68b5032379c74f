"""The loop: denominators, first steps, rewards that go to their own responses."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
import tiny
import torch

from hargo import tasks
from hargo.config.options import PolicyOptions, SFTOptions
from hargo.data.records import load_rows
from hargo.engine.pack import Group
from hargo.errors import UserError
from hargo.methods import load
from hargo.methods.sft import Method as SFT
from hargo.models.encode import encode
from hargo.models.load import load_model, load_tokenizer
from hargo.rollout import open_sampler
from hargo.training import loop, update
from hargo.training.batch import Batch, Order
from hargo.training.job import Places, train
from hargo.training.trainers.demonstrations import Demonstrations, repeated
from hargo.training.trainers.rollouts import Rollouts
from hargo.training.update import OneLoss


def rollouts(start: Path, method="grpo", policy=None, **overrides):
    options = PolicyOptions(**{"prompts_per_step": 4, "temperature": 0.6, "learning_rate": 1e-3, **overrides})
    device = torch.device("cpu")
    policy = policy or load_model(start / "sft" / "model", device)
    reference = load_model(start / "sft" / "model", device).requires_grad_(False)
    tokenizer = load_tokenizer(start / "sft" / "model")
    examples = encode(tokenizer, load_rows(start / "data" / "train.jsonl"))
    options = tiny.study().method(method).model_copy(update=options.model_dump(exclude_defaults=True))
    sampler = open_sampler(options.sampler, policy, tokenizer)
    stage = Rollouts(policy, reference, tokenizer, examples, options, load(method, options), 0, sampler)
    return policy, stage, options


def gradients(model) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def test_on_policy_first_step_has_ratio_one_kl_zero_and_a_gradient(start):
    policy, stage, options = rollouts(start)
    record = OneLoss(policy, options).apply(stage, 0, options.learning_rate)
    assert record["ratio"] == pytest.approx(1.0) and record["ratio_max"] == 1.0 and record["clip_share"] == 0.0
    assert record["kl"] == pytest.approx(0.0, abs=1e-6)  # the reference is the SFT model, in rows of another shape
    assert record["loss"] == pytest.approx(0.0, abs=1e-6)
    assert record["grad_norm"] > 1e-3


@pytest.mark.parametrize("method", ["grpo", "hargo", "dapo"])
def test_prompts_of_the_rollout_serve_a_step_of_one_pass(start, method, monkeypatch):
    used = []
    real = update.score
    monkeypatch.setattr(update, "score", lambda *a, past, **kw: used.append(past) or real(*a, past=past, **kw))
    found = {}
    for budget, reuse in ((100_000, True), (100_000, False), (60, True)):
        used.clear()
        policy, stage, options = rollouts(start, method, tokens_per_pass=budget, inner_passes=2, max_grad_norm=1e9)
        stage.reuse = reuse
        record = OneLoss(policy, options, torch.optim.SGD(policy.parameters(), lr=0.0)).apply(stage, 0, 0.0)
        found[budget, reuse] = record["loss"], gradients(policy)
        kept = [past is not None for past in used]
        # the second pass over a batch is one with other weights
        assert kept == ([True, False] if budget > 60 and reuse else [False] * len(kept)), kept
    (loss, gradient), *others = found.values()
    for other, its in others:
        assert other == pytest.approx(loss, rel=1e-4, abs=1e-6)
        assert (its - gradient).norm() < 1e-4 * gradient.norm()


def test_second_inner_pass_is_off_policy(start):
    policy, stage, options = rollouts(start, inner_passes=2, max_grad_norm=100.0)
    record = OneLoss(policy, options).apply(stage, 0, options.learning_rate)
    assert record["ratio_max"] > 1.0


@pytest.mark.parametrize("method", ["grpo", "dr_grpo", "hargo", "b2"])
def test_loss_and_gradient_do_not_depend_on_the_passes(start, method):
    results = []
    for budget in (1, 60, 100_000):
        policy, stage, options = rollouts(start, method, tokens_per_pass=budget, max_grad_norm=1e9)
        batch = stage.batch(0)
        record = OneLoss(policy, options, torch.optim.SGD(policy.parameters(), lr=0.0)).apply(stage, 0, 0.0)
        results.append((len(batch.passes), record["loss"], gradients(policy)))
    assert [r[0] for r in results][::2] == [4, 1]
    for _, loss, gradient in results[1:]:
        assert loss == pytest.approx(results[0][1], rel=1e-4, abs=1e-6)
        assert (gradient - results[0][2]).norm() < 1e-4 * results[0][2].norm()


def test_sft_loss_and_gradient_do_not_depend_on_the_passes(start):
    tokenizer = load_tokenizer(start / "base")
    examples = encode(tokenizer, load_rows(start / "data" / "train.jsonl"))
    groups = [Group(e.prompt, [e.answer * (1 + i % 3)]) for i, e in enumerate(examples)]  # of unequal length
    results = []
    for budget in (1, 200, 100_000):
        model = load_model(start / "base", torch.device("cpu"))
        options = SFTOptions(batch_size=8, tokens_per_pass=budget, max_grad_norm=1e9)
        stage = Demonstrations(groups, options, SFT(), 0, model)
        record = OneLoss(model, options, torch.optim.SGD(model.parameters(), lr=0.0)).apply(stage, 0, 0.0)
        results.append((record["loss"], gradients(model)))
    for loss, gradient in results[1:]:
        assert loss == pytest.approx(results[0][0], rel=1e-5)
        assert (gradient - results[0][1]).norm() < 1e-4 * results[0][1].norm()


def test_unusable_rewards_are_left_out(start, monkeypatch):
    task = tasks.load("race_c")
    holes = type(task)(
        **{**task.__dict__, "reward": lambda outputs, references: [None, float("nan"), 1.0, 0.0] * (len(outputs) // 4)}
    )
    monkeypatch.setattr("hargo.tasks.race_c.TASK", holes)
    policy, stage, options = rollouts(start)
    record = OneLoss(policy, options).apply(stage, 0, options.learning_rate)
    assert record["left_out"] == 8 and record["reward/mean"] == 0.5
    assert record["grad_norm"] > 0 and record["loss"] == pytest.approx(0.0, abs=1e-6)


def test_a_group_without_any_reward_warns_and_goes_on(start, monkeypatch, caplog):
    task = tasks.load("race_c")
    none = type(task)(**{**task.__dict__, "reward": lambda outputs, references: [None] * 4 + [1.0, 0.0] * 6})
    monkeypatch.setattr("hargo.tasks.race_c.TASK", none)
    policy, stage, options = rollouts(start)
    batch = stage.batch(0)
    assert (batch.advantages[:4] == 0).all() and (batch.weights[:4] == 0).all() and (batch.weights[4:] > 0).all()
    assert "no usable reward" in caplog.text and batch.metrics["left_out"] == 4
    record = OneLoss(policy, options).apply(stage, 0, options.learning_rate)
    assert record["grad_norm"] > 0


@pytest.mark.parametrize("method", ["grpo", "dr_grpo", "hargo", "b1", "b2"])
def test_what_is_rewarded_becomes_more_likely(start, monkeypatch, method):
    """Reward the shorter word only: within a few steps the policy says it more often, whatever the question."""
    task = tasks.load("race_c")
    says_no = type(task)(
        **{**task.__dict__, "reward": lambda outputs, references: [float(text == "no") for text in outputs]}
    )
    monkeypatch.setattr("hargo.tasks.race_c.TASK", says_no)
    policy, stage, options = rollouts(start, method, prompts_per_step=8, temperature=1.0, learning_rate=3e-3)
    update = OneLoss(policy, options)
    rewards = [update.apply(stage, step, options.learning_rate)["reward/mean"] for step in range(25)]
    assert rewards[0] < 0.75 and sum(rewards[-5:]) / 5 > 0.9, rewards


def test_rl_on_few_prompts_sees_the_same_ones_every_epoch(start, tmp_path, monkeypatch):
    asked = []
    sample = Rollouts._sample

    def spy(self, examples, step, keep):
        asked.append([example.row.id for example in examples])
        return sample(self, examples, step, keep)

    monkeypatch.setattr(Rollouts, "_sample", spy)
    study = tiny.study(rl={"train_limit": 8, "epochs": 3})
    train(study, "grpo", 0, Places(start / "sft" / "model", start / "data", tmp_path, tmp_path / "checkpoints"))
    epochs = [{*asked[i], *asked[i + 1]} for i in (0, 2, 4)]
    assert len(asked) == 6 and len(epochs[0]) == 8 and epochs[0] == epochs[1] == epochs[2]


def test_equal_rewards_are_counted(start, monkeypatch):
    task = tasks.load("race_c")
    equal = type(task)(**{**task.__dict__, "reward": lambda outputs, references: [0.3] * 4 + [1.0, 0.0, 0.0, 0.0] * 3})
    monkeypatch.setattr("hargo.tasks.race_c.TASK", equal)
    _, stage, _ = rollouts(start)
    assert stage.batch(0).metrics["zero_std"] == 0.25


def test_rewards_of_mixed_tasks_go_to_their_own_responses(start, monkeypatch):
    """A batch of interleaved tasks, each with a reward that names its task."""
    for name, value in (("race_c", 1.0), ("mlperf", 0.5), ("plp", 0.25)):
        task = tasks.load(name)
        reward = type(task)(**{**task.__dict__, "reward": lambda outputs, _, value=value: [value] * len(outputs)})
        monkeypatch.setattr(f"hargo.tasks.{name}.TASK", reward)
    _, stage, _ = rollouts(start)
    rows = [
        dataclasses.replace(tiny.row(i), task=name, id=f"{name}/{i}")
        for i, name in enumerate(("plp", "race_c", "mlperf", "race_c", "plp"))
    ]
    examples = encode(stage.tokenizer, rows)
    rewards, valid = stage._reward(examples, stage._sample(examples, 0).completions)
    assert valid.all() and rewards.tolist() == [[v] * 4 for v in (0.25, 1.0, 0.5, 1.0, 0.25)]


def test_confidence_is_the_mean_reference_log_probability_at_temperature_one(start):
    _, stage, _ = rollouts(start, "hargo")
    seen = {}
    shares = stage.method.shares
    stage.method.shares = lambda signals: seen.setdefault("signals", signals) and shares(signals)
    batch = stage.batch(0)
    confidence = seen["signals"].confidence.flatten()
    responses = [(g.prompt, r) for g in batch.groups for r in g.responses]
    for value, (prompt, response) in zip(confidence, responses, strict=True):
        logits = stage.reference(input_ids=torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1]
        logp = logits.log_softmax(-1).gather(-1, torch.tensor(response)[:, None])
        assert float(value) == pytest.approx(float(logp.mean()), abs=1e-4)


def test_sampling_and_training_agree_on_log_probabilities(start):
    policy, stage, options = rollouts(start)
    record = OneLoss(policy, options).apply(stage, 0, options.learning_rate)
    assert 0 <= record["rollout_gap"] < 1e-3


def test_a_gradient_that_is_not_finite_is_one_line(start):
    policy, stage, options = rollouts(start)
    with torch.no_grad():
        policy.get_output_embeddings().weight[5] = float("inf")
    with pytest.raises(UserError, match="not finite"):
        OneLoss(policy, options).apply(stage, 0, options.learning_rate)


def test_rollouts_depend_on_seed_and_step_only(start):
    one, two = rollouts(start)[1].batch(5), rollouts(start)[1].batch(5)
    assert one.groups == two.groups
    assert rollouts(start)[1].batch(6).groups != one.groups


def test_order_is_a_permutation_every_epoch():
    order = Order(10, 4, seed=3, stage=0)
    epochs = [[i for step in range(e * 3, e * 3 + 3) for i in order.indices(step)] for e in range(3)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert Order(10, 4, seed=-1, stage=0).indices(0) != order.indices(0)


def test_a_task_comes_round_as_often_as_the_study_says(start):
    tokenizer = load_tokenizer(start / "base")
    examples = encode(tokenizer, load_rows(start / "data" / "train.jsonl")[:3])
    assert repeated(examples, {}) == examples
    assert repeated(examples, {"race_c": 2}) == [e for e in examples for _ in range(2)]


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_learning_rate(schedule):
    options = SFTOptions(learning_rate=1.0, warmup=0.1, schedule=schedule)
    rates = [loop.learning_rate(options, step, 100) for step in range(100)]
    assert rates[:10] == pytest.approx([(i + 1) / 11 for i in range(10)])
    assert rates[10] == 1.0 and all(0 < r <= 1 for r in rates)
    middle, last = {"constant": (1, 1), "linear": (0.5, 1 / 90), "cosine": (0.5, 3.046e-4)}[schedule]
    assert rates[55] == pytest.approx(middle) and rates[-1] == pytest.approx(last, rel=1e-3)


def test_an_answer_that_already_ends_gets_no_second_eos_and_id_zero_is_an_id(start, tmp_path):
    tokenizer = load_tokenizer(start / "base")
    row = tiny.row(1)
    doubled = dataclasses.replace(row, answer=row.answer + tokenizer.eos_token)
    assert encode(tokenizer, [doubled])[0].answer == encode(tokenizer, [row])[0].answer
    assert tokenizer.pad_token_id == 0  # a real id, not an absent one
    tokenizer.save_pretrained(tmp_path)
    shutil.copy(start / "base" / "config.json", tmp_path)
    assert load_tokenizer(tmp_path).pad_token_id == 0


def test_answers_end_with_one_eos_that_is_a_target(start):
    tokenizer = load_tokenizer(start / "base")
    examples = encode(tokenizer, load_rows(start / "data" / "train.jsonl")[:4])
    eos = tokenizer.eos_token_id
    for example in examples:
        assert example.answer.count(eos) == 1 and example.answer[-1] == eos
    tokenizer.pad_token = tokenizer.eos_token  # as in many models
    assert [e.answer for e in encode(tokenizer, [e.row for e in examples])] == [e.answer for e in examples]
    batch = Batch.of(
        [Group(e.prompt, [e.answer]) for e in examples], 1000, load_model(start / "base", torch.device("cpu"))
    )
    assert batch.packed[0].targets.tolist().count(eos) == len(examples)
