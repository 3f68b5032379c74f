"""Losses and gradients against TRL's own trainers: the same weights, sequences, rewards and old probabilities.

Either side goes its whole way: TRL tokenises texts, pads, scores and calls its trainer's loss; Hargo packs the same
sequences and calls the method. Only sampling is replaced by fixed responses. TRL's models stay in evaluation mode,
where its losses are not divided by a number of accumulation steps; there is no dropout.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import model as tiny_model
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from hargo.config import METHODS
from hargo.engine.pack import Group, pack, score
from hargo.methods import Method, load
from hargo.methods.base import Signals, Tokens

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of transformers, about names that TRL uses

VOCABULARY, PAD, EOS = 97, 0, 2
LOSS, GRADIENT = 1e-5, 1e-4  # relative
RESPONSES = 3
TEMPERATURE = 0.7
Outcome = tuple[Tensor, Tensor]  # a loss and its gradient by all parameters, concatenated
Folders = tuple[Path, Path]  # weights of the policy and of the reference
GSPO = {"loss_type": "grpo", "importance_sampling_level": "sequence"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """A tiny reference and a policy near it, so that no divergence is extreme."""
    policy, reference = tmp_path_factory.mktemp("policy"), tmp_path_factory.mktemp("reference")
    model = tiny_model("llama", seed=0)
    model.save_pretrained(reference)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=generator)
    model.save_pretrained(policy)
    return policy, reference


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainers report their construction over the network unless told not to."""
    monkeypatch.setattr("trl.trainer.base_trainer.send_telemetry", lambda *_, **__: None)


