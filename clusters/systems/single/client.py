"""The client of the single lease server; it polls, because the server has no queue.

A waiting client sleeps between two polls, for a random time up to the option `poll_ms`.

Every request has its own deadline: a second, or a third of the lease if that is longer; each is
retried until then, which is harmless because the server recognizes an attempt. An acquire that ends
without a response is undone; only if even that gets no response, or comes too late, is its outcome
unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from holdfast.clusters.systems.background import Background
from holdfast.clusters.systems.reference.wire.frames import Frame
from holdfast.clusters.systems.single.connection import NEVER_SENT, UNANSWERED, Remote
from holdfast.harness.core.operations import Answer, Grant, Mode, Op, Status
from holdfast.harness.core.ports import CLIENT, ClientSetup
from holdfast.harness.core.seeds import stream

MEANING: dict[str, Status] = {
    "granted": Status.OK,
    "renewed": Status.OK,
    "released": Status.OK,
    "held": Status.FAIL,
    "never-sent": Status.FAIL,
    "bad-request": Status.FAIL,
    "not-holder": Status.NOT_OWNER,
}
"""Response of the server -> what it means. All others ("unanswered", "stale" ...) are INFO."""

POLL_S = (0.02, 0.1)
"""between two polls, sampled uniformly; `poll_ms` replaces it for a client that waits"""
POLL_MS = range(10, 10_001)
TRY_S = 0.5
ASK_S = 0.3
GIVE_UP_S = 0.5


def poll_s(options: Mapping[str, str]) -> tuple[float, float]:
    """The shortest and the longest pause of a waiting client between two polls. Errors: ValueError.

    The shortest is a fifth of the longest, so that clients that began to wait together spread out.
    """
    if "poll_ms" not in options:
        return POLL_S
    text = options["poll_ms"]
    if not text.isdecimal() or int(text) not in POLL_MS:
        raise ValueError(
            f"invalid option poll_ms={text}: expected a whole number, {POLL_MS[0]} to {POLL_MS[-1]}"
        )
    return int(text) / 5000, int(text) / 1000


class SingleClient:
    """A LockClient; `client` makes one."""

    wire = CLIENT

    def __init__(self, setup: ClientSetup) -> None:
        self._setup = setup
        self._remote = Remote(setup.servers[0][1])
        self._rng = stream(setup.seed, "single client", setup.process)
        self._poll_s = poll_s(setup.options)
        self._call_s = max(1.0, setup.lease_ns / 3e9)
        self._holds: dict[int, tuple[str, int]] = {}
        self._background = Background()
        self._calls = 0

    async def open(self) -> None:
        """Nothing to wait for: a server that is away is found later."""
        self._background.start(self._keep())

    async def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer:
        """As `LockClient`; a shared mode is rejected."""
        if mode is not Mode.EXCLUSIVE:
            return Answer(outcome=Status.FAIL, error="this service has no shared locks")
        try:
            return await self._acquire(lock, attempt, ttl_ns, wait_ns)
        except asyncio.CancelledError:
            self._background.start(self._give_up(lock, attempt))
            raise

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """As `LockClient`."""
        answer = await self._persist("renew", grant, ttl_ns=ttl_ns)
        if answer["is"] == "not-holder":
            self._lost(grant.attempt, str(answer["reason"]))
        return _meant(answer, grant.token, self._lease_ns(ttl_ns))

    async def release(self, grant: Grant) -> Answer:
        """As `LockClient`. From here on the client no longer believes that it holds."""
        self._holds.pop(grant.attempt, None)
        self._calls += 1
        answer = await self._persist("release", grant, call=self._calls)
        return _meant(answer, grant.token, 0)

    async def close(self) -> None:
        """Closes the connection; leases run on."""
        await self._background.end()
        self._remote.close()

    async def _acquire(self, lock: str, attempt: int, ttl_ns: int, wait_ns: int) -> Answer:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + (wait_ns / 1e9 if wait_ns else self._call_s)
        asked = {"lock": lock, "attempt": attempt, "ttl_ns": ttl_ns, "owner": self._setup.name}
        unsure = False
        last_answer = NEVER_SENT
        while True:
            left_s = max(0.01, until_s - loop.time()) if wait_ns >= 0 else TRY_S
            answer = await self._remote.ask("acquire", min(TRY_S, left_s), **asked)
            unsure = unsure or answer is UNANSWERED
            last_answer = answer if answer is not NEVER_SENT else last_answer
            match answer["is"]:
                case "granted":
                    return await self._granted(lock, attempt, ttl_ns, answer, unsure=unsure)
                case "held" if wait_ns:
                    self._setup.tell(Op.WAITING, attempt=attempt, lock=lock, res=-1)
                case "held" if not unsure:
                    return _meant(answer, 0, 0)
                case "stale" | "bad-request":
                    return _meant(answer, 0, 0)
            pause_s = self._rng.uniform(*self._poll_s)
            if wait_ns >= 0 and loop.time() + pause_s >= until_s:
                break
            await asyncio.sleep(pause_s)
        if unsure:
            last_answer = await self._give_up_for(lock, attempt)
        return _meant(last_answer, 0, 0)

    async def _granted(
        self, lock: str, attempt: int, ttl_ns: int, answer: Frame, *, unsure: bool
    ) -> Answer:
        """A grant. If an earlier poll may have won it, one renewal restarts the lease."""
        token = int(answer["token"])
        if unsure:
            grant = Grant(lock=lock, attempt=attempt, token=token, ttl_ns=0, granted_at_ns=0)
            renewed = await self._persist("renew", grant, ttl_ns=ttl_ns)
            if renewed["is"] != "renewed":
                error = f"granted as {token}, then {renewed['is']} before it was known"
                return Answer(outcome=Status.INFO, token=token, error=error)
        self._holds[attempt] = (lock, token)
        return Answer(outcome=Status.OK, token=token, ttl_ns=self._lease_ns(ttl_ns))

    def _lease_ns(self, ttl_ns: int) -> int:
        """The lease that is granted for a requested one."""
        return 0 if self._setup.options.get("leases") == "none" else ttl_ns

    async def _give_up_for(self, lock: str, attempt: int) -> Frame:
        """The outcome of an acquire without a response, after it was undone."""
        self._calls += 1
        taken_back = await self._remote.ask(
            "release", GIVE_UP_S, lock=lock, attempt=attempt, call=self._calls
        )
        if taken_back["is"] == "not-holder" and taken_back["reason"] == "unknown":
            return {"is": "held"}
        return {"is": f"given up: {taken_back['is']}"}

    async def _give_up(self, lock: str, attempt: int) -> None:
        await self._give_up_for(lock, attempt)

    async def _persist(self, op: str, grant: Grant, **fields: object) -> Frame:
        """Retries until there is a response or the call's deadline."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._call_s
        unsure = False
        while (left_s := until_s - loop.time()) > 0:
            answer = await self._remote.ask(
                op, min(TRY_S, left_s), lock=grant.lock, attempt=grant.attempt, **fields
            )
            unsure = unsure or answer is UNANSWERED
            if answer not in (UNANSWERED, NEVER_SENT):
                return answer
            await asyncio.sleep(self._rng.uniform(*POLL_S))
        return UNANSWERED if unsure else NEVER_SENT

    async def _keep(self) -> None:
        """Polls its holds, because the server does not notify."""
        while True:
            holds = list(self._holds.items())
            if holds:
                wanted = [[lock, attempt] for attempt, (lock, _) in holds]
                answer = await self._remote.ask("ask", TRY_S, holds=wanted)
                if answer["is"] == "state":
                    for (attempt, _), fate in zip(holds, answer["holds"], strict=True):
                        if fate != "held":
                            self._lost(attempt, fate)
            await asyncio.sleep(ASK_S)

    def _lost(self, attempt: int, reason: str) -> None:
        held = self._holds.pop(attempt, None)
        if held is not None:
            lock, token = held
            self._setup.tell(Op.LOST, attempt=attempt, lock=lock, text=reason, token=token)


def _meant(answer: Frame, token: int, ttl_ns: int) -> Answer:
    kind = str(answer["is"])
    outcome = MEANING.get(kind, Status.INFO)
    if outcome is Status.OK:
        return Answer(outcome=outcome, token=token, ttl_ns=ttl_ns)
    detail = answer.get("reason") or answer.get("why")
    return Answer(outcome=outcome, error=f"{kind}: {detail}" if detail else kind)


def client(setup: ClientSetup) -> SingleClient:
    """The client of one worker; nothing is opened yet."""
    return SingleClient(setup)
