"""Kubernetes Leases: our client by itself, and the stand-in of the API server over real etcd."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.clusters.systems.kubernetes import LEASES, PORT
from holdfast.clusters.systems.kubernetes import client as kubernetes
from holdfast.clusters.systems.kubernetes.api_client import Failed, Lease, Leases
from holdfast.clusters.systems.kubernetes.system import SYSTEM
from holdfast.harness.core.operations import Answer, Grant, Mode, Op, Status
from tests import needs
from tests.clusters.client_setup import client_setup
from tests.clusters.live import Live
from tests.front.test_runs import every_fault_has_evidence, nothing_promised_is_violated, run

SECOND = 1_000_000_000
GRANT = Grant(lock="l", attempt=7, token=3, ttl_ns=SECOND, granted_at_ns=0)
OURS = "c1_7"
CONFLICT = Failed(409, "the object has been modified")
SILENT = Failed(0, "no response")


class Script:
    """Leases that were read and results of writes, in order; the last of each is repeated."""

    def __init__(self, reads: list[Lease | Failed | None], writes: list[Failed | None]) -> None:
        self._reads, self._writes = reads, writes
        self.written: list[tuple[str, Any]] = []

    def read(self, name: str) -> Lease | None:
        said = self._reads.pop(0) if len(self._reads) > 1 else self._reads[0]
        if isinstance(said, Failed):
            raise said
        return said

    def create(self, name: str, spec: Any) -> Lease:
        return self.replace(name, "", spec)

    def replace(self, name: str, version: str, spec: Any) -> Lease:
        said = self._writes.pop(0) if len(self._writes) > 1 else self._writes[0]
        self.written.append((version, spec))
        if said is not None:
            raise said
        return of(spec["holderIdentity"], "9", spec["leaseTransitions"])

    def close(self) -> None:
        """Nothing is open."""


def of(holder: str, version: str = "5", transitions: int = 3) -> Lease:
    return Lease(version=version, holder=holder, lease_ns=SECOND // 5, transitions=transitions)


def over(script: Script, told: list[Op] | None = None) -> kubernetes.LeaseLock:
    setup = client_setup(told, {})
    return kubernetes.LeaseLock(setup, script)  # type: ignore[arg-type]


def acquired(script: Script, wait_ns: int = 0, told: list[Op] | None = None) -> Answer:
    lock = over(script, told)
    return lock.acquire("l", attempt=7, ttl_ns=SECOND, wait_ns=wait_ns, mode=Mode.EXCLUSIVE)


@pytest.mark.parametrize(
    ("said", "outcome"), [(None, Status.OK), (CONFLICT, Status.FAIL), (SILENT, Status.INFO)]
)
def test_a_lease_that_does_not_exist_is_won_lost_or_unknown(
    said: Failed | None, outcome: Status
) -> None:
    assert acquired(Script([None], [said])).outcome is outcome


def test_the_token_is_one_more_than_that_of_the_previous_holder() -> None:
    script = Script([of("", transitions=3)], [None])
    assert acquired(script).token == 4
    assert script.written[0][0] == "5"
    assert acquired(Script([None], [None])).token == 0


def test_a_held_lease_is_taken_only_after_it_was_seen_unchanged_for_its_duration() -> None:
    renewed: list[Lease | Failed | None] = [of("c2_1", str(version)) for version in range(3)]
    told: list[Op] = []
    script = Script(renewed, [None])
    start = time.monotonic()
    assert acquired(script, 5 * SECOND, told).outcome is Status.OK
    assert time.monotonic() - start >= 0.2
    assert [version for version, _ in script.written] == ["2"] and set(told) == {Op.WAITING}


def test_a_try_never_takes_what_it_sees_for_the_first_time() -> None:
    script = Script([of("c2_1")], [None])
    assert acquired(script).outcome is Status.FAIL and not script.written


def test_a_lease_of_another_holder_is_neither_renewed_nor_released() -> None:
    for held in (of("c2_1"), of(""), None):
        script = Script([held], [None])
        assert over(script).renew(GRANT, ttl_ns=SECOND).outcome is Status.NOT_OWNER
        assert over(script).release(GRANT).outcome is Status.NOT_OWNER
        assert not script.written


def test_a_renewal_is_repeated_when_its_own_earlier_write_came_between() -> None:
    script = Script([of(OURS, "5"), of(OURS, "6")], [CONFLICT, None])
    assert over(script).renew(GRANT, ttl_ns=SECOND).outcome is Status.OK
    assert [version for version, _ in script.written] == ["5", "6"]


@pytest.mark.parametrize(
    ("reads", "writes", "outcome"),
    [
        ([SILENT], [None], Status.FAIL),
        ([of(OURS)], [SILENT], Status.INFO),
        ([of(OURS)], [Failed(500, "etcd")], Status.INFO),
        ([of(OURS)], [CONFLICT], Status.FAIL),
    ],
)
def test_a_release_is_unknown_only_if_its_write_was_sent(
    reads: Any, writes: Any, outcome: Status
) -> None:
    assert over(Script(reads, writes)).release(GRANT).outcome is outcome


def test_a_server_that_is_not_there_has_received_nothing() -> None:
    with pytest.raises(Failed) as failed:
        Leases(["127.0.0.1"], 0).read("l")
    assert failed.value.outcome is Status.FAIL


class Api:
    """Requests of a user of the API, as they come."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._connection = http.client.HTTPConnection(address, PORT, timeout=5)

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        self._connection.request(method, path, None if body is None else json.dumps(body))
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    needs.binary("etcd")
    with Live(SYSTEM, tmp_path, nodes=1) as live:
        asyncio.run(live.ready(20.0))
        yield Api(live.nodes[0].address)


