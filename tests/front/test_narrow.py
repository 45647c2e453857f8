"""On a narrow terminal every command prints the same words as on a wide one, none of them cut."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from holdfast.commands.listing import KINDS
from tests.front.said import Said, holdfast

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
WIDTHS = (60, 80, 120)
COPIED = re.compile(r"^\s*(again|report|seed|index|matrix|run|to|from)\b|^\s*holdfast ")
"""Lines to be copied, which stay whole."""
RUN = [
    "run", "--backend", "sim", "--system", "majority", "--time", "6s", "--lease", "1s",
    "--nemesis", "kill:target=leader,pause:target=holder", "--seed", "7", "--clients", "3",
]  # fmt: skip
CAMPAIGN = """name = "narrow"
time = "3s"
lease = "1s"
backend = "sim"
systems = ["reference", "majority"]
nemeses = ["pause:target=holder,every=1s,for=800ms", "kill:target=leader"]
seeds = 2
"""
PLAIN = [
    *(["list", kind] for kind in KINDS),
    ["doctor"],
    ["config", "show"],
    ["campaign", "narrow.toml", "--out", "cells"],
    ["check", "bad.jsonl", "--model", "mutex"],
    ["verify", ".holdfast/runs/latest"],
]
"""Commands that print rows or sentences, the same at every call."""
TABLES = [["check", "-v", ".holdfast/runs/latest"], ["matrix", "cells"]]
"""Commands that print tables with a head."""
VARYING = [
    ["sim", "--seeds", "3", "--first-seed", "4"],
    ["sim", "--mutant", "token-reset", "--seeds", "2"],
    ["replay", ".holdfast/runs/latest", "--times", "2"],
    ["shrink", ".holdfast/runs/latest", "--budget", "2s"],
    ["scenario", "sweep-pause", "--backend", "sim", "--seed", "3"],
    ["gate", "cells", "--baseline", "kept.toml"],
]
"""Commands that print measured CPU time, work long, or shorten their text to fit their lines
(tests/reports/test_gate.py has its words): only their lines are looked at."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("narrow")
    (made / "narrow.toml").write_text(CAMPAIGN)
    (made / "kept.toml").write_text('schema = "holdfast-baseline/1"\n')
    op = '{{"process": {0}, "type": "{1}", "f": "acquire", "time": {2}}}\n'
    calls = [(0, "invoke", 0), (0, "ok", 1), (1, "invoke", 2), (1, "ok", 3)]
    (made / "bad.jsonl").write_text("".join(op.format(*call) for call in calls))
    return made


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.chdir(folder)
    if not Path(".holdfast").exists():
        assert holdfast(capsys, *RUN).code == 1
        assert holdfast(capsys, "campaign", "narrow.toml", "--out", "cells").code in (1, 3)


def at(width: int, capsys: Capture, monkeypatch: Patch, words: list[str]) -> Said:
    monkeypatch.setenv("COLUMNS", str(width))
    return holdfast(capsys, *words)


def too_wide(text: str, width: int) -> list[str]:
    """Lines wider than the terminal that could have been broken between words."""
    return [
        line
        for line in text.splitlines()
        if len(line) > width and not COPIED.match(line) and len(line.split()) > 1
        if len(max(line.split(), key=len)) < width - 12
    ]


@pytest.mark.parametrize("words", PLAIN, ids=" ".join)
def test_rows_and_sentences_have_the_same_words_at_every_width(
    capsys: Capture, monkeypatch: Patch, words: list[str]
) -> None:
    whole = at(0, capsys, monkeypatch, words)
    assert whole.out.split(), whole.err
    for width in WIDTHS:
        narrow = at(width, capsys, monkeypatch, words)
        assert narrow.code == whole.code
        assert narrow.out.split() == whole.out.split()
        assert too_wide(narrow.out, width) == []


FIRST = {"property", "fault", "system"}
"""Names of first columns."""


def cells(text: str) -> Counter[str]:
    """Words of a text without the marks of a table or a block."""
    return Counter(word.strip(",:") for word in re.sub(r"[─]+", " ", text).split())


@pytest.mark.parametrize("words", TABLES, ids=" ".join)
def test_a_table_has_all_its_cells_at_every_width(
    capsys: Capture, monkeypatch: Patch, words: list[str]
) -> None:
    wide = at(99 if words[0] == "check" else 400, capsys, monkeypatch, words)
    for width in WIDTHS:
        if words[0] == "check" and width > 99:
            continue  # a wide terminal has one more column, of coverage counts
        narrow = at(width, capsys, monkeypatch, words)
        missing = cells(wide.out) - cells(narrow.out)
        # A block has no head: its first cell is its title.
        assert missing.keys() <= FIRST, missing
        assert too_wide(narrow.out, width) == []


@pytest.mark.parametrize("words", VARYING, ids=" ".join)
def test_no_line_is_wider_than_the_terminal(
    capsys: Capture, monkeypatch: Patch, words: list[str]
) -> None:
    said = at(60, capsys, monkeypatch, words)
    assert said.code in (0, 1, 3), said.err
    assert said.out.split(), said.err
    assert too_wide(said.out, 60) == []
