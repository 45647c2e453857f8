"""What a kind of fault does is read from the run, not from its name or from what is installed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from holdfast import catalogue
from holdfast.commands import cli
from holdfast.engine import judging
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import BEFORE, UNKNOWN, Traits, of_manifest, to_table
from holdfast.harness.core.json_value import plain
from holdfast.harness.history.reader import load as load_history
from holdfast.harness.judging.run_case import case_of
from holdfast.harness.runs import journal
from holdfast.harness.runs.directory import RunDir

RUN = ("run", "--backend", "sim", "--system", "majority", "--time", "20s", "--seed", "1")
KINDS = ("kill", "pause", "clock", "partition", "reply-loss", "freeze", "slow-links")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    words = [*RUN, "--nemesis", ",".join(KINDS), "--out", str(out)]
    CliRunner().invoke(cli, words, standalone_mode=False)
    return (out / "latest").resolve()


def judged(run: Path) -> dict[str, Any]:
    """The verdict of a run directory, judged and verified anew."""
    found: dict[str, Any] = plain(judging.judge_run(RunDir(run)))
    return found


def changed(run: Path, to: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a run with another manifest."""
    copy = Path(shutil.copytree(run, to))
    manifest = json.loads((copy / "manifest.json").read_text())
    change(manifest)
    (copy / "manifest.json").write_text(json.dumps(manifest))
    return copy


def test_a_manifest_has_the_traits_of_the_kinds_of_its_plan(recorded: Path) -> None:
    manifest = json.loads((recorded / "manifest.json").read_text())
    assert manifest["traits"] == {kind: to_table(catalogue.NEMESES[kind].traits) for kind in KINDS}
    assert {kind: to_table(of_manifest(manifest)[kind]) for kind in KINDS} == manifest["traits"]


def test_a_run_recorded_before_manifests_had_traits_is_judged_as_before(
    recorded: Path, tmp_path: Path
) -> None:
    old = changed(recorded, tmp_path / "old", lambda manifest: manifest.pop("traits"))
    assert judged(old) == judged(recorded)


def test_a_kind_with_another_name_and_the_same_traits_is_judged_the_same(
    recorded: Path, tmp_path: Path
) -> None:
    """Also by the verifier, which refuses no certificate; no such nemesis is installed."""
    copy = Path(shutil.copytree(recorded, tmp_path / "renamed"))
    for name in ("manifest.json", "faults.jsonl"):
        text = (copy / name).read_text()
        for kind in KINDS:
            text = text.replace(f'"{kind}"', f'"my-{kind}"')
        # The name of a hatching is no name of a kind.
        (copy / name).write_text(text.replace('"pattern": "my-', '"pattern": "'))
    ours, other = judged(recorded), judged(copy)
    assert sum(len(row["findings"]) for row in ours["verdicts"]) > 0
    assert other["verified"] == ours["verified"]
    named = json.dumps(other).replace("my-", "")
    assert json.loads(named)["verdicts"] == ours["verdicts"]


def case_windows(run: Path) -> dict[str, Traits]:
    found = RunDir(run)
    case = case_of(
        found.read_manifest(),
        load_history(found.history),
        journal.marks(found),
        journal.faults(found),
    )
    return {window.do: window.traits for window in case.windows}


def test_the_windows_of_a_case_carry_the_traits_of_the_manifest(
    recorded: Path, tmp_path: Path
) -> None:
    def swap(manifest: dict[str, Any]) -> None:
        manifest["traits"] = {"kill": {"stops": True, "of_a_newer_version": 1}, "pause": {}}

    found = case_windows(changed(recorded, tmp_path / "swapped", swap))
    assert found == {**dict.fromkeys(KINDS, UNKNOWN), "kill": Traits(stops=True)}
    assert case_windows(recorded)["kill"] == BEFORE["kill"]


@pytest.mark.parametrize("wrong", [[], {"kill": []}, {"kill": {"kills": "yes"}}])
def test_damaged_traits_are_named(recorded: Path, tmp_path: Path, wrong: object) -> None:
    run = changed(recorded, tmp_path / "run", lambda manifest: manifest.update(traits=wrong))
    with pytest.raises(UsageError, match="traits"):
        judged(run)
