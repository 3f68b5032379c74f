"""What a method adds to a model while it trains, and taking it off again."""

from __future__ import annotations

from typing import Any

import torch

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
    """The model with LoRA adapters (Hu et al., arXiv 2106.09685), alone in being trained; initialised from `seed`."""
    from peft import LoraConfig, get_peft_model

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
    """The language model alone: adapters merged into its weights, the critic dropped."""
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    if hasattr(model, "value_head"):
        del model.value_head
    return model
