"""The command that holds labels against a race detector."""

from __future__ import annotations

from typing import Annotated

import typer

from hargo.cli.common import Data, Out, folder, say_next


def verify(
    data: Data,
    out: Out,
    limit: Annotated[int | None, typer.Option("--limit", help="Run at most so many, drawn at random.", min=1)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also run kernels labelled yes.")] = False,
    seconds: Annotated[float, typer.Option("--seconds", help="Time limit of one kernel.", min=0.1)] = 10.0,
    memory: Annotated[int, typer.Option("--memory", help="Memory limit of one kernel, MiB.", min=50)] = 2000,
    jobs: Annotated[int, typer.Option("--jobs", help="Kernels at a time.", min=1)] = 2,
    must_hold: Annotated[bool, typer.Option("--must-hold", help="Status 1 where a label is refuted.")] = False,
) -> None:
    """Run complete C kernels under ThreadSanitizer with Archer and list the labels it refutes."""
    from dataclasses import asdict

    from hargo.data import verify as verifying
    from hargo.data.records import load_rows
    from hargo.io import write_json, write_jsonl, write_text

    rows = [row for side in ("train", "eval") for row in load_rows(data / f"{side}.jsonl")]
    chosen = verifying.choose(rows, limit, everything)
    folder(out)
    print(f"verify: running {len(chosen)} kernels, writing to {out}", flush=True)
    verdicts = verifying.verify(chosen, seconds, memory, jobs=jobs)
    found = verifying.summarise(verdicts)
    write_jsonl(out / "verdicts.jsonl", (asdict(one) for one in verdicts))
    write_text(out / "verify.md", verifying.render(found) + "\n")
    write_json(out / "verify.json", found)
    print(verifying.render(found))
    if must_hold and found["refuted"]:
        raise typer.Exit(1)
    say_next(f"read {out / 'verdicts.jsonl'}")
