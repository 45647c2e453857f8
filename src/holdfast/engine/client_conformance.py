"""Tries a line-protocol client on scripted requests and says what it does wrong, line by line.

It needs the server that the client talks to; nothing of a run is started.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.clusters.systems.program import command_line, protocol
from holdfast.harness.core.clock import SECOND

ANSWER_S = 5.0
QUIET_S = 0.3
END_S = 5.0
LEASE_NS = 60 * SECOND


class _Stop(Exception):
    """Going on makes no sense after this fault."""


class Trial:
    """One process of the client. `faults` are sentences: what it did, the line, what to do."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self.faults: list[str] = []
        self._asked: dict[int, str] = {}
        self._answered: dict[int, Any] = {}
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        environ = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        environ |= environment
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, stderr=pipe, env=environ, start_new_session=True
        )
        self._errors: list[str] = []
        self._hearing = threading.Thread(target=self._read_errors, daemon=True)
        self._hearing.start()
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self, op: str, lock: str, attempt: int, wait_ns: int = 0) -> str:
        """The outcome of one request. _Stop where no answer can be expected any more."""
        number = len(self._asked) + 1
        line = protocol.question(number, op, lock, attempt, wait_ns=wait_ns, lease_ns=LEASE_NS)
        self._asked[number] = line.decode().rstrip()
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            self._ended(f"it was asked {self._asked[number]}")
        self.listen(ANSWER_S + wait_ns / SECOND, until=number)
        if number not in self._answered:
            self.faults.append(
                f"no answer to {self._asked[number]} within {ANSWER_S:g} s; answer every request"
                ' with its id, {"outcome": "info"} where nothing is known; flush after each line'
            )
            raise _Stop
        return str(self._answered[number]["outcome"])

    def listen(self, within_s: float, until: int = 0) -> None:
        """Take lines until an id is answered or the time is over."""
        deadline = time.monotonic() + within_s
        while until not in self._answered:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return
            if line is None:
                self._ended("its input was still open")
            self._take(line)

    def errors(self) -> list[str]:
        """What the calls ended in that did not say what became of them, as one sentence or none."""
        wrong = [
            (self._asked[n], str(said["error"]))
            for n, said in sorted(self._answered.items())
            if said.get("outcome") == "info" and said.get("error")
        ]
        if not wrong:
            return []
        op, error = json.loads(wrong[0][0])["op"], wrong[0][1]
        many = f"{len(wrong)} of {len(self._asked)} calls ended in an error"
        return [f"{many}, the first ({op}): {error[:300]}"]

    def leave(self) -> None:
        """End its input: it has to end by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.faults.append(
                f"it ran on for {END_S:g} s after its input had ended; end when standard input does"
            )

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()

    def _take(self, line: bytes | None) -> None:
        assert line is not None
        try:
            said = protocol.read(line)
        except protocol.Garbage as wrong:
            self.faults.append(f"it said {wrong}")
            return
        if isinstance(said, protocol.Event):
            return
        number, answer = said
        shown = line.decode(errors="replace").rstrip()
        if number not in self._asked:
            self.faults.append(
                f"an answer to an id that was not asked: {shown}; send back the id of the request"
            )
        elif number in self._answered:
            self.faults.append(f"id {number} is answered twice: {shown}; answer it once")
        self._answered[number] = answer

    def _ended(self, when: str) -> None:
        self._process.wait(END_S)
        # What it said last may still be on its way to us.
        self._hearing.join(END_S)
        last = f"; it said last: {' | '.join(self._errors[-3:])}" if self._errors else ""
        self.faults.append(
            f"it ended with code {self._process.returncode} when {when}{last};"
            " go on reading until standard input ends"
        )
        raise _Stop

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors.append(line.decode(errors="replace").rstrip())


def tried(client: str, servers: str) -> list[str]:
    """All that a client does wrong, one sentence each; empty for one that conforms."""
    values = {"node": "doctor", "servers": servers, "seed": "0", "python": sys.executable}
    argv = command_line.filled(command_line.split(client), values, Path().absolute())
    if not argv or shutil.which(argv[0]) is None:
        return [f"there is no program {client!r} that may be run; check the path and its mode"]
    return tried_argv(argv, {})


def tried_argv(argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The same of a command line that is complete; the environment comes on top of ours."""
    lock = f"holdfast-doctor-{os.getpid()}-{time.time_ns()}"
    trial = Trial(argv, environment)
    try:
        trial.listen(QUIET_S)
        for wrong in _script(trial, lock):
            trial.faults.append(wrong)
        trial.listen(QUIET_S)
        trial.leave()
    except _Stop:
        pass
    finally:
        trial.kill()
    return [*trial.errors(), *trial.faults]


def _script(trial: Trial, lock: str) -> Iterator[str]:
    """Two attempts on one lock, in turn; yields what their outcomes contradict."""
    first, second = 1, 2
    got = trial.ask("acquire", lock, first, SECOND)
    if got == "info":
        yield f"acquire of a new lock {lock} is unknown (info); does its server run (--servers)?"
        return
    if got != "ok":
        yield f"acquire of a new lock {lock} gives {got!r}; it is free, so grant it (ok)"
        return
    if trial.ask("try", lock, second) == "ok":
        yield "try by attempt 2 gives ok while attempt 1 holds; refuse it (fail)"
    renewed = trial.ask("renew", lock, first)
    if renewed not in ("ok", "fail"):
        yield f"renew by the holder gives {renewed!r}; renew it (ok) or say that you cannot (fail)"
    if trial.ask("release", lock, second) == "ok":
        yield "release by attempt 2, who does not hold, gives ok; compare the attempt (not_owner)"
    if trial.ask("release", lock, first) != "ok":
        yield "release by the holder is not ok; free the lock and answer ok"
    if trial.ask("acquire", lock, second, SECOND) != "ok":
        yield "acquire after the release is not granted: release was ignored; free the lock"
    elif trial.ask("release", lock, second) != "ok":
        yield "release by the second holder is not ok; free the lock and answer ok"
