"""The cluster of a run: what is started in which order, with which files, and what became of it."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.ports import Command, Image, Leader, Mount, Node, Place
from holdfast.harness.driver import cluster as cluster_module
from holdfast.harness.driver.cluster import Cluster
from tests.harness.driver.machine import (
    OPTIONS,
    PLAN,
    PYTHON,
    STAYS,
    Books,
    Machine,
    Service,
    cluster,
)

SERVERS, CLIENTS = ["n1", "n2"], ["c1", "c2", "c3"]
REST = ["resource", *CLIENTS, "probe"]
MIB = 1 << 20


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    (tmp_path / "workers").mkdir()
    made = Machine(tmp_path)
    yield made
    made.end()


def config(machine: Machine, writer: str) -> dict[str, Any]:
    """What a worker is told."""
    found: dict[str, Any] = json.loads((machine.folder / f"workers/{writer}.json").read_text())
    return found


def test_servers_are_ready_before_anything_else_starts(machine: Machine) -> None:
    agent, service = Books(), Service()
    made = cluster(machine, service, agent)
    asyncio.run(made.open())
    assert machine.order[:2] == SERVERS and sorted(machine.order[2:]) == sorted(REST)
    roles = {role: [node.name for node in made.named(role)] for role in ("server", "client")}
    assert roles == {"server": SERVERS, "client": CLIENTS}
    assert [do for do, _ in agent.asked] == ["adopt"] * 14
    first = [(one["node"], one["processes"]) for one in agent.of("adopt")[:7]]
    assert first == [(name, []) for name in (*SERVERS, *REST)], "nodes, before their processes"
    pids = {name: process.pid for name, process in machine.processes.items()}
    then = {one["node"]: one["processes"] for one in agent.of("adopt")[7:]}
    assert then == {name: [pid] for name, pid in pids.items()}
    addresses = {node.name: node.address for node in made.nodes}
    assert all(one["address"] == addresses[one["node"]] for one in agent.of("adopt"))
    assert all(one["pid"] == os.getpid() for one in agent.of("adopt"))
    assert service.asked == [(name, {"flavour": "plain"}) for name in SERVERS]


def test_locks_that_lie_outside_the_run_are_named_by_it(machine: Machine) -> None:
    """What another run holds there, or left when its owner was killed, is not met."""
    own = ["lock-1", "lock-2"]
    assert cluster(machine, Service(), Books()).lock_names() == own
    service = Service()
    service.outside = True  # type: ignore[attr-defined]
    running = replace(OPTIONS, system={"running": "127.0.0.1:7001"})
    for made in (
        cluster(machine, service, Books()),
        cluster(machine, Service(), Books(), options=running),
    ):
        first = made.lock_names()
        assert all(re.fullmatch(r"lock-[12]-[0-9a-f]{6}", name) for name in first)
        assert made.lock_names() == first
        made.place = replace(made.place, label="another run")
        assert not {*first} & {*made.lock_names()}
        made.plan = replace(PLAN, backend="sim")
        assert made.lock_names() == own, "nothing outlives a simulated run"
        made.plan = replace(PLAN, options={**PLAN.options, "lock_names": "a+b"})
        assert made.lock_names() == ["a", "b"], "the user's own names"


def test_what_the_plan_has_faults_for_is_prepared_before_the_servers_start(
    machine: Machine,
) -> None:
    agent = Books(before=lambda do, args: machine.order.append(do))
    options = replace(OPTIONS, backend={"disk_mib": "8"})
    asyncio.run(cluster(machine, Service(), agent, options=options, tapped=True).open())
    order = [what for what in machine.order if what != "adopt"]
    assert order[:7] == ["tap", "tap", "tap", "disk", "disk", *SERVERS]
    assert order[7] == "sync_disks", "what a server wrote until it is ready"
    links = [
        {"listen": "127.78.0.1", "to": "10.0.0.1", "ports": [5000, 5001]},
        {"listen": "127.78.0.2", "to": "10.0.0.2", "ports": [5000, 5001]},
    ]
    assert agent.of("tap") == [{"node": name, "links": links} for name in CLIENTS]
    assert agent.of("disk") == [
        {"node": name, "path": f"{machine.folder}/data/{name}", "bytes": 8 * MIB}
        for name in SERVERS
    ]
    taps = [["n1", "127.78.0.1"], ["n2", "127.78.0.2"]]
    assert [config(machine, name)["servers"] for name in CLIENTS] == [taps] * 3
    direct = [["n1", "10.0.0.1"], ["n2", "10.0.0.2"]]
    assert config(machine, "probe")["servers"] == direct


class Shared(Machine):
    """Nodes of one network, whose links the agent forwards."""

    def proxy_links(self, ports: Sequence[int]) -> Sequence[Mapping[str, Any]]:
        return [{"src": "n1", "dst": "n2", "ports": list(ports)}]


def test_links_of_nodes_on_one_network_are_forwarded_with_the_port_of_the_resource(
    tmp_path: Path,
) -> None:
    (tmp_path / "workers").mkdir()
    machine, agent = Shared(tmp_path), Books()
    made = cluster(machine, Service(), agent)
    try:
        asyncio.run(made.open())
    finally:
        machine.end()
    ports = [5000, 5001, made.entries.resource_port]
    assert agent.asked[0] == ("proxy", {"links": [{"src": "n1", "dst": "n2", "ports": ports}]})


def test_a_client_is_told_all_that_it_needs_and_the_probe_is_a_client_more(
    machine: Machine,
) -> None:
    made = cluster(machine, Service(), Books(), ordered=True, site=["/site"])
    asyncio.run(made.open())
    folder = str(machine.folder)
    told = config(machine, "c2")
    assert told == {
        "writer": "c2",
        "node": "c2",
        "role": "client",
        "history": f"{folder}/history",
        "phase": f"{folder}/phase",
        "over_ns": made.over_ns,
        "processes": [2],
        "servers": [["n1", "10.0.0.1"], ["n2", "10.0.0.2"]],
        "clients": [*([f"c{n}", f"10.0.0.{3 + n}"] for n in (1, 2, 3)), ["probe", "10.0.0.7"]],
        "orders": f"{folder}/workers/c2.order",
        "again": False,
        "client": made.system.client,
        "workload": made.entries.workload,
        "resource": {"connect": made.entries.resource_client, "address": "10.0.0.3"},
        "options": {"flavour": "plain"},
        "workload_options": {"probe_ns": "1000", "depth": "3"},
        "lease_ns": PLAN.lease_ns,
        "seed": 5,
        "folder": folder,
        "locks": ["lock-1", "lock-2"],
        "site": ["/site"],
        "marked": False,
    }
    probe = config(machine, "probe")
    assert {name for name in told if probe[name] != told[name]} == {
        "writer", "node", "role", "processes", "orders", "workload",
    }  # fmt: skip
    assert (probe["processes"], probe["orders"], probe["workload"]) == ([4], "", made.entries.probe)
    resource = config(machine, "resource")
    assert {name: resource[name] for name in ("role", "mode", "earlier", "address")} == {
        "role": "resource", "mode": PLAN.resource, "earlier": [], "address": "10.0.0.3",
    }  # fmt: skip
    command = machine.commands["c2"]
    module = ("-S", "-P", "-m", "holdfast.harness.client.worker")
    assert command.argv == (PYTHON, *module, f"{folder}/workers/c2.json")
    assert command.env == {
        "PYTHONPATH": f"{folder}/code.zip",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOLDFAST_RUN": "r",
    }
    assert machine.commands["resource"].argv[4] == made.entries.resource_main


@pytest.mark.parametrize(
    ("workers", "clients", "shares"),
    [("1", 3, [[1, 2, 3]]), ("2", 5, [[1, 3, 5], [2, 4]]), ("0", 2, [[1], [2]])],
)
def test_clients_are_dealt_to_the_processes_that_they_share(
    machine: Machine, workers: str, clients: int, shares: list[list[int]]
) -> None:
    options = replace(OPTIONS, workload={"workers": workers}, resource={"bugs": "one"})
    plan = replace(PLAN, clients=clients)
    made = cluster(machine, Service(), Books(), plan=plan, options=options)
    asyncio.run(made.open())
    assert [config(machine, node.name)["processes"] for node in made.named("client")] == shares
    assert config(machine, "probe")["processes"] == [clients + 1]
    assert config(machine, "resource")["bugs"] == "one"


def test_what_is_started_again_is_another_client_and_the_same_resource(machine: Machine) -> None:
    made = cluster(machine, Service(), Books())

    async def twice() -> None:
        await made.open()
        for name in ("c2", "c2", "resource", "resource", "n1"):
            await made.start(name)

    asyncio.run(twice())
    once = config(machine, "c2.1")
    assert (once["processes"], once["again"]) == ([1002], True)
    again = config(machine, "c2.2")
    assert (again["processes"], again["writer"], again["again"]) == ([2002], "c2.2", True)
    assert config(machine, "resource.2")["earlier"] == ["resource", "resource.1"]
    running = made.running["c2"]
    assert (running.generation, running.writer, running.name) == (2, "c2.2", "worker")
    assert (made.running["n1"].writer, made.running["n1"].name) == ("n1.1", "server")
    assert running.pid == machine.processes["c2"].pid


def test_the_servers_of_another_release_get_its_options(machine: Machine) -> None:
    service = Service(env={"PATH": "theirs", "HOLDFAST_RUN": "theirs"})
    made = cluster(machine, service, Books())

    async def work() -> None:
        await made.open()
        made.upgraded["n2"] = {"flavour": "new"}
        await made.start("n2")

    asyncio.run(work())
    assert service.asked[-1] == ("n2", {"flavour": "new"})
    env = machine.commands["n2"].env
    assert env["PATH"] == env["HOLDFAST_RUN"] == "theirs" and "PYTHONPATH" in env


def test_an_image_gets_the_marks_of_the_run_and_no_path_of_our_code(machine: Machine) -> None:
    image = Image(name="redis", mounts=(Mount(source=machine.folder, at="/data", writable=True),))
    asyncio.run(cluster(machine, Service(image=image, env={"A": "1"}), Books()).open())
    assert machine.commands["n1"].env == {"HOLDFAST_RUN": "r", "A": "1"}


def test_a_process_that_was_killed_does_not_run_though_nobody_has_reaped_it(
    machine: Machine,
) -> None:
    made = cluster(machine, Service(), Books())
    assert not made.alive("c1"), "not started"
    asyncio.run(made.open())
    assert made.alive("c1") and made.alive("c2")
    machine.kill("c1")
    assert Path(f"/proc/{made.running['c1'].pid}").exists(), "a zombie"
    assert not made.alive("c1") and made.alive("c2")
    machine.processes["c1"].wait()
    assert not made.alive("c1"), "no process of that number"


def test_processes_that_exit_are_found_unless_a_fault_killed_them(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "EXIT_LOOK_NS", 0)
    made = cluster(machine, Service(), Books())
    asyncio.run(made.open())
    assert asyncio.run(made.exited(())) == []
    for name in ("n2", "c1", "probe"):
        machine.kill(name)
    assert asyncio.run(made.exited(["n2"])) == ["c1", "probe"]


TOLD = "printf '{}'; exit 3"


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("", "no output (see {log})"),
        ("one\\n", "one (see {log})"),
        ("one\\ntwo\\nthree\\nfour\\n\\n", "two | three | four (see {log})"),
        ("1234567890 late\\n123456789 short\\n", "late | 123456789 short (see {log})"),
        ("x" * 301, "x" * 300 + " (see {log})"),
    ],
    ids=["nothing", "a line", "the last lines", "without our clock", "cut"],
)
def test_a_server_that_exits_at_once_ends_the_deployment_with_its_last_words(
    machine: Machine, printed: str, told: str
) -> None:
    service = Service(exits={"n2": TOLD.format(printed)}, unready={"n2"})
    made = cluster(machine, service, Books())
    with pytest.raises(EnvironmentFailed) as failed:
        asyncio.run(made.open())
    log = machine.folder / "logs" / "n2" / "server.log"
    assert str(failed.value) == f"n2 exited unexpectedly: {told.format(log=log)}"
    assert machine.order == SERVERS, "nothing else is started"


def test_a_log_that_cannot_be_read_is_no_output(machine: Machine) -> None:
    made = cluster(machine, Service(), Books())
    asyncio.run(made.open())
    log = machine.folder / "logs" / "c1" / "worker.log"
    log.unlink()
    assert made.exit_message("c1") == f"c1 exited unexpectedly: no output (see {log})"


def test_the_first_error_of_a_log_is_told_before_its_last_lines(machine: Machine) -> None:
    made = cluster(machine, Service(), Books())
    asyncio.run(made.open())
    log = machine.folder / "logs" / "c1" / "worker.log"
    lines = ["Error: no such module", "Require stack:", "- /lock.js", " [", "]", "Node.js v20"]
    log.write_text("\n".join(lines) + "\n")
    told = f"c1 exited unexpectedly: Error: no such module |  [ | ] | Node.js v20 (see {log})"
    assert made.exit_message("c1") == told
    log.write_text("\n".join(lines[:2]) + "\n")
    told = f"c1 exited unexpectedly: Error: no such module | Require stack: (see {log})"
    assert made.exit_message("c1") == told


def test_the_end_of_a_traceback_is_told_without_its_lines_of_code(machine: Machine) -> None:
    made = cluster(machine, Service(), Books())
    asyncio.run(made.open())
    log = machine.folder / "logs" / "c1" / "worker.log"
    log.write_text('  File "a.py", line 3, in f\n    raise E\nOSError: [Errno 5] I/O error\n')
    told = f"c1 exited unexpectedly: OSError: [Errno 5] I/O error (see {log})"
    assert made.exit_message("c1") == told


def test_clients_start_some_at_a_time_and_within_a_bound(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "STARTS_AT_ONCE", 2)
    made = cluster(machine, Service(), Books())
    at_once, most = 0, 0
    start = made.start

    async def counted(name: str) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        await start(name)
        at_once -= 1

    monkeypatch.setattr(Cluster, "start", lambda self, name: counted(name))
    asyncio.run(made.open())
    assert most == 2
    monkeypatch.setattr(cluster_module, "START_WITHIN_NS", -1)
    with pytest.raises(EnvironmentFailed, match=r"^0 of \d+ processes were started within"):
        asyncio.run(made.open())


def test_a_server_that_is_never_ready_is_told_with_its_last_words(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "READY_WITHIN_NS", 0)
    service = Service(unready={"n1"})
    with pytest.raises(EnvironmentFailed) as failed:
        asyncio.run(cluster(machine, service, Books()).open())
    log = machine.folder / "logs" / "n1" / "server.log"
    told = f"reference: n1 was not ready within 0 s: no output (see {log})"
    assert str(failed.value) == told


class SlowService(Service):
    """A `StartsSlowly`."""

    ready_within_ns = 0


def test_a_server_that_starts_slowly_has_a_bound_of_its_own(machine: Machine) -> None:
    service = SlowService(unready={"n1"})
    with pytest.raises(EnvironmentFailed, match="n1 was not ready within 0 s: no output"):
        asyncio.run(cluster(machine, service, Books()).open())


def test_a_process_that_the_agent_does_not_take_is_told_by_its_own_end_if_it_ended(
    machine: Machine,
) -> None:
    agent = Books(refuses="c3")
    made = cluster(machine, Service(), agent)
    with pytest.raises(EnvironmentFailed, match=r"^fault agent: adopt: no such process$"):
        asyncio.run(made.open())
    machine.exits["c3"] = "echo no module; exit 1"
    agent.before = lambda do, args: machine.ended("c3")
    with pytest.raises(EnvironmentFailed, match=r"^c3 exited unexpectedly: no module \(see "):
        asyncio.run(made.start("c3"))


def test_the_leader_is_asked_of_the_servers_only(machine: Machine) -> None:
    service = Service(leads="n2")
    made = cluster(machine, service, Books())
    asyncio.run(made.open())
    assert asyncio.run(made.leader()) == Leader("n2")
    service.leads = "c1"
    assert asyncio.run(made.leader()) is None
    asyncio.run(made.refresh())


@dataclass
class Away(Machine):
    """Nodes of another host, which tells what runs, what exited, and what servers execute."""

    def __post_init__(self) -> None:
        self.files: dict[tuple[str, str], str] = {}
        self.said: list[Any] = []
        self.up = True
        self.words = "out of memory"

    def place_of(self, node: str) -> Place:
        there = self.folder / "there"
        return Place(run_id="r", run_dir=there, shared=(there / "code",), label="r")

    async def put(self, node: str, name: str, text: str) -> None:
        self.files[node, name] = text

    def alive(self, node: str) -> bool:
        return self.up

    def tell_phase(self, phase: int) -> None:
        self.said.append(phase)

    def shift_ns(self, node: str) -> int:
        return 0

    async def exited(self) -> Sequence[str]:
        return ["c9"]

    def last_output(self, node: str) -> str:
        return self.words

    async def agents(self) -> Any:
        raise AssertionError("not asked for")

    def system(self, entry: str, system: Any) -> Any:
        return system

    async def command(
        self, system: str, node: Node, servers: Sequence[Node], options: Mapping[str, str]
    ) -> Command:
        self.said.append((system, node.name, [one.name for one in servers], options))
        return Command(argv=("sh", "-c", STAYS), log=self.folder / "there" / "etcd.log")

    async def refresh(self) -> None:
        self.said.append("refresh")

    async def until_lost(self) -> None:
        raise AssertionError("not asked for")


def test_on_other_hosts_files_and_states_are_those_of_the_host(tmp_path: Path) -> None:
    machine = Away(tmp_path)
    service = Service()
    made = cluster(machine, service, Books())
    try:
        asyncio.run(made.open())
        there = f"{tmp_path}/there"
        assert service.asked == [], "its own host makes the command"
        mine = made.entries.system
        assert machine.said == [(mine, name, SERVERS, OPTIONS.system) for name in SERVERS]
        told = json.loads(machine.files["c1", "workers/c1.json"])
        assert (told["history"], told["folder"]) == (f"{there}/history", there)
        assert not (tmp_path / "workers").exists()
        command = machine.commands["c1"]
        assert command.argv[-1] == f"{there}/workers/c1.json"
        assert command.log == Path(there, "logs", "c1", "worker.log")
        assert command.env["PYTHONPATH"] == f"{there}/code"
        assert made.running["n1"].name == "etcd"
        machine.kill("c1")
        assert made.alive("c1"), "by its host's word"
        machine.up = False
        assert not made.alive("c2") and not made.alive("n9")
        assert asyncio.run(made.exited(())) == ["c9"]
        assert made.exit_message("c2") == "c2 exited unexpectedly: out of memory"
        machine.words = ""
        assert made.exit_message("c2") == "c2 exited unexpectedly"
        asyncio.run(made.refresh())
        assert machine.said[-1] == "refresh"
    finally:
        machine.end()
