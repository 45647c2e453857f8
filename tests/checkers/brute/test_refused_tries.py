"""Refused tries against every instant at which anybody's calls can have taken effect."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from holdfast.checkers.holds.leases import EXPIRY_SLACK_NS
from holdfast.checkers.properties.no_false_rejection import check
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.seeds import stream
from tests.checkers.shorthand import case, history
from tests.draws import Draws

LEASE = 1000
"""s: so long that no lease ends by itself within a run, unless its owner is gone."""
SPAN = 40


@dataclass(slots=True)
class Call:
    """One attempt, in whole seconds: what it asked, when, what it was told; and its release."""

    process: int
    n: int
    op: str
    inv: int
    ret: int
    edge: str
    freed: tuple[int, int, str] | None = None
    effects: list[int] = field(default_factory=list)

    def words(self, token: int) -> list[tuple[float, str]]:
        told = f"{token}" if self.edge == "+" else ""
        name = f"{self.process}.{self.n}"
        said = [
            (self.inv, f"{name}{self.op}?@{self.inv}"),
            (self.ret + 0.5, f"{name}{self.op}{self.edge}{told}@{self.ret}.5"),
        ]
        if self.freed is not None:
            inv, ret, edge = self.freed
            said += [(inv + 0.2, f"{name}r?@{inv}.2"), (ret + 0.7, f"{name}r{edge}@{ret}.7")]
        return said


def calls(rng: random.Random) -> list[Call]:
    """Three or four clients, each in turn, with tries, waits, and answers of all kinds."""
    made = []
    for process in range(1, rng.randint(3, 4) + 1):
        at = rng.randint(0, 8)
        for n in range(1, rng.randint(1, 3) + 1):
            op = rng.choice("ttta")
            ret = at + rng.randint(0, 5)
            edge = rng.choices("+-~", (5, 5, 0.4))[0]
            one = Call(process, n, op, at, ret, edge)
            if edge == "+":
                inv = ret + rng.randint(1, 4)
                one.freed = (inv, inv + rng.randint(0, 3), rng.choices("+~", (9, 1))[0])
                ret = one.freed[1]
            made.append(one)
            at = ret + rng.randint(1, 9)
    return made


def can_have_held(one: Call, at: float) -> bool:
    """Whether some instants of effect let this attempt keep others out at that moment."""
    if one.edge == "-":
        return one.op == "a" and one.inv <= at <= one.ret + 0.5
    if one.edge == "~" or one.freed is None:
        return at >= one.inv
    inv, ret, edge = one.freed
    ends = [inv + 0.2 + k / 10 for k in range(round((ret - inv + 0.5) * 10) + 1)]
    if edge == "~":
        ends.append(float(2 * LEASE))
    grants = [one.inv + k / 10 for k in range(round((one.ret - one.inv + 0.5) * 10) + 1)]
    return any(grant <= at <= end + 1e-9 for grant in (grants[0], grants[-1]) for end in ends)


def accused(made: list[Call]) -> set[tuple[int, int]]:
    """Refused tries during all of whose instants nobody else can have held."""
    found = set()
    for one in made:
        if one.op != "t" or one.edge != "-":
            continue
        moments = [one.inv + k / 10 for k in range(round((one.ret - one.inv + 0.5) * 10) + 1)]
        others = [other for other in made if other is not one]
        if not any(can_have_held(other, at) for other in others for at in moments):
            found.add((one.process, one.n))
    return found


def compare(seed: int, n: int) -> Counter[str]:
    rng = stream(seed, "refused tries")
    seen: Counter[str] = Counter()
    for _ in range(n):
        made = calls(rng)
        words = sorted(word for k, one in enumerate(made) for word in one.words(k + 1))
        told = case(history(" ".join(word for _, word in words), lease=LEASE))
        rows = told.history.rows
        found = {
            (int(rows["process"][f.witnesses[0]]), int(rows["attempt"][f.witnesses[0]]) & 0xFFFF)
            for f in check(told).findings
            if f.kind == "spurious-refusal"
        }
        assert found == accused(made), made
        refused = ((rows["f"] == Op.TRY) & (rows["status"] == Status.FAIL)).sum()
        seen["accused"] += bool(found)
        seen["excused"] += bool(refused and not found)
    return seen


def test_a_refused_try_is_accused_if_and_only_if_nobody_can_have_held(draws: Draws) -> None:
    assert EXPIRY_SLACK_NS < LEASE * SECOND
    seen = compare(1, draws(250))
    assert min(seen["accused"], seen["excused"]) >= draws(50), seen


@pytest.mark.power
def test_a_refused_try_is_accused_if_and_only_if_nobody_held_in_very_many_histories() -> None:
    seen = compare(2, 20_000)
    assert min(seen["accused"], seen["excused"]) >= 4_000, seen
