"""A client of the user on the servers of a built-in system."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast as hf
from holdfast import catalogue
from holdfast.api import plan_options
from holdfast.catalogue import user_system
from holdfast.catalogue.user_system import declared_libraries
from holdfast.clusters.libraries.system import KEPT, REACHED
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.plans.plan import Plan, lock_and_servers
from holdfast.planning import prepare
from tests import needs
from tests.front.faulted import in_empty_folder
from tests.front.said import holdfast

Write = Callable[..., str]
Capture = pytest.CaptureFixture[str]
BARE = (
    "class L:\n    def __init__(self, *a): pass\n    def acquire(self, *a): return 1\n"
    "    def release(self, *a): return True\n"
)
# Over the wire protocol, so that no package has to be fetched.
DELETES = """
import socket


class DeletesAlways:
    def __init__(self, servers, options):
        self.address = (servers[0][1], 6379)
        self.lines = None

    def call(self, *words):
        if self.lines is None:
            self.socket = socket.create_connection(self.address, timeout=1)
            self.lines = self.socket.makefile("rb")
        parts = [f"${len(str(word))}\\r\\n{word}\\r\\n" for word in words]
        self.socket.sendall(f"*{len(words)}\\r\\n{''.join(parts)}".encode())
        return self.lines.readline().decode().strip()

    def acquire(self, lock, owner, lease_s):
        return self.call("SET", lock, owner, "NX", "PX", int(lease_s * 1000)) == "+OK"

    def release(self, lock, owner):
        self.call("DEL", lock)
        return True
