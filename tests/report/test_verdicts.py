"""The report's verdicts on studies whose truth is known, and the words it finds for them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import simulated
from simulated import World, apart, together

from hargo.data.records import Row
from hargo.evaluation import statistics
from hargo.evaluation.statistics import Difference
from hargo.report import verdicts
from hargo.report.blocks import Items, Table, Text
from hargo.report.comparisons import Evidence, Gap, gap, gap_table, matched, mcnemar
from hargo.report.groups import FAMILIES, NEAR, Grouping, grouping
from hargo.report.results import Results
from hargo.report.sections import evidence
from hargo.report.sections.ablation import controls


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "DRAWS", 400)


# --- how often they are wrong ---


def test_equal_methods_are_rarely_called_different() -> None:
    """100 studies: at most 5 % and three standard errors; rows in groups, which count once."""
    found = simulated.shares(World(3, together(250)), 100)
    assert all(share <= 12 for share in found.values()), found


def test_three_points_are_found_with_five_seeds() -> None:
    found = simulated.shares(World(5, apart(), 3.0), 40)
    assert found["gap"] >= 60 and found["control"] >= 60


@pytest.mark.slow
@pytest.mark.parametrize("groups", [apart(), together()], ids=["apart", "together"])
@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_false_alarms_and_power(seeds: int, groups: tuple[int, ...]) -> None:
    """The gap's verdict: 3 to 6 %, and 2.5 standard errors of 400 studies on either side."""
    equal = simulated.shares(World(seeds, groups), 400)
    assert 0.5 <= equal["gap"] <= 9 and equal["control"] <= 6 and equal["mcnemar"] <= 9 and equal["versus"] <= 9
    if seeds == 5 and groups == apart():
        assert simulated.shares(World(seeds, groups, 3.0), 200)["gap"] >= 75


def test_the_table_of_the_docs_is_the_one_that_is_simulated() -> None:
    text = simulated.PAGE.read_text(encoding="utf-8").split(simulated.BEGIN)[1].split(simulated.END)[0]
    header, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.strip().splitlines()]
    assert header == ["Rows", "Seeds", "True gain", *simulated.VERDICTS.values()]
    kinds = [
        (name, str(k), f"{g:g}") for name in ("apart", "in groups") for g in simulated.GAINS for k in simulated.SEEDS
    ]
    assert [tuple(row[:3]) for row in rows] == kinds
    for row in rows:
        shares = [float(cell.split(" ± ")[0]) for cell in row[3:]]
        if row[2] == "0" and row[1] != "1":
            assert max(shares) <= 8, row
        if row[:3] == ["apart", "5", "3"]:
            assert shares[0] >= 75, row


# --- seeds and groups ---


def study(seeds: int = 3, groups: tuple[int, ...] = apart(60), gain: float = 0.0) -> Results:
    return simulated.results(World(seeds, groups, gain), np.random.default_rng(0))


def test_seeds_of_a_study_are_matched_by_number() -> None:
    one = study()
    models = {**one.models, "sft": one.models["sft"][::-1]}
    assert matched(models["sft"], one.models["sft"]) == [2, 1, 0]
    assert matched(models["sft"], one.models["sft"][:2]) is None
    found, turned = (gap(r, simulated.METHOD, "sft", "em") for r in (one, replace(one, models=models)))
    assert found is not None and turned is not None
    assert turned.difference.seeds == pytest.approx(found.difference.seeds) and turned.difference.freedom == 2
    assert sorted(mcnemar(one, "sft")) == sorted(mcnemar(replace(one, models=models), "sft"))


def rows(prompts: list[str], families: list[str | None], task: str = "mlperf") -> list[Row]:
    return [
        Row(f"{task}/{i:05d}", task, prompt, "8", {"family": family} if family else {})
        for i, (prompt, family) in enumerate(zip(prompts, families, strict=True))
    ]


WORDS = [f"word{i}" for i in range(17)]


def test_near_duplicates_are_one_group_whatever_the_protocol() -> None:
    """Only one word in seventeen differs between the first two; the third has other words."""
    prompts = [" ".join([*WORDS, "Dell"]), " ".join([*WORDS, "HPE"]), "how many nodes"]
    made = grouping(rows(prompts, [None] * 3))
    assert list(made.number.values()) == [0, 0, 1] and set(made.kind.values()) == {NEAR}
    assert made.describe(list(made.number)) == "3 rows in 2 groups of near-duplicates"
    assert grouping(rows(prompts, ["only"] * 3)) == made  # one family tells no rows apart


def test_families_are_groups_across_tasks() -> None:
    made = grouping(rows(["a b", "c d", "e f"], ["one", "two", "one"]) + rows(["g h", "i j"], ["two", "three"], "plp"))
    assert list(made.number.values()) == [0, 1, 0, 1, 2] and set(made.kind.values()) == {FAMILIES}
    assert made.describe(list(made.number)) == "5 rows in 3 families"
    mixed = Grouping(made.number, {**made.kind, "plp/00000": NEAR})
    assert mixed.describe(list(made.number)) == "5 rows in 3 families or groups of near-duplicates"


