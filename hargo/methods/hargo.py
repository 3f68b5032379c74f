"""HARGO: heterogeneity-aware weights over the responses of a group (Li and Tian, arXiv 2607.28301).

    L   <- rho L + (1 - rho) mean of l over the batch      l_i = mean_t log pi_ref(y_it), at temperature 1
    c_i  = sigmoid(l_i - L)                                confidence; L includes this batch
    A_i  = (r_i - mean r) / (std r + eps)
    Am_i = A_i (1 + alpha c_i)                             same sign, gain in (1, 1 + alpha)
    d_i  = |Am_i| / (max_j |Am_j| + eps)
    w_i  = d_i / sum_j d_j,  or 1/G where sum_j d_j < eps_w
    loss = GRPO's, with Am_i for A_i and w_i for 1/G

Choices where the paper is silent: L starts as the first batch's mean; a response without a usable reward is left out
of L and of its group, whose w then sum to 1 without it; ablations use plain A_i: `d` (B1) is alpha = 0;
`c` (B2) is w = c / sum c; `d+c` and `d*c` are w in proportion to d + alpha c and d c.
The common factor of a group's gains cancels in w and is left out of d, so that with a constant c the weights are
bit-identical to B1's. `frozen`, a control, sets such a constant.

>>> import torch
>>> from hargo.config.methods import HargoOptions
>>> rewards = torch.tensor([[1., 0., 0., 0.]])
>>> shares = Method(HargoOptions()).shares(Signals(rewards, rewards >= 0, torch.full((1, 4), -1.)))
>>> shares.advantages, shares.weights                      # equal confidence: c = 1/2, gain 1.15
(tensor([[ 1.7247, -0.5749, -0.5749, -0.5749]]), tensor([[0.5000, 0.1667, 0.1667, 0.1667]]))
"""

from __future__ import annotations

import torch
from torch import Tensor

from hargo.config.methods import HargoOptions
from hargo.methods import grpo
from hargo.methods.base import Shares, Signals, group_advantages, mean_over_groups, uniform_weights


class Method(grpo.Method):
    options: HargoOptions

    def __init__(self, options: HargoOptions):
        super().__init__(options)
        self.reference = True  # for the confidence, whatever beta
        self.baseline: float | None = None

    def shares(self, signals: Signals) -> Shares:
        options = self.options
        confidence = self._confidence(signals)
        advantages = group_advantages(signals.rewards, signals.valid, options.eps)
        size = advantages.abs()
        if options.weighting == "full":
            gain = 1 + options.alpha * confidence
            advantages = advantages * gain
            size = size * (gain / gain.amax(-1, keepdim=True))
        largest = size.amax(-1, keepdim=True) + options.eps
        d = size / largest.clamp(min=torch.finfo(largest.dtype).tiny)  # eps may be 0
        score = {
            "full": d,
            "d": d,
            "c": confidence,
            "d+c": d + options.alpha * confidence,
            "d*c": d * confidence,
        }[options.weighting].masked_fill(~signals.valid, 0.0)
        weights = normalise(score, signals.valid, options.eps_w)
        return Shares(advantages, mean_over_groups(weights, signals.valid), {"confidence": confidence})

    def _confidence(self, signals: Signals) -> Tensor:
        """Update the running baseline with the batch, then squash the distance to it: [P, G] in (0, 1)."""
        if self.options.frozen is not None:
            return torch.full_like(signals.confidence, self.options.frozen)
        usable = signals.confidence[signals.valid]
        if usable.numel():
            mean = float(usable.double().mean())
            rho = self.options.rho
            self.baseline = mean if self.baseline is None else rho * self.baseline + (1 - rho) * mean
        return torch.sigmoid(signals.confidence - (self.baseline or 0.0))

    def state_dict(self) -> dict[str, float | None]:
        return {"baseline": self.baseline}

    def load_state_dict(self, state: dict[str, float | None]) -> None:
        self.baseline = state["baseline"]


def normalise(score: Tensor, valid: Tensor, eps_w: float) -> Tensor:
    """Scores of each group divided by their sum; equal weights where the sum is below eps_w: [P, G]."""
    total = score.sum(-1, keepdim=True)
    return torch.where(total < eps_w, uniform_weights(valid), score / total.clamp(min=eps_w))
