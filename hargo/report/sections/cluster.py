"""What the study cost on a cluster; nothing where no job ran on one."""

from __future__ import annotations

from hargo.report.blocks import Block, Table, Text
from hargo.report.cluster import JOB_HEADER, RULE_HEADER, jobs, one_by_one, per_rule, source
from hargo.report.results import Results


def blocks(results: Results) -> list[Block]:
    """Jobs per rule, then one by one."""
    found = jobs(results.folder)
    if not found:
        return []
    return [
        Text(f"{len(found)} jobs were submitted to the cluster. {source(found)}"),
        Table(
            RULE_HEADER, per_rule(found), "Times are sums over jobs, memory is the most that one used of what it had."
        ),
        Table(JOB_HEADER, one_by_one(found), "Every job, in the order of submission."),
    ]
