"""S3 object locks: the client over a bucket in memory, and the emulator."""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.systems.s3.system import SYSTEM
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Answer, Grant, Mode, Op, Status
from holdfast.harness.history import reader
from holdfast.harness.runs import journal
from holdfast.harness.runs.directory import RunDir
from tests import needs
from tests.clusters.client_setup import client_setup
from tests.front.test_runs import every_fault_has_evidence, nothing_promised_is_violated, run

SECOND = 1_000_000_000
GRANT = Grant(lock="l", attempt=7, token=-1, ttl_ns=SECOND, granted_at_ns=0)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module `objects`, which imports boto3."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(needs.libraries(SYSTEM.libraries))])
    return importlib.import_module("holdfast.clusters.systems.s3.objects")


class Bucket:
    """Objects as S3 keeps them; `fails` answers the next requests of an action instead."""

    def __init__(self, s3: ModuleType) -> None:
        self._s3 = s3
        self.kept: dict[str, Any] = {}
        self.fails: dict[str, list[tuple[str, Status]]] = {}
        self.asked: list[str] = []
        self._versions = 0

    def create_bucket(self) -> None:
        self._next("create_bucket")

    def read(self, key: str) -> Any:
        self._next("read")
        return self.kept.get(key)

    def write(self, key: str, body: Any, over: Any) -> None:
        self._next("write")
        self._compare(self.kept.get(key), over)
        self._versions += 1
        self.kept[key] = self._s3.StoredObject(body=body, etag=str(self._versions))

    def delete(self, key: str, found: Any) -> None:
        self._next("delete")
        self._compare(self.kept.get(key), found)
        del self.kept[key]

    def put(self, owner: str, *, ends_ns: int = 0, token: int = 0) -> None:
        """An object of another client."""
        self._versions += 1
        body = self._s3.LockBody(owner=owner, ends_ns=ends_ns, token=token)
        self.kept["l"] = self._s3.StoredObject(body=body, etag=str(self._versions))

    def close(self) -> None:
        """Nothing is open."""

    def _compare(self, kept: Any, over: Any) -> None:
        if kept != over:
            raise self._s3.Failed("PreconditionFailed", "not so", Status.FAIL)

    def _next(self, action: str) -> None:
        self.asked.append(action)
        if self.fails.get(action):
            code, outcome = self.fails[action].pop(0)
            raise self._s3.Failed(code, "why", outcome)


def over(bucket: Bucket, told: list[Op] | None = None, **options: str) -> Any:
    setup = client_setup(told, options)
    client = importlib.import_module("holdfast.clusters.systems.s3.client")
    return client.ObjectLock(setup, bucket)


def acquired(lock: Any, wait_ns: int = 0, attempt: int = 7) -> Answer:
    answer: Answer = lock.acquire(
        "l", attempt=attempt, ttl_ns=SECOND, wait_ns=wait_ns, mode=Mode.EXCLUSIVE
    )
    return answer


def test_a_plain_lock_is_one_conditional_write_and_one_delete(s3: ModuleType) -> None:
    bucket = Bucket(s3)
    lock = over(bucket)
    assert acquired(lock) == Answer(outcome=Status.OK)
    assert bucket.asked == ["write"]
    assert lock.renew(GRANT, ttl_ns=SECOND).outcome is Status.OK
    assert lock.release(GRANT).outcome is Status.OK
    assert bucket.kept == {}
    assert lock.release(GRANT).outcome is lock.renew(GRANT, ttl_ns=SECOND).outcome
    assert lock.release(GRANT).outcome is Status.NOT_OWNER


@pytest.mark.parametrize(
    ("code", "outcome", "said"),
    [
        ("PreconditionFailed", Status.FAIL, ""),
        ("ConditionalRequestConflict", Status.FAIL, ""),
        ("", Status.INFO, "why"),
        ("", Status.FAIL, "why"),
        ("SlowDown", Status.FAIL, "SlowDown: why"),
    ],
)
def test_a_write_is_rejected_or_unknown(
    s3: ModuleType, code: str, outcome: Status, said: str
) -> None:
    bucket = Bucket(s3)
    bucket.fails["write"] = [(code, outcome)]
    assert acquired(over(bucket)) == Answer(outcome=outcome, error=said)


