"""Histories of correct services, many in one case: one lock each, all under one server's faults."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.harness.core.case import MERGED_DTYPE, Case, History, Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import BEFORE
from holdfast.harness.core.job_keys import job_key
from holdfast.harness.core.operations import (
    DELAY,
    NO_TOKEN,
    Mode,
    Op,
    Starved,
    Status,
    Terms,
    attempt_id,
    carried,
)
from holdfast.harness.properties import PROPERTIES
from tests.checkers.correct_services.kinds import MS, Service
from tests.checkers.correct_services.world import (
    ANSWER_NS,
    LEASES,
    SESSION_NS,
    Client,
    Faults,
    Program,
    Row,
    World,
    terms_of,
)
from tests.checkers.faults import HANG, POWER, RESTORED

BUSY_NS, SETTLED_NS, END_NS = 12 * SECOND, 40 * SECOND, 110 * SECOND
MOST_CLIENTS = 6
"""Numbers that one history takes: its clients, an operator and the probe."""
WORDS = ("", "expired", "revoked", "session", "closed")
JOBS = 3
DEEPEST = 3


@dataclass(slots=True)
class Told:
    """What one history came to: rows per writer, and what befell its processes."""

    world: World
    locks: list[str]


def owner(client: Client, service: Service, limit: int) -> Program:
    """Asks for the lock, acts as owner, gives it back, a few times over."""
    rng, world = client.world.rng, client.world
    yield rng.randrange(SECOND)
    for _ in range(rng.choice((1, 1, 2, 3))):
        if world.now > BUSY_NS:
            break
        lock = rng.choice((1, 2)) if service.pair else 1
        lock = rng.choice((1, 2, 3)) if service.subtrees else lock
        attempt, status = yield from _ask(client, service, limit, Op.ACQUIRE, lock)
        if status is Status.OK:
            yield from _section(client, service, attempt)
        elif status is Status.INFO and service.bound != "none" and rng.random() < 0.5:
            yield client.call(Op.RELEASE, attempt=attempt, key=lock), ANSWER_NS
        yield rng.randrange(10 * MS, 2 * SECOND)
    client.finished = True
    if service.bound == "connection":
        world.server.hang_up(client.session, "closed")


def _ask(
    client: Client,
    service: Service,
    limit: int,
    op: Op,
    lock: int,
    terms: Terms | None = None,
) -> Any:
    rng = client.world.rng
    if service.bound in ("session", "connection") and not client.session:
        yield from _connect(client, service)
    client.attempts += 1
    attempt = attempt_id(client.process, client.attempts)
    if op is Op.ACQUIRE and rng.random() < (0.2 if service.queued else 0.7):
        op = Op.TRY
    terms = terms or terms_of(service, rng, limit)
    wait = 0 if op is Op.TRY else rng.choice((SECOND, 4 * SECOND, 8 * SECOND))
    if op is Op.PROBE:
        wait = 30 * SECOND
    bound = wait + ANSWER_NS
    if service.bound == "none":
        # Nothing frees the lock of an owner that does not know that it is one: it asks on.
        bound = END_NS
    request = client.call(
        op, bound, attempt=attempt, key=lock, mode=terms.mode, op=terms.packed(), aux=wait,
        arg=rng.choice(LEASES) if service.bound == "lease" else 0, session=client.session,
        permits=terms.permits, limit=terms.limit,
    )  # fmt: skip
    if service.queries and op is Op.ACQUIRE:
        client.run(_curious(client, attempt, lock))
    status = yield request, bound
    if status is Status.OK and service.renewed:
        client.run(_renewed(client, request.row))
    if status is Status.OK:
        client.holds[attempt] = next(
            (h for h in client.world.server.holds if h.attempt == attempt), None
        )  # type: ignore[assignment]
    return attempt, status


def _renewed(client: Client, granted: Row) -> Program:
    """What a library does for a hold: it renews it until it is given back. It notifies its user of
    the loss once a renewal is refused, or by its own clock none has come through for a lease."""
    world, rng, attempt, ttl_ns = client.world, client.world.rng, granted["attempt"], granted["res"]
    own = {"attempt": attempt, "key": granted["key"], "token": granted["token"]}
    over_ns, refused = world.now + ttl_ns, False
    every_ns = int(ttl_ns * rng.choice((0.2, 0.33, 0.6)))
    while attempt not in client.given_back and not refused and world.now < over_ns:
        sent_ns, left_ns = world.now, min(ANSWER_NS, over_ns - world.now)
        request = client.unseen(Op.RENEW, left_ns, **own, arg=ttl_ns)
        status = yield request, left_ns
        refused = status is Status.NOT_OWNER
        over_ns = sent_ns + ttl_ns if status is Status.OK else over_ns
        if status is Status.OK:
            yield min(every_ns, over_ns - world.now)
    if attempt not in client.given_back and attempt not in client.over:
        client.over.add(attempt)
        client.moment(Op.LOST, **own, res=1)


def _library_says(client: Client, granted: Row) -> Any:
    """Its user asks a library whether the hold goes on: it answers by its own renewals."""
    own = {name: granted[name] for name in ("attempt", "key", "token")}
    over = granted["attempt"] in client.over
    note = client.note(Op.RENEW, **own, arg=granted["res"])
    yield client.world.rng.choice((1, MS))
    note["t_ret"], note["status"] = client.world.now, Status.NOT_OWNER if over else Status.OK
    note["res"] = 0 if over else granted["res"]


def _connect(client: Client, service: Service) -> Any:
    """A new session, kept alive for as long as the client lives; a connection needs no beats."""
    world = client.world
    for n in range(1, 6):
        session = client.process << 16 | (client.attempts + 1) << 4 | n
        if service.bound == "connection":
            world.server.sessions[session] = 1 << 60
            client.session = session
            return
        request = client.call(Op.HEARTBEAT, arg=session, new=1)
        client.session = session
        status = yield request, ANSWER_NS
        if status is Status.OK and client.session == session:
            client.run(_beats(client, session))
            return
        client.session = 0
        yield SECOND


def _beats(client: Client, session: int) -> Program:
    while client.session == session and not client.finished:
        yield client.world.rng.randrange(SESSION_NS // 4, SESSION_NS // 2)
        if client.session == session:
            yield client.call(Op.HEARTBEAT, arg=session, new=0), ANSWER_NS


def _curious(client: Client, attempt: int, lock: int) -> Program:
    """Asks who holds, and where it stands itself, while it waits."""
    for _ in range(client.world.rng.randrange(3)):
        yield client.world.rng.randrange(10 * MS, SECOND)
        op = client.world.rng.choice((Op.HOLDER, Op.PLACE, Op.CHECK, Op.LENGTH))
        own = {} if op in (Op.HOLDER, Op.LENGTH) else {"attempt": attempt}
        yield client.call(op, key=lock, **own), ANSWER_NS


def _section(client: Client, service: Service, attempt: int, depth: int = 1) -> Any:
    """What an owner does: it renews, writes, sleeps too long; and gives the lock back, or not."""
    world, rng = client.world, client.world.rng
    row = next(r for r in client.rows if r["attempt"] == attempt)
    lock, token = row["key"], row["token"]
    version, sure, shared = -1, True, row["mode"] == 1
    if service.pair and rng.random() < 0.7:
        yield rng.randrange(10 * MS, 400 * MS)
        other, status = yield from _ask(client, service, 1, Op.ACQUIRE, 3 - lock)
        if status is Status.OK:
            yield rng.randrange(10 * MS, 300 * MS)
            yield client.call(Op.RELEASE, attempt=other, key=3 - lock, token=-1), ANSWER_NS
    for _ in range(rng.choice((0, 1, 2, 4))):
        act = rng.random()
        if act < 0.35 and service.renewed:
            yield from _library_says(client, row)
        elif act < 0.35:
            ttl = rng.choice(LEASES) if service.bound == "lease" else 0
            hold: Any = client.holds.get(attempt)
            yield (
                client.call(Op.RENEW, attempt=attempt, key=lock, arg=ttl, token=token, hold=hold),
                ANSWER_NS,
            )
        elif (
            act < 0.75
            and service.resource
            and sure
            and not (service.reenters and client.unsure)
            and (service.careless or attempt not in client.over)
        ):
            version, sure = yield from _use(client, service, attempt, token, lock, version, shared)
            # Its token stays valid if it comes in again: a late write of its own would be accepted.
            client.unsure |= not sure
        elif act < 0.9:
            yield rng.randrange(10 * MS, 600 * MS)
        else:
            yield rng.randrange(600 * MS, 4 * SECOND)
        if attempt in client.over and rng.random() < 0.7:
            break
    if service.reenters and depth < DEEPEST and rng.random() < 0.6:
        yield from _again(client, service, lock, depth)
    if service.downgrades and not shared and rng.random() < 0.6:
        yield from _downgraded(client, service, attempt, lock)
        return
    if service.unsent and rng.random() < 0.2:
        row = client.note(Op.RELEASE, attempt=attempt, key=lock, token=token)
        yield rng.randrange(10 * MS)
        row["t_ret"], row["status"] = world.now, Status.FAIL
        if rng.random() < 0.5:
            return
    fate = rng.random()
    if fate < 0.1 and service.bound in ("lease", "session") and not service.renewed:
        return
    for _ in range(1 if fate < 0.85 else 2):
        yield client.call(Op.RELEASE, attempt=attempt, key=lock, token=token), ANSWER_NS
    while service.bound == "none" and client.rows[-1]["status"] not in (
        Status.OK,
        Status.NOT_OWNER,
    ):
        yield client.call(Op.RELEASE, attempt=attempt, key=lock, token=token), ANSWER_NS


def _again(client: Client, service: Service, lock: int, depth: int) -> Any:
    """Comes in again, also after the end of its lease, which the service may not have noticed."""
    rng = client.world.rng
    yield rng.choice((rng.randrange(300 * MS), rng.randrange(SECOND, 5 * SECOND)))
    inner, status = yield from _ask(client, service, 1, Op.ACQUIRE, lock)
    if status is Status.OK:
        yield from _section(client, service, inner, depth + 1)
    elif status is Status.INFO and rng.random() < 0.5:
        yield client.call(Op.RELEASE, attempt=inner, key=lock), ANSWER_NS


def _downgraded(client: Client, service: Service, attempt: int, lock: int) -> Any:
    """Shares what it held alone, gives the exclusive hold back and later the shared one."""
    rng = client.world.rng
    own = Terms(mode=Mode.SHARED)
    shared, status = yield from _ask(client, service, 1, Op.ACQUIRE, lock, own)
    yield client.call(Op.RELEASE, attempt=attempt, key=lock), ANSWER_NS
    if status is not Status.FAIL:
        yield rng.randrange(10 * MS, 2 * SECOND)
        yield client.call(Op.RELEASE, attempt=shared, key=lock), ANSWER_NS


def _use(
    client: Client,
    service: Service,
    attempt: int,
    token: int,
    lock: int,
    version: int,
    shared: bool,
) -> Any:
    """A request to the resource; what it builds on was read before. Unknown outcomes end it."""
    rng = client.world.rng
    own = {"attempt": attempt, "token": token}
    if service.jobs:
        for job in range(JOBS):
            look = client.call(Op.READ, key=10 + job, **own)
            if (yield look, ANSWER_NS) is not Status.OK:
                return -1, False
            if look.row["res"] == 0:
                write = client.call(Op.WRITE, key=10 + job, arg=0, aux=1, **own)
                status = yield write, ANSWER_NS
                return -1, status is Status.OK
        return -1, True
    if shared or (version < 0 and service.resource != "strict"):
        look = client.call(Op.READ, key=lock, **own)
        status = yield look, ANSWER_NS
        return (look.row["res"] if status is Status.OK else -1), status is Status.OK
    base = version if rng.random() < 0.9 else -1
    write = client.call(Op.WRITE, key=lock, arg=base, aux=rng.choice((0, 2)), **own)
    status = yield write, ANSWER_NS
    if status is not Status.OK:
        return -1, False
    return write.row["res"], True


def operator(client: Client) -> Program:
    """Ends a hold by hand."""
    rng = client.world.rng
    yield rng.randrange(BUSY_NS)
    holds = client.world.server.holds
    aimed = holds[0].token if holds and rng.random() < 0.5 else NO_TOKEN
    yield client.call(Op.FORCE_UNLOCK, key=1, token=aimed), ANSWER_NS


def probe(client: Client, service: Service, lock: int) -> Program:
    attempt, status = yield from _ask(client, service, 1, Op.PROBE, lock)
    if status is Status.OK:
        yield client.call(Op.RELEASE, attempt=attempt, key=lock), ANSWER_NS
    client.finished = True


def tell(service: Service, seed: str, faults: Faults, number: int) -> World:
    """One history, its processes numbered from number * 10 on."""
    world = World(service, seed, faults, number * 10 + 1)
    rng = world.rng
    limit = rng.randint(1, 3)
    for n in range(rng.randint(2, 4)):
        client = Client(world, n, f"c{world.first + n}")
        _befall(client, service)
        client.run(owner(client, service, limit))
    by_hand = service.bound in ("lease", "session") and not service.pair
    by_hand &= not (service.reenters or service.subtrees)
    # A lock-delay is not judged in a run in which an operator freed a lock.
    if by_hand and not service.delay_ns and rng.random() < 0.15:
        there = Client(world, 5, f"c{world.first + 5}")
        there.run(operator(there))
    for n in range(2 if service.pair else 1):
        last = Client(world, 6 + n, f"c{world.first + 6 + n}")
        ask = probe(last, service, 1 + n)
        world.at(SETTLED_NS, lambda last=last, ask=ask: last.run(ask))  # type: ignore[misc]
    world.run(END_NS)
    return world


def _befall(client: Client, service: Service) -> None:
    """Pauses, cuts, a host without a processor, the end of a connection, a death."""
    rng, world = client.world.rng, client.world
    fate, begin = rng.random(), rng.randrange(BUSY_NS)
    over = begin + rng.choice((SECOND // 2, 2 * SECOND, 6 * SECOND))
    if fate < 0.12:
        client.still.append((begin, over))
        world.windows.append(("pause", client.node, begin, over))
    elif fate < 0.2:
        client.still.append((begin, over))
        world.starved.append((client.node, begin, over))
    elif fate < 0.3 and service.bound != "none":
        client.cut.append((begin, over))
        world.windows.append(("partition", client.node, begin, over))
    elif fate < 0.36 and service.bound != "none":
        client.dies_ns = begin
        world.windows.append(("kill", client.node, begin - 1, over))
        # A session outlives its client until its time is over; a connection ends with it.
        if service.bound == "connection":
            world.at(begin + SECOND, lambda: world.server.hang_up(client.session, "closed"))
    if service.bound == "connection" and rng.random() < 0.2:
        world.at(begin, lambda: world.server.hang_up(client.session, "closed"))


def batch(service: Service, seed: int, count: int) -> Case:
    """So many histories of one service as one case."""
    rng = random.Random(f"{service.name} {seed}")
    down = [(at := rng.randrange(2 * SECOND, BUSY_NS), at + rng.choice((SECOND, 3 * SECOND)))]
    faults = Faults(tuple(down) if rng.random() < 0.3 else ())
    worlds = [tell(service, f"{service.name} {seed} {n}", faults, n) for n in range(count)]
    return case_of(service, worlds, faults)


def case_of(service: Service, worlds: Sequence[World], faults: Faults) -> Case:
    strings, rows, writers = list(WORDS), list[Row](), list[str]()
    for n, world in enumerate(worlds):
        names = {1: f"lock {n}", 2: f"other {n}"}
        if service.subtrees:
            names = {1: f"/lock {n}", 2: f"/lock {n}/a", 3: f"/lock {n}/b"}
        names |= {10 + job: job_key(f"lock {n}", job) for job in range(JOBS)}
        base = len(strings)
        place = {key: base + at for at, key in enumerate(names)} | {0: 0}
        strings += names.values()
        for client in world.clients:
            for row in client.rows:
                _noted(row, client, service, place)
                row["writer"] = len(writers)
            rows += client.rows
            writers.append(client.node)
        for at, row in enumerate(world.served):
            row |= {"row": at, "writer": len(writers), "key": place[row["key"]]}
            row["t_inv"] -= service.error_ns
            row["t_ret"] += service.error_ns
            row["mode"] = 0
        rows += world.served
        writers.append(f"resource {n}")
    return Case(
        history=History(rows=_merged(rows), strings=strings, writers=writers),
        promises=service.promises(),
        windows=tuple(_windows(worlds, faults)),
        asked=tuple(PROPERTIES),
        start_ns=0,
        stop_ns=SETTLED_NS - SECOND + BASE_NS,
        end_ns=END_NS + BASE_NS,
        lease_ns=max(LEASES) if service.bound == "lease" else SESSION_NS,
        error_ns=service.error_ns,
        nodes={c.process: c.node for world in worlds for c in world.clients},
        kinds=("kill",) if faults.down else (),
        options={
            "resource": "fenced" if service.resource == "guarded" else service.resource,
            "servers": "1",
            # Its owners do not look whether they were notified.
            "workload": "critical-section" if service.careless else "own",
        },
        starved=[
            Starved(node=node, kind=DELAY, from_ns=begin + BASE_NS, to_ns=over + BASE_NS)
            for world in worlds
            for node, begin, over in world.starved
        ],
    )


BASE_NS = SECOND
"""When a run begins; no time is 0, which stands for a call that never returned."""


def _noted(row: Row, client: Client, service: Service, place: dict[int, int]) -> None:
    """As its client wrote it down, by its own clock, and the judge widened it."""
    row["t_inv"] += client.off_ns - service.error_ns
    if row["status"] != Status.INVOKED:
        row["t_ret"] += client.off_ns + service.error_ns
    row["key"] = place[row["key"]]


def _merged(rows: list[Row]) -> Any:
    merged = np.zeros(len(rows), MERGED_DTYPE)
    for name in ("t_inv", "t_ret", "attempt", "token", "arg", "res", "aux", "op", "process", "key",
                 "f", "mode", "status", "writer", "row"):  # fmt: skip
        merged[name] = [row[name] for row in rows]
    merged["t_inv"] += BASE_NS
    merged["t_ret"][merged["t_ret"] > 0] += BASE_NS
    return merged[np.lexsort((merged["row"], merged["writer"], merged["t_inv"]))]


MORE = {"power": POWER, "disk-hang": HANG, "backup-restore": RESTORED}
MEASURED = {
    "power": ("cut_ns",),
    "disk-hang": ("frozen_ns",),
    "backup-restore": ("operated_ns",),
}


def _windows(worlds: Sequence[World], faults: Faults) -> list[Window]:
    spans = [("kill", "n1", begin, over) for begin, over in faults.down]
    # A server that loses power as it goes down keeps everything, because it is correct.
    spans += [("power", "n1", begin, begin + 1) for begin, _ in faults.down]
    # And so does a service whose operators see to it that nothing is undone.
    spans += [("backup-restore", "n1", begin, over) for begin, over in faults.down]
    spans += [window for world in worlds for window in world.windows]
    return [
        Window(
            id=f"w{n}", do=do, target="client" if node != "n1" else "leader", nodes=(node,),
            from_ns=begin + BASE_NS, to_ns=over + BASE_NS, effective=True,
            evidence={name: [begin + BASE_NS, over + BASE_NS] for name in MEASURED.get(do, ())},
            traits=MORE.get(do) or BEFORE[do],
        )
        for n, (do, node, begin, over) in enumerate(spans)
    ]  # fmt: skip


__all__ = ["batch", "carried", "case_of", "tell"]
