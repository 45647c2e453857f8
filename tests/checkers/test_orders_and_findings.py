"""Where a violation of a log is found, the order of the log proves nothing to the verifier.

Logs of a resource at random, of a few attempts whose grants overlap or only touch, with tokens in
any order: the order that would prove that a property holds is given to the verifier whether or not
the checker found a violation.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from holdfast.checkers.facts import legal_orders
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.properties import no_lost_update, no_stale_write
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from tests.checkers.certified import told, verified
from tests.checkers.shorthand import case
from tests.draws import Draws

HALF = SECOND // 2
CHECKERS = {"no-stale-write": no_stale_write.check, "no-lost-update": no_lost_update.check}


def a_log(chance: random.Random) -> Case:
    """A few attempts at one lock, and what the resource accepted of them."""
    words, clients = list[tuple[float, str]](), chance.choice((2, 2, 3, 4))
    tokens = chance.sample(range(1, 7), clients)
    for client in range(clients):
        asked = chance.randrange(2, 12) / 2
        granted = asked + chance.choice((0, 0.5, 1, 3))
        words += [(asked, f"{client}a?"), (granted, f"{client}a+{tokens[client]}")]
        for _ in range(chance.choice((1, 1, 2))):
            at = granted + chance.randrange(1, 12) / 2
            kind = chance.choice(("w", "w", "w", "d"))
            based = f"={chance.randrange(3)}" if kind == "w" and chance.random() < 0.7 else ""
            served = "S" if kind == "w" else "D"
            version = f"={chance.randrange(8)}" if kind == "w" and chance.random() < 0.2 else ""
            words += [(at, f"{client}{kind}?{based}"), (at, f"{client}{served}+{version}")]
            words.append((at, f"{client}{kind}+"))
    text = " ".join(f"{word}@{at}" for at, word in sorted(words, key=lambda one: one[0]))
    said = {"tokens": chance.choice(("ordered", "ordered", "unordered")), "tokens_unique": True}
    return case(text, promises=said, error_ns=chance.choice((0, HALF, HALF, SECOND)))


def as_held(given: Case, verdict: PropertyVerdict) -> dict[str, Any]:
    """A verdict as if nothing had been found, with its order."""
    order = legal_orders.ORDERS[verdict.property](given) or legal_orders.of_writes(given)
    return told(given, replace(verdict, verdict=Verdict.HOLDS, findings=()), order)


@pytest.mark.parametrize("seed", range(6))
def test_where_something_is_found_no_order_is_accepted(seed: int, draws: Draws) -> None:
    chance, seen = random.Random(f"logs {seed}"), Counter[tuple[str, bool]]()
    for _ in range(draws(100)):
        given = a_log(chance)
        for prop, check in CHECKERS.items():
            verdict = check(given)
            found, refused = verdict.findings, verified(given, as_held(given, verdict)).refused
            assert refused or not found, (prop, found, given.history.rows)
            if prop == "no-stale-write":  # an update of a version that nobody wrote loses none
                assert found or not refused, (refused, given.history.rows)
            seen[prop, bool(found)] += 1
    assert min(seen.values()) > draws(100) // 20 and len(seen) == 4, seen


@pytest.mark.parametrize("seed", range(10))
def test_the_latest_end_of_all_other_owners_is_known_without_a_look_at_each(seed: int) -> None:
    chance = random.Random(seed)
    ends, plain = legal_orders.Ends(), {0: 0}
    for _ in range(200):
        owner, end = chance.randrange(1, 6), chance.randrange(100)
        ends.add(owner, end)
        plain[owner] = max(plain.get(owner, 0), end)
        for one in range(1, 7):
            others = max(value for who, value in plain.items() if who != one)
            assert ends.of_others(one) == others


def test_an_order_with_a_violation_at_its_end_costs_as_much_per_grant_however_many_there_are() -> (
    None
):
    calls = []
    for grants in (100, 400):
        texts = [
            f"{n % 3}a?@{n} {n % 3}a+{n}@{n}.2 {n % 3}r?@{n}.3 {n % 3}r+@{n}.4"
            for n in range(1, grants)
        ]
        end = f"3a?@{grants} 3a+{grants}@{grants}.2 4a?@{grants}.3 4a+{grants + 1}@{grants}.4"
        texts.append(f"{end} 3r?@{grants}.5 3r+@{grants}.6")
        judged = case(" ".join(texts), promises={"tokens": "ordered"})
        table(judged)
        made = Counter[str]()

        def counted(frame: FrameType, event: str, arg: object, made: Counter[str] = made) -> None:
            made[event] += 1

        sys.setprofile(counted)
        try:
            order = legal_orders.of_tokens(judged)
        finally:
            sys.setprofile(None)
        assert order is None
        calls.append(made["call"] + made["c_call"])
    assert calls[1] < 5 * calls[0]
