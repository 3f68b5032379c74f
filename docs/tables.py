"""Write the tables of README.md and docs/results/README.md from the committed reports.

    python docs/tables.py

Between `<!-- table FOLDER -->` and `<!-- end -->` is the headline of that report's summary.csv, and after
`<!-- short FOLDER -->` the report's own section "In short". Prose around them should leave the numbers to them.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = (ROOT / "README.md", ROOT / "docs" / "results" / "README.md")

#: metric -> heading, decimals
COLUMNS = {
    "win_rate": ("WinRate %", 1),
    "race_f1": ("race F1 %", 1),
    "accuracy_race_c": ("race C %", 1),
    "accuracy_race_fortran": ("race Fortran %", 1),
    "accuracy_mlperf": ("MLPerf %", 1),
    "plp_similarity": ("PLP similarity", 3),
}
_MARKED = re.compile(r"(<!-- (table|short) (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def table(folder: Path) -> str:
    """The headline of a report as Markdown: mean ± deviation over seeds, a dash for what a row does not have."""
    with (folder / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    shown = {key: column for key, column in COLUMNS.items() if f"{key}_mean" in rows[0]}
    lines = [["", *(heading for heading, _ in shown.values())], ["---"] * (len(shown) + 1)]
    for row in rows:
        cells = [_cell(row[f"{key}_mean"], row[f"{key}_std"], decimals) for key, (_, decimals) in shown.items()]
        lines.append([row["title"], *cells])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cell(mean: str, deviation: str, decimals: int) -> str:
    if not mean:
        return "–"
    return f"{float(mean):.{decimals}f}" + (f" ± {float(deviation):.{decimals}f}" if deviation else "")


def short(folder: Path) -> str:
    """Warnings and verdicts of a report's first section, as a list."""
    text = (folder / "report.md").read_text(encoding="utf-8").split("## In short\n")[1].split("\n## ")[0]
    return "".join(f"- {line}\n" for line in re.findall(r"^(?:> )?- (.*)$", text, re.MULTILINE))


def renewed(text: str) -> str:
    """A page with everything between its marks as the reports have it."""
    made = {"table": table, "short": short}
    return _MARKED.sub(lambda found: f"{found[1]}\n{made[found[2]](ROOT / found[3])}\n{found[5]}", text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"{page}: tables as in docs/results")
