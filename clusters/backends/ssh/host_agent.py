"""The driver's host agent on one host: JSON lines in and out, everything undone at the end.

`python3 -S -m holdfast.clusters.backends.ssh.host_agent ROOT` as root, over one ssh channel. It
creates the nodes, starts their processes as the login user, forwards requests to the fault agent
(its child), reports its clock, and sends what was written. It exits when its input ends, when there
was no request for SILENCE_S, or on request: the fault agent heals, every process is killed, and the
folder is removed. `--sweep` in front of ROOT does the same for a run whose host agent is gone.
Standard library only.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from holdfast.clusters.backends import processes
from holdfast.clusters.backends.ssh.file_mirror import FileMirror
from holdfast.clusters.backends.ssh.node_network import (
    HostNetwork,
    Impossible,
    missing_tools,
    network,
    search_path,
)
from holdfast.harness.core.clock import now_ns
from holdfast.harness.core.json_value import Json
from holdfast.harness.recording.phase import Phase
from holdfast.harness.runs import registry, signals

SILENCE_S = 10.0
START_S = 20.0
END_S = 5.0
FREE_BYTES = 64 << 20
NOT_RUN = (126, 127)
STEPS = (processes.ONLY_UNDER.encode(), b"setpriv", b"nsenter")
REACH = "holdfast.clusters.backends.ssh.reach"
Request = Mapping[str, Any]


class Steward:
    """The host agent's state for one run. `serve` responds to one request and never raises."""

    def __init__(self, root: Path) -> None:
        self._root = root
        owner = root.stat()
        self._user, self._group = owner.st_uid, owner.st_gid
        self._label = ""
        self._fabric: HostNetwork | None = None
        self._agent: subprocess.Popen[bytes] | None = None
        self._phase: Phase | None = None
        self._mirror = FileMirror(root)
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def serve(self, request: Request) -> dict[str, Json]:
        """The response to one request: {"ok": true, ...} or {"ok": false, "error"}."""
        act = getattr(self, f"do_{request.get('do')}", None)
        if act is None:
            return {"ok": False, "error": f"the host agent has no request {request.get('do')!r}"}
        try:
            return {"ok": True, **act(request)}
        except (Impossible, OSError, subprocess.TimeoutExpired) as error:
            return {"ok": False, "error": str(error)}

    def do_begin(self, request: Request) -> dict[str, Json]:
        """Check this host, unpack code and libraries, start the fault agent."""
        problems = missing_tools()
        if os.geteuid() != 0:
            problems.append(
                "the host agent is not root; set sudo = true for the host, or log in as root"
            )
        free = shutil.disk_usage(self._root).free
        if free < FREE_BYTES:
            problems.append(
                f"{self._root.parent} has {free >> 20} MiB free; a run needs"
                f" {FREE_BYTES >> 20} MiB; free some space, or set another `folder`"
            )
        if problems:
            raise Impossible("; ".join(problems))
        self._label = request["label"]
        for name in ("history", "logs", "workers"):
            self._folder(self._root / name)
        for name in request["libraries"]:
            with ZipFile(self._root / f"{name}.zip") as archive:
                archive.extractall(self._root / name)
        self._phase = Phase.create(self._root / "phase")
        os.chmod(self._root / "phase", 0o644)
        self._agent = self._start_agent(f"agent-{request['host']}")
        return {}

    def do_open(self, request: Request) -> dict[str, object]:
        """Create this host's part of the network and its nodes."""
        self._fabric = HostNetwork(**request["fabric"])
        holders = self._fabric.open(request["nodes"])
        told = {"holders": holders, "fabric": self._fabric.holder}
        return {**told, "become": self._become()}

    def do_reach(self, request: Request) -> dict[str, object]:
        """From which other hosts' addresses packets come through the tunnel."""
        assert self._fabric is not None
        words = [*self._fabric.enter(self._fabric.holder), sys.executable, "-S", "-P", "-m", REACH]
        done = subprocess.run(
            [*words, self._fabric.inside, *request["others"]],
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )
        if done.returncode:
            raise Impossible(f"the tunnel cannot be tried: {done.stderr.strip()[-200:]}")
        return {"heard": json.loads(done.stdout)}

    def do_look(self, request: Request) -> dict[str, object]:
        """This host's clock at the request and at the response; what was written until then; which
        nodes' processes have ended."""
        asked_ns = now_ns()
        pieces, more = self._mirror.look()
        ended = [name for name, child in self._started.items() if child.poll() is not None]
        told = {"pieces": pieces, "more": more, "ended": ended}
        told["agent"] = self._agent is None or self._agent.poll() is None
        return {**told, "asked_ns": asked_ns, "answered_ns": now_ns()}

    def do_phase(self, request: Request) -> dict[str, Json]:
        """Set the phase of the run, for the writers of this host."""
        assert self._phase is not None
        self._phase.set(request["value"])
        return {}

    def do_put(self, request: Request) -> dict[str, Json]:
        """Write a small file under the run's folder."""
        path = self._root / request["name"]
        path.write_text(request["text"])
        os.chown(path, self._user, self._group)
        return {}

    def do_agent(self, request: Request) -> dict[str, Json]:
        """Send a line to the fault agent; its response."""
        assert self._agent is not None and self._agent.stdin and self._agent.stdout
        try:
            self._agent.stdin.write(json.dumps(request["line"]).encode() + b"\n")
            self._agent.stdin.flush()
            while raw := self._agent.stdout.readline():
                answer = json.loads(raw)
                if answer.get("id") == request["line"]["id"]:
                    return {"answer": answer}
        except OSError as error:
            raise Impossible(f"the fault agent exited: {error}") from error
        raise Impossible("the fault agent exited")

    def do_start(self, request: Request) -> dict[str, Json]:
        """Start a process on a node, in the folder of its log; its pid after its last exec."""
        assert self._fabric is not None
        node, log, argv = request["node"], Path(request["log"]), request["argv"]
        self._folder(log.parent)
        nobody = processes.AS_NOBODY if request["nobody"] and self._user == 0 else ()
        words = [*self._fabric.enter(self._fabric.holders[node]), *self._become(), *nobody, *argv]
        steps = [word.encode() for word in (*nobody[:1], request["prelude"]) if word]
        with log.open("ab") as sink:
            os.chown(log, self._user, self._group)
            child = self._spawn(words, request["env"], log.parent, sink.fileno())
        self._started[node] = child
        if not self._became(child, steps) and child.wait() in NOT_RUN:
            raise Impossible(f"{node}: {argv[0]} cannot run: {processes.last_output(log)}")
        return {"pid": child.pid}

    def do_end(self, request: Request) -> dict[str, Json]:
        """Heal everything and kill every process; their recordings can still be fetched."""
        self.end()
        return {}

    def do_remove(self, request: Request) -> dict[str, Json]:
        """Remove the folder of the run; the last request."""
        self.end()
        self.remove()
        return {}

    def end(self) -> None:
        """The fault agent heals and kills what it adopted; then kills all else in the nodes."""
        if self._agent is not None and self._agent.stdin is not None:
            with suppress(OSError):
                self._agent.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._agent.wait(END_S)
            self._agent.kill()
            self._agent.wait()
            self._agent = None
        if self._fabric is not None:
            _end_all(lambda: self._inhabitants())
            self._fabric.close()
        for child in self._started.values():
            child.wait()

    def remove(self) -> None:
        """Removes the folder of the run."""
        shutil.rmtree(self._root, ignore_errors=True)

    def _become(self) -> list[str]:
        """Words that run a command as the owner of the folder: the login user."""
        user = [f"--reuid={self._user}", f"--regid={self._group}"]
        groups = "--init-groups" if self._user else "--clear-groups"
        return ["setpriv", *user, groups, "--pdeathsig", "KILL", "--"]

    def _inhabitants(self) -> list[int]:
        assert self._fabric is not None
        networks = self._fabric.networks()
        holders = {self._fabric.holder, *self._fabric.holders.values()}
        found = [pid for pid in processes.pids() if network(pid) in networks]
        return [pid for pid in found if pid not in holders and registry.started(pid) >= 0]

    def _start_agent(self, name: str) -> subprocess.Popen[bytes]:
        log = self._root / "logs" / name / "agent.log"
        self._folder(log.parent)
        with log.open("ab") as sink:
            return subprocess.Popen(
                [sys.executable, "-S", "-P", "-m", "holdfast.nemesis.agent"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                env={**os.environ, **registry.environ(self._label)},
                start_new_session=True,
            )

    def _spawn(
        self, words: list[str], env: Mapping[str, str], folder: Path, output: int
    ) -> subprocess.Popen[bytes]:
        own = {"PATH": search_path(), **env, **registry.environ(self._label)}
        return subprocess.Popen(
            [*processes.dies_with_us(), *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=own,
            start_new_session=True,
        )

    def _became(self, child: subprocess.Popen[bytes], steps: Sequence[bytes]) -> bool:
        """Waits until a process has executed its command; False if it has ended by then.

        `steps` are words of the commands that finally exec it, beside those that every start has.

        An exec after a clock patch would undo it, so a pid must not be published before its last
        exec.
        """
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if child.poll() is not None:
                return False
            words = processes.command_line(child.pid)
            if words and not any(step in words for step in (*STEPS, *steps)):
                return True
            time.sleep(0.001)
        raise Impossible(f"process {child.pid} did not start within {START_S:g} s")

    def _folder(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, self._user, self._group)


def _end_all(find: Any) -> None:
    """SIGKILL to what `find` finds, repeatedly until it finds nothing or the bound is over."""
    deadline = time.monotonic() + END_S
    while (found := find()) and time.monotonic() < deadline:
        processes.kill(found)
        time.sleep(0.005)


def sweep(root: Path, label: str) -> list[int]:
    """Removes what a run without a host agent left on this host, and its folder; the pids killed.

    A host agent that has lost its driver needs a moment to exit; this waits for it.
    """
    deadline = time.monotonic() + END_S
    while _stewards(root) and time.monotonic() < deadline:
        time.sleep(0.02)
    ended: set[int] = set()

    def left() -> Iterable[int]:
        found = [*_stewards(root), *_labelled(label)]
        ended.update(found)
        return found

    _end_all(left)
    shutil.rmtree(root, ignore_errors=True)
    return sorted(ended)


def _labelled(label: str) -> list[int]:
    return [
        pid
        for pid in processes.pids()
        if processes.environ(pid).get(registry.RUN_VARIABLE) == label
    ]


def _stewards(root: Path) -> list[int]:
    """Pids of host agents of a run's folder, without this process and without their sudo."""
    words = os.fsencode(root)
    own = os.getpid()
    return [
        pid
        for pid in processes.pids()
        if pid != own
        and (line := processes.command_line(pid))
        and line[-1] == words
        and b"--sweep" not in line
        and b"sudo" not in line[0]
    ]


def lines(source: int) -> Any:
    """Complete lines until end of input, too long without a request, or a signal to exit."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    rest = b""
    while True:
        ready, _, _ = select.select([source, read], [], [], SILENCE_S)
        if source not in ready:
            why = "received a signal" if ready else f"no request for {SILENCE_S:g} s"
            with suppress(OSError):
                sys.stderr.write(f"the host agent exited: {why}\n")
            return
        data = os.read(source, 1 << 20)
        if not data:
            return
        *complete, rest = (rest + data).split(b"\n")
        yield from complete


def say(answer: Mapping[str, Json]) -> None:
    """One line to the driver. Errors: BrokenPipeError."""
    line = json.dumps(answer).encode() + b"\n"
    while line:
        line = line[os.write(1, line) :]


def main(argv: list[str]) -> int:
    """Serves until the driver is gone; everything is undone on every exit path."""
    signals.end_here()
    if argv[1] == "--sweep":
        print(json.dumps({"ended": sweep(Path(argv[3]), argv[2])}))  # noqa: T201
        return 0
    steward = Steward(Path(argv[1]))
    try:
        say({"ok": True, "host_ns": now_ns(), "python": sys.version.split()[0]})
        for line in lines(0):
            # A password that sudo did not need arrives here as input.
            if line.startswith(b"{"):
                request = json.loads(line)
                say({**steward.serve(request), "number": request.get("number")})
                if request["do"] == "remove":
                    break
    except BrokenPipeError:
        pass
    finally:
        steward.end()
        steward.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
