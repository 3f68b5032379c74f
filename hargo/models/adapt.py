"""What a method adds to a model while it trains, and taking it off again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from hargo.config.options import AdapterOptions
from hargo.errors import UserError


def add_critic(model: Any) -> None:
    """A linear layer `value_head` on the states that the output layer reads, zero at the start."""
    width = model.get_output_embeddings().in_features
    head = torch.nn.Linear(width, 1, device=model.device, dtype=model.dtype)
    with torch.no_grad():
        head.weight.zero_()
        head.bias.zero_()
    model.value_head = head


def add_adapters(model: Any, options: AdapterOptions, seed: int) -> Any:
    """The model with LoRA adapters (Hu et al., arXiv 2106.09685), alone in being trained; initialised from `seed`.

    UserError for modules whose merged weights would not be the model that was trained.
    """
    from peft import LoraConfig, get_peft_model

    check_modules(model, options.modules)
    torch.manual_seed(seed)
    config = LoraConfig(
        r=options.rank,
        lora_alpha=options.lora_alpha,
        lora_dropout=0.0,
        target_modules=list(options.modules),
        task_type="CAUSAL_LM",
    )
    try:
        return get_peft_model(model, config)
    except ValueError as error:
        raise UserError(f"modules {', '.join(options.modules)}: {str(error).splitlines()[0]}") from None


def check_modules(model: Any, names: Sequence[str]) -> None:
    """UserError unless every name means layers that adapters can be merged into, and none whose weight is shared.

    A shared weight, such as that of a tied output layer, would take the adapters of one use into the other.
    """
    modules = dict(model.named_modules())
    kinds = (torch.nn.Linear, torch.nn.Embedding, Conv1D)
    uses = Counter(id(m.weight) for m in modules.values() if isinstance(m, kinds))
    for name in names:
        chosen = {path: m for path, m in modules.items() if path == name or path.endswith(f".{name}")}
        if not chosen or not all(isinstance(module, kinds) for module in chosen.values()):
            known = sorted({path.rpartition(".")[2] for path, m in modules.items() if isinstance(m, kinds)})
            what = "is not a linear layer" if chosen else "is not in this model"
            raise UserError(f"modules: {name!r} {what}; there are {', '.join(known)}")
        if any(uses[id(module.weight)] > 1 for module in chosen.values()):
            raise UserError(
                f"modules: {name!r} shares its weight with another layer of this model (tie_word_embeddings), "
                "so adapters on it cannot be merged; leave it out"
            )
        if not _called(model, chosen.values()):
            raise UserError(f"modules: this model uses the weight of {name!r} without calling it; leave it out")


@torch.no_grad()
def _called(model: Any, modules: Iterable[torch.nn.Module]) -> bool:
    """Whether a forward pass calls any of the modules: where only their weights are read, adapters do nothing."""
    calls: list[bool] = []
    hooks = [module.register_forward_hook(lambda *_: calls.append(True)) for module in modules]
    try:
        model(input_ids=torch.zeros(1, 2, dtype=torch.long, device=model.device), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return bool(calls)


class WithoutAdapters:
    """The model that adapters were added to, as it was: they are set aside during a call, and no copy is kept."""

    def __init__(self, model: Any):
        self.model = model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self.model.disable_adapter():
            return self.model(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


def plain(model: Any) -> Any:
    """The language model only: adapters merged into its weights, the critic dropped."""
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    if hasattr(model, "value_head"):
        del model.value_head
    return model
