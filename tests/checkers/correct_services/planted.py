"""Minimal violations, planted into histories of correct services after all has come to rest.

Each is a few calls, with random spans between them; the kind of finding it is to give is its name.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status, Terms, attempt_id
from tests.checkers.correct_services.kinds import MS, SERVICES
from tests.checkers.correct_services.world import Client, Row, World

REST_NS = 60 * SECOND
TTL_NS = 3 * SECOND
JOB_KEY = 12
"""The key of the planted job."""
EXCLUSIVE = Terms()


class Hand:
    """Writes down calls that were never made."""

    def __init__(self, world: World) -> None:
        self.world, self.rng = world, random.Random(str(world.rng.random()))
        self.now = REST_NS + self.rng.randrange(SECOND)
        self.token = world.server.newest
        self.a, self.b = (Client(world, n, f"c{world.first + n}") for n in (8, 9))

    def step(self, least_ns: int = 0) -> int:
        """Some time later."""
        self.now += least_ns + self.rng.randrange(1, 100 * MS)
        return self.now

    def call(self, client: Client, f: Op, status: Status = Status.OK, /, **columns: int) -> Row:
        """One call and its answer."""
        row = client.note(f, **{"key": 1, **columns})
        row["t_inv"], row["t_ret"], row["status"] = self.step(), self.step(), status
        if f is Op.RENEW and not columns.get("res"):
            row["arg"] = row["res"] = TTL_NS if self.world.service.bound == "lease" else 0
        return row

    def granted(
        self, client: Client, token: int = 0, terms: Terms = EXCLUSIVE, **columns: int
    ) -> int:
        """A grant; its attempt. token: the next one if none is given."""
        client.attempts += 1
        attempt = attempt_id(client.process, client.attempts)
        self.token = max(self.token + 1, token)
        lease = TTL_NS if self.world.service.bound == "lease" else 0
        self.call(
            client, Op.ACQUIRE, attempt=attempt, token=token or self.token, arg=lease, res=lease,
            mode=terms.mode, op=terms.packed(), aux=10 * SECOND, **columns,
        )  # fmt: skip
        return attempt

    def released(self, client: Client, attempt: int) -> None:
        self.call(client, Op.RELEASE, attempt=attempt)

    def disk(self, do: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        """A fault of the server's disk, or an operation on the server."""
        begin = self.step()
        meanwhile()
        self.world.windows.append((do, "n1", begin, self.step()))

    def told(self, client: Client, f: Op, /, **columns: int) -> Row:
        """A moment."""
        row = client.note(f, **{"key": 1, "status": Status.OK, **columns})
        row["t_inv"] = row["t_ret"] = self.step()
        return row

    def served(
        self, client: Client, attempt: int, token: int, ok: bool = True, **columns: int
    ) -> Row:
        """A write and what the resource made of it."""
        sent = client.note(Op.WRITE, key=1, attempt=attempt, token=token, arg=-1)
        sent["t_inv"] = self.step()
        key = columns.get("key", 1)
        sent["key"] = key
        server = self.world.server
        highest, version = server.highest.get(key, NO_TOKEN), server.versions.get(key, 0)
        if ok:
            server.highest[key] = max(highest, token)
            version = server.versions[key] = version + 1
        status = Status.OK if ok else Status.FAIL
        row = {
            "f": Op.SERVED_WRITE, "t_inv": self.step(), "t_ret": self.step(), "attempt": attempt,
            "token": token, "op": client.process << 32 | sent["row"], "arg": -1, "aux": highest,
            "res": version, "key": key, "process": client.process, "status": status, **columns,
        }  # fmt: skip
        self.world.served.append(row)
        sent["t_ret"], sent["res"], sent["status"] = self.step(), version, status
        sent["arg"] = row["arg"]
        return row


