"""Faults at a system call, on real processes that make one when they are asked to."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import needs
from tests.nemesis.agent_process import AgentProcess
from tests.nemesis.test_agent_signals import adopt, running, soon
from tests.nemesis.waiting import wait_until


@pytest.fixture(autouse=True)
def _tracing() -> None:
    needs.tracing()


CALLER = """
import os, socket, sys, threading, time
threading.Thread(target=lambda: time.sleep(600), daemon=True).start()
links = [socket.create_connection(("127.0.0.1", int(port))) for port in sys.argv[2:]]
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
ACTS = {
    "send": lambda text: links[0].send(text.encode()),
    "other": lambda text: links[1].send(text.encode()),
    "writev": lambda text: os.writev(file, [b"x" * int(text)]),
    "write": lambda text: os.write(file, b"x" * int(text)),
    "sync": lambda text: os.fdatasync(file),
    "mark": lambda text: os.access("/holdfast-call/" + text, os.F_OK),
}
print("ready", flush=True)
for line in sys.stdin:
    word, _, rest = line.strip().partition(" ")
    try:
        print(ACTS[word](rest), flush=True)
    except OSError as error:
        print(type(error).__name__, error.errno, flush=True)
"""
NODE = """
const net = require("net"), fs = require("fs"), rl = require("readline")
const link = net.connect(Number(process.argv[2]), "127.0.0.1", () => console.log("ready"))
rl.createInterface({input: process.stdin}).on("line", line =>
  link.write(line.slice(5), () => console.log("sent")))
