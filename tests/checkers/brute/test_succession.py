"""Ownership and loss notice against judges that look at every pair and every tick."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from holdfast.checkers.holds.contradictions import stands
from holdfast.checkers.holds.derive import INF, Attempt, attempts, conflict
from holdfast.checkers.holds.overlaps import proof_reach, reach
from holdfast.checkers.holds.statements import TOKENS
from holdfast.checkers.holds.succession import Tops
from holdfast.checkers.holds.token_order import inversions
from holdfast.checkers.properties import loss_notice, ownership
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.fault_traits import BEFORE
from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from tests.checkers.brute.clients import run
from tests.checkers.brute.service import Kind
from tests.checkers.brute.test_timelines import HORIZON, REGIMES, case_of
from tests.checkers.brute.timelines import Asked, Rules, draw
from tests.draws import Draws


def ownable(asked: Sequence[Asked], rules: Rules) -> bool:
    """Whether grants can have come at ticks such that every ok went to the last one granted."""
    granted = [one for one in asked if one.status is Status.OK or one.says(rules)]
    return _extends([], granted, rules)


def _extends(chosen: list[int], granted: Sequence[Asked], rules: Rules) -> bool:
    n = len(chosen)
    if n == len(granted):
        return True
    one = granted[n]
    last = one.ret if one.status is Status.OK else rules.horizon
    last = min([last, *(call.ret for call in one.says(rules))])
    for tick in range(one.inv, last + 1):
        fits = all(_fit(granted[m], chosen[m], one, tick, rules) for m in range(n))
        if fits and _extends([*chosen, tick], granted, rules):
            return True
    return False


def _fit(a: Asked, a_tick: int, b: Asked, b_tick: int, rules: Rules) -> bool:
    a_first = a_tick <= b_tick and (a.process == b.process or _done_by(a, b_tick, rules))
    b_first = b_tick <= a_tick and (a.process == b.process or _done_by(b, a_tick, rules))
    if rules.ordered:
        return a_first if a.token < b.token else b_first
    return a_first or b_first


def _done_by(one: Asked, tick: int, rules: Rules) -> bool:
    return all(call.inv <= tick for call in one.says(rules))


def many(few: int) -> pytest.MarkDecorator:
    """So many histories in `make test`, 20,000 in `make power`."""
    numbers = [few, pytest.param(20_000, marks=pytest.mark.power)]
    return pytest.mark.parametrize("number", numbers, ids=["few", "very many"])


@many(1_000)
@pytest.mark.parametrize("name", ["leases with tokens", "leases without tokens, a slip"])
def test_an_ok_is_wrong_exactly_where_its_owner_cannot_have_been_the_last_one_granted(
    name: str, number: int, draws: Draws
) -> None:
    number = draws(number)
    rules, rng, seen = REGIMES[name], random.Random(name), Counter[bool]()
    for n in range(number):
        asked = draw(rng, rules, HORIZON)
        told = case_of(asked, rules)
        accused = bool(ownership.check(told).findings)
        possible = ownable(asked, rules)
        where = f"history {n}: accused {accused}\n" + "\n".join(map(str, asked))
        assert not (accused and possible), where
        exact = rules.ordered and all(stands(told, key, TOKENS) for key in inversions(told))
        assert not exact or accused or possible, where
        seen[accused] += 1
    assert min(seen.values()) >= number // (5 if rules.ordered else 20), seen


def told_in_time(told: Case, a: Attempt) -> bool:
    """Whether no stretch of ticks shows that a client could be told of its loss and was not."""
    known = [b.known_ns for b in attempts(told) if b.known_ns < INF and newer(told, a, b)]
    if a.certain is None or not known:
        return True
    rows = [row for row in told.history.rows if row["process"] == a.process]
    seen = max(int(max(row["t_inv"], row["t_ret"])) for row in rows)
    claimed, limit = min(a.end_ns, seen), told.promises.notice_ns
    limit = max(limit, told.lease_ns) if told.promises.bound == "none" else limit
    if min(known) >= claimed:
        return True
    out = [span for window in told.windows if (span := out_of_reach(told, a, window))]
    return not any(
        start + limit < claimed and all(start >= to or start + limit < begin for begin, to in out)
        for start in range(max(min(known), bound(told, a)), claimed)
    )


def bound(told: Case, a: Attempt) -> int:
    """Until when it is the other's grant that is wrong."""
    if told.promises.bound == "lease":
        return reach(told)(a)
    return max(proof_reach(a), a.ret_ns + a.ttl_ns + told.promises.slip_ns)


