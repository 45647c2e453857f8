"""The reading list of CONTRIBUTING.md: short enough to be read, and of files that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (\d+) \| `([^`]+)` \| (.*) \|$", re.M)
PART = re.compile(r"`([A-Za-z_]+)`")
MOST_FILES, MOST_MINUTES = 25, 120


def test_who_reads_the_list_is_done_in_two_hours() -> None:
    rows = ROW.findall((ROOT / "CONTRIBUTING.md").read_text())
    assert rows and len(rows) <= MOST_FILES
    assert sum(int(minutes) for minutes, *_ in rows) <= MOST_MINUTES
    assert [name for _, name, _ in rows if not (ROOT / name).is_file()] == []


def test_a_part_that_the_list_names_is_in_the_file() -> None:
    rows = ROW.findall((ROOT / "CONTRIBUTING.md").read_text())
    parts = [(name, part) for _, name, says in rows for part in PART.findall(says)]
    assert len(parts) > 5
    lost = [(name, part) for name, part in parts if part not in (ROOT / name).read_text()]
    assert lost == [], "it has moved: name the file where it is now"