def test_the_kernels_of_the_demo_are_twenty_families(demo: list[Row]) -> None:
    races = [row for row in demo if row.task.startswith("race")]
    made = grouping(demo)
    assert made.describe([row.id for row in races]) == "320 rows in 20 families"


@pytest.fixture(scope="module")
def demo() -> list[Row]:
    from places import ROOT

    from hargo.config import load_study
    from hargo.data.build import build

    options = load_study(ROOT / "config" / "demo.yaml")
    return build(options.data, options.tasks).eval


def test_groups_widen_intervals_and_are_told() -> None:
    grouped = study(groups=together(240))
    single = replace(grouped, eval=[replace(r, meta={"family": r.id}) for r in grouped.eval])
    wide, narrow = (Evidence(r).own("sft", "em") for r in (grouped, single))
    assert wide is not None and narrow is not None and wide[1] - wide[0] > 1.5 * (narrow[1] - narrow[0])
    count = len(set(grouping(grouped.eval).number.values()))
    models = {
        name: [replace(m, figures={**m.figures, "win_rate": 50.0}) for m in models]
        for name, models in grouped.models.items()
    }
    text, table, tests, *_ = evidence.blocks(replace(grouped, models=models))
    assert isinstance(text, Text) and f"240 rows in {count} families" in text.text
    assert isinstance(table, Table) and f"240 rows in {count} families" in table.caption
    assert isinstance(tests, Table) and "one sign for each family" in tests.caption


# --- words ---


def test_what_could_go_unnoticed_stands_beside_what_is_not_distinguishable() -> None:
    found = gap(study(seeds=5), simulated.METHOD, "sft", "em")
    assert found is not None and not found.distinguishable
    (size,) = re.findall(r"not distinguishable; a difference below ([0-9.]+) could go unnoticed", found.reading)
    assert float(size) == pytest.approx(statistics.detectable(found.difference), abs=0.005)
    several = replace(found, compared=4)
    assert several.detectable > found.detectable
    sure = Gap("em", "a", "b", Difference(30.0, (20, 40), 1.0, 1.0, 4.0, 0.5, 0.001, 100), 0.001)
    assert sure.reading == "more than noise"
    vague = replace(
        sure, difference=replace(sure.difference, gap=1.0, interval=(-1, 3), freedom=1.0, seeds=90.0), corrected=0.9
    )
    assert vague.reading == "not distinguishable; a difference of any size could go unnoticed"
    # no model is further than 50 points from the level of WinRate
    wide = replace(vague, metric="win_rate", difference=replace(vague.difference, seeds=18.0))
    assert 50 < wide.detectable < 100, wide.detectable
    assert replace(wide, from_level=True).reading.endswith("a difference of any size could go unnoticed")
    assert wide.reading.endswith(f"a difference below {wide.detectable:.2f} could go unnoticed")
    one = study(seeds=1)
    single = gap(one, simulated.METHOD, "sft", "em")
    assert single is not None and "unnoticed, judging by rows alone" in single.reading
    assert any(re.search(r"headline metric; .* unnoticed on EM", line) for line in verdicts.verdicts(study(seeds=5)))
    row = gap_table(study(seeds=5))[0]
    assert row["groups"] == 60 and row["detectable"] > 0


def line(results: Results) -> str:
    (items,) = [block for block in controls(results) if isinstance(block, Items)]
    (text,) = items.items
    return text


def test_a_control_is_not_judged_by_one_seed() -> None:
    level, far = line(study(seeds=1)), line(study(seeds=1, gain=38.0))
    assert "cannot be judged with one seed." in level and "behaved" not in level
    assert "cannot be judged with one seed, but is flagged: it is ahead of SFT on EM % by" in far
    assert "behaved" not in far


def test_a_control_that_behaved_comes_with_the_lead_that_could_be_missed() -> None:
    found = line(study(seeds=5))
    assert "It behaved: it is not ahead of SFT on any metric; a lead could have gone unnoticed on EM % (below" in found
    assert "It misbehaved: it is ahead of SFT on EM % by" in line(study(seeds=5, gain=38.0))


def test_a_control_far_ahead_with_two_seeds_is_not_cleared() -> None:
    """Ahead by 20 and by 40 points: rows do not explain it, seeds may."""
    two = study(seeds=2)
    models = []
    for model, extra in zip(two.models["sft"], (12, 24), strict=True):
        wrong = [i for i, p in enumerate(model.predictions) if not p.first.correct][:extra]
        better = [
            replace(p, answers=(replace(p.first, correct=True, scores={"em": 1.0}),)) if i in wrong else p
            for i, p in enumerate(model.predictions)
        ]
        models.append(replace(model, method=simulated.METHOD, predictions=better))
    text = line(replace(two, models={**two.models, simulated.METHOD: models}))
    assert "It is not cleared: it is ahead of SFT on EM % by" in text and "though seeds may explain it" in text
