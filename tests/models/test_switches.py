"""What a study can switch on: recomputation, compilation, adapters, the optimiser's kernel; and what is left out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tiny
import torch
from sampling import generate

from hargo.config.options import ComputeOptions, PolicyOptions
from hargo.engine.pack import Group, pack, score
from hargo.errors import UserError
from hargo.io import read_jsonl
from hargo.methods import load
from hargo.models.adapt import WithoutAdapters, add_adapters, plain
from hargo.models.load import load_model
from hargo.models.prepare import prepare
from hargo.models.switches import switch_on
from hargo.rollout import Request
from hargo.training import job
from hargo.training.job import Places
from hargo.training.update import make_optimizer

GROUPS = [Group([5, 6, 7], [[8, 9], [10]]), Group([11, 12], [[13], [14, 15, 16]])]


def gradient(model) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of the groups' answers and the gradient of their sum."""
    model.zero_grad()
    scores = score(model, pack(GROUPS), 0.6)
    scores.logp.sum().backward()
    return scores.logp.detach(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def saved_bytes(model) -> int:
    """What autograd keeps of a forward pass besides the weights."""
    sizes: dict[int, int] = {}

    def note(x: torch.Tensor) -> torch.Tensor:
        sizes[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        score(model, pack(GROUPS), 0.6)
    return sum(size for place, size in sizes.items() if place not in weights)


@pytest.mark.parametrize("family", [*tiny.FAMILIES])
def test_recomputation_changes_memory_and_not_a_bit(family):
    usual, saving = tiny.model(family), tiny.model(family)
    switch_on(saving, ComputeOptions(gradient_checkpointing=True))
    for a, b in zip(gradient(usual), gradient(saving), strict=True):
        assert torch.equal(a, b)
    assert saved_bytes(saving) < 0.6 * saved_bytes(usual)
    assert not any(module.training for module in saving.modules())  # no dropout


@pytest.mark.slow  # the compiler takes its time
@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler")
@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2"])
def test_a_compiled_model_agrees_but_for_rounding(family):
    usual, compiled = tiny.model(family), tiny.model(family)
    switch_on(compiled, ComputeOptions(compile=True))
    parts = [module for module in compiled.modules() if module._compiled_call_impl is not None]
    assert len(parts) >= 2 * 3  # two layers, each with two norms and a feed-forward part
    for a, b in zip(gradient(usual), gradient(compiled), strict=True):
        assert (a - b).norm() < 1e-4 * a.norm()
    # decoding uses layers of its own
    first, second = (
        generate(model, [Request([5, 6, 7], 8, "a")], stop=[], pad=0, samples=2, temperature=0.6)
        for model in (usual, compiled)
    )
    assert [c.ids for c in first[0]] == [c.ids for c in second[0]]


def test_recomputation_of_a_model_that_cannot_is_one_line():
    model = tiny.model()
    model.supports_gradient_checkpointing = False
    with pytest.raises(UserError, match="gradient_checkpointing: LlamaForCausalLM"):
        switch_on(model, ComputeOptions(gradient_checkpointing=True))


def test_optimiser_kernels_agree_but_for_rounding():
    found = []
    for fused in (True, False):
        model = tiny.model()
        optimizer = make_optimizer(model, PolicyOptions(learning_rate=1e-2), fused)
        gradient(model)
        optimizer.step()
        found.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("switches")
    study = tiny.study(sft={"max_steps": 20, "learning_rate": 1e-2})
    data = tiny.write_data(folder / "data")
    prepare(study, data, folder / "base")
    job.train(study, "sft", 0, Places(folder / "base", data, folder / "sft", folder / "checkpoints"))
    return folder


def train(start: Path, method: str, out: Path, **sections) -> list[dict]:
    job.train(
        tiny.study(**sections), method, 0, Places(start / "sft" / "model", start / "data", out, out / "checkpoints")
    )
    return read_jsonl(out / "metrics.jsonl")


@pytest.mark.parametrize("method", ["hargo", "ppo"])
def test_adapters_are_trained_against_the_model_without_them(start, tmp_path, method):
    rl = {"max_steps": 3, "learning_rate": 1e-2, "lora": {"rank": 4, "modules": ["q_proj", "v_proj"]}}
    steps = train(start, method, tmp_path, rl=rl, methods={method: {}})
    # the reference stays where it was; at first only rounding in rows of another shape lies between it and the policy
    assert steps[0]["kl"] == pytest.approx(0.0, abs=1e-6) and steps[-1]["kl"] > 1e-6
    before = load_model(start / "sft" / "model", torch.device("cpu")).state_dict()
    after = load_model(tmp_path / "model", torch.device("cpu")).state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and all("q_proj" in name or "v_proj" in name for name in changed), changed
    # and merged: the folder is one of an ordinary model
    assert not list((tmp_path / "model").glob("adapter*"))


def test_without_its_adapters_a_model_is_the_one_they_were_added_to():
    usual, adapted = tiny.model(), add_adapters(tiny.model(), tiny.study().method("hpc_gpt"), 0)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora" in name:
                parameter.normal_()
        wanted = score(usual, pack(GROUPS)).logp
        assert torch.equal(score(WithoutAdapters(adapted), pack(GROUPS)).logp, wanted)
        moved = score(adapted, pack(GROUPS)).logp
        assert (moved - wanted).abs().max() > 1e-3
        torch.testing.assert_close(score(plain(adapted), pack(GROUPS)).logp, moved, rtol=1e-4, atol=1e-4)


def test_a_method_that_never_looks_at_the_reference_does_not_load_it(start, tmp_path, monkeypatch):
    loaded = []
    real = job.load_model
    monkeypatch.setattr(job, "load_model", lambda *args: loaded.append(args[0]) or real(*args))
    short = {"max_steps": 2, "beta": 0.0}
    steps = train(start, "grpo", tmp_path / "grpo", rl=short)
    assert len(loaded) == 1 and "kl" not in steps[0] and steps[0]["grad_norm"] > 0
    train(start, "hargo", tmp_path / "hargo", rl=short)  # its confidence is the reference's
    assert len(loaded) == 3


def test_beta_zero_without_a_reference_is_beta_zero_with_one(start, tmp_path, monkeypatch):
    rl = {"max_steps": 2, "beta": 0.0, "learning_rate": 1e-3}
    train(start, "grpo", tmp_path / "without", rl=rl)
    monkeypatch.setattr("hargo.methods.base.OnPolicy.__init__", lambda self, options: setattr(self, "options", options))
    assert load("grpo", tiny.study().method("grpo")).reference
    train(start, "grpo", tmp_path / "with", rl=rl)
    first, second = ((tmp_path / name / "model/model.safetensors").read_bytes() for name in ("without", "with"))
    assert first == second