def tokenizer() -> PreTrainedTokenizerFast:
    """One token a word: `t5` is token 5."""
    words = {f"t{i}": i for i in range(VOCABULARY)} | {"<pad>": PAD, "</s>": EOS}
    for special in (PAD, EOS):
        del words[f"t{special}"]
    backend = Tokenizer(models.WordLevel(words, unk_token="t1"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="</s>", padding_side="left")


def text(ids: list[int]) -> str:
    return " ".join(f"t{i}" for i in ids if i != EOS)


def batch_of(prompts: int, responses: int) -> list[Group]:
    """Prompts and responses of different lengths, a response of one token among them; all end with EOS."""
    generator = torch.Generator().manual_seed(0)

    def words(length: int) -> list[int]:
        return torch.randint(3, VOCABULARY, (length,), generator=generator).tolist()

    return [
        Group(words(3 + 2 * p), [[*words((4 * p + 3 * r) % 7), EOS] for r in range(responses)]) for p in range(prompts)
    ]


def loaded(folder: Path) -> Any:
    """The same weights each time, and no other trainer's changes to the model."""
    return AutoModelForCausalLM.from_pretrained(folder).eval()


def outcome(loss: Tensor, model: Any) -> Outcome:
    loss.backward()
    return loss.detach(), torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def hargo_logp(folder: Path, groups: list[Group], temperature: float = 1.0) -> Tensor:
    with torch.no_grad():
        return score(loaded(folder), pack(groups), temperature).logp


def made(name: str, **options: Any) -> Method:
    return load(name, METHODS[name].options(**{**METHODS[name].preset, **options}))


def hargo_outcome(
    method: Method, groups: list[Group], folders: Folders, temperature: float = 1.0, **fields: Any
) -> Outcome:
    """The method's loss of the whole batch in one part."""
    model = loaded(folders[0])
    scores = score(model, pack(groups), temperature)
    tokens = Tokens(
        scores.logp,
        scores.mask,
        groups=len(groups),
        total_tokens=int(scores.mask.sum()),
        ref_logp=hargo_logp(folders[1], groups, temperature) if method.reference else None,
        **fields,
    )
    return outcome(method.loss(tokens)[0], model)


def assert_same(ours: Outcome, theirs: Outcome) -> None:
    (our_loss, our_gradient), (their_loss, their_gradient) = ours, theirs
    assert abs(float(their_loss)) > 0.01, "terms cancel, and with them the digits to compare"
    assert float(their_gradient.norm()) > 0.01
    assert float(our_loss) == pytest.approx(float(their_loss), rel=LOSS)
    assert float((our_gradient - their_gradient).norm() / their_gradient.norm()) < GRADIENT


def arguments(folder: Path, size: int) -> dict[str, Any]:
    """What every trainer's configuration needs to run here: float32 on the CPU, nothing reported."""
    return {
        "output_dir": str(folder),
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
        "per_device_train_batch_size": size,
        "per_device_eval_batch_size": size,
    }


def rewards_of(groups: list[Group]) -> Tensor:
    """[P, G], with a group whose rewards are all equal."""
    rewards = torch.rand(len(groups), RESPONSES, generator=torch.Generator().manual_seed(3))
    rewards[-1] = 0.5
    return rewards


def worth(method: Method, groups: list[Group]) -> dict[str, Tensor]:
    """The method's advantages and weights, per response."""
    rewards = rewards_of(groups)
    lengths = torch.tensor([[len(response) for response in group.responses] for group in groups])
    valid = torch.ones_like(rewards, dtype=torch.bool)
    shares = method.shares(Signals(rewards, valid, torch.zeros_like(rewards), lengths=lengths))
    return {"advantages": shares.advantages.flatten(), "weights": shares.weights.flatten()}


def old_logp_of(groups: list[Group], folders: Folders) -> Tensor:
    """Log-probabilities of a policy from before, far enough from the present one for ratios beyond the clip range."""
    logp = hargo_logp(folders[0], groups, TEMPERATURE)
    return logp + 0.5 * torch.randn(logp.shape, generator=torch.Generator().manual_seed(6))


def rollout_trainer(
    trainer: Callable[..., Any], config: Any, groups: list[Group], folders: Folders
) -> tuple[Any, dict[str, Any]]:
    """A trainer that learns from rewards and its batch: everything but sampling is TRL's own."""
    from datasets import Dataset

    policy = loaded(folders[0])
    policy.config._name_or_path = str(folders[1])  # where the trainer finds its reference model
    rewards = rewards_of(groups).flatten().tolist()
    rows = [{"prompt": text(group.prompt)} for group in groups for _ in group.responses]
    responses = [response for group in groups for response in group.responses]
    got = trainer(
        model=policy,
        args=config,
        reward_funcs=lambda completions, **_: rewards,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer(),
    )
    got.model.eval()
    got._generate_single_turn = lambda *_: (responses, None) if type(got).__name__ == "GRPOTrainer" else responses
    return got, got._generate_and_score_completions(rows)


@pytest.mark.parametrize(
    ("name", "options", "extra"),
    [
        ("grpo", {"clip": 0.2, "beta": 0.04}, {"loss_type": "grpo"}),
        ("grpo", {"clip": 0.1, "beta": 0.0}, {"loss_type": "grpo"}),
        ("grpo", {"clip": 0.2, "beta": 0.4, "kl": "exact"}, {"loss_type": "grpo"}),
        (
            "dr_grpo",
            {"clip": 0.2, "beta": 0.4, "length": 9, "kl": "exact"},
            {"loss_type": "dr_grpo", "scale_rewards": "none"},
        ),
        ("dapo", {"clip": 0.2, "clip_high": 0.28, "beta": 0.4, "kl": "exact"}, {"loss_type": "dapo"}),
        ("dr_grpo", {"clip": 0.2, "beta": 0.04, "length": 9}, {"loss_type": "dr_grpo", "scale_rewards": "none"}),
        ("dapo", {"clip": 0.2, "clip_high": 0.28}, {"loss_type": "dapo"}),
        ("dapo", {"clip": 0.2, "clip_high": 0.4, "beta": 0.04}, {"loss_type": "dapo"}),
        ("gspo", {"clip": 0.05, "clip_high": 0.1, "beta": 0.0}, GSPO),
        ("gspo", {"clip": 0.1, "clip_high": 0.05, "beta": 0.04}, GSPO),
    ],
)
def test_policy_gradient_with_group_advantages(
    name: str, options: dict[str, Any], extra: dict[str, Any], folders: Folders, tmp_path: Path
) -> None:
    """Advantages, loss and gradient of GRPO and its kin, off policy, with ratios inside and beyond the clip range.

    TRL's denominators are those of its batch, which is Hargo's whole batch here. By default TRL 1.16 multiplies the
    KL term by the importance ratio, as Hargo does with `kl: exact`; Hargo's default is GRPO's paper, and so is TRL's
    when told so. For GSPO, TRL takes the ratio of the whole response there, with which the KL is no longer exact.
    """
    from trl import GRPOConfig, GRPOTrainer

    groups = batch_of(3, RESPONSES)
    config = GRPOConfig(
        **arguments(tmp_path, 3 * RESPONSES),
        num_generations=RESPONSES,
        temperature=TEMPERATURE,
        beta=options.get("beta", 0.0),
        use_bias_correction_kl=options.get("kl") == "exact",
        epsilon=options["clip"],
        epsilon_high=options.get("clip_high"),
        max_completion_length=options.get("length", 9),
        **extra,
    )
    trainer, batch = rollout_trainer(GRPOTrainer, config, groups, folders)
    old_logp = old_logp_of(groups, folders)
    method = made(name, **options)
    fields = worth(method, groups)
    torch.testing.assert_close(fields["advantages"], batch["advantages"])

    loss = trainer.compute_loss(trainer.model, {**batch, "old_per_token_logps": old_logp})
    assert 0 < trainer._metrics["eval"]["clip_ratio/region_mean"][-1] < 1
    ours = hargo_outcome(method, groups, folders, TEMPERATURE, old_logp=old_logp, **fields)
    assert_same(ours, outcome(loss, trainer.model))


def test_rloo(folders: Folders, tmp_path: Path) -> None:
    """RLOO: advantages against the other responses' mean, one ratio for a whole response, mean over responses.

    TRL subtracts the KL from the reward, Hargo adds it to the loss, so they are compared without it.
    """
    from trl import RLOOConfig, RLOOTrainer

    groups = batch_of(3, RESPONSES)
    config = RLOOConfig(
        **arguments(tmp_path, 3 * RESPONSES),
        num_generations=RESPONSES,
        temperature=TEMPERATURE,
        beta=0.0,
        epsilon=0.2,
        normalize_advantages=False,
    )
    trainer, batch = rollout_trainer(RLOOTrainer, config, groups, folders)
    old_logp = old_logp_of(groups, folders)
    method = made("rloo", beta=0.0, clip=0.2)
    fields = worth(method, groups)
    torch.testing.assert_close(fields["advantages"], batch["advantages"])

    old = (old_logp * batch["completion_mask"]).sum(-1)
    theirs = outcome(trainer.compute_loss(trainer.model, {**batch, "old_logps": old}), trainer.model)
    assert 0 < trainer._metrics["eval"]["clip_ratio/region_mean"][-1] < 1
    assert_same(hargo_outcome(method, groups, folders, TEMPERATURE, old_logp=old_logp, **fields), theirs)


def preference_rows(groups: list[Group]) -> list[dict[str, str]]:
    return [
        {
            "prompt": text(group.prompt),
            "chosen": " " + text(group.responses[0]),
            "rejected": " " + text(group.responses[1]),
        }
        for group in groups
    ]


def test_dpo(folders: Folders, tmp_path: Path) -> None:
    """DPO: mean over pairs; TRL sums log-probabilities over the response, as Hargo does."""
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    groups = batch_of(3, 2)
    trainer = DPOTrainer(
        model=loaded(folders[0]),
        ref_model=loaded(folders[1]),
        args=DPOConfig(**arguments(tmp_path, len(groups)), beta=0.1, max_length=None),
        train_dataset=Dataset.from_list(preference_rows(groups)),
        processing_class=tokenizer(),
    )
    trainer.model.eval()
    batch = trainer.data_collator(list(trainer.train_dataset))
    theirs = outcome(trainer.compute_loss(trainer.model, batch), trainer.model)
    assert_same(hargo_outcome(made("dpo", beta=0.1), groups, folders), theirs)


def test_simpo(folders: Folders, tmp_path: Path) -> None:
    """SimPO: TRL has it as CPO's loss `simpo` without CPO's likelihood term; its margin is gamma itself."""
    from datasets import Dataset
    from trl.experimental.cpo import CPOConfig, CPOTrainer

    groups = batch_of(3, 2)
    config = CPOConfig(
        **arguments(tmp_path, len(groups)), loss_type="simpo", beta=2.0, simpo_gamma=0.5, cpo_alpha=0.0, max_length=64
    )
    trainer = CPOTrainer(
        model=loaded(folders[0]),
        args=config,
        train_dataset=Dataset.from_list(preference_rows(groups)),
        processing_class=tokenizer(),
    )
    trainer.model.eval()
    batch = trainer.data_collator(list(trainer.train_dataset))
    theirs = outcome(trainer.compute_loss(trainer.model, batch), trainer.model)
    assert_same(hargo_outcome(made("simpo", beta=2.0, gamma=0.5), groups, folders), theirs)


def test_kto(folders: Folders, tmp_path: Path) -> None:
    """KTO: weighted mean over all responses.

    TRL estimates the reference point from responses moved on by one within its batch, Hargo from whole groups moved
    on, so that no prompt meets its own responses. TRL's estimate serves both here.
    """
    from datasets import Dataset
    from trl import KTOConfig, KTOTrainer

    groups = batch_of(3, 2)
    rows = [
        {"prompt": text(group.prompt), "completion": " " + text(response), "label": number == 0}
        for group in groups
        for number, response in enumerate(group.responses)
    ]
    config = KTOConfig(
        **arguments(tmp_path, len(rows)), beta=0.1, max_length=None, desirable_weight=1.0, undesirable_weight=1.5
    )
    trainer = KTOTrainer(
        model=loaded(folders[0]),
        ref_model=loaded(folders[1]),
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer(),
    )
    trainer.model.eval()
    batch = trainer.data_collator(list(trainer.train_dataset))
    theirs = outcome(trainer.compute_loss(trainer.model, batch), trainer.model)
    point = trainer._metrics["eval"]["kl"][-1]
    assert point > 0.01
    method = made("kto", beta=0.1, desirable=1.0, undesirable=1.5)
    assert_same(hargo_outcome(method, groups, folders, reference_point=point), theirs)
