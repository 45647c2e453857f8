"""`holdfast config show` says what each setting means and where it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.planning.settings import DEFAULTS, PREFIX
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in DEFAULTS:
        monkeypatch.delenv(PREFIX + name.upper(), raising=False)


def shown(capsys: Capture) -> dict[str, tuple[str, str]]:
    """Setting -> its value and its source, as printed; every line has the three, well apart."""
    said = holdfast(capsys, "config", "show")
    assert said.code == 0, said.err
    rows = [[part.strip() for part in line.split("  ") if part] for line in said.out.splitlines()]
    assert all(len(row) == 3 for row in rows), said.out
    return {name: (value, source) for name, value, source in rows}


def test_a_default_that_stands_for_something_is_shown_as_what_it_means(capsys: Capture) -> None:
    rows = shown(capsys)
    assert set(rows) == set(DEFAULTS)
    assert rows["seed"] == ("a new one per run", "default")
    assert rows["nodes"] == rows["resource"] == ("per system", "default")
    assert rows["hosts"] == rows["nemesis"] == ("none", "default")
    assert rows["clients"] == ("5", "default")


def test_a_value_that_was_set_is_shown_as_it_was_set(capsys: Capture, monkeypatch: Patch) -> None:
    monkeypatch.setenv("HOLDFAST_SEED", "7")
    Path("holdfast.toml").write_text('nodes = 5\nnemesis = "pause:target=holder,for=4s,every=9s"\n')
    rows = shown(capsys)
    assert rows["seed"] == ("7", "environment HOLDFAST_SEED")
    assert rows["nodes"] == ("5", "holdfast.toml")
    assert rows["nemesis"] == ("pause:target=holder,for=4s,every=9s", "holdfast.toml")