"""


class Caller:
    """A process with connections to `peers`, which makes one call for each line that it reads."""

    def __init__(self, folder: Path, argv: list[str], links: int) -> None:
        self.file = folder / "data"
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.others = [socket.create_server(("127.0.0.1", 0)) for _ in range(links - 1)]
        ports = [str(one.getsockname()[1]) for one in (self.listener, *self.others)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen([*argv, *ports], text=True, **pipes)
        self.peer, _ = self.listener.accept()
        self.peer.settimeout(5)
        assert self.said() == "ready"

    def ask(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def said(self) -> str:
        assert self.process.stdout is not None
        line: str = self.process.stdout.readline()
        return line.strip()

    def does(self, line: str) -> str:
        self.ask(line)
        return self.said()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for one in (self.peer, self.listener, *self.others):
            one.close()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def caller(folder: Path, *, links: int = 1) -> Iterator[Caller]:
    made = Caller(folder, [sys.executable, "-c", CALLER, str(folder / "data")], links)
    try:
        yield made
    finally:
        made.end()


def inject(agent: AgentProcess, call: str, act: str, **rest: Any) -> None:
    agent.do("syscall", fault="f1", nodes=["n1"], call=call, act=act, **rest)


def effective(agent: AgentProcess, fault: str = "f1") -> bool:
    """Whether it becomes effective within a bound."""
    return wait_until(
        lambda: bool(agent.do("observe", fault=fault)["effective"]),
        time.monotonic_ns() + 5_000_000_000,
    )


def untraced(one: Caller) -> bool:
    return "TracerPid:\t0\n" in Path(f"/proc/{one.process.pid}/status").read_text()


def test_a_frozen_send_leaves_when_the_fault_heals(tmp_path: Path) -> None:
    with caller(tmp_path) as one, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        agent.do("freeze", fault="f1", nodes=["n1"])
        assert not agent.do("observe", fault="f1")["effective"]
        one.ask("send late")
        assert effective(agent)
        seen = agent.do("observe", fault="f1")
        (call,) = seen["caught"]["n1"]
        port = one.listener.getsockname()[1]
        assert (call["call"], call["target"]) == ("sendto", f"127.0.0.1:{port}")
        assert (seen["states"], seen["calls"]) == ({"n1": "T"}, {"n1": 1})
        one.peer.setblocking(False)
        with pytest.raises(BlockingIOError):
            one.peer.recv(10)
        assert agent.do("heal", fault="f1")["effective"]
        one.peer.settimeout(5)
        assert one.peer.recv(10) == b"late" and one.said() == "4"
        assert soon(one.process.pid, "S")
        assert one.does("send on") == "2"


def test_a_fault_whose_call_never_came_claims_nothing(tmp_path: Path) -> None:
    with caller(tmp_path) as one, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        inject(agent, "send", "freeze")
        assert (one.does("write 10"), one.does("sync")) == ("10", "None")
        healed = agent.do("heal", fault="f1")
        assert not healed["effective"] and healed["calls"] == {} and healed["stops"] > 0
        assert one.does("send on") == "2"


def test_only_sends_to_the_chosen_peer_are_met(tmp_path: Path) -> None:
    with caller(tmp_path, links=2) as one, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        inject(agent, "send", "fail", peers=["127.0.0.2"], error="ECONNRESET")
        assert (one.does("send on"), one.does("other on")) == ("2", "2")
        assert agent.do("heal", fault="f1")["calls"] == {}
        agent.do(
            "syscall", fault="f2", nodes=["n1"], call="send", act="fail", peers=["127.0.0.1"],
            error="ECONNRESET",
        )  # fmt: skip
        assert one.does("other on") == "ConnectionResetError 104"
        assert one.does("other on") == "2"


@pytest.mark.parametrize(
    ("act", "answers", "size"),
    [
        ({"act": "fail", "error": "ENOSPC", "count": 2}, ["OSError 28", "OSError 28", "900"], 900),
        ({"act": "fail", "first": 2}, ["900", "OSError 5", "900"], 1800),
        ({"act": "fail", "count": 0}, ["OSError 5"] * 3, 0),
        ({"act": "skip"}, ["900", "900", "900"], 1800),
        ({"act": "delay", "by_ns": 100_000_000, "count": 0}, ["900", "900", "900"], 2700),
    ],
)
def test_writes_fail_are_skipped_or_delayed_as_often_as_asked(
    tmp_path: Path, act: dict[str, Any], answers: list[str], size: int
) -> None:
    with caller(tmp_path) as one, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        inject(agent, "write", file="dat?", **act)
        begun = time.monotonic_ns()
        assert [one.does("write 900") for _ in range(3)] == answers
        assert one.file.stat().st_size == size
        if act["act"] == "delay":
            assert time.monotonic_ns() - begun >= 3 * act["by_ns"]
        if act.get("count", 1):
            assert wait_until(lambda: untraced(one), time.monotonic_ns() + 5_000_000_000)
        calls = agent.do("heal", fault="f1")["calls"]["n1"]
        assert calls == (act.get("count", 1) or 3)
        assert one.does("write 1") == "1"


def test_a_skipped_sync_returns_success(tmp_path: Path) -> None:
    with caller(tmp_path) as one, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        inject(agent, "sync", "skip")
        assert one.does("sync") == "None"
        (call,) = agent.do("heal", fault="f1")["caught"]["n1"]
        assert (call["call"], call["target"]) == ("fdatasync", str(one.file))


def test_a_call_of_which_success_is_unknown_is_not_skipped(tmp_path: Path) -> None:
    with caller(tmp_path) as one, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        inject(agent, "write", "skip", file="data")
        # It would return 0, which is no success of a write.
        assert (one.does("writev 700"), one.file.stat().st_size) == ("700", 700)
        assert one.does("write 900") == "900"
        assert one.file.stat().st_size == 700
        assert agent.do("heal", fault="f1")["calls"] == {"n1": 1}


def test_a_write_is_torn_between_two_sectors_and_the_node_is_gone(tmp_path: Path) -> None:
    with caller(tmp_path) as one, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        agent.do("torn-write", fault="f1", nodes=["n1"])
        # Shorter than a sector, and of whole sectors: neither can be torn.
        assert (one.does("write 100"), one.does("write 1024")) == ("100", "1024")
        one.ask("write 1300")
        assert effective(agent)
        healed = agent.do("heal", fault="f1")
        assert (healed["restart"], healed["caught"]["n1"][0]["kept"]) == (["n1"], 1024)
        assert one.file.stat().st_size == 100 + 1024 + 1024


def test_a_node_killed_at_a_send_never_sent(tmp_path: Path) -> None:
    with caller(tmp_path) as one, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        inject(agent, "send", "kill")
        one.ask("send never")
        assert effective(agent)
        assert agent.do("heal", fault="f1")["restart"] == ["n1"]
        assert one.peer.recv(10) == b""


def test_the_log_of_a_program_is_no_data(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=out, text=True
        )
    try:
        with AgentProcess() as agent:
            adopt(agent, "n1", process.pid)
            inject(agent, "write", "fail", count=0)
            assert process.stdin is not None
            process.stdin.write("a line\n")
            process.stdin.flush()
            assert wait_until(lambda: bool(log.read_text()), time.monotonic_ns() + 5_000_000_000)
            assert agent.do("heal", fault="f1")["calls"] == {}
    finally:
        process.kill()
        process.communicate()


def test_a_node_that_is_paused_meanwhile_stays_paused_until_its_heal(tmp_path: Path) -> None:
    with caller(tmp_path) as one, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        inject(agent, "send", "freeze")
        agent.do("pause", fault="f2", nodes=["n1"])
        one.ask("send late")
        assert soon(one.process.pid, "T")
        agent.do("heal", fault="f2")
        assert effective(agent)
        agent.do("pause", fault="f3", nodes=["n1"])
        agent.do("heal", fault="f1")
        # The send that it was inside of is made; on the way out of it the signal stops it.
        assert soon(one.process.pid, "T")
        agent.do("heal", fault="f3")
        assert one.said() == "4"


def test_a_traced_node_can_be_killed_and_has_one_tracer_at_a_time(tmp_path: Path) -> None:
    with caller(tmp_path) as one, running("sleep", "60") as two, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        adopt(agent, "n2", two.pid)
        inject(agent, "send", "freeze")
        why = agent.error("freeze", fault="f2", nodes=["n2", "n1"])
        assert "has a tracer already" in why
        one.ask("send late")
        assert effective(agent)
        agent.do("kill", fault="f3", nodes=["n1"])
        assert agent.do("heal", fault="f1")["states"] == {"n1": "gone"}
        # The node that could be traced is not traced any more.
        agent.do("freeze", fault="f4", nodes=["n2"])


@pytest.mark.parametrize("how", ["input ends", "killed"])
def test_whatever_ends_the_agent_the_frozen_node_goes_on(tmp_path: Path, how: str) -> None:
    with caller(tmp_path) as one:
        with AgentProcess() as agent:
            adopt(agent, "n1", one.process.pid)
            inject(agent, "send", "freeze")
            one.ask("send late")
            assert effective(agent)
            if how == "killed":
                os.kill(agent.process.pid, signal.SIGKILL)
                agent.process.wait()
        assert one.said() == "4" and untraced(one)


def test_the_wrong_words_are_refused_with_the_known_ones(tmp_path: Path) -> None:
    with running("sleep", "60") as one, AgentProcess() as agent:
        adopt(agent, "n1", one.pid)
        wanted = {"fault": "f1", "nodes": ["n1"]}
        assert "known: send" in agent.error("syscall", call="sent", act="fail", **wanted)
        assert "known: freeze" in agent.error("syscall", call="send", act="fall", **wanted)
        assert "known: EIO" in agent.error("syscall", call="send", act="fail", error="E", **wanted)
        one.kill()
        one.wait()
        assert "no live process" in agent.error("syscall", call="send", act="fail", **wanted)


def test_a_send_of_node_is_frozen_too(tmp_path: Path) -> None:
    command = needs.binary("node")
    script = tmp_path / "client.js"
    script.write_text(NODE)
    one = Caller(tmp_path, [command, str(script)], 1)
    try:
        with AgentProcess() as agent:
            adopt(agent, "n1", one.process.pid)
            agent.do("freeze", fault="f1", nodes=["n1"])
            one.ask("send late")
            assert effective(agent)
            assert json.dumps(agent.do("heal", fault="f1")["states"]) == '{"n1": "T"}'
            assert one.peer.recv(10) == b"late" and one.said() == "sent"
    finally:
        one.end()


def test_a_node_that_is_down_keeps_the_fault_from_no_other(tmp_path: Path) -> None:
    (tmp_path / "n2").mkdir()
    with caller(tmp_path) as one, caller(tmp_path / "n2") as other, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        adopt(agent, "n2", other.process.pid)
        other.process.kill()
        other.process.wait()
        agent.do("syscall", fault="f1", nodes=["n2", "n1"], call="sync", act="skip")
        assert one.does("sync") == "None"
        assert effective(agent)
        assert agent.do("heal", fault="f1")["restart"] == []


NAMER = """
import fcntl, os, sys
os.chdir(sys.argv[1])
folder = os.open(".", os.O_RDONLY)
held = open("held.lock", "w")
ACTS = {
    "open": lambda: os.close(os.open("l", os.O_CREAT | os.O_EXCL | os.O_WRONLY)),
    "unlink": lambda: os.unlink("l"),
    "unlinkat": lambda: os.unlink("l", dir_fd=folder),
    "mkdir": lambda: os.mkdir("d"),
    "mkdirat": lambda: os.mkdir("d", dir_fd=folder),
    "rmdir": lambda: os.rmdir("d"),
    "rmdirat": lambda: os.rmdir("d", dir_fd=folder),
    "rename": lambda: os.rename("l", "m"),
    "back": lambda: os.rename("m", "l"),
    "link": lambda: os.link("l", "n"),
    "symlink": lambda: os.symlink("123", "s"),
    "flock": lambda: fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB),
    "fcntl": lambda: fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB),
    "flags": lambda: fcntl.fcntl(held, fcntl.F_GETFL) and None,
    "child": lambda: os.waitpid(os.posix_spawn("/bin/rm", ["rm", "l"], {}), 0)[1] or None,
}
print("ready", flush=True)
for line in sys.stdin:
    try:
        print(ACTS[line.strip()](), flush=True)
    except OSError as error:
        print(type(error).__name__, error.errno, flush=True)
