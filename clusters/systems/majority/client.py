"""The client of the majority vote: a lock is a quorum of leases.

The algorithm as commonly written: request from all servers at once, hold the lock if a quorum
grants while enough of the lease is left, take the largest token of the grants, release everything
if that failed, and retry after a random pause. The servers do not communicate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.clusters.systems.background import Background
from holdfast.clusters.systems.majority.options import quorum_of
from holdfast.clusters.systems.reference.wire.frames import Frame
from holdfast.clusters.systems.single.connection import Remote
from holdfast.harness.core.operations import Answer, Grant, Mode, Op, Status
from holdfast.harness.core.ports import CLIENT, ClientSetup
from holdfast.harness.core.seeds import stream

VOTE_S = 0.25
"""A server that does not respond within this time has not voted."""
PAUSE_S = (0.02, 0.1)
"""between two rounds, sampled uniformly; losers of one round must not collide again in the next"""
ASK_S = 0.3
ROUNDS = 1024
"""at most, of one acquire; owner numbers are attempt * ROUNDS + round"""
DRIFT = 0.01
"""share of the lease reserved for clock drift, plus DRIFT_NS"""
DRIFT_NS = 2_000_000


class MajorityClient:
    """A LockClient; `client` makes one."""

    wire = CLIENT

    def __init__(self, setup: ClientSetup) -> None:
        self._setup = setup
        self._remotes = [Remote(address) for _, address in setup.servers]
        self._quorum = quorum_of(setup.options, len(self._remotes))
        self._rng = stream(setup.seed, "majority client", setup.process)
        self._holds: dict[int, tuple[str, int, int]] = {}
        self._owners: dict[int, int] = {}
        self._background = Background()
        self._calls = 0

    async def open(self) -> None:
        """Nothing to wait for: unavailable servers are found later."""
        self._background.start(self._keep())

    async def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer:
        """As `LockClient`; a shared mode is rejected."""
        if mode is not Mode.EXCLUSIVE:
            return Answer(outcome=Status.FAIL, error="this service has no shared locks")
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait_ns / 1e9
        rounds = 0
        try:
            while True:
                # Each round has its own owner value, so that a released one stays released.
                owner = attempt * ROUNDS + rounds
                answer = await self._round(lock, attempt, owner, ttl_ns)
                if answer.outcome is not Status.FAIL:
                    return answer
                rounds += 1
                pause_s = self._rng.uniform(*PAUSE_S)
                if (wait_ns >= 0 and loop.time() + pause_s >= until_s) or rounds == ROUNDS:
                    return answer
                self._setup.tell(Op.WAITING, attempt=attempt, lock=lock, res=-1)
                await asyncio.sleep(pause_s)
        except asyncio.CancelledError:
            self._background.start(self._give_back(lock, attempt * ROUNDS + rounds, _never))
            raise

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """As `LockClient`: a quorum must renew."""
        asked = {"lock": grant.lock, "attempt": self._owner(grant), "ttl_ns": ttl_ns}
        votes = await self._ask_all("renew", self._enough("renewed"), **asked)
        outcome = self._judge(votes, "renewed")
        if outcome is Status.NOT_OWNER:
            self._lost(grant.attempt, "expired")
        if outcome is Status.OK:
            return Answer(outcome=outcome, token=grant.token, ttl_ns=_valid(ttl_ns))
        return Answer(outcome=outcome, error=_words(votes))

    async def release(self, grant: Grant) -> Answer:
        """As `LockClient`: a quorum must have released. Every server gets the request."""
        owner = self._owner(grant)
        self._holds.pop(grant.attempt, None)
        votes = await self._give_back(grant.lock, owner, self._enough("released"))
        outcome = self._judge(votes, "released")
        if outcome is not Status.INFO:
            self._owners.pop(grant.attempt, None)
        if outcome is Status.OK:
            return Answer(outcome=outcome, token=grant.token)
        return Answer(outcome=outcome, error=_words(votes))

    async def close(self) -> None:
        """Closes the connections; leases run on."""
        await self._background.end()
        for remote in self._remotes:
            remote.close()

    # One round of votes

    async def _round(self, lock: str, attempt: int, owner: int, ttl_ns: int) -> Answer:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        asked = {"lock": lock, "attempt": owner, "ttl_ns": ttl_ns, "owner": self._setup.name}
        votes = await self._ask_all("acquire", self._enough("granted"), **asked)
        tokens = [int(vote["token"]) for vote in votes if vote["is"] == "granted"]
        left_ns = _valid(ttl_ns) - int((loop.time() - began_s) * 1e9)
        if len(tokens) >= self._quorum and left_ns > 0:
            token = max(tokens)
            self._holds[attempt] = (lock, owner, token)
            self._owners[attempt] = owner
            return Answer(outcome=Status.OK, token=token, ttl_ns=_valid(ttl_ns))
        refused = sum(vote["is"] in ("held", "never-sent") for vote in votes)
        if refused < len(self._remotes):
            await self._give_back(lock, owner, _never)
        return Answer(outcome=Status.FAIL, error=_words(votes))

    async def _ask_all(
        self, op: str, decided: Callable[[list[Frame]], bool], **fields: object
    ) -> list[Frame]:
        """The votes up to the decision; the other requests continue in the background."""
        asked = [
            self._background.start(remote.ask(op, VOTE_S, **fields)) for remote in self._remotes
        ]
        votes: list[Frame] = []
        for vote in asyncio.as_completed(asked):
            votes.append(await vote)
            if decided(votes):
                break
        return votes

    async def _give_back(
        self, lock: str, owner: int, decided: Callable[[list[Frame]], bool]
    ) -> list[Frame]:
        self._calls += 1
        return await self._ask_all("release", decided, lock=lock, attempt=owner, call=self._calls)

    def _enough(self, yes: str) -> Callable[[list[Frame]], bool]:
        """Decided once a quorum has voted yes, or no longer can."""
        spare = len(self._remotes) - self._quorum

        def decided(said: list[Frame]) -> bool:
            agreed: int = sum(vote["is"] == yes for vote in said)
            return agreed >= self._quorum or len(said) - agreed > spare

        return decided

    def _judge(self, said: list[Frame], yes: str) -> Status:
        agreed = sum(vote["is"] == yes for vote in said)
        denied = sum(vote["is"] == "not-holder" for vote in said)
        if agreed >= self._quorum:
            return Status.OK
        if denied > len(self._remotes) - self._quorum:
            return Status.NOT_OWNER
        return Status.INFO

    # During a hold

    async def _keep(self) -> None:
        """Polls its holds: one is lost once a quorum cannot confirm it."""
        while True:
            for attempt, (lock, owner, _) in list(self._holds.items()):
                wanted = [[lock, owner]]
                votes = await asyncio.gather(
                    *(remote.ask("ask", VOTE_S, holds=wanted) for remote in self._remotes)
                )
                ended = [
                    vote["holds"][0]
                    for vote in votes
                    if vote["is"] == "state" and vote["holds"][0] != "held"
                ]
                if len(ended) > len(self._remotes) - self._quorum:
                    self._lost(attempt, min(ended))
            await asyncio.sleep(ASK_S)

    def _owner(self, grant: Grant) -> int:
        """The owner number of a grant, also of one that was lost."""
        return self._owners.get(grant.attempt, grant.attempt * ROUNDS)

    def _lost(self, attempt: int, reason: str) -> None:
        held = self._holds.pop(attempt, None)
        if held is not None:
            lock, _, token = held
            self._setup.tell(Op.LOST, attempt=attempt, lock=lock, text=reason, token=token)


def _valid(ttl_ns: int) -> int:
    """The valid part of a lease, counted from its request."""
    return ttl_ns - int(ttl_ns * DRIFT) - DRIFT_NS


def _never(said: list[Frame]) -> bool:
    """Never decided: waits for every server, until the timeout."""
    return False


def _words(said: list[Frame]) -> str:
    return "votes: " + ", ".join(str(vote["is"]) for vote in said)
