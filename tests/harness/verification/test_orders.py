"""Orders of semaphores, hierarchies and of the resource's log, against every order there is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import pytest

from holdfast.checkers.facts import legal_orders
from holdfast.checkers.facts.legal_orders import Order
from holdfast.checkers.properties import (
    mutual_exclusion,
    no_expired_write,
    no_stale_write,
)
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Mode, Terms
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from holdfast.harness.verification.conditions import Conditions
from holdfast.harness.verification.orders import Orders
from tests.checkers.brute.test_guarded import run
from tests.checkers.certified import named, recorded, told, verified
from tests.checkers.shorthand import case, history, on

PROVED = {"bound": "connection", "release_once": False, "release_proves": False}
"""A hold reaches to its last renewal, and no further."""
LAST = 9
Grant = tuple[int, str, int, int, int]
"""process, lock, call, answer, last proof (0: none)"""


def drawn(rng: random.Random, locks: Sequence[str]) -> list[Grant]:
    """Up to four grants; some clients are granted twice."""
    made = []
    for process in range(rng.randint(2, 3)):
        at = 0
        for _ in range(rng.randint(1, 2)):
            called = at + rng.randint(0, 3)
            back = called + rng.randint(1, 3)
            proof = rng.choice((0, back + rng.randint(1, 4)))
            made.append((process, rng.choice(locks), called, back, proof))
            at = max(back, proof) + 1
    return made[:4]


def text(made: Sequence[Grant]) -> str:
    """The same as words; a renewal is answered at once."""
    words, numbers = [], dict[int, int]()
    for process, lock, called, back, proof in made:
        n = numbers[process] = numbers.get(process, 0) + 1
        words.append((called, f"{process}a?:{lock}@{called}"))
        words.append((back, f"{process}a+:{lock}@{back}"))
        if proof:
            renewal = f"{process}.{n}n?:{lock}@{proof} {process}.{n}n+:{lock}@{proof}.1"
            words.append((proof, renewal))
    return " ".join(word for _, word in sorted(words, key=lambda one: one[0]))


def judged(made: Sequence[Grant], *terms: Terms) -> Case:
    promises = {**PROVED, "subtrees": True, "tokens": "none"}
    return case(on(history(text(made)), *terms), promises=promises, asked=("mutual-exclusion",))


def holds(made: Sequence[Grant]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Every way in which they can have been granted, each from a moment on to its last proof."""
    for begins in product(*(range(called, back + 1) for _, _, called, back, _ in made)):
        yield tuple((begin, max(begin, one[4])) for begin, one in zip(begins, made, strict=True))


def fits(made: Sequence[Grant], permits: Sequence[int], limit: int) -> bool:
    """Whether in one of those never too many permits are held. Who lets go at a moment is out when
    another comes in at it; a hold of no length is squeezed in between."""
    for spans in holds(made):
        moments = {moment for span in spans for moment in span}
        lengths = [(span, p) for span, p in zip(spans, permits, strict=True)]
        after = (sum(p for (a, b), p in lengths if a <= t < b) for t in moments)
        if max(after) > limit:
            continue
        points = (
            p + sum(q for (a, b), q in lengths if a < t < b) for (t, end), p in lengths if t == end
        )
        if max(points, default=0) <= limit:
            return True
    return False


def excluded(made: Sequence[Grant], shared: Sequence[bool]) -> bool:
    """Whether in one of those no two that exclude each other meet."""

    def apart(n: int, m: int) -> bool:
        a, b = made[n], made[m]
        near = a[1] == b[1] or a[1].startswith(b[1] + "/") or b[1].startswith(a[1] + "/")
        return not near or a[0] == b[0] or (shared[a[0]] and shared[b[0]])

    pairs = [(n, m) for n in range(len(made)) for m in range(n) if not apart(n, m)]
    for spans in holds(made):
        if all(spans[n][1] <= spans[m][0] or spans[m][1] <= spans[n][0] for n, m in pairs):
            return True
    return False


def accepted(given: Case, order: Order) -> bool:
    """Whether the verifier takes an order for the proof that exclusion holds."""
    verdict = PropertyVerdict(property="mutual-exclusion", verdict=Verdict.HOLDS, reason="")
    return not verified(given, told(given, verdict, order)).refused


def compare(given: Case, possible: bool) -> str:
    """An order of all grants is accepted if and only if one is possible; ours is one of them."""
    findings = mutual_exclusion.check(given).findings
    order = legal_orders.of_grants(given)
    groups: dict[str, list[int]] = {}
    for name, rows in order or ():
        groups[name] = list(rows)
    assert not (findings and possible), findings
    if order is not None:
        assert possible and accepted(given, order)
        return "ordered"
    return "possible" if possible else "found" if findings else "neither"


def every_order(given: Case, names: Sequence[str]) -> Iterator[Order]:
    """All orders of the grants of one lock, or of one hierarchy."""
    rows = given.history.rows
    asks = [n for n in range(len(rows)) if rows["f"][n] == 1]
    for order in permutations(asks):
        yield ((names[0], order),)