"""


@contextmanager
def namer(folder: Path) -> Iterator[Any]:
    """A process that makes calls on names in `folder`, one for each line that it reads."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    argv = [sys.executable, "-c", NAMER, str(folder)]
    one = Caller.__new__(Caller)
    with subprocess.Popen(argv, text=True, **pipes) as process:
        one.process = process
        try:
            assert one.said() == "ready"
            yield one
        finally:
            process.kill()


NAMED = [
    ("open", ["open"], "openat", "l", []),
    ("unlink", ["unlink"], "unlink", "l", ["open"]),
    ("unlink", ["unlinkat"], "unlinkat", "l", ["open"]),
    ("mkdir", ["mkdir"], "mkdir", "d", []),
    ("mkdir", ["mkdirat"], "mkdirat", "d", []),
    ("rmdir", ["rmdir"], "rmdir", "d", ["mkdir"]),
    ("rmdir", ["rmdirat"], "unlinkat", "d", ["mkdir"]),
    ("rename", ["rename"], "rename", "l -> m", ["open"]),
    ("link", ["link"], "link", "l -> n", ["open"]),
    ("link", ["symlink"], "symlink", "s", []),
    ("flock", ["flock"], "flock", "held.lock", []),
    ("fcntl", ["flags", "fcntl"], "fcntl", "held.lock", []),
    ("unlink", ["child"], "unlinkat", "l", ["open"]),
]