def newer(told: Case, a: Attempt, b: Attempt) -> bool:
    """Whether b surely came after a."""
    by_token = NO_TOKEN < a.token < b.token and stands(told, a.key, TOKENS)
    return conflict(a, b) and (b.inv_ns > a.known_ns or by_token)


def out_of_reach(told: Case, a: Attempt, window: Window) -> tuple[int, int] | None:
    """While a fault kept the client of an attempt from being told."""
    clients = set(told.nodes.values())
    if window.do == "pause" and set(window.nodes) <= clients:
        return (window.from_ns, window.to_ns) if a.node in window.nodes else None
    touched = a.node in window.nodes or not set(window.nodes) <= clients
    return (window.from_ns, window.to_ns + told.promises.recovery_ns) if touched else None


@many(200)
@pytest.mark.parametrize("renewed", [False, True], ids=["by its user", "by a library"])
def test_a_holder_was_not_told_exactly_where_some_stretch_of_ticks_shows_it(
    number: int, renewed: bool
) -> None:
    kind = Kind(bound="lease", fault="silent", renewed=renewed)
    seen = Counter[bool]()
    for seed in range(number):
        told, rng = run(seed, kind), random.Random(f"windows {seed}")
        told = replace(told, windows=(*told.windows, *drawn_windows(rng)), memo={})
        accused = {f.witnesses[0] for f in loss_notice.check(told).findings}
        untold = {a.row for a in attempts(told) if not told_in_time(told, a)}
        assert accused == untold, f"seed {seed}"
        seen[bool(accused)] += 1
    assert min(seen.values()) >= number // 5, seen


def drawn_windows(rng: random.Random) -> list[Window]:
    """A few faults on clients and servers."""
    starts = [rng.randrange(240) for _ in range(rng.randrange(4))]
    return [
        Window(
            id=f"w{start}",
            do=(do := rng.choice(("pause", "partition"))),
            target="one",
            nodes=(rng.choice(("c0", "c1", "c2", "n1")),),
            from_ns=start,
            to_ns=start + rng.randrange(40),
            effective=True,
            evidence={},
            traits=BEFORE[do],
        )
        for start in starts
    ]


def test_the_first_and_the_last_value_of_another_owner_are_those_that_a_walk_finds() -> None:
    rng, found = random.Random("tops"), Counter[bool]()
    for n in range(2_000):
        size = n % 20
        values = [rng.randrange(6) for _ in range(size)]
        owners = [rng.randrange(1 + n % 4) for _ in range(size)]
        tops = Tops(np.array(values, np.int64), np.array(owners, np.int64))
        end, more, owner = rng.randrange(size + 1), rng.randrange(-1, 6), rng.randrange(4)
        fit = [k for k in range(end) if values[k] > more and owners[k] != owner]
        assert tops.last(end, more, owner) == (fit[-1] if fit else -1), (values, owners)
        assert tops.first(end, more, owner) == (fit[0] if fit else -1), (values, owners)
        found[bool(fit)] += 1
    assert min(found.values()) > 400, found


