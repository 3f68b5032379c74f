"""Pairs of answers, the better one first, and the reference model's view of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hargo.config.options import PreferenceOptions
from hargo.engine.pack import Group, pack, score
from hargo.errors import UserError
from hargo.fingerprint import digest
from hargo.methods.base import Method
from hargo.training.batch import Batch, Order
from hargo.training.job import Job
from hargo.training.preferences import load_pairs


class Preferences:
    """Offline: pairs of answers of the SFT model, the better one first, and that model's view of them."""

    temperature = 1.0
    inner_passes = 1

    def __init__(
        self,
        policy: Any,
        reference: Any,
        pairs: Sequence[Group],
        options: PreferenceOptions,
        method: Method,
        seed: int,
    ):
        if method.mismatched and len(pairs) < 2:
            raise UserError("this method compares with answers to other prompts, so one pair is too few: it needs two")
        self.policy, self.reference, self.pairs = policy, reference, pairs
        self.options, self.method = options, method
        self.order = Order(len(pairs), options.prompts_per_step, seed, stage=1)
        self.known: dict[int, Tensor] = {}

    def steps(self) -> int:
        return self.options.planned(self.order.per_epoch)

    @torch.no_grad()
    def batch(self, step: int) -> Batch:
        indices = self.order.indices(step)
        groups = [self.pairs[i] for i in indices]
        batch = self._packed(groups)
        if self.method.reference:
            batch.ref_logp = [
                torch.cat([self._known(indices[k], packed.width) for k in part])
                for part, packed in zip(batch.passes, batch.packed, strict=True)
            ]
        if self.method.mismatched:
            batch.reference_point = self._reference_point(indices)
        return batch

    def _packed(self, groups: list[Group]) -> Batch:
        return Batch.of(groups, self.options.tokens_per_pass, self.policy)

    def _known(self, pair: int, width: int) -> Tensor:
        """log pi_ref of a pair's answers, [2, width], asked for once and alone: it does not matter in which step."""
        if pair not in self.known:
            self.known[pair] = score(self.reference, pack([self.pairs[pair]], self.policy.device)).logp
        return F.pad(self.known[pair], (0, width - self.known[pair].shape[-1]))

    def _reference_point(self, indices: list[int]) -> float:
        """Mean of log pi - log pi_ref over the prompts of these pairs, each with the answers of the next pair.

        The last has the answers of the first; a pair alone in its batch has those of the next pair there is.
        """
        others = indices[1:] + indices[:1] if len(indices) > 1 else [(indices[0] + 1) % len(self.pairs)]
        moved = [Group(self.pairs[i].prompt, self.pairs[k].responses) for i, k in zip(indices, others, strict=True)]
        packed = self._packed(moved).packed
        gaps = [(score(self.policy, row).logp - score(self.reference, row).logp).sum() for row in packed]
        return float(torch.stack(gaps).sum()) / sum(len(group.responses) for group in moved)


def train(job: Job) -> None:
    """Train on the pairs of answers in the job's folder of pairs."""
    method, folder = job.method(), job.places.pairs
    reference = job.reference(method)
    assert folder is not None, "`hargo.training.job.train` has asked for it"
    groups = load_pairs(folder, job.examples, job.places.data)
    job.settings["pairs"] = digest([(group.prompt, group.responses) for group in groups])
    longest = max(len(group.prompt) + max(map(len, group.responses)) for group in groups)
    job.descend(Preferences(job.model, reference, groups, job.options, method, job.seed), longest)
