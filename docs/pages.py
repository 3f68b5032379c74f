"""Copy what the site is made of to build/site/sources, each file at its own place, so that links hold as they are.

Pages are the Markdown files; the other files of the repository are copied too, since pages link to them.

    python docs/pages.py && mkdocs build
"""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "build" / "site" / "sources"
#: what is made here or put here, beside folders whose name begins with a dot
APART = ("build", "dist", "data", "results")
MADE = shutil.ignore_patterns("__pycache__", "*.egg-info")


def main() -> None:
    shutil.rmtree(SOURCES.parent, ignore_errors=True)
    (SOURCES / "results").mkdir(parents=True)
    shutil.copyfile(ROOT / "results" / "README.md", SOURCES / "results" / "README.md")
    for place in ROOT.iterdir():
        if place.is_file() and not place.name.startswith("."):
            shutil.copyfile(place, SOURCES / place.name)
        elif place.is_dir() and not place.name.startswith(".") and place.name not in APART:
            shutil.copytree(place, SOURCES / place.name, ignore=MADE)


if __name__ == "__main__":
    main()
