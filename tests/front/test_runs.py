"""Whole runs, from the command line to the verdict, on real processes, servers and containers."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from holdfast.commands import main
from holdfast.reports.text.progress import Progress
from tests import needs
from tests.front import said as front

RUN_WITHIN_S = 180
HOLDER_PAUSES = "pause:target=holder,every=3s,for=2s"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """One finished run: its exit code, its verdict object, its directory."""

    code: int
    verdicts: dict[str, Any]
    run_dir: Path

    def verdict(self, prop: str) -> str:
        found: str = self.row(prop)["verdict"]
        return found

    def row(self, prop: str) -> dict[str, Any]:
        rows: list[dict[str, Any]] = self.verdicts["verdicts"]
        return next(row for row in rows if row["property"] == prop)

    def kinds(self, prop: str) -> set[str]:
        return {finding["kind"] for finding in self.row(prop)["findings"]}


def holdfast(folder: Path, *words: str) -> tuple[int, str, str]:
    """Run the command as a user would; exit code, output, errors."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=RUN_WITHIN_S,
    )
    return done.returncode, done.stdout, done.stderr


def judged_again(run_dir: Path) -> tuple[int, Any]:
    """Exit code and verdicts of `holdfast check`, called in this process."""
    with redirect_stdout(io.StringIO()) as said, pytest.raises(SystemExit) as ended:
        main(["check", str(run_dir), "--json"])
    code = ended.value.code
    assert isinstance(code, int)
    return code, json.loads(said.getvalue())["verdicts"]


def run(folder: Path, *words: str, codes: Sequence[int] = (0,)) -> Ran:
    """One run with `--json`, judged once more by `check`, which must agree; seed 7 by default."""
    code, out, err = holdfast(folder, "run", "--seed", "7", *words, "--out", "runs", "--json")
    assert code in codes, f"exit {code}: {out[-3000:]}{err}"
    verdicts = json.loads(out)
    run_dir = (folder / "runs" / "latest").resolve()
    assert verdicts["problems"] == []
    assert (run_dir / "report.html").stat().st_size > 10_000
    assert judged_again(run_dir) == (code, verdicts["verdicts"])
    return Ran(code=code, verdicts=verdicts, run_dir=run_dir)


def nothing_promised_is_violated(ran: Ran) -> None:
    broken = [
        (row["property"], [finding["sentence"] for finding in row["findings"]])
        for row in ran.verdicts["verdicts"]
        if row["promised"] and row["verdict"] == "VIOLATED"
    ]
    assert broken == []


def most_calls_are_narrowed(ran: Ran) -> None:
    """The kernel stamped both edges of nine in ten calls to the lock, the library unmodified."""
    told = ran.verdicts["evidence"]["narrowed"]
    assert told["lock_narrowed"] >= 0.9 * told["lock_calls"] > 0, told


def every_fault_has_evidence(ran: Ran, kinds: set[str]) -> None:
    faults = ran.verdicts["faults"]
    assert {fault["do"] for fault in faults if fault["effective"]} >= kinds
    assert all(fault["evidence"] or fault["reason"] for fault in faults)
    assert all(fault["from_ns"] <= fault["to_ns"] for fault in faults)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["local", pytest.param("local-proxy", marks=pytest.mark.power)])
def test_the_reference_service_keeps_its_promises_under_faults(
    tmp_path: Path, backend: str
) -> None:
    if backend == "local":
        needs.namespaces()
    words = ("--system", "reference", "--backend", backend, "--lease", "1s", "--time", "12s")
    faults = ("--nemesis", "partition,kill,pause", "--set", "lazy_pct=0")
    ran = run(tmp_path, *words, *faults, codes=(0, 3))
    nothing_promised_is_violated(ran)
    every_fault_has_evidence(ran, {"partition", "kill", "pause"})
    granted = ran.verdicts["evidence"]["acquire"]["granted"]
    assert granted > 20
    split = ran.verdicts["evidence"]["acquire_split"]
    assert 0.9 * granted <= split["said"] <= granted
    for part in ("way_ns", "commit_ns"):
        assert 0 < split[part]["p50"] < split[part]["p99"] < split["whole_ns"]["max"]


