"""Every family of causal models: what is said of it holds when it is scored, trained, saved, loaded and sampled."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest
import torch
import zoo
from places import ROOT

from hargo.config.options import SFTOptions
from hargo.engine import small
from hargo.engine.attention import NAME
from hargo.engine.capability import capability
from hargo.engine.pack import Group, pack, score
from hargo.engine.tryout import RIGHT
from hargo.errors import UserError
from hargo.methods.sft import Method as SFT
from hargo.models.load import load_model
from hargo.models.switches import recompute
from hargo.training.trainers.demonstrations import Demonstrations
from hargo.training.update import OneLoss

#: of the most different ways to read a row
QUICK = (
    "llama falcon gemma2 gemma3_text mistral gpt2 gpt_neo lfm2 mamba rwkv deepseek_v3 llama4_text bloom jetmoe bert"
    " cpmant"
)
FAMILIES = [
    family if family in QUICK.split() else pytest.param(family, marks=pytest.mark.slow) for family in zoo.families()
]

PREFIX = [*range(60, 70)]
#: longer than the windows and chunks of small models, with a common beginning and answers of several tokens
GROUPS = [
    Group([*PREFIX, 5, 6, 7, 8, 9], [[11, 12, 13, 2, 30, 31, 32, 33], [14, 2], [15, 16, 17, 18, 19]]),
    Group([*PREFIX, 20], [[21, 22, 23], [24, 25, 26, 2]]),
    Group([*PREFIX, 30, 31, 32], [[33]]),
]


@pytest.fixture(autouse=True)
def quietly():
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


def model_of(family: str) -> Any:
    try:
        return zoo.build(family, torch.float64).double()
    except zoo.Left as reason:
        pytest.skip(str(reason))


def logits_of(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12]])).logits


def alone(model: Any) -> list[torch.Tensor]:
    """Log-probabilities of every response from its own unpadded sequence."""
    found = []
    for group in GROUPS:
        for response in group.responses:
            logits = model(input_ids=torch.tensor([group.prompt + response]), use_cache=False).logits[
                0, len(group.prompt) - 1 : -1
            ]
            found.append(logits.log_softmax(-1).gather(-1, torch.tensor(response)[:, None])[:, 0])
    return found


def gradient(model: Any) -> torch.Tensor:
    found = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    model.zero_grad()
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_scored_and_trained_as_its_sequences_alone(family):
    model = model_of(family)
    with small.in_double():
        before = logits_of(model)
    known = capability(model)
    assert all(gap <= RIGHT / 1e3 or gap >= RIGHT * 1e3 for gap in known.gaps.values()), known.gaps
    with small.in_double():
        assert torch.equal(logits_of(model), before)
        if known.verdict == "refused":
            pytest.skip(known.reason)
        wanted = alone(model)
        torch.cat(wanted).square().sum().backward()
        expected = gradient(model)
        found = score(model, pack(GROUPS))
        for row, logp in enumerate(wanted):
            torch.testing.assert_close(found.logp[row, : len(logp)], logp, rtol=1e-8, atol=1e-8)
        found.logp.square().sum().backward()
        assert (gradient(model) - expected).norm() <= 1e-7 * expected.norm()
        torch.testing.assert_close(logits_of(model), before, rtol=1e-10, atol=1e-10)
    # in several parts, each computed again in the backward pass
    parted = score(model.float(), pack(GROUPS, most=40))
    parted.logp.square().sum().backward()
    torch.testing.assert_close(parted.logp, found.logp, rtol=1e-3, atol=1e-3, check_dtype=False)
    assert (gradient(model) - expected).norm() <= 1e-2 * expected.norm()
    assert (implementations(model) == {NAME}) == (known.way == "layout")


def implementations(model: Any) -> set[str]:
    configs = (getattr(module, "config", None) for module in model.modules())
    found = {config._attn_implementation for config in configs if hasattr(config, "_attn_implementation_internal")}
    return {name for name in found if name is not None}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_takes_a_step_and_comes_back_from_its_folder(family, tmp_path):
    try:
        model = zoo.build(family)
    except zoo.Left as reason:
        pytest.skip(str(reason))
    if capability(model).verdict == "refused":
        pytest.skip(capability(model).reason)
    with torch.no_grad():
        model.get_input_embeddings().weight[0] = 0.0  # of the padding token: some families set it so when they load
    groups = [Group(group.prompt, group.responses[:1]) for group in GROUPS]
    options = SFTOptions(batch_size=3, tokens_per_pass=60, learning_rate=1e-3)
    stage = Demonstrations(groups, options, SFT(), 0, model)
    start = [p.detach().clone() for p in model.parameters()]
    record = OneLoss(model, options).apply(stage, 0, options.learning_rate)
    assert record["grad_norm"] > 0 and record["loss"] > 0
    assert any(not torch.equal(a, b) for a, b in zip(start, model.parameters(), strict=True))
    model.save_pretrained(tmp_path)
    again = load_model(tmp_path, torch.device("cpu"))
    with torch.no_grad():
        found, wanted = (score(x, pack(GROUPS)).logp for x in (again, model))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_recomputation_changes_no_gradient_of_a_family_or_is_refused(family):
    try:
        usual, saving = zoo.build(family), zoo.build(family)
    except zoo.Left as reason:
        pytest.skip(str(reason))
    if capability(usual).verdict == "refused":
        pytest.skip(capability(usual).reason)
    try:
        recompute(saving)
    except UserError as refusal:
        assert "gradient_checkpointing" in str(refusal)
        return
    found = []
    for model in (usual, saving):
        score(model, pack(GROUPS)).logp.square().sum().backward()
        found.append(gradient(model))
    assert (found[0] - found[1]).norm() <= 1e-4 * found[0].norm()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_sampled_as_it_reads(family):
    try:
        answer = zoo.samples(family)
    except zoo.Left as reason:
        pytest.skip(str(reason))
    assert answer == ("no" if capability(zoo.build(family)).verdict == "refused" else "yes")


@pytest.mark.slow
def test_the_page_of_models_is_up_to_date():
    assert (ROOT / "docs" / "models.md").read_text() == zoo.page() + "\n", "run `make models`"