@pytest.mark.real_server
def test_a_lease_is_created_once_and_replaced_only_under_its_version(api: Api) -> None:
    path = f"{LEASES}/l"
    assert api("GET", path)[0] == 404
    new = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
    code, made = api("POST", LEASES, new)
    assert code == 201
    assert api("POST", LEASES, new)[1]["reason"] == "AlreadyExists"
    assert api("GET", path) == (200, made)
    version = made["metadata"]["resourceVersion"]
    changed = {"metadata": made["metadata"], "spec": {"holderIdentity": "b"}}
    code, replaced = api("PUT", path, changed)
    assert code == 200 and replaced["metadata"]["uid"] == made["metadata"]["uid"]
    assert int(replaced["metadata"]["resourceVersion"]) > int(version)
    code, refused = api("PUT", path, changed)
    assert (code, refused["reason"], refused["code"]) == (409, "Conflict", 409)
    assert api("GET", path)[1]["spec"] == {"holderIdentity": "b"}


@pytest.mark.real_server
def test_a_lock_may_have_any_name(api: Api) -> None:
    leases = Leases([api.address], 0)
    for n, name in enumerate(("a b", "a%20b", "ä/b?c#d")):
        assert leases.read(name) is None
        made = leases.create(name, {"holderIdentity": str(n)})
        assert leases.read(name) == made
        assert leases.replace(name, made.version, {"holderIdentity": ""}).holder == ""
    leases.close()


@pytest.mark.real_server
@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("PUT", f"{LEASES}/l", {"metadata": {"name": "l"}, "spec": {}}, 422),
        (
            "PUT",
            f"{LEASES}/l",
            {"metadata": {"name": "l", "resourceVersion": "3"}, "spec": {}},
            404,
        ),
        ("POST", LEASES, {"metadata": {}}, 400),
        ("POST", LEASES, [], 400),
        ("GET", "/api/v1/pods", None, 404),
    ],
)
def test_what_is_no_request_for_a_lease_is_refused(
    api: Api, method: str, path: str, body: Any, code: int
) -> None:
    assert api(method, path, body)[0] == code


@pytest.mark.real_server
def test_leases_keep_their_promises_under_pauses_and_partitions(tmp_path: Path) -> None:
    needs.namespaces()
    needs.binary("etcd")
    words = ("--system", "kubernetes", "--lease", "1s", "--time", "9s", "--clients", "3")
    faults = "pause:target=holder,every=4s,for=2s,partition:target=one,every=4s,for=1s"
    ran = run(tmp_path, *words, "--nemesis", faults, codes=(0, 3))
    nothing_promised_is_violated(ran)
    every_fault_has_evidence(ran, {"pause", "partition"})
    assert ran.verdict("mutual-exclusion") != "VIOLATED"


@pytest.mark.real_server
@pytest.mark.parametrize("library", ["kubernetes==37.0.2", "kubernetes_asyncio==36.1.0"])
def test_a_leader_cut_off_without_a_response_leads_beside_the_next_one(
    tmp_path: Path, library: str
) -> None:
    needs.namespaces()
    needs.binary("etcd")
    words = ("--system", "kubernetes", "--library", library, "--workload", "leader-election")
    sizes = ("--set", "wait_ms=30000", "--lease", "6s", "--clients", "3", "--time", "20s")
    cut = ("--nemesis", "black-hole:target=holder,every=19s,for=17s,count=1", "--seed", "11")
    ran = run(tmp_path, *words, *sizes, *cut, codes=(1,))
    assert ran.kinds("mutual-exclusion") == {"double-holder"}