"""
PROGRAM = Path(__file__).parents[2] / "examples" / "clients" / "redis_lock.py"


@pytest.fixture
def lock(tmp_path: Path) -> Write:
    """Writes a file and gives the name of its class L as a system."""

    def write(text: str = BARE, of: str = "L", name: str = "my lock.py") -> str:
        (tmp_path / name).write_text(text)
        return f"{tmp_path}/{name}" + (f":{of}" if of else "")

    return write


def test_the_servers_are_named_behind_the_lock() -> None:
    assert lock_and_servers("a@b/my.py:L@redis-sentinel") == ("a@b/my.py:L", "redis-sentinel")
    assert lock_and_servers("my.toml@etcd") == ("my.toml", "etcd")
    assert lock_and_servers("program@etcd") == ("program", "etcd")
    assert lock_and_servers("my.py:L") == ("my.py:L", "")
    assert lock_and_servers("redis") == ("redis", "")


def test_deployment_and_options_are_those_of_the_servers(lock: Write) -> None:
    name = f"{lock()}@etcd"
    row = user_system.row(name)
    etcd = catalogue.SYSTEMS["etcd"]
    assert (row.nodes, row.most, row.simulated) == (etcd.nodes, etcd.most, "")
    made = load(row.entry)
    assert made.client.endswith(".L") and made.ports == load(etcd.entry).ports
    options = {"version": "3.5.0"}
    assert made.server_pins(options) == load(etcd.entry).server_pins(options)
    with pytest.raises(UsageError, match="unknown option colour"):
        made.promises({"colour": "red"})
    assert user_system.declared_name(name) == "my lock.py:L@etcd"
    assert user_system.identity(name).startswith("my lock.py:L@etcd@")
    assert user_system.identity(name) != user_system.identity(lock())


def test_options_of_the_class_do_not_reach_the_servers(lock: Write) -> None:
    made = load(user_system.row(f"{lock(BARE + '    options = dict(colour=1)')}@redis").entry)
    made.promises({"colour": "2", "persistence": "always"})
    with pytest.raises(UsageError, match="unknown option persistenze"):
        made.promises({"colour": "2", "persistenze": "always"})


def test_by_default_it_promises_what_a_lock_keeps_while_its_servers_run(lock: Write) -> None:
    keeps = load(user_system.row(f"{lock()}@redis").entry).promises({}).keeps
    assert keeps["mutual-exclusion"] == KEPT and keeps["deadlock-freedom"] == REACHED
    ordered = BARE + "    tokens = 'ordered'\n"
    keeps = load(user_system.row(f"{lock(ordered)}@redis").entry).promises({}).keeps
    assert keeps["token-order"] == keeps["no-stale-write"] == KEPT
    stated = BARE + "    promises = {'mutual-exclusion': ['kill']}\n"
    keeps = load(user_system.row(f"{lock(stated)}@redis").entry).promises({}).keeps
    assert keeps == {"mutual-exclusion": ("kill",)}


@pytest.mark.parametrize(
    ("text", "servers", "expected"),
    [
        (BARE, "@rediss", "did you mean 'redis'?"),
        (BARE, "@flock", "unknown system with servers"),
        (BARE + "    server = 'etcd'\n", "@redis", "leave out @redis"),
        (BARE + "    server = 'etcd'\n    ports = (1,)\n", "", "has its own nodes and ports"),
        (BARE + "    server = 'etdc'\n", "", "did you mean 'etcd'?"),
        (BARE + "    ports = (1,)\n    def server(self, *a): ...\n", "@redis", "leave out @redis"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    lock: Write, text: str, servers: str, expected: str
) -> None:
    with pytest.raises(UsageError) as error:
        user_system.row(lock(text) + servers)
    (line,) = error.value.problems
    assert expected in line


def test_a_class_or_table_may_name_them_itself(lock: Write) -> None:
    entry = user_system.row(lock(BARE + "    server = 'etcd'\n")).entry
    assert "etcd" in entry
    table = '[system]\nclient = "node lock.mjs {servers}"\nserver = "etcd"\n'
    described = user_system.row(lock(table, "", "my.toml"))
    assert described.nodes == catalogue.SYSTEMS["etcd"].nodes
    own = '[system]\nclient = "./c"\nserver = "./s"\nports = [7400]\n'
    assert user_system.row(lock(own, "", "own.toml")).nodes == 1


def test_what_a_built_in_system_has_itself_is_refused_in_a_table(lock: Write) -> None:
    table = '[system]\nclient = "node lock.mjs {servers}"\nserver = "etcd"\nnodes = 5\n'
    with pytest.raises(UsageError, match="nodes: etcd is a built-in system with its own"):
        user_system.row(lock(table, "", "my.toml"))


def test_the_simulator_refuses_it(lock: Write) -> None:
    plan = plan_options.from_options({"system": f"{lock()}@redis", "backend": "sim"}, [])
    with pytest.raises(UsageError, match="does not run in the simulator"):
        prepare.prepared(plan)


def test_libraries_are_read_without_executing_the_file() -> None:
    text = b"import redis\nclass L:\n    libraries = ('redis==8.1.0',)\nclass M:\n    x = 1\n"
    assert declared_libraries(text) == (("redis==8.1.0",), "")
    assert declared_libraries(b"class L:\n    libraries = PINS\n") == ((), "")
    assert declared_libraries(b"class L(:\n") == ((), "")


def test_a_package_that_is_declared_nowhere_is_told(lock: Write) -> None:
    with pytest.raises(UsageError, match="it is not installed beside Holdfast"):
        user_system.row(lock("import no_such_package_anywhere\n" + BARE))


def test_client_is_short_for_the_name(capsys: Capture, lock: Write) -> None:
    mine = lock()
    of_class = holdfast(capsys, "run", "--system", "redis", "--client", mine, "--dry-run")
    assert f'system = "{mine}@redis"' in of_class.out
    of_program = holdfast(
        capsys, "run", "--system", "etcd", "--client", "true {servers}", "--dry-run"
    )
    assert 'system = "program@etcd"' in of_program.out
    twice = holdfast(capsys, "run", "--system", mine, "--client", mine)
    assert twice.code == 2 and "has a client of its own" in twice.err


@pytest.mark.slow
@pytest.mark.real_server
def test_a_class_with_an_unconditional_delete_is_violated_on_our_redis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    in_empty_folder(tmp_path, monkeypatch)
    needs.binary("redis-server")
    Path("mylock.py").write_text(DELETES)
    tried = holdfast(capsys, "doctor", "--system", "mylock.py:DeletesAlways@redis")
    assert tried.code == 2 and "which does not hold, returned ok" in tried.out + tried.err
    run = hf.run(
        system="mylock.py:DeletesAlways@redis",
        nemesis="pause:target=holder,every=2s,for=1500ms",
        lease="500ms",
        time="8s",
        seed=3,
    )
    assert run.verdicts["ownership"] == hf.Verdict.VIOLATED


@pytest.mark.slow
@pytest.mark.real_server
def test_a_program_holds_on_our_redis_and_doctor_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    in_empty_folder(tmp_path, monkeypatch)
    needs.binary("redis-server")
    shutil.copy(PROGRAM, "redis_lock.py")
    command = "python3 redis_lock.py {servers}"
    Path("mylock.toml").write_text(f'[system]\nclient = "{command}"\nserver = "redis"\n')
    assert holdfast(capsys, "doctor", "--system", "mylock.toml").code == 0
    ran = holdfast(
        capsys, "run", "--system", "redis", "--client", command, "--set", "persistence=always",
        "--nemesis", "kill:every=3s,for=100ms", "--time", "6s", "--seed", 3,
    )  # fmt: skip
    assert ran.code in (0, 3) and "program@redis" in ran.out


def test_a_plan_names_it_like_any_system(lock: Write) -> None:
    plan = Plan(system=f"{lock()}@redis")
    assert prepare.prepared(plan_options.from_options({"system": plan.system}, [])).row.most


# kazoo's own state says for ever that it holds, and its release returns true (kazoo#213).
KAZOO = """
class Semaphore:
    libraries = ("kazoo==2.11.0",)
    bound = "session"

    def __init__(self, servers, options):
        from kazoo.client import KazooClient

        self.zk = KazooClient(f"{servers[0][1]}:2181", timeout=1)
        self.zk.start()
        self.held = {}

    def acquire(self, lock, owner, lease_s, permits=1, limit=1):
        self.held[owner] = self.zk.Semaphore("/" + lock, owner, max_leases=limit)
        return self.held[owner].acquire(blocking=False)

    def renew(self, lock, owner, lease_s):
        return self.held[owner].is_acquired

    def release(self, lock, owner):
        return self.held.pop(owner).release()
"""


@pytest.mark.slow
@pytest.mark.real_server
def test_a_semaphore_that_outlives_its_session_is_violated_on_our_zookeeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    in_empty_folder(tmp_path, monkeypatch)
    needs.binary("java")
    Path("mylock.py").write_text(KAZOO)
    tried = holdfast(capsys, "doctor", "--system", "mylock.py:Semaphore@zookeeper")
    assert tried.code == 0, tried.out + tried.err
    ran = holdfast(
        capsys, "run", "--system", "zookeeper", "--client", "mylock.py:Semaphore",
        "--workload", "semaphore", "--set", "permits=1", "--time", "8s", "--seed", 1,
        "--nemesis", "pause:target=holder,every=3s,for=2500ms",
    )  # fmt: skip
    assert ran.code == 1 and "Over-admission" in ran.out
