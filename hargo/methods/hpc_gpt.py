"""HPC-GPT: supervised fine-tuning of LoRA adapters on the base model (Ding et al., SC-W 2023).

    W = W_0 + (lora_alpha / rank) B A,   only A and B are trained, with SFT's loss

Our reading of that baseline, which the HARGO paper does not define further: the same rows, epochs and batch as the
study's SFT, adapters of rank 8 and scale 16 on the query and value projections without dropout, a learning rate of
2e-4, and the adapters merged into the weights at the end, so that it is evaluated like any other method.

>>> import torch
>>> from hargo.methods.base import Tokens
>>> logp = torch.tensor([[-1., -2.]])
>>> float(Method().loss(Tokens(logp, logp < 0, groups=1, total_tokens=2))[0])
1.5
"""

from __future__ import annotations

from hargo.methods.sft import Method

__all__ = ["Method"]
