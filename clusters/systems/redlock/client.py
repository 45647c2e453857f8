"""Client of Redlock as published: a lock is a quorum of keys on independent Redis servers.

Each round has its own value and sends it to all servers at once. It has won if more than half of
them set the key while some of the validity, `ttl - elapsed - drift`, is left; else it is released
and retried after a random pause. Time is counted on the monotonic clock.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from holdfast.clusters.systems.background import Background
from holdfast.clusters.systems.redis import PORT
from holdfast.clusters.systems.redis.resp import Link, NoAnswer, NotSent, Refused
from holdfast.harness.core.operations import Answer, Grant, Mode, Op, Status
from holdfast.harness.core.ports import CLIENT, ClientSetup
from holdfast.harness.core.seeds import stream

MEANING: dict[str, Status] = {
    "done": Status.OK,
    "not-ours": Status.NOT_OWNER,
    "held": Status.FAIL,
    "refused": Status.FAIL,
    "never-sent": Status.FAIL,
    "unanswered": Status.INFO,
}
"""What one server's vote means for the effect of one command on it."""

VOTE_S = 0.2
"""a server that has not responded by then has not voted; small against the lease, as published"""
PAUSE_S = (0.01, 0.06)
"""between two rounds, sampled uniformly, so that losers do not collide again"""
DRIFT, DRIFT_NS = 0.01, 2_000_000
"""part of the lease reserved for clock drift"""
ROUNDS = 4096
"""at most, of one acquire; values are attempt * ROUNDS + round"""

RENEW = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[2])
"""
RELEASE = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('del', KEYS[1])
"""


class Redlock:
    """A LockClient; `client` makes one."""

    wire = CLIENT

    def __init__(self, setup: ClientSetup) -> None:
        self._tell = setup.tell
        self._links = [Link(address, PORT) for _, address in setup.servers]
        self._quorum = len(self._links) // 2 + 1
        self._rng = stream(setup.seed, "redlock rounds", setup.process)
        self._values: dict[int, int] = {}
        self._background = Background()

    async def open(self) -> None:
        """Nothing to wait for: unavailable servers are found later."""

    async def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer:
        """Rounds until one is won or the wait is over; certainly lost ones are recorded as
        waiting."""
        if mode is not Mode.EXCLUSIVE:
            return Answer(outcome=Status.FAIL, error="Redlock has no shared locks")
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait_ns / 1e9
        value, outcome = attempt * ROUNDS, Status.FAIL
        while True:
            try:
                answer = await self._round(lock, value, ttl_ns)
            except asyncio.CancelledError:
                self._background.start(self._give_back(lock, value))
                raise
            if answer.outcome is Status.OK:
                self._values[attempt] = value
                return answer
            if answer.outcome is Status.INFO:
                outcome = Status.INFO
            value += 1
            pause_s = self._rng.uniform(*PAUSE_S)
            over = wait_ns >= 0 and loop.time() + pause_s >= until_s
            if over or value == (attempt + 1) * ROUNDS:
                return Answer(outcome=outcome, error=answer.error)
            if answer.outcome is Status.FAIL:
                self._tell(Op.WAITING, attempt=attempt, lock=lock, res=-1)
            await asyncio.sleep(pause_s)

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """As `LockClient`: a quorum must still have our value, and some validity be left."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        words = ("EVAL", RENEW, 1, grant.lock, self._value(grant), ttl_ns // 1_000_000)
        votes = await self._votes(words, self._decided)
        outcome = self._judged(votes)
        if outcome is not Status.OK:
            return Answer(outcome=outcome, error=_words(votes))
        if loop.time() - began_s >= validity_ns(ttl_ns) / 1e9:
            return Answer(outcome=Status.INFO, error="renewed too late to rely on it")
        return Answer(outcome=Status.OK, ttl_ns=validity_ns(ttl_ns))

    async def release(self, grant: Grant) -> Answer:
        """As `LockClient`: sent to all servers, a quorum must have had our value."""
        votes = await self._give_back(grant.lock, self._value(grant))
        self._values.pop(grant.attempt, None)
        outcome = self._judged(votes)
        return Answer(outcome=outcome, error="" if outcome is Status.OK else _words(votes))

    async def close(self) -> None:
        """Closes the connections; keys live on until they expire."""
        await self._background.end()
        for link in self._links:
            link.close()

    async def _round(self, lock: str, value: int, ttl_ns: int) -> Answer:
        """One round. INFO if a quorum may keep this value, although no client relies on it."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        words = ("SET", lock, value, "NX", "PX", ttl_ns // 1_000_000)
        votes = await self._votes(words, self._decided)
        left_s = validity_ns(ttl_ns) / 1e9 - (loop.time() - began_s)
        if self._judged(votes) is Status.OK and left_s > 0:
            return Answer(outcome=Status.OK, ttl_ns=validity_ns(ttl_ns))
        summary = _words(votes)
        if all(MEANING[vote] is Status.FAIL for vote in votes) and len(votes) == len(self._links):
            return Answer(outcome=Status.FAIL, error=summary)
        taken_back = await self._give_back(lock, value, everywhere=True)
        unsure = sum(MEANING[vote] is Status.INFO for vote in taken_back)
        outcome = Status.INFO if unsure >= self._quorum else Status.FAIL
        return Answer(outcome=outcome, error=summary)

    async def _give_back(self, lock: str, value: int, *, everywhere: bool = False) -> list[str]:
        """Deletes our value on all servers; the votes up to the decision, or all of them."""
        words = ("EVAL", RELEASE, 1, lock, value)
        return await self._votes(words, (lambda votes: False) if everywhere else self._decided)

    async def _votes(
        self, words: Sequence[str | int], decided: Callable[[Sequence[str]], bool]
    ) -> list[str]:
        """Sends to all servers at once; the votes up to the decision, others in the background."""
        asked = [self._background.start(_vote(link, words)) for link in self._links]
        votes: list[str] = []
        for vote in asyncio.as_completed(asked):
            votes.append(await vote)
            if decided(votes):
                break
        return votes

    def _decided(self, votes: Sequence[str]) -> bool:
        agreed = votes.count("done")
        return agreed >= self._quorum or len(votes) - agreed > len(self._links) - self._quorum

    def _judged(self, votes: Sequence[str]) -> Status:
        """The outcome of the votes on one command."""
        if votes.count("done") >= self._quorum:
            return Status.OK
        if votes.count("not-ours") > len(self._links) - self._quorum:
            return Status.NOT_OWNER
        return Status.INFO

    def _value(self, grant: Grant) -> int:
        """The value of the round that won, also for a hold that has ended since."""
        return self._values.get(grant.attempt, grant.attempt * ROUNDS)


async def _vote(link: Link, words: Sequence[str | int]) -> str:
    """One server's vote on one command, as a key of MEANING."""
    try:
        reply = await link.ask(*words, within_s=VOTE_S)
    except NotSent:
        return "never-sent"
    except NoAnswer:
        return "unanswered"
    except Refused:
        return "refused"
    if reply in ("OK", 1):
        return "done"
    return "held" if reply is None else "not-ours"


def validity_ns(ttl_ns: int) -> int:
    """The valid part of a lease, counted from the beginning of its round."""
    return ttl_ns - int(ttl_ns * DRIFT) - DRIFT_NS


def _words(votes: Sequence[str]) -> str:
    return "votes: " + ", ".join(f"{n} {vote}" for vote, n in sorted(Counter(votes).items()))


def client(setup: ClientSetup) -> Redlock:
    """The client of one worker; nothing is opened yet."""
    return Redlock(setup)
