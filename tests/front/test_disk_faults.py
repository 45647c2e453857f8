"""Faults of disks in whole runs: what is lost, what is refused before the run, what is left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.clusters.backends import frozen_disks, processes
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.seeds import stream
from holdfast.harness.plans.plan import Plan
from holdfast.harness.runs import registry
from holdfast.planning import checks, prepare
from holdfast.planning.resolve import resolve
from tests import needs
from tests.front import aborted
from tests.front.faulted import in_empty_folder, the_fault
from tests.front.test_links_and_limits import injected

pytestmark = pytest.mark.slow


def planned(*kinds: str, backend: str = "local") -> Plan:
    """A plan with these kinds of fault."""
    return Plan(
        system="reference",
        backend=backend,
        workload="critical-section",
        nemeses=tuple((kind, {}) for kind in kinds),
        time_ns=20 * SECOND,
        seed=1,
    )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.disks()
    in_empty_folder(tmp_path, monkeypatch)


@pytest.mark.usefixtures("here")
def test_the_reference_service_loses_nothing_with_the_power_of_all_its_servers() -> None:
    run = hf.run(nemesis="power:target=all,every=3s,for=300ms", lease="1s", time="6s", seed=1)
    faults = run.faults()
    assert faults.effective.all() and len(faults)
    assert faults.iloc[0].evidence["shut down"] == {"n1": True, "n2": True, "n3": True}
    assert list(run.judgement["problems"]) == []
    # Whether so short a run exercised it is left to chance.
    assert run.verdicts["mutual-exclusion"] != hf.Verdict.VIOLATED
    assert run.verdicts["token-order"] != hf.Verdict.VIOLATED


@pytest.mark.real_server
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("persistence", ["always", "everysec"])
def test_a_redis_that_syncs_once_a_second_issues_its_tokens_again(persistence: str) -> None:
    needs.binary("redis-server")
    run = hf.run(
        system="redis",
        # Owners that hand the lock on: of what is lost in a second there is always some.
        options={"persistence": persistence, "tokens": "counter", "lazy_pct": "0"},
        nemesis="power:target=all,every=2s,for=300ms",
        lease="1s",
        time="8s",
        seed=1,
    )
    faults = run.faults()
    assert len(faults) > 1 and faults.effective.all()
    violated = run.verdicts["token-order"] == hf.Verdict.VIOLATED
    assert violated == (persistence == "everysec")


@pytest.mark.real_server
@pytest.mark.usefixtures("here")
def test_etcd_keeps_its_grants_when_all_its_members_lose_power() -> None:
    needs.binary("etcd")
    run = hf.run(
        system="etcd",
        workload="renewal",
        nemesis="power:target=all,every=9s,for=300ms",
        lease="2s",
        time="6s",
        seed=1,
    )
    (fault,) = run.faults().itertuples()
    assert fault.effective
    # Whether so short a run exercised it is left to chance.
    assert run.verdicts["durable-grants"] != hf.Verdict.VIOLATED


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("do", ["disk-hang", "disk-full", "disk-slow", "disk-error", "sync-lie"])
def test_every_fault_of_a_disk_is_over_after_its_run(do: str) -> None:
    needs.tracing()
    run = hf.run(nemesis=f"{do}:target=leader,every=9s,for=1500ms", lease="1s", time="5s", seed=1)
    the_fault(run)


@pytest.mark.usefixtures("here")
def test_no_system_promises_anything_on_a_disk_that_lies(tmp_path: Path) -> None:
    plan = planned("sync-lie", "power")
    keeps = resolve(plan).promises.keeps["mutual-exclusion"]
    assert "power" in keeps and "kill" in keeps and "sync-lie" not in keeps and "any" not in keeps


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("act", "promised"), [("skip", False), ("fail", True), ("freeze", True)])
def test_no_system_promises_anything_on_a_kernel_that_lies(act: str, promised: bool) -> None:
    plan = replace(planned(), nemeses=(("syscall", {"call": "sync", "act": act}),))
    keeps = resolve(plan).promises.keeps["mutual-exclusion"]
    assert {"syscall", "any"} & {*keeps} == ({"any"} if promised else set())
    assert promised or "kill" in keeps


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "faults", ["power:every=2s,for=300ms", "disk-hang:target=all,every=2s,for=1s"]
)
@pytest.mark.parametrize("who", ["driver", "both"])
def test_a_driver_that_is_killed_leaves_no_disk(tmp_path: Path, faults: str, who: str) -> None:
    started = aborted.start(tmp_path, "local", 1, faults=faults)
    aborted.wait_for(lambda: aborted.disks_of(started.run_dir), 5, "no disk")
    aborted.wait_for(aborted.until(3.0), 8, "time does not pass")
    aborted.kill(started, who)
    started.process.wait(60)
    aborted.wait_for(
        lambda: not aborted.disks_of(started.run_dir),
        10,
        lambda: f"a loop device is left, with {aborted.left_of(started.run_dir)}",
    )
    assert aborted.processes_of(started.run_dir) == []
    assert not (started.run_dir / "data" / "n1").is_mount()


EVERYBODY = [pytest.param(n, marks=pytest.mark.power if n else ()) for n in range(20)]


@pytest.mark.real_server
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("seed", EVERYBODY)
@pytest.mark.parametrize("who", ["everybody", "all but the command", "both agents"])
def test_nothing_is_left_of_a_run_killed_amid_a_disk_hang(
    tmp_path: Path, seed: int, who: str
) -> None:
    """As a control group is killed; etcd has many threads, and the first is a zombie at once while
    another one waits for its disk. What nobody is left to remove, doctor does."""
    needs.binary("etcd")
    run = aborted.start(
        tmp_path, "local", seed, system="etcd", faults="disk-hang:every=3s,for=2700ms,target=all"
    )
    label = run.run_dir.name
    aborted.wait_for(lambda: injected(run.run_dir), 60, "no disk was frozen")
    moment = stream(seed, "moment of the kill").uniform(0, 2.5)
    aborted.wait_for(aborted.until(moment), 8, "time does not pass")
    marked = aborted.processes_of(run.run_dir)
    agents = [pid for pid in marked if "holdfast.nemesis.agent" in processes.shown_line(pid)]
    assert len(agents) == 2
    try:
        if who == "everybody":
            run.process.kill()
        processes.kill(agents if who == "both agents" else [run.driver, *marked])
        run.process.wait(60)
        aborted.doctor(run, "--clean")
        assert aborted.leftovers(run) == []
        assert not [one for one in frozen_disks.devices() if one.label == label]
        assert not [pid for pid in processes.pids() if of_run(pid) == label]
    finally:
        for one in frozen_disks.devices():
            if one.label == label:
                frozen_disks.release(one.path, one.backing)
        run.process.kill()
        run.process.wait(10)


def of_run(pid: int) -> str:
    """The run that a process says it belongs to; of a zombie, a thread that lives."""
    return processes.environ(pid).get(registry.RUN_VARIABLE, "")


@pytest.mark.parametrize("backend", ["docker", "local-proxy"])
def test_a_backend_without_disks_refuses_before_the_run(backend: str) -> None:
    with pytest.raises(UsageError, match="power needs a disk of its own for each server"):
        prepare.complete(planned("power", backend=backend))
    prepare.complete(planned("disk-slow", backend=backend))


def test_an_ordinary_user_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.clusters.backends.local.backend._privileged", lambda: False)
    for module in (prepare, checks):
        monkeypatch.setattr(module, "usable_backend", lambda name: name)
    with pytest.raises(UsageError, match="nemesis power: disks of servers need loop devices"):
        prepare.complete(planned("power"))


@pytest.mark.parametrize("size", ["8", "70000"])
def test_a_disk_of_no_use_is_refused(size: str) -> None:
    with pytest.raises(UsageError, match=f"invalid option disk_mib={size}: expected 16 to 65536"):
        prepare.complete(replace(planned(), options={"disk_mib": size}))


def test_a_simulated_server_loses_its_power_as_it_is_killed() -> None:
    run = hf.simulate(nemesis="power:target=all", seed=3)
    (first, *_) = run.faults().itertuples()
    assert first.effective and len(first.evidence["cut_ns"]) == 2
    assert run.verdicts["mutual-exclusion"] != hf.Verdict.VIOLATED
