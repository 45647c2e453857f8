"""Azure blob leases: the client over blobs in memory, what is refused, and the emulator."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast import catalogue
from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.programs import npm
from holdfast.clusters.systems.azure_blob.system import SYSTEM
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Answer, Grant, Mode, Op, Status
from holdfast.harness.core.ports import Node, Place
from tests import needs
from tests.clusters.client_setup import client_setup
from tests.front.said import holdfast
from tests.front.test_runs import every_fault_has_evidence, nothing_promised_is_violated, run

SECOND = 1_000_000_000
LEASE_NS = 15 * SECOND
GRANT = Grant(lock="l", attempt=7, token=-1, ttl_ns=LEASE_NS, granted_at_ns=0)


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module `blobs`, which imports azure-storage-blob."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(needs.libraries(SYSTEM.libraries))])
    return importlib.import_module("holdfast.clusters.systems.azure_blob.blobs")


class Blobs:
    """Leases as Azure keeps them; `fails` answers the next requests of an action instead."""

    def __init__(self, azure: ModuleType) -> None:
        self._azure = azure
        self.leased: dict[str, str] = {"l": ""}
        self.fails: dict[str, list[tuple[str, Status]]] = {}
        self.asked: list[tuple[Any, ...]] = []

    def create(self, name: str) -> None:
        self._next("create", name)
        self.leased.setdefault(name, "")

    def acquire(self, name: str, owner: str, seconds: int) -> None:
        self._next("acquire", owner, seconds)
        if name not in self.leased:
            raise self._azure.Failed("BlobNotFound", "why", Status.FAIL)
        if self.leased[name] not in ("", owner):
            raise self._azure.Failed("LeaseAlreadyPresent", "why", Status.FAIL)
        self.leased[name] = owner

    def renew(self, name: str, owner: str) -> None:
        self._next("renew", owner)
        self._compare(name, owner)

    def release(self, name: str, owner: str) -> None:
        self._next("release", owner)
        self._compare(name, owner)
        self.leased[name] = ""

    def close(self) -> None:
        """Nothing is open."""

    def _compare(self, name: str, owner: str) -> None:
        if self.leased.get(name) != owner:
            code = "LeaseIdMismatchWithLeaseOperation"
            raise self._azure.Failed(code, "why", Status.FAIL)

    def _next(self, action: str, *words: Any) -> None:
        self.asked.append((action, *words))
        if self.fails.get(action):
            code, outcome = self.fails[action].pop(0)
            raise self._azure.Failed(code, "why", outcome)


def over(blobs: Blobs, told: list[Op] | None = None, **options: str) -> Any:
    setup = client_setup(told, options, lease_ns=LEASE_NS)
    client = importlib.import_module("holdfast.clusters.systems.azure_blob.client")
    return client.BlobLease(setup, blobs)


def acquired(lock: Any, wait_ns: int = 0, attempt: int = 7) -> Answer:
    answer: Answer = lock.acquire(
        "l", attempt=attempt, ttl_ns=LEASE_NS - 1, wait_ns=wait_ns, mode=Mode.EXCLUSIVE
    )
    return answer


@pytest.mark.parametrize(
    ("leases", "seconds", "ttl_ns"), [("timed", 15, LEASE_NS), ("infinite", -1, 0)]
)
def test_a_lease_is_whole_seconds_or_infinite(
    azure: ModuleType, leases: str, seconds: int, ttl_ns: int
) -> None:
    blobs = Blobs(azure)
    lock = over(blobs, leases=leases)
    assert acquired(lock) == Answer(outcome=Status.OK, ttl_ns=ttl_ns)
    assert blobs.asked == [("acquire", "c1_7", seconds)]
    assert lock.renew(GRANT, ttl_ns=60 * SECOND).ttl_ns == LEASE_NS
    assert lock.release(GRANT).outcome is Status.OK
    assert lock.release(GRANT).outcome is Status.NOT_OWNER
    assert lock.renew(GRANT, ttl_ns=LEASE_NS).outcome is Status.NOT_OWNER


def test_a_blob_that_does_not_exist_is_created(azure: ModuleType) -> None:
    blobs = Blobs(azure)
    blobs.leased.clear()
    told: list[Op] = []
    assert acquired(over(blobs, told), SECOND).outcome is Status.OK
    assert [entry[0] for entry in blobs.asked] == ["acquire", "create", "acquire"] and not told


def test_a_leased_blob_is_polled_and_the_wait_is_told(azure: ModuleType) -> None:
    blobs = Blobs(azure)
    blobs.leased["l"] = "c2_1"
    told: list[Op] = []
    assert acquired(over(blobs, told), SECOND // 5) == Answer(outcome=Status.FAIL)
    assert set(told) == {Op.WAITING}


def test_a_lease_of_unknown_state_is_released_before_the_next_acquire(azure: ModuleType) -> None:
    blobs = Blobs(azure)
    lock = over(blobs)
    blobs.fails["acquire"] = [("", Status.INFO)]
    assert acquired(lock, attempt=6).outcome is Status.INFO
    blobs.leased["l"] = "c1_6"
    assert acquired(over(blobs)).outcome is Status.FAIL
    assert acquired(lock).outcome is Status.OK
    assert blobs.asked[-2:] == [("release", "c1_6"), ("acquire", "c1_7", 15)]


@pytest.mark.parametrize(
    ("code", "outcome", "means"),
    [
        ("LeaseIdMismatchWithLeaseOperation", Status.FAIL, Status.NOT_OWNER),
        ("ContainerNotFound", Status.FAIL, Status.NOT_OWNER),
        ("", Status.INFO, Status.INFO),
        ("", Status.FAIL, Status.INFO),
    ],
)
def test_a_release_that_failed_is_carried_out_by_the_next_acquire(
    azure: ModuleType, code: str, outcome: Status, means: Status
) -> None:
    blobs = Blobs(azure)
    lock = over(blobs)
    acquired(lock)
    blobs.fails["release"] = [(code, outcome)]
    assert lock.release(GRANT).outcome is means
    if means is Status.INFO:
        assert acquired(lock, attempt=8).outcome is Status.OK


def test_a_server_that_is_not_there_has_received_nothing(azure: ModuleType) -> None:
    blobs = azure.Blobs("127.0.0.1")
    with pytest.raises(azure.Failed) as failed:
        blobs.acquire("l", "c1_7", 15)
    blobs.close()
    assert failed.value.outcome is Status.FAIL


@pytest.mark.parametrize("lease", ["2s", "14999ms", "61s"])
def test_a_lease_that_azure_does_not_grant_is_refused_before_the_run(
    capsys: pytest.CaptureFixture[str], lease: str
) -> None:
    said = holdfast(capsys, "run", "--system", "azure-blob", "--lease", lease, "--dry-run")
    assert said.code == 2
    assert "azure-blob: --lease" in said.err and "leased for 15 to 60 s" in said.err


def test_the_default_lease_is_one_that_azure_grants(capsys: pytest.CaptureFixture[str]) -> None:
    said = holdfast(capsys, "run", "--system", "azure-blob", "--dry-run")
    assert said.code == 0 and 'lease = "15s"' in said.out
    infinite = ("--system", "azure-blob", "--set", "leases=infinite", "--lease", "2s")
    assert holdfast(capsys, "run", *infinite, "--dry-run").code == 0


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "install Debian's packages nodejs and npm" in str(npm.missing())
    pins = [pin.removeprefix(npm.PREFIX) for pin in SYSTEM.server_pins({})]
    assert pins == ["azurite@3.35.0"]
    with pytest.raises(UsageError, match="install Debian's packages nodejs and npm"):
        load(catalogue.FETCHERS[npm.PREFIX])(SYSTEM.server_pins({}), (), lambda line: None)
    assert "not fetched yet" in str(npm.problem(pins))
    npm.folder(pins).mkdir(parents=True)
    assert "azurite@3.35.0 missing" in str(npm.problem(pins))
    place = Place(run_id="r", run_dir=tmp_path, shared=(tmp_path,), label="r")
    with pytest.raises(EnvironmentFailed, match="not among the run's packages"):
        SYSTEM.command(Node(name="n1", role="server"), [], place, {})


def test_promises_follow_the_leases() -> None:
    timed, infinite = map(with_kinds, map(SYSTEM.promises, ({}, {"leases": "infinite"})))
    assert timed.promised("mutual-exclusion", ["partition", "pause"])
    assert not timed.promised("mutual-exclusion", ["clock"])
    assert infinite.promised("mutual-exclusion", ["clock"]) and infinite.bound == "none"
    assert not infinite.promised("deadlock-freedom", [])


@pytest.mark.real_server
def test_the_lock_keeps_its_promises_under_partitions(tmp_path: Path) -> None:
    needs.namespaces()
    needs.libraries(SYSTEM.libraries)
    needs.unless(npm.missing())
    words = ("--system", "azure-blob", "--time", "12s")
    ran = run(tmp_path, *words, "--nemesis", "partition:every=6s,for=2s", codes=(0, 3))
    nothing_promised_is_violated(ran)
    every_fault_has_evidence(ran, {"partition"})
