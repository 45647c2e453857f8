"""Tests a line-protocol client with scripted requests and reports its violations.

The client's server must be running; no run is started.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.clusters.systems.program import command_line, protocol
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.json_value import Json

ANSWER_S = 5.0
QUIET_S = 0.3
END_S = 5.0
LEASE_NS = 60 * SECOND
REQUEST = '{"do": "write", "key": "holdfast-doctor", "token": 7}'
RESPONSE = '{"ok": true, "version": 1, "error": ""}'


class _EndOfTest(Exception):
    """The test cannot continue after this fault."""


class Trial:
    """One client process. `faults` are sentences: the mistake, the line, the fix."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self.faults: list[str] = []
        self._asked: dict[int, str] = {}
        self._answered: dict[int, Mapping[str, object]] = {}
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

    def ask(self, op: str, lock: str, attempt: int, wait_ns: int = 0, **terms: Json) -> str:
        """The outcome of one request. Raises _Stop if the client cannot respond any more."""
        number = len(self._asked) + 1
        line = protocol.question(
            number, op, lock, attempt, wait_ns=wait_ns, lease_ns=LEASE_NS, terms=terms
        )
        return str(self._said(number, line, wait_ns)["outcome"])

    def response(self, op: str, lock: str, attempt: int, **terms: Json) -> Mapping[str, object]:
        """The whole response to a request. Raises _Stop as `ask`."""
        number = len(self._asked) + 1
        line = protocol.question(
            number, op, lock, attempt, wait_ns=0, lease_ns=LEASE_NS, terms=terms
        )
        return self._said(number, line, 0)

    def send(self, address: str, port: int, line: str) -> Mapping[str, object]:
        """The response to a request to pass on a line. Raises _Stop as `ask`."""
        number = len(self._asked) + 1
        return self._said(number, protocol.send(number, 1, address, port, line), 0)

    def _said(self, number: int, line: bytes, wait_ns: int) -> Mapping[str, object]:
        self._asked[number] = line.decode().rstrip()
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            self._ended(f"it received {self._asked[number]}")
        self.listen(ANSWER_S + wait_ns / SECOND, until=number)
        if number not in self._answered:
            self.faults.append(
                f"no response to {self._asked[number]} within {ANSWER_S:g} s; return a response"
                ' to every id ({"outcome": "info"} if the outcome is unknown) and flush each line'
            )
            raise _EndOfTest
        return self._answered[number]

    def listen(self, within_s: float, until: int = 0) -> None:
        """Read lines until an id is answered or the time is over."""
        deadline = time.monotonic() + within_s
        while until not in self._answered:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return
            if line is None:
                self._ended("its standard input was still open")
            self._take(line)

    def errors(self) -> list[str]:
        """The errors of calls with unknown outcome, as one sentence or none."""
        wrong = [
            (self._asked[n], str(said["error"]))
            for n, said in sorted(self._answered.items())
            if said.get("outcome") == "info" and said.get("error")
        ]
        if not wrong:
            return []
        op, error = json.loads(wrong[0][0])["op"], wrong[0][1]
        many = f"{len(wrong)} of {len(self._asked)} calls failed with an error"
        return [f"{many}, the first ({op}): {error[:300]}"]

    def leave(self) -> None:
        """Close its standard input: it has to exit."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.faults.append(
                f"still running {END_S:g} s after the end of standard input; exit when it ends"
            )

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()

    def _take(self, line: bytes | None) -> None:
        assert line is not None
        try:
            said = protocol.read(line)
        except protocol.Garbage as wrong:
            self.faults.append(f"invalid line: {wrong}")
            return
        if isinstance(said, protocol.Event):
            return
        number, answer = said
        shown = line.decode(errors="replace").rstrip()
        if number not in self._asked:
            self.faults.append(
                f"response with an unknown id: {shown}; return the id of the request"
            )
        elif number in self._answered:
            self.faults.append(f"two responses to id {number}: {shown}; respond once")
        self._answered[number] = answer

    def _ended(self, when: str) -> None:
        self._process.wait(END_S)
        # Its last lines may not have been read yet.
        self._hearing.join(END_S)
        last = f"; its last output: {' | '.join(self._errors[-3:])}" if self._errors else ""
        self.faults.append(
            f"exited with code {self._process.returncode} when {when}{last};"
            " keep reading until standard input ends"
        )
        raise _EndOfTest

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors.append(line.decode(errors="replace").rstrip())


def tried(client: str, servers: str, *, sends: bool = False) -> list[str]:
    """All violations of the protocol by a client, one sentence each; empty if it conforms."""
    values = {"node": "doctor", "servers": servers, "seed": "0", "lease": "2000"}
    values |= {"address": "127.0.0.1", "index": "0", "clients": "doctor=127.0.0.1"}
    values["python"] = sys.executable
    argv = command_line.filled(command_line.split(client), values, Path().absolute())
    if not argv or shutil.which(argv[0]) is None:
        return [f"no executable program {client!r}; check the path and its mode"]
    return tried_argv(argv, {}, sends=sends)


def tried_argv(
    argv: Sequence[str],
    environment: Mapping[str, str],
    *,
    sends: bool = False,
    abilities: Sequence[str] = (),
    proves: bool = True,
) -> list[str]:
    """The same for a complete command line; `environment` is added to ours.

    sends: whether it has to send requests to the protected resource too (op send).
    abilities: what it is declared to do beyond a plain lock; each is tried.
    proves: whether an ok release is declared to say that its attempt held the lock.
    """
    lock = f"holdfast-doctor-{os.getpid()}-{time.time_ns()}"
    trial = Trial(argv, environment)
    try:
        trial.listen(QUIET_S)
        for wrong in _script(trial, lock, proves):
            trial.faults.append(wrong)
        for wrong in _sending(trial) if sends else ():
            trial.faults.append(wrong)
        for ability in abilities:
            for wrong in ABILITIES_TRIED[ability](trial, f"{lock}-{ability}"):
                trial.faults.append(wrong)
        trial.listen(QUIET_S)
        trial.leave()
    except _EndOfTest:
        pass
    finally:
        trial.kill()
    return [*trial.errors(), *trial.faults]


def _script(trial: Trial, lock: str, proves: bool) -> Iterator[str]:
    """Two attempts on one lock, in turn; yields wrong outcomes."""
    first, second = 1, 2
    got = trial.ask("acquire", lock, first, SECOND)
    if got == "info":
        yield f"acquire of a new lock {lock} returned info (unknown); is the server up (--servers)?"
        return
    if got != "ok":
        yield f"acquire of a new lock {lock} returned {got!r}; it is free: expected ok"
        return
    if trial.ask("try", lock, second) == "ok":
        yield "try by attempt 2 returned ok while attempt 1 holds; expected fail"
    renewed = trial.ask("renew", lock, first)
    if renewed not in ("ok", "fail"):
        yield f"renew by the holder returned {renewed!r}; expected ok, or fail if not supported"
    foreign = "release by attempt 2, which does not hold, returned ok"
    if trial.ask("release", lock, second) == "ok":
        if trial.ask("try", lock, second) == "ok":
            yield (
                f"{foreign} and freed the lock of attempt 1: any client whose lease is over frees"
                " that of its successor; release only what the attempt itself holds"
            )
            return
        if proves:
            yield (
                f"{foreign}; expected not_owner (if every release returns ok, declare proves ="
                " false: then an ok proves no hold)"
            )
    if trial.ask("release", lock, first) != "ok":
        yield "release by the holder did not return ok; free the lock and return ok"
    if trial.ask("acquire", lock, second, SECOND) != "ok":
        yield "acquire after the release was not granted: the release had no effect; free the lock"
    elif trial.ask("release", lock, second) != "ok":
        yield "release by the second holder did not return ok; free the lock and return ok"


def _shared(trial: Trial, lock: str) -> Iterator[str]:
    """Two readers, and a writer that has to wait for both; a reader that has to wait for it."""
    for reader in (11, 12):
        if trial.ask("acquire", lock, reader, SECOND, mode="shared") != "ok":
            yield "a shared acquire beside readers only was not granted; readers hold together"
    if trial.ask("try", lock, 13, mode="exclusive") == "ok":
        yield "an exclusive try returned ok while readers hold; expected fail"
    for reader in (11, 12):
        if trial.ask("release", lock, reader) != "ok":
            yield "release by a reader did not return ok; free its part and return ok"
    if trial.ask("acquire", lock, 14, SECOND, mode="exclusive") != "ok":
        yield "an exclusive acquire after the release of all readers was not granted"
    elif trial.ask("try", lock, 15, mode="shared") == "ok":
        yield "a shared try returned ok while a writer holds; expected fail"
    trial.ask("release", lock, 14)


def _permits(trial: Trial, lock: str) -> Iterator[str]:
    """Both permits of two, a third that has to wait, and one that is given back."""
    for holder in (21, 22):
        if trial.ask("acquire", lock, holder, SECOND, permits=1, limit=2) != "ok":
            yield "an acquire of a free permit was not granted: 1 of 2"
    if trial.ask("try", lock, 23, permits=1, limit=2) == "ok":
        yield "a try returned ok while all permits are held: 3 of 2; expected fail"
    if trial.ask("release", lock, 21) != "ok":
        yield "release of a permit did not return ok; free it and return ok"
    if trial.ask("acquire", lock, 24, SECOND, permits=1, limit=2) != "ok":
        yield "an acquire after the release of a permit was not granted"
    for holder in (22, 24):
        trial.ask("release", lock, holder)


def _reentry(trial: Trial, lock: str) -> Iterator[str]:
    """The holder comes in again, by another attempt."""
    for entry in (31, 32):
        if trial.ask("acquire", lock, entry, SECOND, reenter=True) != "ok":
            yield f"entry {entry - 30} of one client was not granted; a holder may come in again"
    for entry in (32, 31):
        if trial.ask("release", lock, entry) != "ok":
            yield "release of an entry did not return ok; end that entry and return ok"


def _condition(trial: Trial, lock: str) -> Iterator[str]:
    """A condition that holds, and one that a grant has broken."""
    first = trial.response("try", lock, 41, newest=0)
    if first["outcome"] != "ok":
        yield "a try on the condition that there was no grant yet was not granted: there was none"
    trial.ask("release", lock, 41)
    if trial.ask("try", lock, 42, newest=0) == "ok":
        yield "a try on the condition that there was no grant yet returned ok after a grant"
        trial.ask("release", lock, 42)
    if first.get("token") is None:
        yield "condition needs tokens: return the token of a grant, and compare newest with it"
    elif trial.ask("try", lock, 43, newest=int(str(first["token"]))) != "ok":
        yield "a try on the condition of the newest token was not granted"
    trial.ask("release", lock, 43)


def _holder(trial: Trial, lock: str) -> Iterator[str]:
    """The holder while there is one, and afterwards."""
    granted = trial.response("acquire", lock, 51)
    holder = trial.response("query", lock, 0).get("holder")
    token = holder.get("token") if isinstance(holder, Mapping) else None
    if token is None:
        yield "holder named nobody while attempt 51 holds; return the token of its hold"
    elif granted.get("token", token) != token:
        yield f"holder named token {token} while token {granted['token']} holds"
    trial.ask("release", lock, 51)
    if trial.response("query", lock, 0).get("holder"):
        yield "holder named a hold after its release; return None, or null"


def _length(trial: Trial, lock: str) -> Iterator[str]:
    """No client waits for a new lock, nor for one that is held by the only client."""
    for held in (False, True):
        if held:
            trial.ask("acquire", lock, 65, SECOND)
        length = trial.response("query", lock, 0).get("length")
        if length != 0:
            of = "held lock" if held else "new lock"
            yield f"length of a {of} that no client waits for was {length}; expected 0"
    trial.ask("release", lock, 65)


def _place(trial: Trial, lock: str) -> Iterator[str]:
    """An attempt that never asked has no place."""
    place = trial.response("query", lock, 61).get("place")
    if place is not None:
        yield f"place of an attempt that does not wait was {place}; expected None, or null"


def _check(trial: Trial, lock: str) -> Iterator[str]:
    """A hold in force, and one that was released."""
    trial.ask("acquire", lock, 71, SECOND)
    if trial.ask("check", lock, 71) != "ok":
        yield "check of a hold in force did not return ok, or true"
    trial.ask("release", lock, 71)
    if trial.ask("check", lock, 71) == "ok":
        yield "check of a hold that was released returned ok; expected fail, or false"


def _metadata(trial: Trial, lock: str) -> Iterator[str]:
    """A text that a hold carries is what a query returns, if it returns one."""
    if trial.ask("acquire", lock, 81, SECOND, metadata="doctor") != "ok":
        yield "an acquire with metadata was not granted"
    holder = trial.response("query", lock, 0).get("holder")
    told = holder.get("metadata") if isinstance(holder, Mapping) else None
    if told not in (None, "", "doctor"):
        yield f"holder returned the metadata {told!r}; the hold carries 'doctor'"
    trial.ask("release", lock, 81)


def _subtrees(trial: Trial, lock: str) -> Iterator[str]:
    """A path, one below it, and one beside it."""
    path = f"/{lock}"
    if trial.ask("acquire", path, 91, SECOND) != "ok":
        yield f"acquire of a new path {path} was not granted"
    for below in (f"{path}/a", f"{path}/a/b"):
        if trial.ask("try", below, 92) == "ok":
            yield f"a try of {below} returned ok while {path} is held; it covers what is below"
            trial.ask("release", below, 92)
    if trial.ask("try", f"{path}-beside", 93) != "ok":
        yield "a try of a path beside a held one was not granted"
    for held, attempt in ((f"{path}-beside", 93), (path, 91)):
        trial.ask("release", held, attempt)


ABILITIES_TRIED = {
    "shared": _shared,
    "permits": _permits,
    "reentry": _reentry,
    "condition": _condition,
    "metadata": _metadata,
    "holder": _holder,
    "place": _place,
    "length": _length,
    "check": _check,
    "subtrees": _subtrees,
}


def _sending(trial: Trial) -> Iterator[str]:
    """A request for a stand-in of the resource, then one that nothing can answer."""
    with _Stand() as stand:
        said = trial.send("127.0.0.1", stand.port, REQUEST)
        if said["outcome"] != "ok" or said.get("answer") != RESPONSE:
            yield (
                f"send returned {json.dumps(said)}; return ok, and the line that the resource"
                f" answered as the string `answer`: {json.dumps(RESPONSE)}"
            )
        if stand.received != REQUEST.encode() + b"\n":
            yield (
                f"send sent {stand.received!r} to the resource; expected the text of `line` and"
                f" a line feed: {REQUEST}"
            )
        closed = stand.port
    if (refused := trial.send("127.0.0.1", closed, REQUEST)["outcome"]) not in ("fail", "info"):
        yield f"send to a closed port returned {refused!r}; expected fail, or info if unknown"


class _Stand:
    """Listens like the protected resource, and answers one line with RESPONSE."""

    def __init__(self) -> None:
        self.received = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(ANSWER_S)
        self.port = int(self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._answer, daemon=True)

    def __enter__(self) -> _Stand:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()
        self._thread.join(ANSWER_S)

    def _answer(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._socket.accept()
            with connection:
                connection.settimeout(ANSWER_S)
                while not self.received.endswith(b"\n") and (part := connection.recv(4096)):
                    self.received += part
                connection.sendall(RESPONSE.encode() + b"\n")