@pytest.mark.parametrize(("word", "lines", "call", "about", "before"), NAMED)
def test_a_call_on_a_name_is_met_and_says_which(
    tmp_path: Path, word: str, lines: list[str], call: str, about: str, before: list[str]
) -> None:
    with namer(tmp_path) as one, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        for line in before:
            assert one.does(line) == "None"
        inject(agent, word, "freeze", file=f"{tmp_path}/*")
        for line in lines[:-1]:
            assert one.does(line) == "None"
        there = sorted(tmp_path.iterdir())
        one.ask(lines[-1])
        assert effective(agent)
        (met,) = agent.do("observe", fault="f1")["caught"]["n1"]
        paths = " -> ".join(str(tmp_path / name) for name in about.split(" -> "))
        assert (met["call"], met["target"], met["number"]) == (call, paths, 1)
        assert sorted(tmp_path.iterdir()) == there  # It stands before the call.
        assert agent.do("heal", fault="f1")["effective"]
        assert one.said() == "None"


def test_only_names_of_the_pattern_are_met_and_the_second_one_counts(tmp_path: Path) -> None:
    with namer(tmp_path) as one, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        inject(agent, "mkdir", "fail", file="l*", error="EACCES")
        assert (one.does("mkdir"), one.does("rmdir")) == ("None", "None")
        assert agent.do("heal", fault="f1")["calls"] == {}
        agent.do(
            "syscall", fault="f2", nodes=["n1"], call="unlink", act="fail", file="l", first=2,
            error="EBUSY",
        )  # fmt: skip
        lines = ["open", "unlink", "open", "unlink", "unlink"]
        assert [one.does(line) for line in lines] == ["None", "None", "None", "OSError 16", "None"]
        (met,) = agent.do("heal", fault="f2")["caught"]["n1"]
        assert (met["call"], met["number"], met["point"]) == ("unlink", 2, "before")


def test_after_a_call_only_one_that_succeeded_counts(tmp_path: Path) -> None:
    with namer(tmp_path) as one, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        assert one.does("mkdir") == "None"
        inject(agent, "mkdir", "freeze", point="after")
        assert one.does("mkdir") == "FileExistsError 17"
        assert one.does("rmdir") == "None"
        one.ask("mkdir")
        assert effective(agent)
        assert (tmp_path / "d").is_dir()
        healed = agent.do("heal", fault="f1")
        assert (healed["caught"]["n1"][0]["point"], healed["states"]) == ("after", {"n1": "T"})
        assert one.said() == "None" and one.does("rmdir") == "None"


