"""The command that checks labels with a race detector."""

from __future__ import annotations

from typing import Annotated

import typer

from hargo.cli.common import Data, Out, folder, say_next


def verify(
    data: Data,
    out: Out,
    limit: Annotated[int | None, typer.Option("--limit", help="Run at most this many, drawn at random.", min=1)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also run kernels labelled yes.")] = False,
    seconds: Annotated[float, typer.Option("--seconds", help="Time limit per kernel, in seconds.", min=0.1)] = 10.0,
    memory: Annotated[int, typer.Option("--memory", help="Memory limit per kernel, in MiB.", min=50)] = 2000,
    jobs: Annotated[int, typer.Option("--jobs", help="Kernels to run at the same time.", min=1)] = 2,
    must_hold: Annotated[bool, typer.Option("--must-hold", help="Exit with status 1 if a label is refuted.")] = False,
) -> None:
    """Run complete C kernels under ThreadSanitizer with Archer and list the labels it refutes."""
    from dataclasses import asdict

    from hargo.data import verify as verifying
    from hargo.data.records import load_rows
    from hargo.io import write_json, write_jsonl, write_text

    rows = [row for side in ("train", "eval") for row in load_rows(data / f"{side}.jsonl")]
    selected = verifying.choose(rows, limit, everything)
    folder(out)
    print(f"verify: running {len(selected)} kernels, writing to {out}", flush=True)
    verdicts = verifying.verify(selected, seconds, memory, jobs=jobs)
    summary = verifying.summarise(verdicts)
    write_jsonl(out / "verdicts.jsonl", (asdict(one) for one in verdicts))
    write_text(out / "verify.md", verifying.render(summary) + "\n")
    write_json(out / "verify.json", summary)
    print(verifying.render(summary))
    if must_hold and summary["refuted"]:
        raise typer.Exit(1)
    say_next(f"read {out / 'verdicts.jsonl'}")
