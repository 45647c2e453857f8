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


def test_what_the_table_of_what_to_add_names_is_there() -> None:
    """Paths with a folder: from the root, or below the folder that the cell names before."""
    whole = (ROOT / "CONTRIBUTING.md").read_text()
    text = whole.partition("## To add X, touch these files")[2].partition("\n## ")[0]
    names = re.findall(r"`([a-z_]+(?:/[A-Za-z_.-]+)+)`", text)
    assert len(names) > 40
    missing = [n for n in names if "NAME" not in n and not (ROOT / n).exists()]
    assert missing == [], "it has moved, or never was there"


def test_a_module_that_a_cell_names_after_its_folder_is_there() -> None:
    rows = (ROOT / "CONTRIBUTING.md").read_text().partition("| a nemesis |")[2].splitlines()
    beside = re.search(r"to read for it: (.*?) in that folder", rows[0])
    assert beside is not None
    names = re.findall(r"`([a-z_]+)`", beside[1])
    assert len(names) >= 4
    assert [n for n in names if not (ROOT / "nemesis/agent" / f"{n}.py").is_file()] == []


def test_a_part_that_the_list_names_is_in_the_file() -> None:
    rows = ROW.findall((ROOT / "CONTRIBUTING.md").read_text())
    parts = [(name, part) for _, name, says in rows for part in PART.findall(says)]
    assert len(parts) > 5
    lost = [(name, part) for name, part in parts if part not in (ROOT / name).read_text()]
    assert lost == [], "it has moved: name the file where it is now"