def double_grant(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.granted(hand.b)
    hand.call(hand.a, Op.RENEW, attempt=first)


def broken_lease(hand: Hand) -> None:
    hand.granted(hand.a)
    hand.granted(hand.b)


def double_holder(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.granted(hand.b)
    hand.call(hand.a, Op.RELEASE, Status.INFO, attempt=first)


def over_admission(hand: Hand) -> None:
    terms = Terms(mode=Mode.PERMITS, permits=2, limit=3)
    for row in (row for client in hand.world.clients for row in client.rows):
        # Of one limit, or none is judged: all asked for permits of three.
        if row["f"] in (Op.ACQUIRE, Op.TRY, Op.PROBE):
            row["op"] = Terms(mode=Mode.PERMITS, permits=1, limit=3).packed()
    first = hand.granted(hand.a, terms=terms)
    second = hand.granted(hand.b, terms=terms)
    hand.call(hand.a, Op.RENEW, attempt=first)
    hand.call(hand.b, Op.RENEW, attempt=second)


def lost_grant(hand: Hand) -> None:
    hand.granted(hand.a)
    hand.disk("power")
    hand.granted(hand.b)


def token_after_power_loss(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.released(hand.a, first)
    hand.disk("power")
    hand.granted(hand.b, hand.token)


def token_after_operation(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.released(hand.a, first)
    hand.disk("backup-restore")
    hand.granted(hand.b, hand.token)


def revived_hold(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.released(hand.a, first)
    hand.disk("power")
    hand.call(hand.a, Op.RENEW, attempt=first)


def grant_before_sync(hand: Hand) -> None:
    hand.disk("disk-hang", lambda: hand.granted(hand.a))


def token_repeated(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.released(hand.a, first)
    hand.granted(hand.b, hand.token)


def token_inversion(hand: Hand) -> None:
    hand.token += 5
    first = hand.granted(hand.a)
    hand.released(hand.a, first)
    hand.granted(hand.b, hand.token - hand.rng.choice((1, 2, 5)))


def stale_accepted_write(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.call(hand.a, Op.RELEASE, Status.INFO, attempt=first)
    old = hand.token
    hand.step(4 * SECOND)
    second = hand.granted(hand.b)
    hand.served(hand.b, second, hand.token)
    hand.served(hand.a, first, old)


def expired_owner_write(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.released(hand.a, first)
    hand.served(hand.a, first, hand.token)


def lost_update(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.served(hand.a, first, hand.token)
    base = hand.world.server.versions[1]
    hand.served(hand.a, first, hand.token, arg=base)
    hand.served(hand.a, first, hand.token, arg=base)


def applied_twice(hand: Hand) -> None:
    first = hand.granted(hand.a)
    once = hand.served(hand.a, first, hand.token)
    again = hand.served(hand.a, first, hand.token)
    again["op"] = once["op"]


def job_done_twice(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.served(hand.a, first, hand.token, key=JOB_KEY)
    hand.served(hand.a, first, hand.token, key=JOB_KEY)


def job_never_done(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.world.served[:] = [row for row in hand.world.served if row["key"] != JOB_KEY]
    hand.call(hand.a, Op.READ, attempt=first, token=hand.token, key=JOB_KEY, res=1)


def foreign_release(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.released(hand.a, first)
    hand.released(hand.a, first)


def foreign_renewal(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.step(5 * SECOND)
    second = hand.granted(hand.b)
    hand.released(hand.b, second)
    hand.call(hand.a, Op.RENEW, attempt=first)


def lost_without_notice(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.step(5 * SECOND)
    hand.granted(hand.b)
    hand.step(4 * SECOND)
    hand.call(hand.a, Op.RENEW, Status.NOT_OWNER, attempt=first)


def lost_and_kept(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.step(5 * SECOND)
    hand.granted(hand.b)
    hand.step(4 * SECOND)
    hand.call(hand.a, Op.RELEASE, Status.NOT_OWNER, attempt=first)


def silent_reacquire(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.step(5 * SECOND)
    second = hand.granted(hand.b)
    hand.released(hand.b, second)
    hand.call(hand.a, Op.RENEW, attempt=first)
    hand.step(4 * SECOND)
    hand.call(hand.a, Op.RENEW, attempt=first)


def wrong_reason(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.step(5 * SECOND)
    hand.told(hand.a, Op.LOST, attempt=first, res=hand.rng.choice((2, 3, 4)))


def write_after_notice(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.step(5 * SECOND)
    hand.told(hand.a, Op.LOST, attempt=first, res=1)
    for _ in range(2):
        hand.served(hand.a, first, hand.token, ok=False)


def false_rejection(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.served(hand.a, first, hand.token, ok=False)


def spurious_refusal(hand: Hand) -> None:
    attempt = attempt_id(hand.a.process, 1)
    hand.call(hand.a, Op.TRY, Status.FAIL, attempt=attempt, arg=TTL_NS)


def hung_request(hand: Hand) -> None:
    first = hand.granted(hand.a)
    row = hand.call(hand.a, Op.RELEASE, attempt=first)
    row["t_ret"] += 12 * SECOND


def _refused(hand: Hand, op: Op) -> None:
    """Tries one after the other that are all refused, for longer than anything can explain."""
    for n in range(80):
        attempt = attempt_id(hand.a.process, n + 1)
        hand.call(hand.a, op, Status.FAIL, attempt=attempt, arg=TTL_NS, aux=SECOND)
        hand.a.rows[-1]["t_ret"] += 300 * MS
        hand.now += 300 * MS


def orphan(hand: Hand) -> None:
    _refused(hand, Op.TRY)


def deadlock(hand: Hand) -> None:
    _refused(hand, Op.ACQUIRE)


def overtaken(hand: Hand) -> None:
    keeper = Client(hand.world, 7, f"c{hand.world.first + 7}")
    keeper.attempts = 1
    held = hand.granted(keeper)
    row = hand.a.note(Op.ACQUIRE, key=1, arg=TTL_NS, res=TTL_NS, aux=10 * SECOND)
    hand.a.attempts, row["attempt"] = 1, attempt_id(hand.a.process, 1)
    row["t_inv"], row["op"] = hand.step(), EXCLUSIVE.packed()
    hand.told(hand.a, Op.WAITING, attempt=row["attempt"], res=-1)
    hand.released(keeper, held)
    first = hand.granted(hand.b)
    hand.released(hand.b, first)
    row["t_ret"], row["status"], row["token"] = hand.step(), Status.OK, hand.token + 1


def false_answer(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.released(hand.a, first)
    hand.call(hand.b, Op.HOLDER, token=hand.token)


def early_grant(hand: Hand) -> None:
    session = hand.a.process << 16 | 1
    hand.call(hand.a, Op.HEARTBEAT, arg=session, res=2 * SECOND, key=0)
    hand.granted(hand.a)
    hand.call(hand.a, Op.HEARTBEAT, arg=session, res=2 * SECOND, key=0)
    hand.step(2200 * MS)
    hand.granted(hand.b)


AGAIN = Terms(reenter=True)


def same_token_again(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.released(hand.a, first)
    hand.granted(hand.a, hand.token)


def reentered_after_the_end(hand: Hand) -> None:
    """Who may re-enter comes in twice and leaves twice; then it is granted the same token again."""
    first, token = hand.granted(hand.a, terms=AGAIN), hand.token
    inner = hand.granted(hand.a, token, terms=AGAIN)
    for entry in hand.rng.sample((first, inner), 2):
        hand.released(hand.a, entry)
    hand.granted(hand.a, token, terms=AGAIN)


def grant_after_no_release(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.call(hand.a, Op.RELEASE, Status.FAIL, attempt=first)
    hand.granted(hand.b)


def proof_after_no_release(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.call(hand.a, Op.RELEASE, Status.FAIL, attempt=first)
    hand.granted(hand.b)
    hand.released(hand.a, first)


def granted_to_its_holder(hand: Hand) -> None:
    hand.granted(hand.a)
    hand.granted(hand.a)


def proved_to_its_holder(hand: Hand) -> None:
    first = hand.granted(hand.a)
    hand.granted(hand.a)
    hand.released(hand.a, first)


def whole_tree_beside_a_path(hand: Hand) -> None:
    """Of keys 1 and 2 the first is "/", in `rooted`."""
    first, second = hand.rng.sample((1, 2), 2)
    hand.granted(hand.a, key=first)
    hand.granted(hand.b, key=second)


def early_grant_of_a_lease(hand: Hand) -> None:
    hand.granted(hand.a)
    hand.step(TTL_NS)
    hand.granted(hand.b)


def multi_lock_deadlock(hand: Hand) -> None:
    mine, its = hand.granted(hand.a, key=1), hand.granted(hand.b, key=2)
    waits = []
    for client, lock in ((hand.a, 2), (hand.b, 1)):
        client.attempts += 1
        row = client.note(Op.ACQUIRE, key=lock, arg=TTL_NS, aux=9 * SECOND, op=EXCLUSIVE.packed())
        row["t_inv"], row["attempt"] = hand.step(), attempt_id(client.process, client.attempts)
        waits.append(row)
    for _ in range(4):
        for client, row, attempt in zip((hand.a, hand.b), waits, (mine, its), strict=True):
            hand.told(client, Op.WAITING, attempt=row["attempt"], key=row["key"], res=-1)
            hand.call(client, Op.RENEW, attempt=attempt, key=3 - row["key"])
        hand.step(SECOND)
    for row in waits:
        row["t_ret"], row["status"] = hand.step(), Status.FAIL


@dataclass(frozen=True, slots=True)
class Plant:
    """What is planted into which service, and the property that it violates."""

    service: str
    prop: str
    plant: Callable[[Hand], None]


PLANTS: dict[str, Plant] = {
    "double-grant": Plant("queue", "mutual-exclusion", double_grant),
    "broken-lease": Plant("lease", "mutual-exclusion", broken_lease),
    "double-holder": Plant("until released", "mutual-exclusion", double_holder),
    "over-admission": Plant("semaphore", "mutual-exclusion", over_admission),
    "early-grant": Plant("session, lock-delay", "mutual-exclusion", early_grant),
    "lost-grant": Plant("lease", "durable-grants", lost_grant),
    "token-after-power-loss": Plant("lease", "durable-grants", token_after_power_loss),
    "token-after-operation": Plant("lease", "durable-grants", token_after_operation),
    "revived-hold": Plant("queue", "durable-grants", revived_hold),
    "grant-before-sync": Plant("lease", "durable-grants", grant_before_sync),
    "token-repeated": Plant("lease", "token-order", token_repeated),
    "token-inversion": Plant("queue", "token-order", token_inversion),
    "stale-accepted-write": Plant("lease", "no-stale-write", stale_accepted_write),
    "expired-owner-write": Plant("read-write", "no-expired-write", expired_owner_write),
    "lost-update": Plant("lease", "no-lost-update", lost_update),
    "applied-twice": Plant("lease", "applied-once", applied_twice),
    "job-done-twice": Plant("jobs", "exactly-once-job", job_done_twice),
    "job-never-done": Plant("jobs", "exactly-once-job", job_never_done),
    "foreign-release": Plant("queue", "ownership", foreign_release),
    "foreign-renewal": Plant("queue", "ownership", foreign_renewal),
    "lost-without-notice": Plant("queue", "loss-notice", lost_without_notice),
    "silent-reacquire": Plant("upsert", "loss-notice", silent_reacquire),
    "silent-reacquire: by its library": Plant("renewed", "loss-notice", silent_reacquire),
    "lost-without-notice: by its library": Plant("renewed", "loss-notice", lost_and_kept),
    "wrong-reason": Plant("queue", "loss-notice", wrong_reason),
    "write-after-notice": Plant("queue", "loss-notice", write_after_notice),
    "false-rejection": Plant("lease", "no-false-rejection", false_rejection),
    "spurious-refusal": Plant("lease", "no-false-rejection", spurious_refusal),
    "hung-request": Plant("lease", "no-hung-request", hung_request),
    "orphan": Plant("lease", "orphan-freedom", orphan),
    "deadlock": Plant("queue", "deadlock-freedom", deadlock),
    "overtaken": Plant("queue", "bounded-bypass", overtaken),
    "false-answer": Plant("queue", "truthful-queries", false_answer),
    "token-repeated: to its owner": Plant("lease", "token-order", same_token_again),
    "token-repeated: in the end": Plant("reentrant", "token-order", reentered_after_the_end),
    "broken-lease: no release": Plant("lease", "mutual-exclusion", grant_after_no_release),
    "double-holder: no release": Plant(
        "until released", "mutual-exclusion", grant_after_no_release
    ),
    "double-grant: no release": Plant("lease", "mutual-exclusion", proof_after_no_release),
    "broken-lease: to its holder": Plant("lease", "mutual-exclusion", granted_to_its_holder),
    "double-grant: to its holder": Plant("queue", "mutual-exclusion", proved_to_its_holder),
    "broken-lease: in a tree": Plant("paths", "mutual-exclusion", whole_tree_beside_a_path),
    "early-grant: of a lease": Plant(
        "lease, lock-delay", "mutual-exclusion", early_grant_of_a_lease
    ),
    "multi-lock-deadlock": Plant("pair", "no-multi-lock-deadlock", multi_lock_deadlock),
}
"""Kind of finding, and which of several -> how it comes about."""


EXCUSED_BY_UNKNOWN = frozenset({"spurious-refusal", "false-answer", "orphan", "deadlock"})
"""An acquire of unknown outcome may hold the lock at any later time, and so explain these."""


def open_to(kind: str, world: World) -> bool:
    """Whether nothing in a history could explain what is planted.

    An unanswered unlock of whatever hold there is may take effect at any later time, and an
    answered one may have been sent twice. A job of which the log has requests cannot be undone.
    """
    rows = [row for client in world.clients for row in client.rows]
    unanswered = [row for row in rows if row["status"] in (Status.INFO, Status.INVOKED)]
    untargeted = [r for r in rows if r["f"] == Op.FORCE_UNLOCK and r["token"] == NO_TOKEN]
    if any(row in unanswered for row in untargeted):
        return False
    if kind == "wrong-reason" and any(row["status"] != Status.FAIL for row in untargeted):
        return False
    if kind == "job-never-done" and any(row["key"] == JOB_KEY for row in rows):
        return False
    unknown = any(row["f"] in (Op.ACQUIRE, Op.TRY, Op.PROBE) for row in unanswered)
    return not (unknown and kind in EXCUSED_BY_UNKNOWN)


def service_of(plant: Plant) -> int:
    """Its service's place in the table."""
    return next(n for n, service in enumerate(SERVICES) if service.name == plant.service)
