"""Faults on one client's wire, with a real server, real connections and real resets."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from tests.nemesis import fabric
from tests.nemesis.agent_process import AgentProcess

LISTEN, PORT = "127.78.0.1", 7500
Made = TypeVar("Made")


class Echo:
    """A server in a node's network that answers each request once, and counts them."""

    def __init__(self, pid: int, address: str) -> None:
        self.heard = 0
        self._plug = inside(pid, lambda: socket.create_server((address, PORT)))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                talk, _ = self._plug.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(talk,), daemon=True).start()

    def _talk(self, talk: socket.socket) -> None:
        with talk:
            try:
                while data := talk.recv(100):
                    self.heard += 1
                    talk.sendall(data)
            except OSError:
                return

    def close(self) -> None:
        # Only a shutdown wakes who waits in accept, and frees the port.
        self._plug.shutdown(socket.SHUT_RDWR)
        self._plug.close()


def inside(pid: int, make: Callable[[], Made]) -> Made:
    """What is made in a thread that lives in the network of a process."""
    made: list[Made] = []

    def attempt() -> None:
        fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        assert ctypes.CDLL(None, use_errno=True).setns(fd, fabric.CLONE_NEWNET) == 0
        os.close(fd)
        made.append(make())

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return made[0]


@pytest.fixture(scope="module")
def pids() -> Iterator[list[int]]:
    fabric.need()
    with fabric.nodes(2) as found:
        yield found


@pytest.fixture
def agent(pids: list[int]) -> Iterator[AgentProcess]:
    with AgentProcess() as started:
        for n, pid in enumerate(pids):
            started.do("adopt", node=f"n{n}", pid=pid, address=fabric.address(n))
        links = [{"listen": LISTEN, "to": fabric.address(1), "ports": [PORT]}]
        started.do("tap", node="n0", links=links)
        yield started


@pytest.fixture
def echo(pids: list[int]) -> Iterator[Echo]:
    server = Echo(pids[1], fabric.address(1))
    yield server
    server.close()


def client(pids: list[int]) -> socket.socket:
    return inside(pids[0], lambda: socket.create_connection((LISTEN, PORT), timeout=5))


def disturb(agent: AgentProcess, what: str, **more: int) -> dict[str, Any]:
    found: dict[str, Any] = agent.do("disturb", fault="f", nodes=["n0"], what=what, **more)
    return found


def test_a_lost_reply_belongs_to_a_request_that_was_carried_out(
    agent: AgentProcess, pids: list[int], echo: Echo
) -> None:
    with client(pids) as talk:
        talk.sendall(b"one")
        assert talk.recv(9) == b"one"
        assert disturb(agent, "reply-loss")["effective"] is False
        talk.sendall(b"two")
        with pytest.raises(ConnectionResetError):
            talk.recv(9)
    assert echo.heard == 2
    with client(pids) as talk:
        talk.sendall(b"again")
        assert talk.recv(9) == b"again"
    seen = agent.do("heal", fault="f")
    assert seen == {
        "effective": True, "passed bytes": 3, "swallowed bytes": 3, "connections reset": 1,
    }  # fmt: skip


def test_a_reset_comes_before_the_server_hears_of_the_request(
    agent: AgentProcess, pids: list[int], echo: Echo
) -> None:
    with client(pids) as talk:
        disturb(agent, "reset", after=6)
        talk.sendall(b"one")
        assert talk.recv(9) == b"one"
        talk.sendall(b"two")
        with pytest.raises(ConnectionResetError):
            talk.recv(9)
    assert echo.heard == 1
    assert agent.do("heal", fault="f")["connections reset"] == 1


def test_a_delay_holds_replies_back_and_loses_none(
    agent: AgentProcess, pids: list[int], echo: Echo
) -> None:
    with client(pids) as talk:
        disturb(agent, "delay", by_ns=300_000_000)
        talk.sendall(b"one")
        talk.settimeout(0.1)
        with pytest.raises(TimeoutError):
            talk.recv(9)
        talk.settimeout(5)
        assert talk.recv(9) == b"one"
        assert echo.heard == 1
        assert agent.do("heal", fault="f") == {"effective": True, "delayed replies": 1}


def test_a_black_hole_answers_nothing_and_resets_what_lost_bytes(
    agent: AgentProcess, pids: list[int], echo: Echo
) -> None:
    with client(pids) as talk:
        disturb(agent, "black-hole")
        talk.sendall(b"one")
        talk.settimeout(0.2)
        with pytest.raises(TimeoutError):
            talk.recv(9)
        assert agent.do("heal", fault="f")["swallowed bytes"] == 3
        talk.settimeout(5)
        with pytest.raises(ConnectionResetError):
            talk.recv(9)
    assert echo.heard == 0


def test_a_connection_that_nobody_uses_is_ended_at_both_ends(
    agent: AgentProcess, pids: list[int], echo: Echo
) -> None:
    with client(pids) as talk:
        talk.sendall(b"one")
        assert talk.recv(9) == b"one"
        seen = disturb(agent, "hang-up")
        assert seen == {"effective": True, "connections ended": 1}
        assert talk.recv(9) == b""
    with client(pids) as talk:
        talk.sendall(b"again")
        assert talk.recv(9) == b"again"
    assert agent.do("heal", fault="f") == seen


def test_only_a_tapped_wire_can_be_disturbed(agent: AgentProcess) -> None:
    error = agent.error("disturb", fault="g", nodes=["n1"], what="reset")
    assert "not tapped; send tap first" in error
    assert "is not one of" in agent.error("disturb", fault="h", nodes=["n0"], what="noise")
