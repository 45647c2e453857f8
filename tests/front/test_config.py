"""`holdfast config show` says what each setting means and where it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.commands.options import PREFIX, RETENTION, SETTINGS
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    # Each setting on one line, however long the path of the folder is.
    monkeypatch.delenv("COLUMNS", raising=False)
    for name in SETTINGS:
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
    assert set(rows) == {*SETTINGS, *RETENTION}
    assert rows["seed"] == ("a new one, printed", "default")
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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[run]\nnodes = 5\n",
            "holdfast.toml: [run]: unexpected table; settings like",
        ),
        ("nodes = true\n", "invalid nodes = True: expected a string or a whole number"),
        ("nodes = 0\n", "holdfast.toml: nodes: 0: expected a whole number >= 1"),
        ("nodes = \n", "holdfast.toml: cannot be read"),
    ],
)
def test_a_mistake_in_the_file_names_the_file(capsys: Capture, text: str, told: str) -> None:
    Path("holdfast.toml").write_text(text)
    said = holdfast(capsys, "config", "show")
    assert (said.code, said.out) == (2, "")
    assert told in said.err


def test_the_folder_for_runs_is_a_setting_of_every_command_that_has_one(
    capsys: Capture, tmp_path: Path
) -> None:
    Path("holdfast.toml").write_text('out = "elsewhere"\nclients = 2\n')
    words = ("scenario", "concurrent-acquisition", "--time", "1s", "--seed", "1")
    holdfast(capsys, *words)
    (run,) = (path for path in (tmp_path / "elsewhere").iterdir() if not path.is_symlink())
    assert "clients = 6" in (run / "plan.toml").read_text()


def test_options_on_the_command_line_override_those_of_a_plan_file(capsys: Capture) -> None:
    Path("plan.toml").write_text(
        'system = "reference"\nbackend = "sim"\n[options]\nhold_leases = "1"\nwrites = "2"\n'
    )
    said = holdfast(capsys, "run", "plan.toml", "--set", "writes=3", "--dry-run")
    assert said.code == 0, said.err
    assert 'writes = "3"' in said.out
    assert 'hold_leases = "1"' in said.out
