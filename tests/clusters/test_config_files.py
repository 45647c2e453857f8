"""The user's own configuration of the servers: what is refused, and what the servers are given."""

from __future__ import annotations

import asyncio
import json
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.catalogue import SYSTEMS
from holdfast.clusters.systems.config_files import by_colons, by_equals, by_words
from holdfast.clusters.systems.redis import PORT
from holdfast.clusters.systems.redis.server import said
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Command, Node, Place
from holdfast.harness.core.waiting import until_answer
from holdfast.harness.plans.command_line import run_command
from holdfast.harness.plans.plan import Plan
from holdfast.own_servers import config
from holdfast.planning import prepare
from tests import needs

NODES = [Node(name="n1", role="server", address="10.1.0.1")]


def given(text: str, name: str = "own.conf") -> dict[str, str]:
    """The option as the command line makes it from a file."""
    return {"config": f"#: {name}\n{text}"}


def command(system: str, text: str, folder: Path, address: str = "10.1.0.1") -> Command:
    made: Any = load(SYSTEMS[system].entry)
    place = Place(run_id="r", run_dir=folder, shared=[], label="r")
    node = Node(name="n1", role="server", address=address)
    found: Command = made.command(node, [node], place, given(text))
    return found


def test_the_lines_of_a_file_have_their_numbers_and_values() -> None:
    redis = "#: own.conf\n# mine\n\nMaxMemory  100mb\nsave 60 1\n"
    assert [*by_words(redis)] == [(3, "maxmemory", "100mb"), (4, "save", "60 1")]
    assert [*by_words("maxmemory 1")] == [(1, "maxmemory", "1")], "a text without a name"
    postgres = "a = 'it''s # this'  # why\nb=5 # why\nc off\nd = \"x\"\n"
    assert [*by_equals(postgres)] == [
        (1, "a", "it's # this"), (2, "b", "5"), (3, "c", "off"), (4, "d", "x"),
    ]  # fmt: skip
    etcd = "---\nquota: 5 # why\nname: 'a b'\ntransport:\n  cert: x\nlist:\n- a\n"
    assert [*by_colons(etcd)] == [
        (2, "quota", "5"), (3, "name", "a b"), (4, "transport", ""), (5, "cert: x", ""),
        (6, "list", ""), (7, "- a", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("system", "text", "said"),
    [
        ("redis", "maxmemory 1gb\nPORT 7000\n", r"own.conf:2: port: Holdfast sets the addresses"),
        ("redis", "dir /var/lib/redis\n", "own.conf:1: dir: Holdfast sets the folders"),
        ("redis", "appendonly yes\n", "choose it with --set persistence="),
        ("redlock", "requirepass x\n", "requirepass: the clients log in without credentials"),
        ("zookeeper", "tickTime=2000\n", "tickTime: .* choose it with --set tick="),
        ("zookeeper", "\nserver.1=a:1:2\n", "own.conf:2: server.1: Holdfast sets the addresses"),
        ("etcd", "listen-client-urls: http://a\n", "own.conf:1: listen-client-urls: Holdfast"),
        ("etcd", "x:\n  - a\n", "own.conf:2: - a: only keys with one value are read"),
        ("postgres-lease", "fsync = off\n", "fsync: the promises assume it"),
        ("postgres-advisory", "port 5433\n", "own.conf:1: port: Holdfast sets the addresses"),
        ("memcached", "x\n", "memcached takes no configuration file; these do: redis, etcd"),
    ],
)
def test_what_holdfast_must_own_is_refused_with_its_line(system: str, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        prepare.complete(Plan(system=system, options=given(text)))


def test_all_such_lines_are_told_at_once_and_no_others(tmp_path: Path) -> None:
    plan = Plan(system="redis", nodes=1, options=given("port 1\nmaxmemory 1gb\nbind ::\n"))
    with pytest.raises(UsageError) as wrong:
        prepare.complete(plan)
    assert [problem.split(":")[1] for problem in wrong.value.problems] == ["1", "3"]
    assert prepare.complete(Plan(system="redis", nodes=1, options=given("maxmemory 1gb\n")))
    sim = Plan(system="redlock", backend="sim", options=given("maxmemory 1gb\n"))
    with pytest.raises(UsageError, match="sim starts no servers"):
        prepare.complete(sim)


def test_the_command_line_names_the_file_and_the_plan_has_its_text(tmp_path: Path) -> None:
    file = tmp_path / "own.conf"
    file.write_text("maxmemory 1gb\n")
    text = config.read(file)
    assert text == f"#: {file}\nmaxmemory 1gb\n"
    plan = Plan(system="redis", options={"config": text, "tokens": "counter"})
    assert f" --config {file} --set tokens=counter " in run_command(plan)
    with pytest.raises(UsageError, match=r"--config .*gone.conf: cannot be read"):
        config.read(tmp_path / "gone.conf")


def test_the_servers_of_a_library_and_of_a_lock_of_ones_own_take_it_too() -> None:
    options = {"library": "kazoo", **given("port=1\nserver.2=x\n")}
    with pytest.raises(UsageError, match=r"server.2: Holdfast sets the addresses"):
        prepare.complete(Plan(system="zookeeper", options=options))
    options = {"client": "./lock {servers}", **given("port 1\n")}
    with pytest.raises(UsageError, match=r"own.conf:1: port: Holdfast sets the addresses"):
        prepare.complete(Plan(system="program@redis", options=options))


def test_each_server_is_given_the_settings_beside_those_of_holdfast(tmp_path: Path) -> None:
    lines = command("redis", "maxmemory 1gb\n", tmp_path).argv
    assert Path(lines[1]).read_text() == "#: own.conf\nmaxmemory 1gb\n"
    assert lines[2:4] == ("--bind", "10.1.0.1"), "what stands later counts"
    zookeeper = Path(command("zookeeper", "syncLimit=3\nsnapCount=9\n", tmp_path).argv[-1])
    assert {"syncLimit=3", "snapCount=9", "tickTime=500"} <= {*zookeeper.read_text().split()}
    etcd = command("etcd", "quota-backend-bytes: 100000000\n", tmp_path).argv
    assert etcd[-1] == "--quota-backend-bytes=100000000"
    for system in ("postgres-lease", "postgres-row", "postgres-advisory"):
        made = json.loads(command(system, "work_mem = '8MB'\n", tmp_path).argv[-1])
        assert json.loads(made["own"]) == {"work_mem": "8MB"} and made["address"] == "10.1.0.1"


def test_every_system_that_takes_one_keeps_its_own_command_without_it(tmp_path: Path) -> None:
    place = Place(run_id="r", run_dir=tmp_path, shared=[], label="r")
    for system in config.systems():
        made: Any = load(SYSTEMS[system].entry)
        assert made.config_problems({}) == []
        assert "own.conf" not in str(made.command(NODES[0], NODES, place, {}).argv)


@pytest.mark.real_server
def test_a_real_redis_runs_with_the_user_s_settings(tmp_path: Path) -> None:
    needs.binary("redis-server")
    made = command("redis", "maxmemory 100mb\nmaxmemory-policy noeviction\n", tmp_path, "127.9.8.7")
    with subprocess.Popen(made.argv, stdout=subprocess.DEVNULL) as server:
        try:
            assert asyncio.run(until_answer(partial(_pong, "127.9.8.7"), within_ns=20 * SECOND))
            words = asyncio.run(said("127.9.8.7", PORT, "CONFIG", "GET", "maxmemory"))
            assert words == ["maxmemory", str(100 << 20)]
        finally:
            server.kill()


async def _pong(address: str) -> bool:
    return await said(address, PORT, "PING") == ["PONG"]