@pytest.mark.slow
def test_servers_that_are_asked_to_stop_shut_down_and_restart(tmp_path: Path) -> None:
    needs.namespaces()
    fault = ("--nemesis", "terminate:every=2s,for=500ms", "--time", "6s")
    ran = run(tmp_path, "--system", "single", *fault, codes=(0, 3))
    every_fault_has_evidence(ran, {"terminate"})
    struck = [one for one in ran.verdicts["faults"] if one["do"] == "terminate"]
    assert all(set(one["evidence"]["shutdown_ns"]) == set(one["nodes"]) for one in struck), struck
    assert not any(one["evidence"]["grace_exceeded"] for one in struck)
    granted = ran.verdicts["evidence"]["acquire"]["granted"]
    assert granted > 20, "the servers came back"
    steps = [step["text"] for cause in ran.verdicts["causes"] for step in cause["steps"]]
    assert not any("killed" in text for text in steps)
    assert any("n1 was shut down (terminate) at" in text for text in steps), steps


def test_a_vote_without_consensus_breaks_its_promise(tmp_path: Path) -> None:
    needs.namespaces()
    words = ("--system", "majority", "--lease", "1s", "--time", "15s")
    ran = run(tmp_path, *words, "--nemesis", "partition,kill", codes=(1,))
    broken = {row["property"] for row in ran.verdicts["verdicts"] if row["findings"]}
    assert broken & {"token-order", "mutual-exclusion"}


@pytest.mark.slow
def test_without_a_lock_updates_are_lost_and_nothing_was_promised(tmp_path: Path) -> None:
    needs.namespaces()
    ran = run(tmp_path, "--system", "none", "--workload", "lost-update", "--time", "3s")
    assert ran.verdict("no-lost-update") == "VIOLATED"
    assert ran.verdict("mutual-exclusion") == "VIOLATED"
    assert ran.kinds("mutual-exclusion") == {"double-holder"}
    assert not any(row["promised"] for row in ran.verdicts["verdicts"])


@pytest.mark.slow
def test_compare_and_swap_keeps_updates_apart_without_a_lock(tmp_path: Path) -> None:
    needs.namespaces()
    ran = run(tmp_path, "--system", "cas", "--workload", "lost-update", "--time", "3s")
    assert ran.verdict("no-lost-update") == "HOLDS"
    assert ran.row("no-lost-update")["promised"]
    assert ran.verdict("mutual-exclusion") == "VIOLATED"


@pytest.mark.power
def test_the_plan_of_a_run_can_be_run_again(tmp_path: Path) -> None:
    needs.namespaces()
    run(tmp_path, "--system", "none", "--nemesis", "pause:target=client,for=1s", "--time", "3s")
    first = tmp_path / "runs" / "latest" / "plan.toml"
    words = ("run", str(first.resolve()), "--out", "again")
    assert holdfast(tmp_path, *words)[0] == 0
    assert (tmp_path / "again" / "latest" / "plan.toml").read_text() == first.read_text()


@pytest.mark.slow
def test_an_untroubled_run_proves_nothing_about_stale_writes(tmp_path: Path) -> None:
    needs.namespaces()
    # By default one owner in 40 is silent and writes late: in some runs of 3 s there is one.
    quiet = ("--system", "reference", "--time", "3s", "--set", "lazy_pct=0")
    ran = run(tmp_path, *quiet, codes=(3,))
    assert ran.verdict("no-stale-write") == "UNKNOWN"
    assert "no stale request to refuse" in ran.row("no-stale-write")["reason"]
    words = ("check", str(ran.run_dir), "--junit", "junit.xml")
    assert holdfast(tmp_path, *words)[0] == 3
    cases = list(ElementTree.parse(tmp_path / "junit.xml").iter("testcase"))
    assert len(cases) == 1
    assert len(list(cases[0].iter("error"))) == 1, "inconclusive must not look like passed"


@pytest.mark.slow
def test_owners_that_die_holding_are_replaced_and_leave_no_orphans(tmp_path: Path) -> None:
    needs.namespaces()
    words = ("--system", "reference", "--workload", "abandoned", "--lease", "500ms")
    ran = run(tmp_path, *words, "--time", "10s", codes=(0, 3))
    nothing_promised_is_violated(ran)
    assert ran.verdict("orphan-freedom") == "HOLDS"
    assert len(list((ran.run_dir / "history").glob("c*.seg"))) > 5, "nobody died"


