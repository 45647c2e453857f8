"""Lenses: what looks at a judged run is a row of the catalogue, and judging calls each in turn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from benchmarks.run_directory import Shape, write

from holdfast import catalogue
from holdfast.engine import driver_process
from holdfast.engine.judging import judge_run
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import HoldfastError
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.judging.lens import Lens, Watch
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.plans.plan import Plan
from holdfast.harness.runs import directory
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged, Verified
from holdfast.planning import prepare, run_folder


class Doubting(Lens):
    """Sees what the certificates have seen before it; refuses a run that has fewer than `least`."""

    least = 0

    def after(
        self, run: RunDir, manifest: Manifest, judged: Judged, orders: bytes | None
    ) -> Judged:
        if judged.verified.accepted < self.least:
            raise HoldfastError(f"{judged.verified.accepted} certificates")
        problems = (f"{run.path.name}: {manifest.plan.system}, {len(orders or b'') % 4} left",)
        return replace(judged, problems=problems)


DOUBTING = Doubting()


class Lenient(Lens):
    """Lets the run pass, at one of the two stages."""

    amid = False

    def of_case(self, run: RunDir, manifest: Manifest, judged: Judged, case: Case) -> Judged:
        return replace(judged, verdict=Verdict.HOLDS, verdicts=()) if self.amid else judged

    def after(
        self, run: RunDir, manifest: Manifest, judged: Judged, orders: bytes | None
    ) -> Judged:
        return replace(judged, exit_code=0)


LENIENT = Lenient()


class Beside(Lens):
    """Notes the stage of the run at which it is entered and left, and what it is given."""

    seen: ClassVar[list[object]] = []

    @contextmanager
    def during(self, run: RunDir, manifest: Manifest, watch: Watch) -> Iterator[None]:
        Beside.seen += [any(run.history.glob("*.seg")), watch.until_violation]
        watch.tell(f"{manifest.plan.system} works")
        yield
        Beside.seen.append(any(run.history.glob("*.seg")))


BESIDE = Beside()


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return write(Shape(ops=200, clients=2, seed=1), tmp_path)


def test_the_built_in_lenses_verify_and_without_them_nothing_is_verified(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified = judge_run(run).verified
    assert verified.properties and (run.path / directory.ORDERS).stat().st_size
    monkeypatch.setattr(catalogue, "LENSES", {})
    bare = judge_run(run)
    assert bare.verified == Verified() and bare.traced is None


def test_a_lens_adds_to_the_verdict_that_is_stored(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "LENSES", {**catalogue.LENSES, "own": f"{__name__}:DOUBTING"})
    judged = judge_run(run)
    assert judged.problems == (f"{run.path.name}: {judged.system}, 0 left",)
    assert json.loads(run.verdicts.read_text())["problems"] == list(judged.problems)


def test_what_a_lens_refuses_is_no_verdict(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "LENSES", {"own": f"{__name__}:DOUBTING"})
    monkeypatch.setattr(Doubting, "least", 1)
    with pytest.raises(HoldfastError, match="0 certificates"):
        judge_run(run)
    assert not run.verdicts.exists()


@pytest.mark.parametrize("amid", [False, True])
def test_a_lens_changes_no_verdict(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, amid: bool
) -> None:
    assert judge_run(run).exit_code == 3
    run.verdicts.unlink()
    monkeypatch.setattr(Lenient, "amid", amid)
    monkeypatch.setattr(catalogue, "LENSES", {"own": f"{__name__}:LENIENT"})
    with pytest.raises(HoldfastError, match="lens Lenient changed a verdict"):
        judge_run(run)
    assert not run.verdicts.exists()


def test_a_lens_is_entered_when_the_driver_works_and_left_when_the_run_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(system="reference", backend="sim", seed=1, time_ns=SECOND, lease_ns=SECOND // 2)
    run = run_folder.create(prepare.prepared(plan), tmp_path, "again")
    monkeypatch.setattr(catalogue, "LENSES", {"own": f"{__name__}:BESIDE"})
    monkeypatch.setattr(Beside, "seen", [])
    lines = list[str]()
    driver_process.execute(run, lambda row: None, Watch(tell=lines.append, until_violation=True))
    assert (Beside.seen, lines) == ([False, True, True], ["reference works"])