@pytest.mark.parametrize("point", ["before", "after"])
def test_a_node_is_killed_on_either_side_of_a_call(tmp_path: Path, point: str) -> None:
    with namer(tmp_path) as one, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        inject(agent, "mkdir", "kill", point=point)
        one.ask("mkdir")
        assert effective(agent)
        assert agent.do("heal", fault="f1")["restart"] == ["n1"]
        assert (tmp_path / "d").exists() == (point == "after")


def test_a_call_that_was_made_returns_an_error_or_returns_late(tmp_path: Path) -> None:
    with namer(tmp_path) as one, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        inject(agent, "link", "fail", point="after", error="EIO")
        assert one.does("open") == "None"
        assert (one.does("link"), (tmp_path / "n").exists()) == ("OSError 5", True)
        agent.do("heal", fault="f1")
        agent.do(
            "syscall", fault="f2", nodes=["n1"], call="rename", act="delay", point="after",
            by_ns=200_000_000,
        )  # fmt: skip
        begun = time.monotonic_ns()
        one.ask("rename")
        assert wait_until((tmp_path / "m").exists, begun + 5_000_000_000)
        assert one.said() == "None" and time.monotonic_ns() - begun >= 200_000_000
        assert agent.do("heal", fault="f2")["calls"] == {"n1": 1}


def test_only_the_first_node_that_makes_the_call_stops(tmp_path: Path) -> None:
    with namer(tmp_path) as one, namer(tmp_path) as other, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        adopt(agent, "n2", other.process.pid)
        agent.do("syscall", fault="f1", nodes=["n1", "n2"], call="mkdir", act="freeze", who="first")
        other.ask("mkdir")
        assert effective(agent)
        assert one.does("mkdir") == "None"
        assert wait_until(lambda: untraced(one), time.monotonic_ns() + 5_000_000_000)
        assert list(agent.do("heal", fault="f1")["caught"]) == ["n2"]
        assert other.said() == "FileExistsError 17"


@pytest.mark.parametrize("how", ["input ends", "killed"])
def test_whatever_ends_the_agent_a_client_stopped_at_a_name_goes_on(
    tmp_path: Path, how: str
) -> None:
    with namer(tmp_path) as one:
        with AgentProcess() as agent:
            adopt(agent, "n1", one.process.pid)
            inject(agent, "mkdir", "freeze", point="after")
            one.ask("mkdir")
            assert effective(agent)
            if how == "killed":
                os.kill(agent.process.pid, signal.SIGKILL)
                agent.process.wait()
        assert one.said() == "None" and untraced(one)


def test_a_request_is_counted_from_the_begin_of_the_call_that_it_belongs_to(
    tmp_path: Path,
) -> None:
    with caller(tmp_path) as one, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        inject(agent, "send", "fail", of="release", first=2, error="EPIPE")
        before = ["send a", "mark acquire", "send b", "send c", "send d", "mark end"]
        assert [one.does(line) for line in before] == ["1", "False", "1", "1", "1", "False"]
        # One release with one request, and requests after it, which belong to none.
        once = ["mark release", "send a", "mark end", "send b", "send c"]
        assert [one.does(line) for line in once] == ["False", "1", "False", "1", "1"]
        twice = ["mark release", "send a", "send b"]
        assert [one.does(line) for line in twice] == ["False", "1", "BrokenPipeError 32"]
        healed = agent.do("heal", fault="f1")
        (met,) = healed["caught"]["n1"]
        assert (met["of"], met["number"], healed["within"]) == ("release", 2, "release")
        agent.do("syscall", fault="f2", nodes=["n1"], call="send", act="delay", by_ns=1)
        assert [one.does(line) for line in ("mark renew", "send a")] == ["False", "1"]
        (met,) = agent.do("heal", fault="f2")["caught"]["n1"]
        assert (met["of"], met["number"]) == ("renew", 1)


def test_a_skip_after_a_call_is_refused(tmp_path: Path) -> None:
    with running("sleep", "60") as one, AgentProcess() as agent:
        adopt(agent, "n1", one.pid)
        wanted = {"fault": "f1", "nodes": ["n1"], "call": "mkdir"}
        assert "not after it" in agent.error("syscall", act="skip", point="after", **wanted)
        assert "known: before, after" in agent.error("syscall", act="kill", point="x", **wanted)
