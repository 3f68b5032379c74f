"""What the study cost on a cluster; nothing where no job ran on one."""

from __future__ import annotations

from hargo.report.blocks import Block, Table, Text
from hargo.report.cluster import JOB_HEADER, RULE_HEADER, jobs, one_by_one, per_rule, source
from hargo.report.results import Results


def blocks(results: Results) -> list[Block]:
    """Jobs per rule, then one by one."""
    recorded = jobs(results.folder)
    if not recorded:
        return []
    return [
        Text(f"{len(recorded)} jobs were submitted to the cluster. {source(recorded)}"),
        Table(
            RULE_HEADER,
            per_rule(recorded),
            "Times are sums over jobs. Memory is the largest share that one job used of what it had.",
        ),
        Table(JOB_HEADER, one_by_one(recorded), "Every job, in the order of submission."),
    ]
