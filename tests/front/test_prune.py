"""`holdfast prune`, `compare` and `report --open`: what goes and stays, and what differs."""

from __future__ import annotations

import json
import os
import shutil
import time
import webbrowser
from pathlib import Path

import click
import pytest

from holdfast.catalogue.findings import FINDINGS
from holdfast.commands import main, run_command
from holdfast.harness.runs import registry
from tests.front.said import Said, holdfast

Capture = pytest.CaptureFixture[str]
DAY_S = 86_400


@pytest.fixture(scope="module")
def patterns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run that holds something back and one that breaks a promise, from the simulator."""
    made = {}
    for system in ("reference", "majority"):
        out = tmp_path_factory.mktemp(system)
        words = ["run", "--backend", "sim", "--system", system, "--time", "4s", "--lease", "1s"]
        words += ["--nemesis", "kill:target=leader", "--seed", "7", "--out", str(out)]
        with pytest.raises(SystemExit):
            main([*words, "--name", "of a test"] if system == "majority" else words)
        made[system] = (out / "latest").resolve()
    return made


def copied(
    pattern: Path, root: Path, name: str, days: float, *, of: str = "", title: str = ""
) -> Path:
    """A copy of a run, written so many days ago."""
    run = root / name
    shutil.copytree(pattern, run)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["origin"] = {"name": title, "of": of, "by": "shrink" if of else ""}
    (run / "manifest.json").write_text(json.dumps(manifest))
    os.utime(run / "manifest.json", (time.time() - days * DAY_S,) * 2)
    return run


@pytest.fixture
def root(patterns: dict[str, Path], tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    root.mkdir()
    held, broken = patterns["reference"], patterns["majority"]
    for days in range(4):
        copied(held, root, f"held{days}", days)
    copied(broken, root, "broken", 9)
    copied(held, root, "named", 9, title="before the change")
    copied(broken, root, "attempt", 1, of="held3")
    copied(held, root / "night" / "runs", "part", 9)
    (root / "latest").symlink_to("held0")
    (root / "outside").symlink_to("/etc")
    return root


def left(root: Path) -> set[str]:
    return {path.name for path in root.iterdir() if not path.is_symlink()}


def pruned(capsys: Capture, root: Path, *words: object) -> Said:
    return holdfast(capsys, "prune", "--runs", root, *words)


def test_nothing_goes_without_a_rule_or_in_a_dry_run(root: Path, capsys: Capture) -> None:
    before = left(root)
    said = pruned(capsys, root)
    assert (said.code, "give --keep or --keep-days" in said.err) == (2, True)
    said = pruned(capsys, root, "--keep", 1, "--dry-run")
    assert (said.code, left(root)) == (0, before)
    assert "would be removed" in said.out and "held3" in said.out and "1 attempt" in said.out


def test_the_newest_and_the_young_stay_and_so_does_what_shows_something(
    root: Path, capsys: Capture
) -> None:
    always = {"broken", "named", "night"}
    pruned(capsys, root, "--keep", 3)
    assert left(root) == {"held0", "held1", "held3", "attempt", *always}, "a family is as new as"
    pruned(capsys, root, "--keep-days", 1)
    assert left(root) == {"held0", *always}
    said = pruned(capsys, root, "--keep", 0, "--violated", "--json")
    assert left(root) == {"night"} and (root / "night/runs/part/manifest.json").exists()
    assert {row["run"] for row in json.loads(said.out)["removed"]} == {"held0", "broken", "named"}
    assert not (root / "latest").is_symlink(), "a link to nothing goes too"
    assert (root / "outside").is_symlink() and Path("/etc/passwd").exists()


def test_latest_leads_to_the_newest_run_that_stays(root: Path, capsys: Capture) -> None:
    (root / "latest").unlink()
    (root / "latest").symlink_to("held3")
    pruned(capsys, root, "--keep", 1)
    assert (root / "latest").resolve().name == "held0"


def test_a_registered_run_stays_and_the_rule_may_stand_in_a_file(
    root: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    registry.note("held2", run_dir=root / "held2", label="held2")
    (tmp_path / "holdfast.toml").write_text("keep = 1\n")
    said = holdfast(capsys, "config", "show")
    assert any(line.split() == ["keep", "1", "holdfast.toml"] for line in said.out.splitlines())
    pruned(capsys, root)
    assert {"held0", "held2"} <= left(root) and "held1" not in left(root)


def test_links_of_a_hostile_run_are_removed_and_not_followed(root: Path, capsys: Capture) -> None:
    treasure = root.parent / "treasure"
    treasure.mkdir()
    (treasure / "kept").write_text("kept")
    (root / "held3" / "logs-link").symlink_to(treasure)
    pruned(capsys, root, "--keep", 1, "--violated")
    assert "held3" not in left(root) and (treasure / "kept").read_text() == "kept"


def test_compare_shows_in_what_two_runs_differ(patterns: dict[str, Path], capsys: Capture) -> None:
    one, other = patterns.values()
    said = holdfast(capsys, "compare", one, other)
    assert said.code == 0
    shown = [line.strip().partition(" ")[0] for line in said.out.splitlines()]
    assert {"state", "token", "seed"} & set(shown) == {"state", "token"} and "VIOLATED" in said.out
    assert f"first   {one.name}" in said.out and "rows differ; -v shows all" in said.out
    assert "workload" in holdfast(capsys, "compare", one, other, "-v").out
    told = json.loads(holdfast(capsys, "compare", one, one, "--json").out)
    assert told["rows"] and not any(row["differs"] for row in told["rows"])
    said = holdfast(capsys, "compare", one, one.parent / "nothing")
    assert said.code == 2


def test_a_report_is_opened_in_a_browser_if_there_is_one(
    patterns: dict[str, Path], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def opened(url: str) -> bool:
        asked.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", opened)
    run = patterns["reference"]
    assert holdfast(capsys, "report", run, "--open").code == 0
    assert asked == [(run / "report.html").as_uri()]
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    said = holdfast(capsys, "report", run, "--open")
    assert (said.code, "open the file yourself" in said.err) == (4, True)


def test_a_name_of_a_run_is_one_line(patterns: dict[str, Path], capsys: Capture) -> None:
    manifest = json.loads((patterns["majority"] / "manifest.json").read_text())
    assert manifest["origin"]["name"] == "of a test"
    assert "origin" not in json.loads((patterns["reference"] / "manifest.json").read_text())
    for bad in ("two\nlines", "\x1b[31m", "x" * 81):
        said = holdfast(capsys, "run", "--backend", "sim", "--name", bad)
        assert (said.code, "--name: expected one line" in said.err) == (2, True)


def test_a_run_of_a_finding_says_what_is_known_of_the_bug(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def invoked(ctx: click.Context) -> int:
        asked.append(ctx.params["label"])
        return 1

    monkeypatch.setattr(run_command.command, "invoke", invoked)
    said = holdfast(capsys, "scenario", "finding:redis-py-cve-2023-28858")
    known = FINDINGS["redis-py-cve-2023-28858"]
    assert said.code == 1 and known.says in " ".join(said.err.split()) and known.cited in said.err
    assert asked == ["finding:redis-py-cve-2023-28858"]
