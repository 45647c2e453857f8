"""A simulated run leaves what a run on hosts leaves, and is judged by the same call."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any, NoReturn

import pytest

from holdfast import catalogue
from holdfast.checkers.evidence.summary import evidence
from holdfast.clusters.backends.sim import scheduler
from holdfast.clusters.backends.sim.backend import Host
from holdfast.clusters.systems.reference.locks.state_machine import Locks
from holdfast.clusters.systems.reference.service.server import Server
from holdfast.clusters.systems.single import simulated as simulated_single
from holdfast.engine import driver_process, judging
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Op
from holdfast.harness.core.ports import Fault
from holdfast.harness.history import reader
from holdfast.harness.judging import judge
from holdfast.harness.judging.run_case import case_of
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.plans.plan import Plan
from holdfast.harness.runs import journal
from holdfast.lenses.certificates import certifier
from holdfast.planning import prepare, run_folder
from holdfast.planning.resolve import resolve
from tests.clusters.sim.ended_at_each_step import collect_what_others_left

MS = 1_000_000
FAULTS: tuple[tuple[str, dict[str, str]], ...] = (("partition", {}), ("kill", {}), ("pause", {}))


def plan(**given: Any) -> Plan:
    usual = {"system": "reference", "backend": "sim", "nodes": 0, "seed": 7}
    return prepare.complete(Plan(**{**usual, "lease_ns": SECOND, "time_ns": 12 * SECOND, **given}))


def simulate(chosen: Plan) -> tuple[Any, Manifest]:
    manifest = prepare.manifest(resolve(chosen), "test", "again")
    return load(manifest.entries.backend)(manifest), manifest


def judged(chosen: Plan) -> dict[str, Any]:
    simulated, manifest = simulate(chosen)
    recording = reader.merge(simulated.written())
    case = case_of(manifest, recording, simulated.marks, simulated.faults)
    checkers = {prop: load(catalogue.CHECKERS[prop]) for prop in manifest.asks}
    found: dict[str, Any] = plain(judge.judge_case(manifest, case, checkers, certifier()))
    return found


def verdicts(found: dict[str, Any]) -> dict[str, str]:
    return {row["property"]: row["verdict"] for row in found["verdicts"]}


def fault(do: str, target: str, at_ms: int, for_ms: int, **params: str) -> Fault:
    return Fault(
        id=f"{do}-{at_ms}",
        do=do,
        target=target,
        at_ns=at_ms * MS,
        for_ns=for_ms * MS,
        params=params,
    )


def test_what_is_judged_in_memory_is_judged_the_same_from_files(tmp_path: Path) -> None:
    chosen = plan(nemeses=FAULTS)
    run = run_folder.create(resolve(chosen), tmp_path, "again")
    driver_process.execute(run, lambda row: None)
    from_files = plain(judging.judge_run(run))
    in_memory = judged(chosen)
    for name in ("verdicts", "faults", "start_ns", "stop_ns", "end_ns", "verdict"):
        assert from_files[name] == in_memory[name], name
    states = reader.load(run.history).states
    assert "c1" in states and "resource" in states
    assert [row.mark for row in journal.marks(run)][-1] == "end"


def test_every_fault_that_can_bite_is_seen_to_bite() -> None:
    chosen = plan(
        faults=[
            fault("partition", "leader", 1000, 1500, shape="isolate"),
            fault("pause", "leader", 4000, 1500),
            fault("kill", "leader", 7000, 1000),
            fault("clock", "leader", 9500, 500, step="5s"),
            fault("freeze", "holder", 10_500, 1200),
        ]
    )
    windows = judged(chosen)["faults"]
    assert [(window["do"], window["effective"]) for window in windows] == [
        ("partition", True),
        ("pause", True),
        ("kill", True),
        ("clock", True),
        ("freeze", True),
    ]
    assert windows[0]["evidence"]["dropped"] > 0


def test_the_majority_vote_is_caught_where_its_servers_forget() -> None:
    found = judged(plan(system="majority", nemeses=(("kill", {}), ("partition", {}))))
    assert found["verdict"] == "VIOLATED"


@pytest.mark.parametrize("system", ["reference", "single"])
def test_a_calm_run_holds_what_it_exercises(system: str) -> None:
    found = judged(plan(system=system))
    assert found["problems"] == []
    assert verdicts(found)["mutual-exclusion"] == "HOLDS"
    assert "VIOLATED" not in verdicts(found).values()


def frozen_holder(resource: str) -> dict[str, str]:
    """The famous case: the holder stands still inside a write until its lease is over."""
    faults = [fault("freeze", "holder", at, 1500) for at in (1000, 4000, 7000)]
    chosen = plan(workload="lost-update", resource=resource, faults=faults, time_ns=10 * SECOND)
    return verdicts(judged(chosen))


def test_a_holder_that_is_frozen_in_a_write_loses_an_update_where_nobody_looks_at_tokens() -> None:
    found = frozen_holder("unfenced")
    assert found["no-lost-update"] == "VIOLATED"
    assert found["mutual-exclusion"] == "HOLDS", "the lock was not to blame"


def test_the_same_write_is_refused_where_tokens_are_looked_at() -> None:
    found = frozen_holder("fenced")
    assert found["no-stale-write"] == "HOLDS", "a stale request was there, and refused"
    assert found["no-lost-update"] == "HOLDS"


def test_a_system_that_cannot_be_simulated_is_refused_with_those_that_can() -> None:
    with pytest.raises(
        UsageError, match="redis does not run in the simulator; these do: reference"
    ) as refused:
        plan(system="redis")
    able = str(refused.value).partition("these do: ")[2].split(", ")
    assert {"none", "cas", "idempotent"} <= set(able)
    for name in able:
        assert plan(system=name).system == name


def test_a_planted_bug_of_another_system_is_refused() -> None:
    with pytest.raises(
        UsageError, match="mutant lost-wake-up is a bug of reference, not of single"
    ):
        plan(system="single", options={"mutant": "lost-wake-up"})


def test_an_owner_that_died_on_purpose_is_started_again_under_another_name() -> None:
    chosen = plan(workload="abandoned", lease_ns=SECOND)
    simulated, _ = simulate(chosen)
    metas = {str(one.meta["writer"]): one.meta for one in simulated.written()}
    again = [name for name in metas if name.endswith(".1") and name.startswith("c")]
    assert again, sorted(metas)
    for name in again:
        number = int(name.partition(".")[0][1:])
        assert metas[name]["processes"] == [number + 1000]
    assert list(simulated.marks[-1].problems) == []


@pytest.mark.filterwarnings("error")
def test_a_run_without_an_end_is_ended_and_leaves_nothing_unawaited(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scheduler, "MOST_EVENTS", 3000)
    monkeypatch.setattr(scheduler, "DRAIN", 500)
    collect_what_others_left()
    with pytest.raises(EnvironmentFailed, match=r"simulator: 3\d\d\d events"):
        simulate(plan())
    gc.collect()
    assert capsys.readouterr().err == ""


def test_a_server_that_fails_with_the_end_of_an_iterator_exits_as_with_any_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def apply(self: Locks, index: int, command: object) -> NoReturn:
        next(iter(()))
        raise AssertionError

    monkeypatch.setattr(Locks, "apply", apply)
    with pytest.raises(EnvironmentFailed, match="exited unexpectedly: RuntimeError: StopIteration"):
        simulate(plan())


def test_a_server_that_fails_while_it_sends_exits_as_with_any_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def emit(self: Server, effects: object) -> NoReturn:
        raise AttributeError("no such field")

    monkeypatch.setattr(Server, "_emit", emit)
    with pytest.raises(EnvironmentFailed, match="exited unexpectedly: AttributeError: no such"):
        simulate(plan())


def test_a_server_that_exits_at_its_start_ends_the_run_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def serve(config: Any, host: Any) -> None:
        raise AssertionError("a broken invariant")

    monkeypatch.setattr(simulated_single, "serve", serve)
    says = "n1 exited unexpectedly: AssertionError: a broken invariant"
    with pytest.raises(EnvironmentFailed, match=says):
        simulate(plan(system="single"))


def test_how_often_the_engine_looks_at_its_counts_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look amid the last instant ended the run before its driver had finished."""
    usual = simulate(plan(time_ns=SECOND))[0].digest
    monkeypatch.setattr(scheduler, "DRAIN", 1)
    assert simulate(plan(time_ns=SECOND))[0].digest == usual


