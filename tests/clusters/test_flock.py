"""Locks by files: each system call by itself, between processes, and in whole runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.systems.flock import client as flock
from holdfast.clusters.systems.flock.files import LockFile, lock_file, path_of
from holdfast.clusters.systems.flock.system import SYSTEM
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Grant, Mode, Op, Status
from holdfast.harness.core.ports import ClientSetup
from tests import needs
from tests.front.test_runs import (
    HOLDER_PAUSES,
    every_fault_has_evidence,
    holdfast,
    nothing_promised_is_violated,
    run,
)

SECOND = 1_000_000_000
KERNEL = ("flock", "fcntl")
ALL = (*KERNEL, "excl")
SOURCES = Path(__file__).resolve().parents[2] / "src"
OTHER = """
import sys, pathlib
from holdfast.clusters.systems.flock.files import lock_file
via, path = sys.argv[1:]
print(lock_file(via, inspect=False).take(pathlib.Path(path), 99, 10**9))
"""
FORKS = """
import os, sys, pathlib
from holdfast.clusters.systems.flock.files import lock_file
via, path = sys.argv[1:]
lock = lock_file(via, inspect=False)
assert lock.take(pathlib.Path(path), 99, 10**9)
if os.fork():
    print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "l.lock"


def of(via: str, *, inspect: bool = False) -> LockFile:
    return lock_file(via, inspect=inspect)