def confirmed(told: Case, a: Attempt) -> bool:
    """Whether a renewal of a lost hold returned ok, by a walk over all rows, attempts and ticks,
    and no notice followed although a stretch of ticks would have been long enough."""
    rows, limit = told.history.rows, told.promises.notice_ns
    by_library = told.promises.bound == "none"
    limit = max(limit, told.lease_ns) if by_library else limit
    if a.status is not Status.OK or told.promises.renew_proves:
        return False
    ttl = {row: int(rows["res"][row]) for row in a.renewals}
    for row in sorted(a.renewals, key=lambda n: int(rows["t_inv"][n])):
        sent, back = int(rows["t_inv"][row]), int(rows["t_ret"][row])
        if rows["status"][row] != Status.OK:
            continue
        lost = [b for b in attempts(told) if b.known_ns < sent and newer(told, a, b)]
        leases = [a.ret_ns + a.ttl_ns]
        own = () if by_library else a.renewals
        for other in (r for r in own if r != row and rows["t_inv"][r] <= sent):
            answered = rows["status"][other] == Status.OK
            if answered or rows["status"][other] in (Status.INFO, Status.INVOKED):
                begun = rows["t_ret"][other] if answered else rows["t_inv"][other]
                leases.append(int(begun) + ttl[other])
        slowest = max(leases) + told.promises.slip_ns
        if not lost or slowest >= sent:
            continue
        return not asked_again(told, a, back) and not notified(told, a, back, limit)
    return False


def asked_again(told: Case, a: Attempt, back: int) -> bool:
    """Whether another acquire of its process may have been granted from its own call on."""
    own = [
        b for b in attempts(told) if b.process == a.process and b.key == a.key and b.row != a.row
    ]
    granted = [b for b in own if b.status is Status.OK and b.ret_ns >= a.inv_ns]
    unknown = [b for b in own if b.status in (Status.INFO, Status.INVOKED)]
    return any(b.inv_ns <= back for b in (*granted, *unknown))


def notified(told: Case, a: Attempt, back: int, limit: int) -> bool:
    """Whether it was, or every stretch of ticks after the answer was too short to be sure."""
    rows = told.history.rows
    mine = [row for row in rows if row["process"] == a.process]
    ends = [int(max(row["t_inv"], row["t_ret"])) for row in mine]
    until = [max(ends), *([a.end_ns] if told.promises.bound == "none" else [])]
    for row in mine:
        if row["f"] in (Op.LOST, Op.CLOSED) and row["attempt"] in (a.id, 0):
            until += [int(row["t_inv"])] * (row["t_inv"] >= a.inv_ns)
        if row["f"] == Op.RENEW and row["status"] == Status.NOT_OWNER and row["attempt"] == a.id:
            until.append(int(row["t_ret"]))
    killed = [w for w in told.windows if w.traits.kills and a.node in w.nodes]
    until += [w.from_ns for w in killed if w.from_ns >= a.inv_ns]
    out = [span for window in told.windows if (span := out_of_reach(told, a, window))]
    return not any(
        start + limit < min(until)
        and all(start >= to or start + limit < begin for begin, to in out)
        for start in range(back, min(until))
    )


@many(200)
@pytest.mark.parametrize("renewed", [False, True], ids=["by its user", "by a library"])
def test_a_hold_was_regained_exactly_where_a_walk_over_all_rows_shows_it(
    number: int, renewed: bool
) -> None:
    seen = Counter[bool]()
    for seed in range(number):
        kind = Kind(bound="lease", renew="upsert", fault="silent", slip=seed % 3, renewed=renewed)
        told, rng = run(seed, kind), random.Random(f"again {seed}")
        told = replace(told, windows=(*told.windows, *drawn_windows(rng)), memo={})
        silent = [f for f in loss_notice.check(told).findings if f.kind == "silent-reacquire"]
        accused = {f.witnesses[0] for f in silent}
        assert accused == {a.row for a in attempts(told) if confirmed(told, a)}, f"seed {seed}"
        seen[bool(accused)] += 1
    # Of a library that renews, only an owner that keeps the lock for the limit is judged.
    assert min(seen.values()) >= number // (120 if renewed else 60), seen