def test_who_leads_after_a_failover_is_known_and_noting_it_changes_no_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To ask the service would send a request: every later delay would be another."""
    chosen = plan(nodes=3, faults=(fault("kill", "leader", 3000, 2000),))
    noted, manifest = simulate(chosen)
    recording = reader.merge(noted.written())
    (failover,) = evidence(case_of(manifest, recording, noted.marks, noted.faults)).failovers
    assert failover.leader_after in {"n1", "n2", "n3"} - {failover.leader_before}
    assert failover.term is not None and failover.term_after is not None
    assert failover.term_after > failover.term
    assert sum(mark.mark == "elected" for mark in noted.marks) >= 2
    monkeypatch.setattr(Host, "elected", lambda host, term: None)
    without, _ = simulate(chosen)
    assert (noted.digest, noted.events) == (without.digest, without.events)


def test_clients_that_poll_seldom_ask_seldom() -> None:
    """Of a lock that is held most of the time, by the option `poll_ms` of `single`."""
    polls = {}
    for longest in ("100", "1000"):
        chosen = plan(system="single", options={"poll_ms": longest})
        rows = reader.merge(simulate(chosen)[0].written()).history.rows
        polls[longest] = int((rows["f"] == Op.WAITING).sum()) / int((rows["f"] == Op.ACQUIRE).sum())
    assert polls["1000"] * 3 < polls["100"], polls
