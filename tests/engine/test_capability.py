"""What a model can do is decided by its architecture, exactly, and acted on before anything is trained."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import tiny
import torch
from transformers import BertConfig, FalconConfig, LlamaConfig, MptConfig, RwkvConfig

from hargo import doctor
from hargo.config.options import ModelOptions
from hargo.engine import apart
from hargo.engine import capability as capabilities
from hargo.engine.capability import capability, packs
from hargo.engine.pack import Group, pack, plan, score
from hargo.engine.small import build, shrink
from hargo.engine.tryout import RIGHT, Capability
from hargo.errors import UserError
from hargo.models.prepare import prepare
from hargo.training import job
from hargo.training.batch import Batch
from hargo.training.job import Places, train
from hargo.training.update import _check_gap

#: SmolLM2-135M
SMOLLM = LlamaConfig(
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    num_hidden_layers=30,
    num_attention_heads=9,
    num_key_value_heads=3,
    max_position_embeddings=8192,
    rope_parameters={"rope_type": "default", "rope_theta": 1e5},
    tie_word_embeddings=True,
    bos_token_id=1,
    eos_token_id=2,
)


def test_rounding_decides_nothing_about_a_real_model() -> None:
    before = torch.get_rng_state()
    for threads in (1, 2):
        capabilities._OF_KIND.clear()
        torch.set_num_threads(threads)
        try:
            known = capability(SMOLLM)
        finally:
            torch.set_num_threads(1)
        assert known.way == "layout" and known.scores and known.pads
        assert max(known.gaps.values()) < 1e-4 * RIGHT  # and the nearest wrong one is above .01
    assert torch.equal(torch.get_rng_state(), before)
    assert SMOLLM._attn_implementation is None


@pytest.mark.parametrize(
    ("config", "verdict"),
    [
        (FalconConfig(new_decoder_architecture=True), "packs"),
        (FalconConfig(alibi=True), "padded"),
        (MptConfig(), "padded"),
        (RwkvConfig(), "padded"),
        (BertConfig(is_decoder=True), "packs"),
        (BertConfig(), "refused"),
    ],
)
@pytest.mark.parametrize("implementation", [None, "eager", "sdpa"])
def test_a_model_that_is_tried_computes_what_it_did(config, verdict, implementation) -> None:
    if implementation == "sdpa" and config.model_type in ("mpt", "rwkv"):
        pytest.skip("it has no such attention")
    config = shrink(config)
    config._attn_implementation = implementation
    model = build(config, torch.float64)
    ids = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12, 13]])
    named = model.config._attn_implementation
    with torch.no_grad():
        before = model(input_ids=ids).logits
        packs(model)
        capabilities.enable(model)
        torch.testing.assert_close(model(input_ids=ids).logits, before, rtol=1e-9, atol=1e-9)
    assert capability(model).verdict == verdict
    if capability(model).way != "layout":
        assert model.config._attn_implementation == named


@pytest.mark.parametrize(
    ("heads", "keys"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 3), (6, 2), (6, 6), (9, 3), (12, 12), (16, 1), (16, 8)]
)
def test_any_number_of_heads_can_be_tried_on_a_small_copy(heads: int, keys: int) -> None:
    config = LlamaConfig(
        vocab_size=400,
        hidden_size=16 * heads,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=heads,
        num_key_value_heads=keys,
    )
    assert capability(config).way == "layout", capability(config).reason


def test_a_model_that_cannot_be_copied_small_is_padded_with_one_line(caplog, monkeypatch) -> None:
    monkeypatch.setattr("hargo.engine.small.shrink", lambda config: type(config)(hidden_size=7))
    capabilities._OF_KIND.clear()
    model = tiny.model()
    with caplog.at_level(logging.WARNING):
        assert not packs(model) and not packs(model)
    capabilities._OF_KIND.clear()
    assert caplog.text.count("no small copy") == 1


def test_an_encoder_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    study = tiny.study()
    data = tiny.write_data(tmp_path / "data")
    prepare(study, data, tmp_path / "scratch")
    from transformers import AutoTokenizer

    build(shrink(BertConfig(), vocab_size=400), torch.float32).save_pretrained(tmp_path / "bert")
    AutoTokenizer.from_pretrained(tmp_path / "scratch").save_pretrained(tmp_path / "bert")
    study = study.model_copy(update={"model": ModelOptions(source="folder", path=str(tmp_path / "bert"))})
    with pytest.raises(UserError, match="BertLMHeadModel cannot be trained here: what comes later") as error:
        prepare(study, data, tmp_path / "base")
    assert "\n" not in str(error.value)
    (check,) = doctor._packing(study)
    assert check.state == "missing" and "what comes later" in check.found
    (check,) = doctor._packing(tiny.study())
    assert check.state == "ok" and "read once" in check.found


def test_what_cannot_be_sampled_is_not_trained(tmp_path: Path, monkeypatch) -> None:
    study = tiny.study()
    data = tiny.write_data(tmp_path / "data")
    prepare(study, data, tmp_path / "base")
    # no family that can be trained is such a one today
    monkeypatch.setattr(job, "can_sample", lambda options, model: f"{type(model).__name__} keeps no cache")
    with pytest.raises(UserError, match="LlamaForCausalLM keeps no cache; choose another model"):
        train(study, "sft", 0, Places(tmp_path / "base", data, tmp_path / "sft", tmp_path / "checkpoints"))
    assert not (tmp_path / "sft").exists()


GROUPS = [
    Group([*range(5, 25)], [[30, 31, 32], [33, 34, 35, 36, 37, 38], [39, 40], [41, 42]]),
    Group([50, 51], [[52], [53, 54]]),
    Group([60, 61, 62], [[63, 64, 65]]),
]


def test_a_padded_pass_is_bounded_by_what_it_computes() -> None:
    for most in (1, 30, 60, 150, 1000):
        passes = plan(GROUPS, most, packed=False)
        assert sorted(i for indices in passes for i in indices) == [0, 1, 2]
        for indices in passes:
            texts = [(GROUPS[i].prompt, r) for i in indices for r in GROUPS[i].responses]
            cost = len(texts) * max(len(p) + len(r) for p, r in texts)
            assert cost <= most or len(indices) == 1
            for numbers in apart.batches(texts, most):
                rows = apart.lay_out(texts, numbers, 6, torch.device("cpu"))
                assert rows.ids.numel() <= most or len(rows.ids) == 1
    assert sum(map(len, apart.batches([([5], [6])] * 7, None))) == 7


@pytest.mark.parametrize("family", ["lfm2", "llama"])
def test_loss_and_gradient_do_not_depend_on_how_padded_rows_are_split(family, monkeypatch) -> None:
    model = tiny.in_full_precision(tiny.model(family, dtype=torch.float64))
    capabilities._OF_MODEL[model] = Capability(None, scores=True, pads=True, reason="asked for")
    seen: list[int] = []
    real = apart.read
    monkeypatch.setattr(apart, "read", lambda m, ids, *more: seen.append(ids.numel()) or real(m, ids, *more))
    results = []
    for most in (1000, 150, 60, 1):
        seen.clear()
        batch = Batch.of(GROUPS, most, model)
        model.zero_grad()
        loss = 0.0
        for packed in batch.packed:
            scores = score(model, packed, 0.6, entropy=True)
            part = scores.logp.square().sum()
            part.backward()
            loss += float(part.detach()) + float(scores.entropy.sum())
        results.append((loss, torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])))
        assert max(seen) <= max(most, 26)
    for loss, gradient in results[1:]:
        assert loss == pytest.approx(results[0][0], rel=1e-9)
        assert (gradient - results[0][1]).norm() < 1e-9 * results[0][1].norm()


def test_values_of_a_critic_are_those_of_a_packed_row() -> None:
    from hargo.models.adapt import add_critic

    model = tiny.model("llama")
    add_critic(model)
    torch.nn.init.normal_(model.value_head.weight)
    wanted = score(model, pack(GROUPS), values=True).values
    capabilities._OF_MODEL[model] = Capability(None, scores=True, pads=True)
    for most in (None, 60):
        torch.testing.assert_close(
            score(model, pack(GROUPS, most=most), values=True).values, wanted, rtol=1e-3, atol=1e-3
        )


def test_a_gap_to_the_rollout_beyond_rounding_is_one_line() -> None:
    model = tiny.model()
    _check_gap(model, 0.04, 0.05)
    for gap in (2.9, float("nan")):
        with pytest.raises(UserError, match=r"rollout_gap is .* at step 1: LlamaForCausalLM") as error:
            _check_gap(model, gap, 0.05)
        assert "\n" not in str(error.value)
