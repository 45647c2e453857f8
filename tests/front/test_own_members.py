"""A lock inside processes: a client knows which one it is, servers start in turn and may import."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast as hf
from holdfast.catalogue.user_system import declared_libraries
from holdfast.clusters.libraries import environments
from holdfast.clusters.systems.program.system import ProgramSystem
from holdfast.clusters.systems.program.table import problems
from holdfast.clusters.systems.user_class.client import made_with
from holdfast.clusters.systems.user_class.system import OwnSystem
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import GENERATION
from holdfast.harness.core.ports import ClientSetup
from tests.front.faulted import in_empty_folder

MEMBERS = '''
"""Each server finds those before it listening, and imports the package of the clients."""
import json
import socket
import socketserver
import sys

PORT = 7470


class Members:
    nodes, ports, start = 2, (PORT,), "in turn"
    libraries = ("holdfast-test-package==1.0",)

    @staticmethod
    def server(name, servers, data, options):
        before = [address for other, address in servers if other < name]
        return ["-m", __name__, dict(servers)[name], *before]

    def __init__(self, servers, options, name, index, address, clients):
        known = dict(clients)
        if name != "probe" and (name != f"c{index + 1}" or known[name] != address):
            raise ValueError(f"{name}, {index}, {address}, {clients}")
        if len(set(known.values())) != 3:
            raise ValueError(f"expected two clients and a probe: {clients}")
        self.address, self.file = (servers[0][1], PORT), None

    def acquire(self, lock, owner, lease_s):
        return self.call("acquire", lock, owner)

    def release(self, lock, owner):
        return self.call("release", lock, owner)

    def call(self, *request):
        if self.file is None:
            self.file = socket.create_connection(self.address, timeout=2).makefile("rw")
        self.file.write(json.dumps(request) + "\\n")
        self.file.flush()
        return json.loads(self.file.readline())


if __name__ == "__main__":
    import holdfast_test_package

    for earlier in sys.argv[2:]:
        socket.create_connection((earlier, PORT), timeout=1).close()
    held = {}

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            for line in self.rfile:
                op, lock, owner = json.loads(line)
                done = held.setdefault(lock, owner) == owner
                if op == "release" and done:
                    del held[lock]
                self.wfile.write(json.dumps(done).encode() + b"\\n")

    socketserver.ThreadingTCPServer.allow_reuse_address = True
    socketserver.ThreadingTCPServer((sys.argv[1], PORT), Handler).serve_forever()
'''


@pytest.mark.slow
def test_members_start_in_turn_with_libraries_and_clients_know_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_empty_folder(tmp_path, monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    package = environments.folder(("holdfast-test-package==1.0",), dependencies=True)
    package.mkdir(parents=True)
    (package / "holdfast_test_package.py").write_text("x = 1\n")
    Path("members.py").write_text(MEMBERS)
    run = hf.run(system="members.py:Members", backend="local", time="2s", clients=2, seed=1)
    assert run.verdicts["mutual-exclusion"] == hf.Verdict.HOLDS, run.judgement


class Own:
    def __init__(self, servers: object, options: object, address: str, index: int) -> None:
        self.known = address, index

    def acquire(self, lock: str, owner: str, lease_s: float) -> bool:
        return True

    def release(self, lock: str, owner: str) -> bool:
        return True


class Late(Own):
    start = "later"


class Named(Own):
    def start(self) -> None:
        """A method of its own."""


def test_a_restarted_client_is_the_same_member() -> None:
    for process, name in ((2, "c2"), (2 + GENERATION, "c2.1")):
        setup = ClientSetup(
            process=process, name=name, servers=(), lease_ns=1, options={},
            tell=lambda *_, **__: None, clients=(("c1", "10.0.0.1"), ("c2", "10.0.0.2")),
        )  # fmt: skip
        assert made_with(Own, setup, lambda: 0.0).known == ("10.0.0.2", 1)


def test_how_servers_start_is_checked() -> None:
    with pytest.raises(UsageError, match="invalid start = 'later': expected one of together, in"):
        OwnSystem(f"{__name__}.Late")
    assert not OwnSystem(f"{__name__}.Named").in_turn
    table = {"client": "lock {index} {address} {clients}", "start": "in turn"}
    assert problems(table) == [] and ProgramSystem(table).in_turn
    assert problems({"client": "a", "start": "late"}) == [
        "start: expected one of together, in turn"
    ]


def test_libraries_are_read_wherever_they_are_assigned() -> None:
    together = b"class L:\n    server, libraries = 'redis', ('rq==2.6.1', 'redis==5.0.8')\n"
    assert declared_libraries(together) == (("rq==2.6.1", "redis==5.0.8"), "")