def taken_by_another_process(via: str, path: Path) -> bool:
    argv = [sys.executable, "-P", "-c", OTHER, via, str(path)]
    env = {"PYTHONPATH": str(SOURCES)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout == "True\n"


@pytest.mark.parametrize("via", ALL)
def test_a_file_is_locked_once_at_a_time_in_one_process_and_between_two(
    via: str, path: Path
) -> None:
    one, two = of(via), of(via)
    assert one.take(path, 1, SECOND) and not two.take(path, 2, SECOND)
    assert not taken_by_another_process(via, path)
    assert one.keep(path, 1) and not two.keep(path, 2) and not two.free(path, 2)
    assert one.free(path, 1) and not one.free(path, 1)
    assert taken_by_another_process(via, path)
    assert two.take(path, 2, SECOND), "the lock of a process ends with it"
    two.close()


@pytest.mark.parametrize(("via", "kept"), [("flock", True), ("fcntl", False)])
def test_a_record_lock_ends_when_any_descriptor_of_its_file_is_closed(
    via: str, kept: bool, path: Path
) -> None:
    one = of(via)
    assert one.take(path, 1, SECOND)
    path.read_text()
    assert one.keep(path, 1) is kept
    assert taken_by_another_process(via, path) is not kept
    assert one.free(path, 1) is kept


def test_an_owner_that_inspects_its_file_believes_in_a_record_lock_that_is_gone(
    path: Path,
) -> None:
    one = of("fcntl", inspect=True)
    assert one.take(path, 1, SECOND) and path.read_text().strip() == "1"
    assert one.keep(path, 1) and taken_by_another_process("fcntl", path)
    one.close()


@pytest.mark.parametrize("via", KERNEL)
def test_a_closed_client_holds_nothing(via: str, path: Path) -> None:
    one, two = of(via), of(via)
    assert one.take(path, 1, SECOND)
    one.close()
    assert not one.keep(path, 1) and two.take(path, 2, SECOND)
    two.close()


@pytest.mark.parametrize("via", KERNEL)
def test_a_failed_system_call_leaves_nothing_behind(via: str, path: Path) -> None:
    one = of(via)
    with pytest.raises(FileNotFoundError):
        one.take(path.parent / "missing" / "l.lock", 1, SECOND)
    (path.parent / "missing").mkdir()
    assert one.take(path.parent / "missing" / "l.lock", 1, SECOND)
    one.close()


def test_a_file_older_than_its_lease_is_stale_and_a_touched_one_is_not(path: Path) -> None:
    one, two = of("excl"), of("excl")
    assert one.take(path, 1, SECOND)
    os.utime(path, (0, 0))
    assert one.keep(path, 1) and not two.take(path, 2, SECOND)
    os.utime(path, (0, 0))
    assert two.take(path, 2, SECOND)
    assert not one.keep(path, 1) and not one.free(path, 1) and two.free(path, 2)


def test_a_file_whose_owner_died_before_it_wrote_is_stale_after_a_lease(path: Path) -> None:
    path.touch()
    assert not of("excl").take(path, 1, SECOND)
    os.utime(path, (0, 0))
    assert of("excl").take(path, 1, SECOND)


def test_the_second_of_two_that_see_a_stale_file_removes_the_new_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.touch()
    os.utime(path, (0, 0))
    looked: list[bool] = []

    def then_another_takes_it(seen: Path, ttl_ns: int) -> bool:
        monkeypatch.undo()
        looked.append(of("excl").take(seen, 2, ttl_ns))
        return True

    monkeypatch.setattr("holdfast.clusters.systems.flock.files._stale", then_another_takes_it)
    assert of("excl").take(path, 1, SECOND) and looked == [True]


@pytest.mark.parametrize(("via", "orphan"), [("flock", True), ("fcntl", False)])
def test_a_forked_child_keeps_the_flock_of_a_dead_owner(via: str, orphan: bool, path: Path) -> None:
    argv = [sys.executable, "-P", "-c", FORKS, via, str(path)]
    env = {"PYTHONPATH": str(SOURCES)}
    with subprocess.Popen(
        argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        assert parent.stdout.readline() == "held\n"
        parent.kill()
        parent.wait()
        one = of(via)
        assert one.take(path, 1, SECOND) is not orphan
        one.close()
        parent.stdin.close()
        assert parent.stdout.read() == "", "until the child has ended"
    assert of(via).take(path, 2, SECOND)


def test_any_lock_name_is_a_file_in_the_folder(tmp_path: Path) -> None:
    for name in ("../up", "/a/b", "..", "ä b"):
        assert path_of(str(tmp_path), name).parent == tmp_path / "data" / "locks"


def made(folder: Path, told: list[Op], **options: str) -> flock.FileLock:
    setup = ClientSetup(
        process=1,
        name="c1",
        servers=(),
        lease_ns=SECOND,
        options=options,
        tell=lambda op, **rest: told.append(op),
        folder=str(folder),
    )
    lock = flock.client(setup)
    lock.open()
    return lock


@pytest.mark.parametrize("via", ALL)
def test_a_client_waits_by_polling_and_answers_for_its_own_attempts_only(
    tmp_path: Path, via: str
) -> None:
    told: list[Op] = []
    one, two = made(tmp_path, told, via=via), made(tmp_path, told, via=via)
    answer = one.acquire("l", attempt=1, ttl_ns=SECOND, wait_ns=0, mode=Mode.EXCLUSIVE)
    assert answer.outcome is Status.OK
    assert answer.ttl_ns == (SECOND if via == "excl" else 0)
    wait_ns = SECOND // 20
    refused = two.acquire("l", attempt=2, ttl_ns=SECOND, wait_ns=wait_ns, mode=Mode.EXCLUSIVE)
    assert refused.outcome is Status.FAIL and set(told) == {Op.WAITING}
    grant = Grant(lock="l", attempt=1, token=-1, ttl_ns=answer.ttl_ns, granted_at_ns=0)
    elsewhere = Grant(lock="l", attempt=2, token=-1, ttl_ns=0, granted_at_ns=0)
    assert two.renew(elsewhere, ttl_ns=SECOND) == two.release(elsewhere) == flock.LOST
    assert one.renew(grant, ttl_ns=SECOND).ttl_ns == answer.ttl_ns
    assert one.release(grant).outcome is Status.OK
    assert one.release(grant) == flock.LOST


def test_options_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match="inspect=yes requires"):
        SYSTEM.promises({"via": "excl", "inspect": "yes"})
    assert with_kinds(SYSTEM.promises({})).keeps["mutual-exclusion"] == ("any",)
    assert with_kinds(SYSTEM.promises({"via": "excl"})).keeps["mutual-exclusion"] == ()
    assert "mutual-exclusion" not in SYSTEM.promises({"via": "fcntl", "inspect": "yes"}).keeps


def test_a_backend_without_shared_process_ids_is_refused_with_the_reason(tmp_path: Path) -> None:
    words = ("run", "--system", "flock", "--backend", "docker")
    code, _, err = holdfast(tmp_path, *words)
    assert code == 2
    assert "share a file system and process ids" in err and "--backend local" in err


@pytest.mark.real_server
@pytest.mark.parametrize("via", KERNEL)
def test_kernel_locks_keep_their_promises_under_pauses_and_kills(tmp_path: Path, via: str) -> None:
    needs.namespaces()
    faults = f"{HOLDER_PAUSES},kill:target=holder,every=3s,for=300ms"
    words = ("--system", "flock", "--set", f"via={via}", "--lease", "1s", "--time", "8s")
    ran = run(tmp_path, *words, "--nemesis", faults, codes=(0, 3))
    nothing_promised_is_violated(ran)
    every_fault_has_evidence(ran, {"pause", "kill"})


@pytest.mark.real_server
def test_record_locks_of_owners_that_inspect_their_file_exclude_nobody(tmp_path: Path) -> None:
    needs.namespaces()
    words = ("--system", "flock", "--set", "via=fcntl", "--set", "inspect=yes", "--time", "3s")
    ran = run(tmp_path, *words, codes=(0, 3))
    assert ran.kinds("mutual-exclusion") == {"double-holder"}
    assert not ran.row("mutual-exclusion")["promised"]
