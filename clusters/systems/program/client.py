"""A client program as a lock client: one process for each logical client, a child of its worker.

Faults on the node affect the program as well: a pause, a kill or a partition of the holder. A
program that exits or sends an invalid line ends its worker with one line that says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import sys
from collections import deque
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NoReturn

from holdfast.clusters.backends import processes
from holdfast.clusters.systems.program import command_line, protocol
from holdfast.clusters.systems.user_class.queries import answered
from holdfast.clusters.systems.user_class.terms import PARAMETERS, QUERIES, named
from holdfast.harness.client import resource_replies
from holdfast.harness.client.resource_replies import PORT, Reply, Resource
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import first_error
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import GENERATION, Answer, Grant, Mode, Op, Status, Terms
from holdfast.harness.core.ports import ClientSetup, Queried
from holdfast.harness.core.waiting import cancel_until_done

ANSWER_NS = 5 * SECOND
"""A response later than this has an unknown outcome."""
CLOSE_S = 2
STDERR_S = 0.1
LINE_BYTES = 1 << 20
UNSAID = "the client program answered info without an error"
LATE = "no response from the client program in time"
UNANSWERED = "the acquire of this attempt is not answered yet: it may be granted later"
ACQUIRES = ("acquire", "try")
SENDERS = ("worker", "program")
"""Which process sends requests to the protected resource: Holdfast's, or the program itself."""


Said = Mapping[str, object]
"""A response of the program."""


