"""The training pass alone over G, prompt length and model size: packed against one padded row per answer.

    python benchmarks/bench_scaling.py

Both are our own code, forward and backward, without the optimiser. The token ratio G (P + R) / (P + G R) is what
packing can give at most; `share` is how much of it is reached. `mix` has real prompts and sampled answers, where the
padded path also pays for padding.
"""

from __future__ import annotations

from typing import Any

import common  # first: it binds threads before torch is imported
import torch

from hargo.engine import capability
from hargo.engine.pack import Group, pack, plan, score
from hargo.engine.tryout import Capability
from hargo.models.load import deterministic, load_model, load_tokenizer
from hargo.rollout import Request, open_sampler

GROUPS, ANSWER, PER_PASS = 4, 32, 1024


def passes(model: Any, groups: list[Group], packed: bool) -> None:
    """Forward and backward over all groups, the gradient thrown away."""
    capability._OF_MODEL[model] = Capability("layout" if packed else None, scores=True, pads=True)
    model.zero_grad(set_to_none=True)
    # the padded path takes a group at a time, which is about as many tokens
    rows = plan(groups, PER_PASS) if packed else [[i] for i in range(len(groups))]
    for indices in rows:
        score(model, pack([groups[i] for i in indices], model.device), 0.6, entropy=True).logp.sum().backward()


def compare(model: Any, groups: list[Group], rounds: int) -> dict[str, float]:
    taken: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    for number in range(rounds + 1):
        for packed in taken:
            seconds, cpu = common.timed(lambda p=packed: passes(model, groups, p))
            if number:
                taken[packed].append({"seconds": seconds, "cpu": cpu})
    usual = sum(len(g.prompt) + len(r) for g in groups for r in g.responses)
    ratio = usual / sum(g.tokens for g in groups)
    reached = {key: common.median(taken[False], key) / common.median(taken[True], key) for key in ("seconds", "cpu")}
    return {
        "packed_seconds": common.median(taken[True]),
        "padded_seconds": common.median(taken[False]),
        "token_ratio": ratio,
        "times_as_fast": reached["seconds"],
        "share": reached["seconds"] / ratio,
        "share_cpu": reached["cpu"] / ratio,
    }


def made(vocabulary: int, prompt: int, size: int, count: int = GROUPS) -> list[Group]:
    """Groups of random tokens, all of one shape, their prompts with nothing in common."""
    generator = torch.Generator().manual_seed(0)

    def words(length: int) -> list[int]:
        return torch.randint(100, vocabulary, (length,), generator=generator).tolist()

    return [Group(words(prompt), [words(ANSWER) for _ in range(size)]) for _ in range(count)]


def shorter(model: Any, layers: int) -> Any:
    """A copy of the model with its first layers only."""
    from copy import deepcopy

    config = deepcopy(model.config)
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]
    small = type(model)(config).to(model.device, model.dtype).eval()
    small.load_state_dict(model.state_dict(), strict=False)
    return small


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--only", nargs="+", default=["mix", "group", "prompt", "layers"])
    options = parser.parse_args()
    folder, _ = common.prepare(options)
    study = common.study(options)
    device = deterministic(study)
    tokenizer, model = load_tokenizer(folder), load_model(folder, device, study.compute)
    figures: dict[str, Any] = {}
    words = model.config.vocab_size

    def add(name: str, subject: Any, groups: list[Group]) -> None:
        figures[name] = compare(subject, groups, options.rounds)
        print(name, {key: round(value, 2) for key, value in figures[name].items()})

    for size in (4, 8) if "mix" in options.only else ():
        prompts = [e.prompt for e in common.rows(options, tokenizer, 16)[8:]]
        requests = [Request(p, common.NEW_TOKENS, str(i)) for i, p in enumerate(prompts)]
        sampler = open_sampler(study.rl.sampler, model, tokenizer)
        answers = sampler.sample(requests, samples=size, temperature=0.6).completions
        add(f"mix G={size}", model, [Group(p, [c.ids for c in g]) for p, g in zip(prompts, answers, strict=True)])
    for size in (2, 4, 8, 16) if "group" in options.only else ():
        add(f"G={size} P=128", model, made(words, 128, size))
    for prompt in (32, 512) if "prompt" in options.only else ():
        add(f"G=4 P={prompt}", model, made(words, prompt, 4))
    for layers in (6, 15) if "layers" in options.only else ():
        add(f"{layers} layers", shorter(model, layers), made(words, 128, 4))
    common.write(options, "scaling", figures)


if __name__ == "__main__":
    main()
