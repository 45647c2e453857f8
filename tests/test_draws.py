"""How many inputs a test draws, and which tests are asked to draw more of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.draws import SHARES, VARIABLE, Draws, asked

ROOT = Path(__file__).resolve().parent.parent
DRAWING = """
import pytest

def test_that_draws(draws):
    print("drawn:", draws(100))

@pytest.mark.power
def test_at_full_count(draws):
    print("drawn:", draws(100))

def test_of_one_input():
    print("drawn:", 1)
"""


def drawn(folder: Path, words: str, share: str | None) -> list[str]:
    """What tests with such marks say under such a share."""
    (folder / "test_drawing.py").write_text(DRAWING)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    power\n    draws\n")
    others = {name: text for name, text in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-s", "-m", words, str(folder)],
        env={
            **others,
            **({} if share is None else {VARIABLE: share}),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
        },
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return [line.partition("drawn: ")[2] for line in done.stdout.splitlines() if "drawn: " in line]


@pytest.mark.parametrize(
    ("words", "share", "numbers"),
    [
        ("not power", None, ["10", "1"]),
        ("not power", "few", ["10", "1"]),
        ("draws and not power", "some", ["34"]),
        ("power or draws", "all", ["100", "100"]),
        ("power", None, ["100"]),
    ],
)
def test_a_test_that_draws_runs_in_each_target_with_its_share(
    tmp_path: Path, words: str, share: str | None, numbers: list[str]
) -> None:
    assert drawn(tmp_path, words, share) == numbers


def test_a_share_is_never_nothing_and_never_more_than_all() -> None:
    few = Draws(SHARES["few"])
    assert [few(n) for n in (1, 9, 10, 11, 1000)] == [1, 1, 1, 2, 100]
    assert few(1000, least=300) == 300 and few(20, least=300) == 20
    assert Draws(SHARES["all"])(1000) == 1000


def test_a_word_that_is_no_share_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "most")
    with pytest.raises(ValueError, match="HOLDFAST_DRAWS=most: one of few, some, all"):
        asked()