class ProgramClient:
    """Sends requests to the program and awaits the response by id; any number may be in flight."""

    def __init__(self, setup: ClientSetup) -> None:
        self._setup = setup
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Said]] = {}
        self._late: dict[int, asyncio.Event] = {}
        """requests that were given up, and what is set when their response comes"""
        self._acquires: dict[int, tuple[int, float]] = {}
        """attempt -> id of its acquire, and when its response is late, in s of the loop"""
        self._attempts: set[int] = set()
        self._said: deque[str] = deque(maxlen=3)
        self._error = ""
        self._failed = asyncio.Event()
        """set once there is an error on its stderr"""
        self._waited_for_error = False
        self._closing = False
        self._tasks: list[asyncio.Task[None]] = []
        self._listed: Collection[str] = json.loads(setup.options.get("abilities", "[]"))
        self.reports = tuple(op for name, op in QUERIES.items() if name in self._listed)
        self.conditional = "condition" in self._listed
        self.most_permits = int(setup.options.get("most_permits", "0"))

    async def open(self) -> None:
        """Start the program, with {node}, {servers}, {seed} and {lease} replaced."""
        options = self._setup.options
        folder = Path(options["folder"])
        addresses = ",".join(address for _, address in self._setup.servers)
        values = {
            "node": self._setup.name,
            "servers": addresses,
            "seed": str(self._setup.seed),
            "lease": str(self._setup.lease_ns // MILLISECOND),
            "python": sys.executable,
            "address": dict(self._setup.clients).get(self._setup.name.partition(".")[0], ""),
            "index": str((self._setup.process - 1) % GENERATION),
            "clients": ",".join(f"{name}={address}" for name, address in self._setup.clients),
        }
        argv = command_line.filled(json.loads(options["argv"]), values, folder)
        if shutil.which(argv[0]) is None:
            self._give_up(f"cannot be started: no executable program {argv[0]}")
        # Not by a shell, which drops variables of the user such as a.b=1: its input ends with us.
        leash = processes.DIES_WITH_DRIVER if shutil.which("setpriv") else ()
        pipe = asyncio.subprocess.PIPE
        environ = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        if options.get("path"):
            environ["PYTHONPATH"] = options["path"]
        self._process = await asyncio.create_subprocess_exec(
            *leash, *argv,
            stdin=pipe, stdout=pipe, stderr=pipe, env=environ, limit=LINE_BYTES,
        )  # fmt: skip
        self._tasks = [asyncio.ensure_future(part()) for part in (self._listen, self._log)]

    async def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer:
        """Acquire it; a wait of 0 is the op `try`."""
        self._attempts.add(attempt)
        op = "acquire" if wait_ns else "try"
        return await self._ask(op, lock, attempt, wait_ns=wait_ns, ttl_ns=ttl_ns)

    async def acquire_on(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, terms: Terms
    ) -> Answer:
        """The same on terms: with the keys of the abilities that the table lists."""
        self._attempts.add(attempt)
        op = "acquire" if wait_ns else "try"
        keys = {key for ability in self._listed for key in PARAMETERS.get(ability, ())}
        supported = {key: value for key, value in named(terms).items() if key in keys}
        return await self._ask(op, lock, attempt, wait_ns=wait_ns, ttl_ns=ttl_ns, terms=supported)

    async def query(self, lock: str, *, attempt: int) -> Queried:
        """Ask for the holder and the length of the queue, or for the place of an attempt."""
        number = next(self._ids)
        line = protocol.question(number, "query", lock, attempt, wait_ns=0, lease_ns=0)
        response = await self._answer(number, line, 0)
        if response is None or response["outcome"] != "ok":
            return Queried(outcome=Status.INFO, error=LATE if response is None else str(response))
        try:
            return answered(response)
        except (TypeError, ValueError) as wrong:
            self._give_up(f"sent a wrong answer to a query: {wrong}")

    async def check(self, grant: Grant) -> Answer:
        """Ask whether a hold is in force."""
        answer = await self._ask("check", grant.lock, grant.attempt, wait_ns=0, ttl_ns=0)
        over = Answer(outcome=Status.FAIL)
        return over if answer.outcome is Status.NOT_OWNER else answer

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Renew the lease."""
        return await self._ask("renew", grant.lock, grant.attempt, wait_ns=0, ttl_ns=ttl_ns)

    async def release(self, grant: Grant) -> Answer:
        """Release it. An acquire that was given up is answered first: until then the program knows
        no lock of this attempt, and would keep what it is granted later."""
        answered = await self._acquire_answered(grant.attempt)
        answer = await self._ask("release", grant.lock, grant.attempt, wait_ns=0, ttl_ns=0)
        if answered or answer.outcome is Status.OK:
            return answer
        return Answer(outcome=Status.INFO, error=UNANSWERED)

    async def _acquire_answered(self, attempt: int) -> bool:
        number, late_s = self._acquires.get(attempt, (0, 0.0))
        if number not in self._late:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(late_s):
                await self._late[number].wait()
                return True
        return False

    async def close(self) -> None:
        """Close its input; a program that does not exit then is killed."""
        self._closing = True
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
        await cancel_until_done(*self._tasks)

    async def _ask(
        self,
        op: str,
        lock: str,
        attempt: int,
        *,
        wait_ns: int,
        ttl_ns: int,
        terms: Mapping[str, Json] | None = None,
    ) -> Answer:
        number = next(self._ids)
        if op in ACQUIRES:
            late_s = asyncio.get_running_loop().time() + (max(wait_ns, 0) + ANSWER_NS) / SECOND
            self._acquires[attempt] = number, late_s
        line = protocol.question(
            number, op, lock, attempt, wait_ns=wait_ns, lease_ns=ttl_ns, terms=terms
        )
        answer = await self._answer(number, line, wait_ns)
        if answer is None:
            return Answer(outcome=Status.INFO, error=LATE)
        if op in ACQUIRES:
            del self._acquires[attempt]
        parsed = protocol.answer(answer, 0)
        error = parsed.error or (await self._unsaid() if parsed.outcome is Status.INFO else "")
        return Answer(outcome=parsed.outcome, token=parsed.token, ttl_ns=ttl_ns, error=error)

    async def _unsaid(self) -> str:
        """Why an outcome is unknown whose response has no error: the first one on stderr, which may
        be read after the response."""
        if not self._waited_for_error:
            self._waited_for_error = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STDERR_S):
                    await self._failed.wait()
        return f"{self._error} (first on its stderr; {UNSAID})" if self._error else UNSAID

    def writer(self, resource: Resource, address: str) -> Resource:
        """The resource, written to by the program with `sender=program`."""
        by_program = self._setup.options.get("sender") == SENDERS[1]
        return _ByProgram(self, address) if by_program else resource

    async def send(self, attempt: int, address: str, request: Mapping[str, Json]) -> Reply:
        """The program sends a request to the resource, by a send of its own."""
        number = next(self._ids)
        line = protocol.send(number, attempt, address, PORT, json.dumps(request))
        response = await self._answer(number, line, 0)
        if response is None:
            return Reply(outcome=Status.INFO, error=LATE)
        if response["outcome"] != "ok":
            outcome = Status.FAIL if response["outcome"] == "fail" else Status.INFO
            error = str(response.get("error") or "")
            if outcome is Status.INFO and not error:
                error = await self._unsaid()
            return Reply(outcome=outcome, error=error)
        try:
            return resource_replies.answered(json.loads(str(response.get("answer", ""))))
        except (ValueError, KeyError, TypeError) as error:
            self._give_up(f"sent no answer of the resource: {error!r}: {response}")

    async def _answer(self, number: int, line: bytes, wait_ns: int) -> Said | None:
        """The response to a request line; None if none came in time."""
        waiting: asyncio.Future[Said] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        bound = None if wait_ns < 0 else (wait_ns + ANSWER_NS) / SECOND
        try:
            async with asyncio.timeout(bound):
                return await waiting
        except TimeoutError:
            return None
        finally:
            if self._waiting.pop(number, None) is not None:
                self._late[number] = asyncio.Event()

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError):
            while line := await self._process.stdout.readline():
                try:
                    self._hear(protocol.read(line))
                except protocol.Garbage as wrong:
                    self._give_up(f"sent {wrong}")
        if self._closing:
            return
        # The program's last lines may not have been read yet.
        await asyncio.wait(self._tasks[1:], timeout=CLOSE_S)
        if self._process.returncode is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._process.wait()
        self._give_up(f"exited unexpectedly with code {self._process.returncode}")

    def _hear(self, said: tuple[int, dict[str, object]] | protocol.Event) -> None:
        if isinstance(said, protocol.Event):
            if said.attempt not in self._attempts:
                raise protocol.Garbage(f"an event about an unknown attempt {said.attempt}")
            op = Op.LOST if said.kind == "lost" else Op.WAITING
            res = -1 if op is Op.WAITING else 0
            self._setup.tell(op, attempt=said.attempt, lock=said.lock, res=res, text=said.reason)
            return
        number, answer = said
        if number in self._late:
            self._late.pop(number).set()
            return
        waiting = self._waiting.pop(number, None)
        if waiting is None:
            raise protocol.Garbage(f"a response to id {number}, which is not pending")
        if not waiting.done():
            waiting.set_result(answer)

    async def _log(self) -> None:
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            text = line.decode(errors="replace").rstrip()
            self._said.append(text)
            self._error = self._error or first_error([text])
            if self._error:
                self._failed.set()
            sys.stderr.write(f"{text}\n")

    def _give_up(self, why: str) -> NoReturn:
        """End the worker: the responses of such a program cannot be judged."""
        last = f"; its last lines on stderr: {' | '.join(self._said)}" if self._said else ""
        if self._error:
            last = f"; its first error on stderr: {self._error}"
        sys.stderr.write(f"the client program {why}{last}\n")
        sys.stderr.flush()
        os._exit(1)


class _ByProgram:
    """The protected resource, read and written to by the program."""

    def __init__(self, program: ProgramClient, address: str) -> None:
        self._program, self._address = program, address

    async def read(self, key: str, *, op: int, attempt: int, token: int) -> Reply:
        """Read the version of a key."""
        request = resource_replies.asked("read", key, op=op, attempt=attempt, token=token)
        return await self._program.send(attempt, self._address, request)

    async def write(
        self, key: str, *, op: int, attempt: int, token: int, base: int, once: bool = False
    ) -> Reply:
        """Write based on version `base`."""
        sent = {"op": op, "attempt": attempt, "token": token, "base": base}
        request = resource_replies.asked("write", key, once=once, **sent)
        return await self._program.send(attempt, self._address, request)


def client(setup: ClientSetup) -> ProgramClient:
    """One program for one logical client."""
    return ProgramClient(setup)
