"""Rewarded rollouts: answers that the model in training samples, as a method weighs them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hargo.config.options import RolloutOptions
from hargo.engine.pack import Group, score
from hargo.methods.base import Method, Signals
from hargo.models.adapt import add_critic
from hargo.models.encode import Example, answer_text
from hargo.rollout import Completion, Request, Rollout, Sampler, open_sampler
from hargo.training.batch import Batch, Order
from hargo.training.examples import answer_limit
from hargo.training.job import Job
from hargo.training.rewards import figures, reward, spread

logger = logging.getLogger(__name__)

#: keeps a division of nothing by nothing 0
TINY = torch.finfo(torch.float32).tiny


class Rollouts:
    """On-policy RL: sample G answers per prompt, reward them, score them with the SFT model, let the method weigh."""

    def __init__(
        self,
        policy: Any,
        reference: Any,
        tokenizer: Any,
        examples: Sequence[Example],
        options: RolloutOptions,
        method: Method,
        seed: int,
        sampler: Sampler,
        reuse: bool = True,
    ):
        """reuse: keep what the rollout computes of the prompts for the training pass, where a step is one pass."""
        self.reuse = reuse and not method.critic
        self.policy, self.reference, self.tokenizer, self.examples = policy, reference, tokenizer, examples
        self.options, self.method, self.seed, self.sampler = options, method, seed, sampler
        self.temperature, self.inner_passes = options.temperature, options.inner_passes
        self.order = Order(len(examples), options.prompts_per_step, seed, stage=1)
        self.exhausted = False  # whether the log says that a step ran out of prompts

    def steps(self) -> int:
        return self.options.planned(self.order.per_epoch)

    def batch(self, step: int) -> Batch:
        self.sampler.update(self.policy)  # trained since, or brought back from a checkpoint
        examples, rollout, rewards, valid = self._informative(step)
        completions = rollout.completions
        groups = [
            Group(example.prompt, [c.ids for c in group]) for example, group in zip(examples, completions, strict=True)
        ]
        batch = Batch.of(groups, self.options.tokens_per_pass, self.policy)
        if len(batch.passes) == 1:
            batch.past = rollout.past
        del rollout  # where what was kept is of no use, its memory is
        batch.sampled_logp = [c.logp for group in completions for c in group]
        confidence = self._ask_reference(batch) if self.method.reference else torch.zeros_like(rewards)
        lengths = torch.tensor([[len(c.ids) for c in group] for group in completions], device=self.policy.device)
        values, mask = self._ask_critic(batch)
        learned = self._shuffled(rewards, valid, step) if self.options.shuffle_rewards else rewards
        shares = self.method.shares(Signals(learned, valid, confidence, values, mask, lengths))
        batch.advantages = shares.advantages.flatten(0, 1)
        batch.weights = self._by_task(shares.weights, examples).flatten()
        if values is not None and shares.returns is not None:
            batch.old_values, batch.returns = values.flatten(0, 1), shares.returns.flatten(0, 1)
        advantages = shares.advantages
        if advantages.ndim == 3:  # per token: the log shows their mean over a response
            advantages = advantages.sum(-1) / lengths.clamp(min=1)
        in_group = shares.weights / shares.weights.sum(-1, keepdim=True).clamp(min=TINY)
        shown = {"advantage": advantages, "weight": in_group, **shares.logged}
        batch.metrics = figures(examples, completions, rewards, valid, shown)
        return batch

    def _informative(self, step: int) -> tuple[list[Example], Rollout, Tensor, Tensor]:
        """The step's prompts, answers and rewards; with `resample`, others for groups of equal rewards.

        What is drawn in their place depends on the step alone. Without a replacement they stay.
        """
        examples = [self.examples[i] for i in self.order.indices(step)]
        rollout = self._sample(examples, step, self.options.tokens_per_pass if self.reuse else 0)
        completions, past = rollout.completions, rollout.past
        del rollout  # otherwise it would keep alive what is freed below
        rewards, valid = self._reward(examples, completions)
        unseen = self._unseen(examples, step)
        for turn in range(1, getattr(self.options, "resample", 0) + 1):
            dull = (spread(rewards, valid) <= 0).nonzero().flatten().tolist()
            others = list(islice(unseen, len(dull)))
            if len(others) < len(dull) and not self.exhausted:
                self.exhausted = True
                logger.warning(
                    "step %d has sampled all prompts of the %d training rows: groups of equal rewards without a "
                    "replacement stay in the batch, in this and in later steps",
                    step + 1,
                    len(self.examples),
                )
            if not others:
                break
            answers = self._sample(others, step, turn=turn).completions
            new_rewards, new_valid = self._reward(others, answers)
            good = (spread(new_rewards, new_valid) > 0).nonzero().flatten().tolist()
            for place, new in zip(dull, good, strict=False):
                past = None  # it has the prompt that is replaced
                examples[place], completions[place] = others[new], answers[new]
                rewards[place], valid[place] = new_rewards[new], new_valid[new]
        return examples, Rollout(completions, past), rewards, valid

    def _unseen(self, examples: Sequence[Example], step: int) -> Iterator[Example]:
        """Examples with other prompts than these and than one another, in an order that depends on the step alone."""
        seen = {tuple(example.prompt) for example in examples}
        for i in np.random.default_rng([self.seed % 2**32, 2, step]).permutation(len(self.examples)):
            prompt = tuple(self.examples[i].prompt)
            if prompt not in seen:
                seen.add(prompt)
                yield self.examples[i]

    def _shuffled(self, rewards: Tensor, valid: Tensor, step: int) -> Tensor:
        """The rewards permuted among the usable responses of each group."""
        rng = np.random.default_rng([self.seed % 2**32, 9, step])
        mixed = rewards.clone()
        for row, usable in zip(mixed, valid, strict=True):
            places = usable.nonzero().flatten()
            row[places] = row[places[torch.from_numpy(rng.permutation(len(places))).to(places.device)]]
        return mixed

    def _by_task(self, weights: Tensor, examples: Sequence[Example]) -> Tensor:
        """Shares of the loss times the weights that the study gives to tasks, again of sum 1: [P, G] -> [P, G]."""
        by_task = self.options.task_weights
        if not by_task:
            return weights
        chosen = [by_task.get(example.row.task, 1.0) for example in examples]
        weights = weights * torch.tensor(chosen, device=weights.device).unsqueeze(-1)
        return weights / weights.sum().clamp(min=TINY)

    @torch.no_grad()
    def _ask_critic(self, batch: Batch) -> tuple[Tensor | None, Tensor | None]:
        """The critic's values and the mask [P, G, T], for methods that have one."""
        if not self.method.critic:
            return None, None
        width = max(len(response) for group in batch.groups for response in group.responses)
        total = sum(len(group.responses) for group in batch.groups)
        values = torch.zeros(total, width, device=self.policy.device)
        mask = torch.zeros(total, width, dtype=torch.bool, device=self.policy.device)
        for number, packed in enumerate(batch.packed):
            scores = score(self.policy, packed, self.temperature, values=True)
            rows = torch.tensor(batch.responses(number), device=values.device)
            values[rows, : packed.width], mask[rows, : packed.width] = scores.values, scores.mask
        shape = (len(batch.groups), -1, width)
        return values.view(shape), mask.view(shape)

    def _sample(self, examples: Sequence[Example], step: int, keep: int = 0, turn: int = 0) -> Rollout:
        """keep: see `Sampler.sample`; turn: how often this step has sampled before"""
        again = f"/{turn}" if turn else ""
        requests = [
            Request(
                example.prompt,
                answer_limit(example.row.task, self.options.max_new_tokens),
                f"{self.seed}/{step}/{example.row.id}{again}",
            )
            for example in examples
        ]
        return self.sampler.sample(
            requests, samples=self.options.group_size, temperature=self.options.temperature, keep=keep
        )

    def _reward(self, examples: Sequence[Example], completions: list[list[Completion]]) -> tuple[Tensor, Tensor]:
        """Rewards [P, G] and which of them are usable [P, G]."""
        texts = [answer_text(self.tokenizer, c.ids, c.ended) for group in completions for c in group]
        rewards, valid = reward(examples, texts, self.options.group_size)
        return rewards.to(self.policy.device), valid.to(self.policy.device)

    @torch.no_grad()
    def _ask_reference(self, batch: Batch) -> Tensor:
        """Reference log-probabilities into `batch`; the mean per response at temperature 1: [P, G]."""
        batch.ref_logp = []
        total = sum(len(group.responses) for group in batch.groups)
        confidence = torch.zeros(total, device=self.policy.device)
        for number, packed in enumerate(batch.packed):
            scores = score(self.reference, packed, self.temperature, plain=True)
            batch.ref_logp.append(scores.logp)
            confidence[batch.responses(number)] = scores.plain.sum(-1) / scores.mask.sum(-1).clamp(min=1)
        return confidence.view(len(batch.groups), -1)


def train(job: Job) -> None:
    """Train on rewarded answers to the job's prompts."""
    method, options = job.method(), job.options
    reference = job.reference(method)
    if method.critic:
        add_critic(job.model)
    reuse = not job.study.compute.gradient_checkpointing  # who computes activations again does not want them kept
    longest = max(len(e.prompt) + answer_limit(e.row.task, options.max_new_tokens) for e in job.examples)
    with closing(open_sampler(options.sampler, job.model, job.tokenizer)) as sampler:
        parts = (job.model, reference, job.tokenizer, job.examples, options, method, job.seed, sampler, reuse)
        job.descend(Rollouts(*parts), longest)
