"""Memcached locks: the client with a scripted server, and a real one."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.systems.memcached import client as memcached
from holdfast.clusters.systems.memcached import text_protocol
from holdfast.clusters.systems.memcached.system import SYSTEM
from holdfast.clusters.systems.memcached.text_protocol import Memcached
from holdfast.harness.core.operations import Answer, Grant, Mode, Op, Status
from tests import needs
from tests.clusters.client_setup import client_setup
from tests.front.test_runs import every_fault_has_evidence, nothing_promised_is_violated, run

SECOND = 1_000_000_000
GRANT = Grant(lock="a b", attempt=7, token=-1, ttl_ns=SECOND, granted_at_ns=0)
OURS, THEIRS = b"c1_7", b"c2_1"


def item(value: bytes) -> bytes:
    return b"VALUE a%%20b 0 %d 42\r\n%s\r\nEND\r\n" % (len(value), value)


class Script:
    """A server with one response per command, b"" to close the connection; commands as heard."""

    def __init__(self, *said: bytes) -> None:
        self.said, self.heard = list(said), list[bytes]()

    def handle(self, request: socketserver.StreamRequestHandler) -> None:
        while line := request.rfile.readline():
            if line.startswith((b"add", b"cas")):
                line += request.rfile.readline()
            self.heard.append(line)
            said = self.said.pop(0)
            if not said:
                return
            request.wfile.write(said)


@contextmanager
def over(
    monkeypatch: pytest.MonkeyPatch, script: Script, told: list[Op], **options: str
) -> Iterator[memcached.MemcachedLock]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            script.handle(self)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        monkeypatch.setattr(text_protocol, "PORT", server.server_address[1])
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        setup = client_setup(told, options)
        lock = memcached.MemcachedLock(setup, Memcached("127.0.0.1"))
        try:
            yield lock
        finally:
            lock.close()
            server.shutdown()


def acquired(lock: memcached.MemcachedLock, wait_ns: int = 0) -> Answer:
    return lock.acquire("a b", attempt=7, ttl_ns=SECOND, wait_ns=wait_ns, mode=Mode.EXCLUSIVE)


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (b"STORED\r\n", Status.OK),
        (b"NOT_STORED\r\n", Status.FAIL),
        (b"SERVER_ERROR out of memory storing object\r\n", Status.FAIL),
        (b"STRANGE\r\n", Status.INFO),
        (b"STOR", Status.INFO),
        (b"", Status.INFO),
    ],
)
def test_only_what_is_sure_is_more_than_unknown(
    monkeypatch: pytest.MonkeyPatch, said: bytes, outcome: Status
) -> None:
    monkeypatch.setattr(text_protocol, "ANSWER_WITHIN_S", 0.2)
    with over(monkeypatch, Script(said), []) as lock:
        assert acquired(lock).outcome is outcome


@pytest.mark.parametrize(("margin", "ttl_s"), [("2s", 3), ("1s", 2), ("none", 1)])
def test_a_lease_is_whole_seconds_and_the_margin(
    monkeypatch: pytest.MonkeyPatch, margin: str, ttl_s: int
) -> None:
    script = Script(b"STORED\r\n")
    with over(monkeypatch, script, [], margin=margin) as lock:
        assert acquired(lock) == Answer(outcome=Status.OK, ttl_ns=ttl_s * SECOND)
    assert script.heard == [b"add a%%20b 0 %d 4\r\nc1_7\r\n" % ttl_s]
    promises = with_kinds(SYSTEM.promises({"margin": margin}))
    assert promises.slip_ns // SECOND == ttl_s - 1
    assert ("mutual-exclusion" in promises.keeps) is (margin == "2s")


def test_a_held_key_is_polled_and_the_wait_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Op] = []
    with over(monkeypatch, Script(b"NOT_STORED\r\n", b"STORED\r\n"), told) as lock:
        assert acquired(lock, SECOND).outcome is Status.OK
    assert told == [Op.WAITING]


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ((item(OURS), b"STORED\r\n"), Status.OK),
        ((item(THEIRS),), Status.NOT_OWNER),
        ((b"END\r\n",), Status.NOT_OWNER),
        ((item(OURS), b"EXISTS\r\n"), Status.NOT_OWNER),
        ((item(OURS), b"NOT_FOUND\r\n"), Status.NOT_OWNER),
        ((item(OURS), b""), Status.INFO),
        ((b"",), Status.FAIL),
        ((b"VALUE a 0 9 1\r\nc1_7\r\nEND\r\n",), Status.FAIL),
    ],
)
def test_a_release_compares_the_value_and_its_version(
    monkeypatch: pytest.MonkeyPatch, said: tuple[bytes, ...], outcome: Status
) -> None:
    script = Script(*said)
    with over(monkeypatch, script, []) as lock:
        assert lock.release(GRANT).outcome is outcome
    if outcome is Status.OK:
        assert script.heard[1] == b"cas a%20b 0 -1 4 42\r\nc1_7\r\n"


def test_a_plain_delete_frees_the_lock_of_any_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(b"DELETED\r\n", b"NOT_FOUND\r\n")
    with over(monkeypatch, script, [], release="delete") as lock:
        assert lock.release(GRANT).outcome is Status.OK
        assert lock.release(GRANT).outcome is Status.NOT_OWNER
    assert script.heard[0] == b"delete a%20b\r\n"
    promises = with_kinds(SYSTEM.promises({"release": "delete"}))
    assert not promises.release_proves and "mutual-exclusion" not in promises.keeps


def test_what_was_never_sent_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    with over(monkeypatch, Script(), []) as lock:
        monkeypatch.setattr(text_protocol, "PORT", 1)
        assert acquired(lock).outcome is lock.release(GRANT).outcome is Status.FAIL


def test_a_missing_server_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "install memcached" in str(SYSTEM.precheck())


@pytest.mark.real_server
def test_the_lock_keeps_its_promises_under_partitions(tmp_path: Path) -> None:
    needs.namespaces()
    needs.binary("memcached")
    words = ("--system", "memcached", "--lease", "1s", "--time", "8s")
    ran = run(tmp_path, *words, "--nemesis", "partition:every=4s,for=2s", codes=(0, 3))
    nothing_promised_is_violated(ran)
    every_fault_has_evidence(ran, {"partition"})


@pytest.mark.real_server
def test_a_key_expires_early(tmp_path: Path) -> None:
    needs.namespaces()
    needs.binary("memcached")
    words = ("--system", "memcached", "--workload", "renewal", "--set", "margin=none")
    ran = run(tmp_path, *words, "--lease", "1s", "--time", "6s", codes=(0, 3))
    assert ran.kinds("mutual-exclusion") == {"broken-lease"}
    assert not ran.row("mutual-exclusion")["promised"]
