"""Checkers and verifier end a violation at one and the same nanosecond.

Of a history with a violation one moment of one row is moved, towards either side, up to where the
violation ends. There both programs are asked, on both sides of that edge: a comparison that takes
the edge in, a wrong sign of a clock error or of a lease, or one nanosecond too many shows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from holdfast import catalogue
from holdfast.harness.core.case import Case
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import DELAY, PRESSURE, Starved
from holdfast.harness.core.verdict import Finding
from tests.checkers.neighbours import MOMENTS, in_order, legal, tied
from tests.checkers.test_near_misses import agree, of_every_rule, specimens

MS = 1_000_000
"""Every length is a multiple of it, so that every edge is near one."""
ERROR_NS = 100 * MS
SLIP_NS = 20 * MS
DRIFT_PPM = 1000


def moved(given: Case, at: int, edges: tuple[str, ...], to_ns: int) -> Case | None:
    """The case with these edges of one row at another time, if that could have been recorded."""
    rows = given.history.rows.copy()
    for edge in edges:
        rows[edge][at] = to_ns
    if not legal(given.history.rows, rows):
        return None
    near = in_order(given, rows)
    return None if tied(near) else near


def kinds(prop: str, given: Case | None) -> set[str]:
    """The kinds of what is found."""
    verdict = load(catalogue.CHECKERS[prop])(given) if given else None
    return {finding.kind for finding in verdict.findings} if verdict else set()


class Violation:
    """One violation, and where it ends as one row of it is moved."""

    def __init__(self, prop: str, given: Case) -> None:
        self.prop, self.given = prop, given
        self.found: tuple[Finding, ...] = load(catalogue.CHECKERS[prop])(given).findings
        self.kinds = {finding.kind for finding in self.found}

    def movable(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Every row with the edges of it that are moved together."""
        for at, row in enumerate(self.given.history.rows):
            if row["f"] in MOMENTS or row["t_inv"] == row["t_ret"]:
                yield at, ("t_inv", "t_ret")
            else:
                yield at, ("t_inv",)
                if row["t_ret"]:
                    yield at, ("t_ret",)

    def over(self, at: int, edges: tuple[str, ...], sign: int) -> tuple[int, int] | None:
        """Two times, a millisecond apart, between which it ends, towards one side."""
        rows = self.given.history.rows
        last = int(rows[edges[0]][at])
        steps = {int(t_ns) for name in ("t_inv", "t_ret") for t_ns in rows[name] if t_ns}
        far = max(steps) + 40_000 * MS if sign > 0 else 1
        onward = sorted((t for t in (*steps, far) if (t - last) * sign > 0), key=lambda t: t * sign)
        for t_ns in onward:
            step, near = t_ns, moved(self.given, at, edges, t_ns)
            if near is None:  # that order is not legal: it moves up to there
                step = t_ns - sign * MS
                near = moved(self.given, at, edges, step) if (step - last) * sign > 0 else None
            if near is None:
                return None
            if not self.kinds <= kinds(self.prop, near):
                return self._between(at, edges, last, step)
            if step != t_ns:
                return None
            last = step
        return None

    def _between(
        self, at: int, edges: tuple[str, ...], yes: int, no: int
    ) -> tuple[int, int] | None:
        while abs(no - yes) > MS:
            middle = (no + yes) // 2 // MS * MS
            if middle in (yes, no):
                break
            there = self.kinds <= kinds(self.prop, moved(self.given, at, edges, middle))
            yes, no = (middle, no) if there else (yes, middle)
        return yes, no


def starved(plain: Case, chance: random.Random) -> tuple[Starved, ...]:
    """A span without CPU time, of the host or of a client, for some of the cases."""
    if chance.random() < 0.6:
        return ()
    moments = [int(t_ns) for t_ns in plain.history.rows["t_inv"]]
    begun = chance.choice(moments) + chance.choice((0, MS, 500 * MS))
    lasts = chance.choice((1, 50, 700, 2500)) * MS
    node, kind = chance.choice((("c0", DELAY), ("c1", DELAY), ("", PRESSURE)))
    return (Starved(node=node, kind=kind, from_ns=begun, to_ns=begun + lasts),)


def compare(every: Iterator[tuple[str, Case]], seed: str) -> Counter[str]:
    """Every edge of these cases, by clocks that may be wrong and leases that may end early."""
    chance, outcome = random.Random(seed), Counter[str]()
    for prop, plain in every:
        said = replace(plain.promises, slip_ns=SLIP_NS, drift_ppm=DRIFT_PPM)
        given = replace(
            plain, promises=said, error_ns=ERROR_NS, starved=starved(plain, chance), memo={}
        )
        one = Violation(prop, given)
        if not one.found:
            continue
        for at, edges in one.movable():
            for sign in (-1, 1):
                if chance.random() < 0.5:
                    continue
                around = one.over(at, edges, sign)
                outcome["edges"] += around is not None
                for t_ns in sorted({t + n for t in around or () for n in (-1, 0, 1)}):
                    near = moved(given, at, edges, t_ns)
                    if near is not None:
                        outcome += agree(given, near, prop, one.found, chance)
    return outcome


@pytest.mark.slow
@pytest.mark.parametrize("every", [of_every_rule, specimens], ids=["every rule", "a few ops"])
def test_a_violation_ends_for_checkers_and_verifier_at_one_nanosecond(
    every: Callable[[], Iterator[tuple[str, Case]]],
) -> None:
    outcome = compare(every(), "edges")
    assert outcome["edges"] > 20
    assert min(outcome["accepted"], outcome["refused"]) > 120