@pytest.mark.parametrize("seed", range(4))
def test_an_order_of_permits_is_accepted_only_where_they_suffice(seed: int) -> None:
    rng, seen = random.Random(seed), dict[str, int]()
    for n in range(60):
        made, limit = drawn(rng, ["db"]), rng.randint(1, 3)
        taken = [rng.randint(1, limit) for _ in range(3)]
        terms = [Terms(mode=Mode.PERMITS, permits=p, limit=limit) for p in taken]
        if n % 3 == 0:
            terms[2], taken[2] = Terms(), limit  # as a probe asks
        given = judged(made, *terms)
        possible = fits(made, [taken[one[0]] for one in made], limit)
        what = compare(given, possible)
        seen[what] = seen.get(what, 0) + 1
        if n % 6 == 0:
            assert any(accepted(given, o) for o in every_order(given, ["db"])) == possible
    assert seen["ordered"] > 10 and seen["found"] > 5, seen
    assert seen.get("possible", 0) == 0, "where permits suffice, an order is given"


@pytest.mark.parametrize("seed", range(4))
def test_an_order_of_a_hierarchy_is_accepted_only_where_no_two_on_a_line_meet(seed: int) -> None:
    rng, seen = random.Random(seed), dict[str, int]()
    for n in range(60):
        made = drawn(rng, ["/a", "/a/b", "/a/c"])
        shared = [rng.random() < 0.4 for _ in range(3)]
        terms = [Terms(mode=Mode.SHARED if reads else Mode.EXCLUSIVE) for reads in shared]
        given = judged(made, *terms)
        possible = excluded(made, shared)
        what = compare(given, possible)
        seen[what] = seen.get(what, 0) + 1
        if n % 6 == 0:
            assert any(accepted(given, o) for o in every_order(given, ["/a"])) == possible
    assert seen["ordered"] > 10 and seen["found"] > 5, seen
    assert seen.get("possible", 0) <= 2, seen


def test_one_lock_is_not_shared_and_a_semaphore_at_once() -> None:
    made: list[Grant] = [(0, "db", 0, 1, 0), (1, "db", 2, 3, 0)]
    terms = Terms(mode=Mode.PERMITS, permits=1, limit=2), Terms(mode=Mode.SHARED)
    given = judged(made, *terms)
    assert legal_orders.of_grants(given) is None
    assert not any(accepted(given, order) for order in every_order(given, ["db"]))


def test_an_order_of_permits_is_no_order_of_fewer() -> None:
    made: list[Grant] = [(0, "db", 0, 1, 8), (1, "db", 2, 3, 7)]
    terms = [Terms(mode=Mode.PERMITS, permits=1, limit=2)] * 2
    given = judged(made, *terms)
    order = legal_orders.of_grants(given)
    assert order is not None and accepted(given, order)
    fewer = [Terms(mode=Mode.PERMITS, permits=1, limit=limit) for limit in (1, 2)]
    assert not accepted(judged(made, *fewer), order)


# Of the resource's log.

LOGS: dict[str, tuple[Any, Callable[[Case], Order]]] = {
    "no-stale-write": (no_stale_write.check, legal_orders.of_requests),
    "no-expired-write": (no_expired_write.check, legal_orders.of_writes),
}


ACCUSED = {
    ("no-stale-write", "unfenced"),
    ("no-expired-write", "unfenced"),
    ("no-expired-write", "patient-client"),
}


@pytest.mark.parametrize("prop", LOGS)
@pytest.mark.parametrize("mutant", ["", "unfenced", "patient-client"])
def test_the_log_is_accepted_if_and_only_if_nothing_in_it_is_accused(
    prop: str, mutant: str
) -> None:
    check, order_of = LOGS[prop]
    seen = set()
    for seed in range(12):
        given = guarded_case(seed, mutant)
        verdict = check(given)
        held = replace(verdict, verdict=Verdict.HOLDS, findings=(), exercised={})
        refused = verified(given, told(given, held, order_of(given))).refused
        assert bool(refused) == bool(verdict.findings), (seed, refused, verdict.findings)
        seen.add(bool(refused))
    assert False in seen
    assert (True in seen) == ((prop, mutant) in ACCUSED), seen


def guarded_case(seed: int, mutant: str) -> Case:
    _, given = run(seed, mutant)
    return named(given)


@pytest.mark.parametrize("prop", LOGS)
def test_a_log_in_another_order_or_with_a_row_less_is_refused(prop: str) -> None:
    _, order_of = LOGS[prop]
    given = guarded_case(3, "")
    ((name, rows), *more) = order_of(given) or ()
    assert len(rows) > 3
    for other in (rows[:-1], (rows[1], rows[0], *rows[2:]), (*rows, rows[0]), rows[::-1]):
        verdict = PropertyVerdict(property=prop, verdict=Verdict.HOLDS, reason="")
        assert verified(given, told(given, verdict, ((name, other), *more))).refused


def test_a_certificate_of_no_known_property_is_refused() -> None:
    run = recorded(guarded_case(3, ""))
    walked = Orders(run, Conditions(run), b"")
    assert "there is no rule" in walked.wrong("ownership", {"rule": "order/ownership"})


@pytest.mark.parametrize("reader", [Terms(mode=Mode.SHARED), Terms(mode=Mode.PERMITS, limit=3)])
def test_beyond_a_bound_of_steps_there_is_no_order(
    reader: Terms, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Grant] = [(0, "db", 0, 1, 20), (1, "db", 2, 3, 0), (2, "db", 4, 5, 0)]
    given = judged(made, reader, reader, reader)
    assert legal_orders.of_grants(given) is not None
    monkeypatch.setattr(legal_orders, "MOST_STEPS", 0)
    assert legal_orders.of_grants(judged(made, reader, reader, reader)) is None
