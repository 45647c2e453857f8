"""A lock on etcd over its JSON gateway, standard library only: a lease per attempt, and its key.

Two methods, chosen by the option `lock`. `transaction`: the key of the lock is written, with the
lease, if it does not exist; its create revision is the token, and waiting is polling. `rpc`: the
server's own Lock call, which queues and returns when it is the caller's turn; the token is the
revision of that response, at which the attempt was first in the queue.

Each attempt has a new lease, which its release revokes. With `leases=reused` the release only
deletes the key, and the next acquire keeps the lease alive and takes it again, as a session of
etcd's own client library does: an acquire is then a single write. With `wake=watch` a waiter does
not poll but watches the key from the revision after the one at which it was held.

An acquire that does not succeed is undone: its lease is revoked, and with it every later effect of
it in the server. Only if even that gets no response, the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace

from holdfast.clusters.systems.background import Background
from holdfast.clusters.systems.etcd import PORT
from holdfast.clusters.systems.etcd.authentication import LOCKS
from holdfast.clusters.systems.etcd.json_gateway import (
    INVALID_TOKEN,
    Body,
    NoAnswer,
    NotSent,
    Refused,
    Server,
    encoded,
    number,
)
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Answer, Grant, Mode, Op, Status
from holdfast.harness.core.ports import CLIENT, ClientSetup
from holdfast.harness.core.seeds import stream

GONE = "etcdserver: requested lease not found"
INVALID = f"etcdserver: {INVALID_TOKEN}"
MEANING: dict[str, Status] = {
    GONE: Status.NOT_OWNER,
    INVALID: Status.FAIL,
    "etcdserver: too many requests": Status.FAIL,
    "etcdserver: mvcc: database space exceeded": Status.FAIL,
    "etcdserver: not capable": Status.FAIL,
    "etcdserver: request is too large": Status.FAIL,
}
"""Error of a request that changes something -> what it means. All others ("request timed out",
"leader changed", "no leader" ...) are INFO: it may still be applied."""

ANSWER_S = 1.0
"""timeout of one server, before the next one is tried"""
TAKE_BACK_S = 1.5
TRY_S = 0.3
"""The Lock call cannot try; a try waits for this time, and is then undone."""
POLL_S = (0.01, 0.05)
"""between two polls, sampled uniformly"""
PAUSE_S = 0.05
WATCH_S = 30.0
"""longest watch, after which the key is looked at once more"""
FOREVER_S = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """A lease as granted: whole seconds, and never less than the server's minimum."""

    id: str
    ttl_s: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One round of one acquire: its request, and its deadline (of the loop's clock, s)."""

    lock: str
    attempt: int
    lease: Lease
    until_s: float


class EtcdClient:
    """A LockClient; `client` makes one."""

    wire = CLIENT

    def __init__(self, setup: ClientSetup) -> None:
        self._setup = setup
        user = LOCKS if setup.options.get("auth") == "yes" else None
        self._servers = [Server(address, PORT, user) for _, address in setup.servers]
        self._at = setup.process % max(1, len(self._servers))
        self._rpc = setup.options.get("lock") == "rpc"
        self._idle = setup.options.get("waiting") == "idle"
        self._watches = setup.options.get("wake") == "watch"
        self._reuse = setup.options.get("leases") == "reused"
        self._rng = stream(setup.seed, "etcd client", setup.process)
        self._call_s = max(1.0, setup.lease_ns / 3e9)
        self._held: dict[int, tuple[Lease, str]] = {}
        self._dead: set[int] = set()
        self._spare: Lease | None = None
        self._released: set[int] = set()
        self._background = Background()

    async def open(self) -> None:
        """Connects, so that the first acquire need not; an unavailable server is found later."""
        with contextlib.suppress(NotSent, NoAnswer, Refused):
            await self._ask("/v3/maintenance/status", {}, self._until(self._call_s))

    async def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer:
        """As `LockClient`; a shared mode is rejected. A failed round is followed by another."""
        if mode is not Mode.EXCLUSIVE:
            return Answer(outcome=Status.FAIL, error="this lock is never shared")
        limit_s = {0: self._call_s, -1: FOREVER_S}.get(wait_ns, wait_ns / SECOND)
        until_s = self._until(limit_s)
        while True:
            try:
                lease = await self._lease(ttl_ns, until_s)
            except (NotSent, NoAnswer, Refused) as error:
                return Answer(outcome=Status.FAIL, error=f"no lease: {_said(error)}")
            turn = Turn(lock=lock, attempt=attempt, lease=lease, until_s=until_s)
            try:
                answer, again = await self._round(turn, wait_ns == 0)
            except asyncio.CancelledError:
                self._background.start(self._take_back(lease))
                raise
            if answer.outcome is not Status.FAIL or not again or self._until(0) >= until_s:
                return answer
            await asyncio.sleep(PAUSE_S)

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Keeps the lease alive; an ok proves that lease and key existed without a break."""
        lease, _ = self._held[grant.attempt]
        if self._reuse and grant.attempt in self._released:
            # The lease may live on without the key: it says nothing about this hold any more.
            return Answer(outcome=Status.INFO, error="its release was sent")
        try:
            ttl_s = await self._keep_alive(lease, self._until(self._call_s))
        except (NotSent, NoAnswer, Refused) as error:
            return _meant(error)
        if ttl_s <= 0:
            return Answer(outcome=Status.NOT_OWNER, error="the lease is gone")
        return Answer(outcome=Status.OK, ttl_ns=ttl_s * SECOND)

    async def release(self, grant: Grant) -> Answer:
        """Revokes the lease, and the key with it; with `lock=rpc` calls Unlock on the key."""
        if self._reuse:
            return await self._give_back(grant)
        lease, key = self._held[grant.attempt]
        if self._rpc:
            path, body = "/v3/lock/unlock", {"key": key}
        else:
            path, body = "/v3/lease/revoke", {"ID": lease.id}
        try:
            await self._ask(path, body, self._until(self._call_s), again=False)
        except (NotSent, NoAnswer, Refused) as error:
            answer = _meant(error)
        else:
            answer = Answer(outcome=Status.OK)
        if self._rpc or answer.outcome not in (Status.OK, Status.NOT_OWNER):
            self._background.start(self._end(lease))
            answer = _ending(answer)
        return answer

    async def _give_back(self, grant: Grant) -> Answer:
        """Deletes the key if it is still this attempt's, and keeps the lease for the next acquire.

        Where that is not certain, the lease is revoked: no late request with it takes effect then.
        """
        lease, key = self._held[grant.attempt]
        self._released.add(grant.attempt)
        own = {
            "key": key,
            "target": "CREATE",
            "result": "EQUAL",
            "createRevision": str(grant.token),
        }
        body = {"compare": [own], "success": [{"requestDeleteRange": {"key": key}}]}
        try:
            response = await self._ask("/v3/kv/txn", body, self._until(self._call_s), again=False)
        except (NotSent, NoAnswer, Refused) as error:
            self._background.start(self._end(lease))
            return _ending(_meant(error))
        if not response.get("succeeded"):
            return Answer(outcome=Status.NOT_OWNER, error="the key is gone, or another attempt's")
        self._spare = lease
        return Answer(outcome=Status.OK)

    async def close(self) -> None:
        """Closes the connections; leases expire."""
        await self._background.end()
        for server in self._servers:
            server.close()

    # One acquire

    async def _round(self, turn: Turn, once: bool) -> tuple[Answer, bool]:
        """(the result, whether another round could do better) of one lease's acquire."""
        try:
            if self._rpc:
                answer = await self._queue(turn, once)
            else:
                answer = await self._poll(turn, once)
        except (NotSent, NoAnswer, Refused) as error:
            answer = _meant(error)
        if answer.outcome is Status.OK:
            return answer, False
        if not await self._take_back(turn.lease):
            return Answer(outcome=Status.INFO, error=answer.error), False
        # After a notification that its lease is gone there is no second turn for an attempt.
        again = bool(answer.error) and not once and turn.attempt not in self._dead
        return Answer(outcome=Status.FAIL, error=answer.error), again

    async def _poll(self, turn: Turn, once: bool) -> Answer:
        """Repeats the transaction until it finds the key free; keeps the lease alive."""
        key, lease = encoded(f"holdfast/{turn.lock}"), turn.lease
        write = {"key": key, "value": encoded(str(turn.attempt)), "lease": lease.id}
        body = {
            "compare": [{"key": key, "target": "CREATE", "result": "EQUAL", "createRevision": "0"}],
            "success": [{"requestPut": write}],
        }
        kept_s = self._until(0)
        while True:
            response = await self._ask("/v3/kv/txn", body, turn.until_s, again=False)
            if response.get("succeeded"):
                self._held[turn.attempt] = (lease, key)
                return _granted(response, lease)
            pause_s = self._rng.uniform(*POLL_S)
            if once or self._until(pause_s) >= turn.until_s:
                return Answer(outcome=Status.FAIL)
            self._setup.tell(Op.WAITING, attempt=turn.attempt, lock=turn.lock, res=-1)
            if self._watches:
                await self._woken(turn, key, number(response["header"], "revision") + 1)
                kept_s = self._until(0)
                if self._until(pause_s) >= turn.until_s:
                    return Answer(outcome=Status.FAIL)
                continue
            await asyncio.sleep(pause_s)
            if self._until(0) > kept_s + lease.ttl_s / 3:
                kept_s = self._until(0)
                if await self._keep_alive(lease, turn.until_s) <= 0:
                    return Answer(outcome=Status.FAIL, error="the lease ended during the wait")

    async def _woken(self, turn: Turn, key: str, revision: int) -> None:
        """Until the key is deleted at this revision or later, or its watch ends, while the lease is
        kept alive."""
        create = {"key": key, "startRevision": str(revision), "filters": ["NOPUT"]}
        within_s = min(WATCH_S, max(0.0, turn.until_s - self._until(0)))
        body: Body = {"create_request": create}
        alive = asyncio.ensure_future(self._watch(turn))
        try:
            await self._servers[self._at].first("/v3/watch", body, within_s, _over)
        except (NotSent, NoAnswer):
            self._next()
            await asyncio.sleep(PAUSE_S)
        finally:
            alive.cancel()

    async def _queue(self, turn: Turn, once: bool) -> Answer:
        """One Lock call, on one server, while its lease is watched."""
        within_s = TRY_S if once else max(0.0, turn.until_s - self._until(0))
        body = {"name": encoded(f"holdfast/{turn.lock}"), "lease": turn.lease.id}
        call = asyncio.ensure_future(self._servers[self._at].ask("/v3/lock/lock", body, within_s))
        watch = asyncio.ensure_future(self._watch(turn))
        try:
            response = await call
        except (NotSent, NoAnswer) as error:
            if self._until(PAUSE_S) >= turn.until_s or once:
                return Answer(outcome=Status.FAIL)
            self._next()
            raise error
        except Refused as error:
            if str(error) == INVALID:
                self._next()
            raise
        finally:
            call.cancel()
            watch.cancel()
        self._held[turn.attempt] = (turn.lease, str(response["key"]))
        return _granted(response, turn.lease)

    async def _watch(self, turn: Turn) -> None:
        """Keeps a waiter's lease alive, or only polls it; notifies once when it is gone."""
        while True:
            await asyncio.sleep(turn.lease.ttl_s / 4)
            try:
                if self._idle:
                    left_s = await self._time_to_live(turn.lease, turn.until_s)
                else:
                    left_s = await self._keep_alive(turn.lease, turn.until_s)
            except (NotSent, NoAnswer, Refused):
                continue
            if left_s <= 0:
                self._dead.add(turn.attempt)
                self._setup.tell(
                    Op.LOST, attempt=turn.attempt, lock=turn.lock, text="lease expired in the queue"
                )
                return

    # Leases

    async def _lease(self, ttl_ns: int, until_s: float) -> Lease:
        """That of an earlier hold, if it can be kept alive and is long enough; else a new one."""
        lease, self._spare = self._spare, None
        long_enough = lease is not None and lease.ttl_s * SECOND >= ttl_ns
        if lease and long_enough and await self._keep_alive(lease, until_s) > 0:
            return lease
        return await self._grant(ttl_ns, until_s)

    async def _grant(self, ttl_ns: int, until_s: float) -> Lease:
        """A new lease. A grant without a response leaves an unused lease, which is harmless."""
        response = await self._ask("/v3/lease/grant", {"TTL": str(-(-ttl_ns // SECOND))}, until_s)
        return Lease(id=str(response["ID"]), ttl_s=number(response, "TTL"))

    async def _keep_alive(self, lease: Lease, until_s: float) -> int:
        """New time to live of the lease in s; 0 if the server does not know it any more."""
        response = await self._ask("/v3/lease/keepalive", {"ID": lease.id}, until_s)
        return number(response.get("result", {}), "TTL")

    async def _time_to_live(self, lease: Lease, until_s: float) -> int:
        """Seconds left of the lease, at least 1 while it exists; 0 if it is gone."""
        response = await self._ask("/v3/lease/timetolive", {"ID": lease.id}, until_s)
        return max(1, number(response, "TTL")) if number(response, "TTL") >= 0 else 0

    async def _take_back(self, lease: Lease) -> bool:
        """Whether the lease is certainly gone, so that no request with it takes effect."""
        try:
            body = {"ID": lease.id}
            await self._ask("/v3/lease/revoke", body, self._until(TAKE_BACK_S))
        except Refused as error:
            return str(error) == GONE
        except (NotSent, NoAnswer):
            return False
        return True

    async def _end(self, lease: Lease) -> None:
        await self._take_back(lease)

    # Helpers

    async def _ask(self, path: str, body: Body, until_s: float, *, again: bool = True) -> Body:
        """One request, to the next server when one does not respond; a second time only if `again`.

        Errors: those of the last server that was tried.
        """
        while True:
            server = self._servers[self._at]
            left_s = until_s - self._until(0)
            try:
                return await server.ask(path, body, max(0.001, min(ANSWER_S, left_s)))
            except Refused as error:
                # A member that accepts no token has done nothing; another one may accept it.
                settled = not again or MEANING.get(str(error), Status.INFO) is not Status.INFO
                if settled and str(error) != INVALID:
                    raise
                failed: Exception = error
            except NotSent as error:
                failed = error
            except NoAnswer as error:
                if not again:
                    self._next()
                    raise
                failed = error
            self._next()
            if self._until(PAUSE_S) >= until_s:
                raise failed
            await asyncio.sleep(PAUSE_S)

    def _next(self) -> None:
        self._at = (self._at + 1) % len(self._servers)

    def _until(self, seconds: float) -> float:
        return asyncio.get_running_loop().time() + seconds


def _over(said: Body) -> bool:
    """Whether a message of a watch has an event, or ends it."""
    result = said.get("result", {})
    return bool(result.get("events")) or bool(result.get("canceled"))


def _granted(said: Body, lease: Lease) -> Answer:
    """A grant. The revision of a transaction that wrote the key is the key's create revision."""
    token = number(said["header"], "revision")
    return Answer(outcome=Status.OK, token=token, ttl_ns=lease.ttl_s * SECOND)


def _ending(answer: Answer) -> Answer:
    """The answer to a release whose lease is revoked besides: even if the request was rejected, or
    never sent, the hold ends soon."""
    return replace(answer, outcome=Status.INFO) if answer.outcome is Status.FAIL else answer


def _meant(error: Exception) -> Answer:
    """What an error means, by the table."""
    if isinstance(error, NotSent):
        outcome = Status.FAIL
    elif isinstance(error, Refused):
        outcome = MEANING.get(str(error), Status.INFO)
    else:
        outcome = Status.INFO
    return Answer(outcome=outcome, error=_said(error))


def _said(error: Exception) -> str:
    kind = {NotSent: "never sent", NoAnswer: "no answer"}.get(type(error), "refused")
    return f"{kind}: {error}"


def client(setup: ClientSetup) -> EtcdClient:
    """The client of one worker; nothing is opened yet."""
    return EtcdClient(setup)
