"""Operations on servers, with a system and an agent that keep books of what they are asked."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.harness.core.clock import now_ns
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.ports import Node, Place
from holdfast.harness.driver.cluster import Cluster
from holdfast.harness.driver.data_folders import copy, empty, files_in
from holdfast.harness.driver.operations import Operator

NODES = [Node(name=f"n{n}", role="server", address=f"10.0.0.{n}") for n in (1, 2, 3)]


@dataclass
class Service:
    """Servers whose state is one file; it is also the cluster and the agent. `log`: what happened.

    fails   a word of the log at which it fails
    gone    a server that exits as soon as it is started
    kept    a server that is the same process after its start
    """

    place: Place
    fails: str = ""
    gone: str = ""
    kept: str = ""
    log: list[str] = field(default_factory=list)
    dead: dict[str, list[str]] = field(default_factory=dict)
    running: dict[str, SimpleNamespace] = field(default_factory=dict)

    def note(self, what: str) -> None:
        self.log.append(what)
        if self.fails and what.startswith(self.fails):
            raise EnvironmentFailed(f"{what} failed")

    def state(self, name: str) -> Path:
        return self.place.run_dir / "data" / name / "state"

    def write(self, text: str) -> None:
        for node in NODES:
            self.state(node.name).parent.mkdir(parents=True, exist_ok=True)
            self.state(node.name).write_text(text)

    async def ask(self, do: str, **args: Any) -> dict[str, Any]:
        if do == "heal":
            nodes = self.dead.pop(args["fault"], [])
            self.log += [f"heal {args['fault']}"] if not nodes else []
            return {"t_ns": now_ns(), "evidence": {"restart": nodes}}
        links = [f"{link['node']}<-{'+'.join(link['from'])}" for link in args.get("links", ())]
        self.note(f"{do} {'+'.join(args.get('nodes', links))}")
        if do == "kill":
            self.dead[args["fault"]] = args["nodes"]
        return {"t_ns": now_ns(), "evidence": {}}

    async def start(self, name: str) -> None:
        if name != self.kept:
            self.running[name] = SimpleNamespace(pid=self.running[name].pid + 100)
        self.note(
            f"start {name} {self.state(name).read_text() if self.state(name).exists() else ''}"
        )

    def operations(self, options: Mapping[str, str]) -> Mapping[str, str]:
        return {}

    async def flush(self, server: Node, options: Mapping[str, str]) -> None:
        self.note(f"flush {server.name}")

    async def position(self, server: Node, options: Mapping[str, str]) -> int | None:
        return len(self.state(server.name).read_text())

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        self.note(f"ready {node.name}")
        return True

    async def save_snapshot(self, server: Node, options: Mapping[str, str], to: Path) -> None:
        self.note(f"save {server.name}")
        to.write_text(self.state(server.name).read_text())

    async def restore_snapshot(
        self, node: Node, servers: Sequence[Node], place: Place, source: Path, to: Path
    ) -> None:
        self.note(f"restore {node.name}")
        to.mkdir()
        (to / "state").write_text(source.read_text())

    async def advance(self, servers: Sequence[Node], by: int) -> None:
        self.note(f"advance {by}")

    async def remove_member(self, node: Node, servers: Sequence[Node]) -> str:
        self.note(f"remove {node.name}")
        return "old"

    async def add_member(self, node: Node, servers: Sequence[Node], place: Place) -> str:
        self.note(f"add {node.name}")
        return "new"


@pytest.fixture
def service(tmp_path: Path) -> Service:
    made = Service(Place(run_id="r", run_dir=tmp_path, shared=(), label="r"))
    made.running = {node.name: SimpleNamespace(pid=n) for n, node in enumerate(NODES)}
    made.write("early")
    return made


def operator(service: Service) -> Operator:
    cluster = SimpleNamespace(
        agent=service,
        system=service,
        place=service.place,
        options=SimpleNamespace(system={}),
        runtime=SimpleNamespace(now=now_ns),
        nodes=[*NODES, Node(name="c1", role="client", address="10.0.0.9")],
        named=lambda role: NODES,
        alive=lambda name: name != service.gone,
        exit_message=lambda name: f"{name} exited unexpectedly: corrupt",
        start=service.start,
        running=service.running,
    )
    return Operator(cast(Cluster, cluster))


def operate(
    service: Service, what: str, *nodes: str, later: str = "later on", advance: int = 0
) -> dict[str, Any]:
    """The evidence of an operation during which the servers write."""

    async def both() -> dict[str, Any]:
        agent = operator(service)
        await agent.ask("operate", fault="f1", nodes=list(nodes), what=what, advance=advance)
        seen = await agent.ask("observe", fault="f1")
        assert seen["evidence"]["effective"] is (what == "restart" and not service.kept)
        service.write(later) if later else None
        healed = await agent.ask("heal", fault="f1")
        again = await agent.ask("heal", fault="f1")
        assert again["evidence"] == healed["evidence"], "an operation ends once"
        evidence: dict[str, Any] = healed["evidence"]
        return evidence

    return asyncio.run(both())


ALL = ("n1", "n2", "n3")


@pytest.mark.parametrize("what", ["copy", "snapshot"])
def test_a_backup_is_put_back_while_the_servers_are_dead(service: Service, what: str) -> None:
    evidence = operate(service, what, *ALL)
    begun = service.log.index("kill n1+n2+n3")
    assert service.log[begun + 1 : begun + 4] == [
        "start n1 early",
        "start n2 early",
        "start n3 early",
    ]
    assert evidence["effective"] and evidence["changed files"] == 3
    assert evidence["position"] == {"saved": 5, "before": 8, "after": 5}
    first, last = evidence["operated_ns"]
    assert first <= last <= now_ns()
    assert not (service.place.run_dir / "backups").exists()


def test_the_files_of_a_copy_are_of_one_moment(service: Service) -> None:
    operate(service, "copy", *ALL)
    assert service.log[:5] == [
        "flush n1", "flush n2", "flush n3", "pause n1+n2+n3", "heal f1.copy",
    ]  # fmt: skip


def test_one_server_is_rolled_back_alone(service: Service) -> None:
    evidence = operate(service, "copy", "n2")
    assert service.state("n1").read_text() == service.state("n3").read_text() == "later on"
    assert service.state("n2").read_text() == "early" and evidence["changed files"] == 1


def test_a_backup_of_what_did_not_change_has_no_effect(service: Service) -> None:
    evidence = operate(service, "copy", *ALL, later="")
    assert evidence["effective"] is False and evidence["changed files"] == 0


def test_a_copy_of_files_that_were_only_written_again_has_no_effect(service: Service) -> None:
    evidence = operate(service, "copy", *ALL, later="early")
    assert evidence["effective"] is False and evidence["changed files"] == 0


def test_a_snapshot_of_the_present_state_has_no_effect(service: Service) -> None:
    evidence = operate(service, "snapshot", *ALL, later="Early")
    assert evidence["effective"] is False and evidence["changed files"] == 3
    assert evidence["position"] == {"saved": 5, "before": 5, "after": 5}


def restored_without(service: Service, lost: str) -> None:
    """Restores a backup, part of which was removed in the meantime."""

    async def both() -> None:
        agent = operator(service)
        await agent.ask("operate", fault="f1", nodes=[*ALL], what="copy")
        service.write("later on")
        shutil.rmtree(service.place.run_dir / "backups" / "f1" / lost)
        await agent.ask("heal", fault="f1")

    asyncio.run(both())


@pytest.mark.parametrize("lost", ["", "n3"])
def test_without_its_backup_no_server_loses_its_data(service: Service, lost: str) -> None:
    with pytest.raises(EnvironmentFailed, match="No such file"):
        restored_without(service, lost)
    assert service.log[-3:] == [f"start {name} later on" for name in ALL]


def test_what_a_failing_disk_lost_is_an_effect(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, to: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("holdfast.harness.driver.operations.shutil.move", full)
    evidence = operate(service, "copy", "n2")
    assert evidence["effective"] and evidence["problem"] == "n2: no space left"
    assert not service.state("n2").exists()


def test_a_restore_whose_servers_do_not_start_has_taken_effect(service: Service) -> None:
    service.fails = "start n2"
    evidence = operate(service, "copy", *ALL)
    assert evidence["effective"] and evidence["problem"] == "start n2 early failed"


def test_a_server_that_is_late_after_its_restore_was_restored_all_the_same(
    service: Service,
) -> None:
    service.fails = "ready"
    evidence = operate(service, "copy", *ALL)
    assert evidence["effective"] and "ready n1 failed" in evidence["problem"]


def test_a_server_that_refuses_its_earlier_state_is_reported_at_once(service: Service) -> None:
    service.gone = "n2"
    evidence = operate(service, "copy", "n2")
    assert evidence["effective"] and "n2 exited unexpectedly" in evidence["problem"]
    assert "ready n2" not in service.log


@pytest.mark.parametrize("fails", ["", "advance"])
def test_no_client_reaches_a_server_before_its_counter_is_advanced(
    service: Service, fails: str
) -> None:
    service.fails = fails
    evidence = operate(service, "copy", *ALL, advance=50)
    cut = service.log.index("cut n1<-10.0.0.9+n2<-10.0.0.9+n3<-10.0.0.9")
    assert service.log[cut + 1] == "start n1 early"
    assert service.log[-2:] == ["advance 50", "heal f1.close"]
    assert evidence.get("advanced by") == (None if fails else 50)
    assert ("problem" in evidence) == bool(fails)


def test_a_snapshot_that_cannot_be_restored_leaves_the_servers_alone(service: Service) -> None:
    service.fails = "restore n2"
    with pytest.raises(EnvironmentFailed, match="restore n2 failed"):
        operate(service, "snapshot", *ALL)
    assert not [line for line in service.log if line.startswith("kill")]


def test_servers_start_again_where_their_data_cannot_be_replaced(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("holdfast.harness.driver.operations.empty", full)
    with pytest.raises(EnvironmentFailed, match="no space left"):
        operate(service, "copy", *ALL)
    assert service.log[-3:] == ["start n1 later on", "start n2 later on", "start n3 later on"]


def test_a_replaced_member_joins_with_an_empty_folder_and_another_id(service: Service) -> None:
    evidence = operate(service, "replace", "n2")
    assert service.log == ["kill n2", "remove n2", "add n2", "start n2 ", "ready n2"]
    assert evidence["removed"] == {"n2": "old"} and evidence["added"] == {"n2": "new"}
    assert evidence["effective"] and len(evidence["operated_ns"]) == 2


def test_a_member_that_cannot_be_removed_starts_again_with_its_data(service: Service) -> None:
    service.fails = "remove"
    with pytest.raises(EnvironmentFailed, match="remove n2 failed"):
        operate(service, "replace", "n2")
    assert service.log == ["kill n2", "remove n2", "start n2 early"]


def test_members_that_were_removed_join_again_if_another_cannot_be(service: Service) -> None:
    service.fails = "remove n2"
    with pytest.raises(EnvironmentFailed, match="remove n2 failed"):
        operate(service, "replace", "n1", "n2", "n3")
    assert service.log == [
        "kill n1", "remove n1", "kill n2", "remove n2", "start n2 early",
        "add n1", "start n1 ", "ready n1",
    ]  # fmt: skip


def test_servers_restart_one_after_the_other(service: Service) -> None:
    evidence = operate(service, "restart", "n1", "n2", later="")
    assert service.log == [
        "kill n1", "start n1 early", "ready n1", "kill n2", "start n2 early", "ready n2",
    ]  # fmt: skip
    assert evidence["effective"] and evidence["restarted"] == ["n1", "n2"]


def test_a_restart_after_which_a_server_is_the_same_process_has_no_effect(
    service: Service,
) -> None:
    service.kept = "n2"
    evidence = operate(service, "restart", "n1", "n2", later="")
    assert not evidence["effective"] and evidence["restarted"] == ["n1"]


def test_other_requests_go_to_the_fault_agent(service: Service) -> None:
    asyncio.run(operator(service).ask("pause", fault="f2", nodes=["n1"]))
    assert service.log == ["pause n1"]


def test_a_copy_has_modes_links_and_holes_and_no_sockets(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "inner").mkdir(parents=True)
    (source / "inner" / "key").write_bytes(b"k" * 10)
    (source / "inner" / "key").chmod(0o600)
    (source / "link").symlink_to("inner/key")
    with (source / "log").open("wb") as log:
        os.posix_fallocate(log.fileno(), 0, 8 << 20)
        os.pwrite(log.fileno(), b"end", (8 << 20) - 3)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(source / "socket"))
        written = copy(source, target)
    assert written <= 10 + (1 << 16) and (target / "log").stat().st_blocks < 1024
    assert (target / "log").read_bytes() == (source / "log").read_bytes()
    assert (target / "inner" / "key").stat().st_mode & 0o777 == 0o600
    assert (target / "link").readlink() == Path("inner/key")
    assert not (target / "socket").exists()
    assert files_in(source) == files_in(target)
    empty(target)
    assert target.is_dir() and not list(target.iterdir())
