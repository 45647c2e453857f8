"""Cuts by proxies, for machines where no node can have a network of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from holdfast.nemesis.agent import link_proxy
from tests.nemesis.agent_process import AgentProcess

SERVER, CLIENT, LISTEN = "127.1.0.3", "127.1.0.9", "127.2.1.3"


@pytest.fixture
def port() -> Iterator[int]:
    """An echo server on SERVER, at a port that is free there."""
    with socket.create_server((SERVER, 0)) as listener:

        def echo(connection: socket.socket) -> None:
            with connection:
                while data := connection.recv(4096):
                    connection.sendall(data)

        def accept() -> None:
            try:
                while True:
                    threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def agent(port: int) -> Iterator[AgentProcess]:
    """An agent with one client, one server and the link from the one to the other."""
    with AgentProcess() as started:
        started.do("adopt", node="n1", pid=os.getpid(), address=SERVER)
        started.do("adopt", node="c1", pid=os.getpid(), address=CLIENT)
        link = {"src": "c1", "dst": "n1", "listen": LISTEN, "to": SERVER, "ports": [port]}
        started.do("proxy", links=[link])
        yield started


def dial(port: int) -> socket.socket:
    connection = socket.create_connection((LISTEN, port), timeout=5)
    connection.settimeout(0.15)
    return connection


def says(connection: socket.socket, data: bytes) -> bytes:
    """What comes back for this; nothing if nothing comes soon."""
    connection.sendall(data)
    return hears(connection)


def hears(connection: socket.socket) -> bytes:
    try:
        return connection.recv(4096)
    except TimeoutError:
        return b""


TO_SERVER = {"node": "n1", "from": [CLIENT]}
TO_CLIENT = {"node": "c1", "from": [SERVER]}


@pytest.mark.parametrize("link", [TO_SERVER, TO_CLIENT], ids=["requests", "replies"])
def test_what_is_held_back_one_way_arrives_after_the_heal(
    agent: AgentProcess, port: int, link: dict[str, object]
) -> None:
    with closing(dial(port)) as connection:
        assert says(connection, b"one") == b"one"
        assert agent.do("cut", fault="f1", links=[link])["effective"] is False
        assert says(connection, b"two") == b""
        assert agent.do("observe", fault="f1")["dropped"] == 1
        assert agent.do("heal", fault="f1")["effective"] is True
        connection.settimeout(5)
        assert hears(connection) == b"two"
        assert says(connection, b"three") == b"three"


@pytest.mark.parametrize("link", [TO_SERVER, TO_CLIENT], ids=["requests", "replies"])
def test_a_new_connection_hangs_while_either_way_is_cut(
    agent: AgentProcess, port: int, link: dict[str, object]
) -> None:
    agent.do("cut", fault="f1", links=[link])
    with closing(dial(port)) as connection:
        assert says(connection, b"one") == b""
        assert agent.do("heal", fault="f1")["dropped"] == 1
        connection.settimeout(5)
        assert hears(connection) == b"one"


def test_the_last_of_two_faults_opens_a_link(agent: AgentProcess, port: int) -> None:
    with closing(dial(port)) as connection:
        assert says(connection, b"one") == b"one"
        agent.do("cut", fault="f1", links=[TO_SERVER, TO_CLIENT])
        agent.do("cut", fault="f2", links=[TO_SERVER])
        assert says(connection, b"two") == b""
        agent.do("heal", fault="f1")
        assert hears(connection) == b""
        agent.do("heal", fault="f2")
        connection.settimeout(5)
        assert hears(connection) == b"two"


def test_a_link_that_no_proxy_carries_is_refused(agent: AgentProcess) -> None:
    error = agent.error("cut", fault="f1", links=[{"node": "n1", "from": ["127.1.0.77"]}])
    assert "no proxy for traffic from 127.1.0.77 to n1" in error


def test_a_connection_to_a_server_that_is_not_there_takes_its_time_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_proxy, "REFUSED_S", 60.0)
    with socket.create_server((SERVER, 0)) as listener:
        free = int(listener.getsockname()[1])
    proxies = link_proxy.Proxies()
    proxies.add("c1", "n1", LISTEN, SERVER, [free])
    with closing(dial(free)) as connection, pytest.raises(TimeoutError):
        connection.recv(1)
    monkeypatch.setattr(link_proxy, "REFUSED_S", 0.0)
    with closing(dial(free)) as connection:
        connection.settimeout(5)
        assert connection.recv(1) == b""


def test_a_server_that_is_gone_ends_the_connection(agent: AgentProcess) -> None:
    with socket.create_server((SERVER, 0)) as unused:
        free = int(unused.getsockname()[1])
    link = {"src": "c1", "dst": "n1", "listen": "127.2.1.4", "to": SERVER, "ports": [free]}
    agent.do("proxy", links=[link])
    connection = socket.create_connection(("127.2.1.4", free), timeout=5)
    with connection, suppress(ConnectionResetError):
        assert connection.recv(1) == b""


def test_an_address_that_is_taken_is_named(agent: AgentProcess, port: int) -> None:
    link = {"src": "c1", "dst": "n1", "listen": LISTEN, "to": SERVER, "ports": [port]}
    assert f"{LISTEN}:{port}: " in agent.error("proxy", links=[link])


def test_without_network_and_proxy_there_is_nothing_to_cut() -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        with AgentProcess() as agent:
            agent.do("adopt", node="n1", pid=process.pid, address=SERVER)
            assert "send proxy first" in agent.error("cut", fault="f1", links=[TO_SERVER])
    finally:
        process.kill()
        process.wait()