def test_an_object_without_a_lease_is_never_written_over(s3: ModuleType) -> None:
    bucket = Bucket(s3)
    bucket.put("c2_1", ends_ns=1)
    told: list[Op] = []
    assert acquired(over(bucket, told), SECOND // 5).outcome is Status.FAIL
    assert set(told) == {Op.WAITING} and bucket.kept["l"].body.owner == "c2_1"


def test_what_an_unanswered_write_left_is_written_over_by_its_client_only(s3: ModuleType) -> None:
    bucket = Bucket(s3)
    lock = over(bucket)
    bucket.fails["write"] = [("", Status.INFO)]
    assert acquired(lock, attempt=6).outcome is Status.INFO
    bucket.put("c1_6")
    assert acquired(over(bucket)).outcome is Status.FAIL
    assert acquired(lock).outcome is Status.OK
    bucket.put("c1_6")
    assert acquired(lock).outcome is Status.OK
    assert bucket.kept["l"].body.owner == "c1_7"


def test_what_is_left_of_another_lock_is_given_back_too(s3: ModuleType) -> None:
    bucket = Bucket(s3)
    lock = over(bucket)
    acquired(lock)
    bucket.fails["delete"] = [("", Status.INFO)]
    assert lock.release(GRANT).outcome is Status.INFO
    bucket.fails["read"] = [("", Status.INFO)]
    other = {"attempt": 8, "ttl_ns": SECOND, "wait_ns": 0, "mode": Mode.EXCLUSIVE}
    assert lock.acquire("m", **other).outcome is Status.FAIL
    assert set(bucket.kept) == {"l"}
    assert lock.acquire("m", **other).outcome is Status.OK
    assert set(bucket.kept) == {"m"}


def test_a_lease_is_taken_over_once_this_clock_is_past_its_end(s3: ModuleType) -> None:
    bucket = Bucket(s3)
    bucket.put("c2_1", ends_ns=time.time_ns() + 60 * SECOND)
    assert acquired(over(bucket, leases="timed")).outcome is Status.FAIL
    bucket.put("c2_1", ends_ns=time.time_ns() - 1)
    assert acquired(over(bucket)).outcome is Status.FAIL
    assert acquired(over(bucket, leases="timed")) == Answer(outcome=Status.OK, ttl_ns=SECOND)
    assert bucket.kept["l"].body.ends_ns > time.time_ns()


def test_the_counter_survives_a_release(s3: ModuleType) -> None:
    bucket = Bucket(s3)
    lock = over(bucket, tokens="counter")
    assert [acquired(lock).token, lock.release(GRANT).outcome] == [0, Status.OK]
    assert [acquired(lock).token, lock.release(GRANT).outcome] == [1, Status.OK]
    assert bucket.kept["l"].body == s3.LockBody(owner="", token=1)


def test_a_renewal_whose_object_changed_by_its_own_earlier_write_is_repeated(
    s3: ModuleType,
) -> None:
    bucket = Bucket(s3)
    lock = over(bucket, leases="timed")
    acquired(lock)
    bucket.fails["write"] = [("PreconditionFailed", Status.FAIL)]
    assert lock.renew(GRANT, ttl_ns=SECOND) == Answer(outcome=Status.OK, ttl_ns=SECOND)
    bucket.fails["write"] = [("PreconditionFailed", Status.FAIL)] * 3
    assert lock.renew(GRANT, ttl_ns=SECOND).outcome is Status.FAIL
    bucket.put("c2_1")
    assert lock.renew(GRANT, ttl_ns=SECOND).outcome is Status.NOT_OWNER


@pytest.mark.parametrize(
    ("action", "code", "outcome", "means"),
    [
        ("read", "", Status.INFO, Status.INFO),
        ("read", "NoSuchBucket", Status.FAIL, Status.NOT_OWNER),
        ("delete", "", Status.INFO, Status.INFO),
        ("delete", "", Status.FAIL, Status.INFO),
    ],
)
def test_a_release_that_failed_is_carried_out_by_the_next_acquire(
    s3: ModuleType, action: str, code: str, outcome: Status, means: Status
) -> None:
    bucket = Bucket(s3)
    lock = over(bucket)
    acquired(lock)
    bucket.fails[action] = [(code, outcome)]
    assert lock.release(GRANT).outcome is means
    if means is Status.INFO:
        assert acquired(over(bucket), attempt=8).outcome is Status.FAIL
        assert acquired(lock, attempt=8).outcome is Status.OK


def test_a_renewal_that_was_not_sent_has_no_effect(s3: ModuleType) -> None:
    bucket = Bucket(s3)
    lock = over(bucket, leases="timed")
    acquired(lock)
    bucket.fails["read"] = [("", Status.INFO)]
    assert lock.renew(GRANT, ttl_ns=SECOND).outcome is Status.FAIL


def test_a_lost_bucket_is_created_again(s3: ModuleType) -> None:
    bucket = Bucket(s3)
    bucket.fails["write"] = [("NoSuchBucket", Status.FAIL)]
    assert acquired(over(bucket), SECOND).outcome is Status.OK
    assert bucket.asked == ["write", "create_bucket", "write"]


def test_a_server_that_is_not_there_has_received_nothing(s3: ModuleType) -> None:
    objects = s3.Objects("127.0.0.1")
    with pytest.raises(s3.Failed) as failed:
        objects.write("l", s3.LockBody(owner="c1_1"), None)
    objects.close()
    assert failed.value.outcome is Status.FAIL


def test_promises_follow_the_options() -> None:
    plain, timed = map(with_kinds, map(SYSTEM.promises, ({}, {"leases": "timed"})))
    assert plain.promised("mutual-exclusion", ["partition", "pause", "clock"])
    assert not plain.promised("orphan-freedom", []) and timed.promised("orphan-freedom", ["pause"])
    assert not timed.promised("mutual-exclusion", ["clock"])
    assert not plain.promised("mutual-exclusion", ["kill"])
    assert plain.tokens == "none" and SYSTEM.promises({"tokens": "counter"}).tokens == "ordered"
    with pytest.raises(UsageError, match="expected one of none, timed"):
        SYSTEM.promises({"leases": "10s"})


@pytest.mark.real_server
def test_a_lease_in_an_object_keeps_its_promises_under_pauses(tmp_path: Path) -> None:
    needs.namespaces()
    needs.libraries(SYSTEM.libraries)
    words = ("--system", "s3", "--set", "leases=timed", "--set", "tokens=counter")
    faults = ("--nemesis", "pause:target=holder,every=4s,for=2s")
    ran = run(tmp_path, *words, "--lease", "1s", "--time", "9s", *faults, codes=(0, 3))
    nothing_promised_is_violated(ran)
    every_fault_has_evidence(ran, {"pause"})
    assert ran.verdict("mutual-exclusion") == ran.verdict("token-order") == "HOLDS"


@pytest.mark.real_server
def test_a_plain_lock_is_granted_again_after_partitions(tmp_path: Path) -> None:
    needs.namespaces()
    needs.libraries(SYSTEM.libraries)
    cut = ("--locks", "3", "--nemesis", "partition:every=4s,for=2s")
    ran = run(tmp_path, "--system", "s3", "--lease", "1s", "--time", "9s", *cut, codes=(0, 3))
    nothing_promised_is_violated(ran)
    every_fault_has_evidence(ran, {"partition"})
    assert "no grant after" not in ran.row("mutual-exclusion")["reason"]
    rows = reader.load(ran.run_dir / "history").history.rows
    granted = rows[np.isin(rows["f"], (Op.ACQUIRE, Op.TRY)) & (rows["status"] == Status.OK)]
    healed = [
        fault.t_ns for fault in journal.faults(RunDir(ran.run_dir)) if fault.event == "healed"
    ]
    assert (granted["t_inv"] > max(t_ns for t_ns in healed if t_ns is not None)).any()