@pytest.mark.real_server
@pytest.mark.parametrize(
    ("resource", "tokens", "stale"),
    [("unfenced", "none", "VIOLATED"), ("fenced", "counter", "HOLDS")],
)
def test_a_paused_holder_of_redis_writes_late_and_only_fencing_stops_it(
    tmp_path: Path, resource: str, tokens: str, stale: str
) -> None:
    needs.namespaces()
    needs.binary("redis-server")
    words = ("--system", "redis", "--set", f"tokens={tokens}", "--resource", resource)
    ran = run(tmp_path, *words, "--nemesis", HOLDER_PAUSES, "--lease", "1s", "--time", "12s")
    assert ran.verdict("no-stale-write") == stale
    assert ran.verdict("mutual-exclusion") == "HOLDS"
    rejected = ran.verdicts["evidence"]["rejected"]["stale"]
    assert (rejected > 0) == (resource == "fenced")
    most_calls_are_narrowed(ran)


@pytest.mark.real_server
def test_a_redis_whose_clock_jumps_ahead_breaks_leases(tmp_path: Path) -> None:
    needs.namespaces()
    needs.binary("redis-server")
    jump = "clock:step=60s,target=one,every=2s,for=1s"
    ran = run(tmp_path, "--system", "redis", "--nemesis", jump, "--time", "12s")
    assert ran.verdict("mutual-exclusion") == "VIOLATED"
    assert ran.kinds("mutual-exclusion") == {"broken-lease"}
    assert not ran.row("mutual-exclusion")["promised"]


@pytest.mark.docker
def test_the_reference_service_keeps_its_promises_in_containers(tmp_path: Path) -> None:
    needs.engine()
    words = ("--backend", "docker", "--nodes", "5", "--time", "20s", "--lease", "1s")
    ran = run(tmp_path, *words, "--nemesis", "partition,pause,kill,clock", codes=(0, 3))
    nothing_promised_is_violated(ran)
    every_fault_has_evidence(ran, {"partition", "pause", "kill", "clock"})


@pytest.mark.docker
def test_a_vote_without_consensus_breaks_its_promise_in_containers(tmp_path: Path) -> None:
    needs.engine()
    words = ("--backend", "docker", "--system", "majority", "--lease", "1s", "--time", "15s")
    assert run(tmp_path, *words, "--nemesis", "partition,kill", codes=(1,)).code == 1


@pytest.mark.docker
@pytest.mark.parametrize(
    ("resource", "tokens", "stale"),
    [("unfenced", "none", "VIOLATED"), ("fenced", "counter", "HOLDS")],
)
def test_a_paused_holder_of_redis_writes_late_in_containers(
    tmp_path: Path, resource: str, tokens: str, stale: str
) -> None:
    needs.engine()
    words = ("--backend", "docker", "--system", "redis", "--set", f"tokens={tokens}")
    faults = ("--resource", resource, "--nemesis", HOLDER_PAUSES, "--lease", "1s")
    ran = run(tmp_path, *words, *faults, "--time", "12s")
    assert ran.verdict("no-stale-write") == stale
    assert ran.verdict("mutual-exclusion") == "HOLDS"
    most_calls_are_narrowed(ran)


@pytest.mark.docker
def test_a_redis_whose_clock_jumps_ahead_breaks_leases_in_containers(tmp_path: Path) -> None:
    needs.engine()
    jump = "clock:step=60s,target=one,every=2s,for=1s"
    words = ("--backend", "docker", "--system", "redis", "--nemesis", jump, "--time", "12s")
    assert run(tmp_path, *words).kinds("mutual-exclusion") == {"broken-lease"}


def test_a_simulated_run_shows_how_far_its_virtual_time_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Progress, "EVERY_S", 0.0)
    words = ("--backend", "sim", "--time", "9s", "--seed", "7", "--out", tmp_path)
    said = front.holdfast(capsys, "run", *words)
    found = re.findall(r"  simulate +(\d+)%  (\d\.\d) of 9 s, \d+ grants, .*virtual time", said.err)
    percents = [int(percent) for percent, _ in found]
    assert len(set(percents)) > 3 and percents == sorted(percents)
    assert all(
        abs(min(9.0, float(at)) / 9 - n / 100) < 0.02
        for n, (_, at) in zip(percents, found, strict=True)
    )
    assert "deploy" not in said.err


def test_processes_are_not_started_in_a_folder_that_python_cannot_import_from(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """PYTHONPATH is split at colons, and in no other way can a path be written there."""
    words = ("--time", "1s", "--out", tmp_path / "a:b")
    said = front.holdfast(capsys, "run", "--backend", "local-proxy", *words)
    assert said.code == 2 and "choose another folder with --out" in said.err
    assert not (tmp_path / "a:b").exists()
    assert front.holdfast(capsys, "run", "--backend", "sim", *words).code in (0, 3)
