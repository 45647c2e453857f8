"""The matrix system x property x fault: held, open, violated or not exercised, with its bounds.

A run counts once under each planned kind of fault: held, violated, or not exercised under that
kind. A violation during two kinds proves nothing about either alone and counts under "several". A
scenario combines its kinds on purpose and has its own column; so has a result of an older version
in which several kinds took effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.harness.campaigns.results import CALM, Outcome, Result, failed, planned, staged
from holdfast.harness.campaigns.sums import FaultSum
from holdfast.harness.core.fault_traits import BEFORE
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.statistics import clopper_pearson, none_in
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.properties import PROPERTIES
from holdfast.reports.many.claims import claim_of
from holdfast.reports.many.performance import Speed, speeds
from holdfast.reports.many.performance import table as speed_table
from holdfast.reports.text.formatting import count, percent

SCHEMA = "holdfast-matrix/1"
SEVERAL = "several"
HELD, OPEN, VIOLATED, NOT_EXERCISED = "held", "open", "violated", "not exercised"
BELOW, PROMISED = "below 1 %", "promised"
RARE = 0.01
ENOUGH, ENOUGH_SIMULATED = 30, 299
"""So many runs without a violation are called held, fewer open: bounds of 9.5 % and 1 % (95 %). A
simulated run costs a hundredth of a real one."""
FIRST = (CALM, *(kind for kind, traits in BEFORE.items() if traits.pattern))
"""Faults whose columns come first: those with a hatching of their own. Others follow by name, then
scenarios, SEVERAL is last."""


@dataclass(slots=True)
class Square:
    """One cell of the matrix.

    enough                    number of runs from which on it is called held
    sum                       the runs that count for its rate, and their opportunities
    unknown                   number of runs that did not exercise it; runs: of all runs
    early                     runs with faults in which it was violated before the first: no rate,
                              because such a run counts under its faults if the property holds
    promised                  number of violated runs in which it was promised
    several                   kinds that were active together -> number of runs
    proof                     verdict -> its runs
    """

    enough: int = ENOUGH
    sum: FaultSum = field(default_factory=FaultSum)
    unknown: int = 0
    early: int = 0
    promised: int = 0
    runs: int = 0
    several: Counter[str] = field(default_factory=Counter)
    proof: dict[Verdict, list[Result]] = field(default_factory=dict)

    def add(
        self, result: Result, verdict: Verdict, one: Outcome, kinds: str, *, early: bool
    ) -> None:
        """Count one run. kinds: those active together, joined by "+"."""
        violated, promised = verdict is Verdict.VIOLATED, one.promised
        self.runs += 1
        if violated and early:
            self.early += 1
        else:
            faults = kinds.split("+") if result.scenario else [kinds]
            self.sum.add_as(result, one, verdict, faults)
        self.unknown += verdict is Verdict.UNKNOWN
        self.promised += promised and verdict is Verdict.VIOLATED
        if "+" in kinds:
            self.several[kinds] += 1
        self.proof.setdefault(verdict, []).append(result)

    def include(self, other: Square) -> None:
        """Add the counts of another square."""
        self.sum = self.sum.plus(other.sum)
        self.unknown += other.unknown
        self.early += other.early
        self.promised += other.promised
        self.runs += other.runs
        self.several += other.several
        for verdict, runs in other.proof.items():
            self.proof.setdefault(verdict, []).extend(runs)

    @property
    def held(self) -> int:
        """Number of runs without a violation that count for the rate."""
        return self.sum.bounded

    @property
    def violated(self) -> int:
        """Number of violated runs."""
        return self.sum.violated

    @property
    def judged(self) -> int:
        """Number of runs of which `violated` is a share."""
        return self.sum.judged

    @property
    def state(self) -> str:
        """Violated if any run is; held if enough runs held, open if fewer; else not exercised.

        Where opportunities are counted, a run has held if it had one, and all runs together must
        have one of each row; of faults that strike any servers, also of those that decide.
        """
        if self.violated or self.early:
            return VIOLATED
        if self.sum.verdict is Verdict.HOLDS and not self.sum.unstaged:
            return HELD if self.held >= self.enough else OPEN
        return NOT_EXERCISED

    @property
    def evidence(self) -> Sequence[Result]:
        """The runs that determine the state of the cell."""
        verdict_of = {VIOLATED: Verdict.VIOLATED, NOT_EXERCISED: Verdict.UNKNOWN}
        return self.proof.get(verdict_of.get(self.state, Verdict.HOLDS), [])

    def why(self, prop: str, fault: str) -> str:
        """Why no run exercised it, or not all runs together; "" if they did."""
        if self.state != NOT_EXERCISED:
            return ""
        if rows := {**self.sum.missing, **self.sum.unstaged}:
            return "; ".join(dict.fromkeys(row.nearest for row in rows.values()))
        verdicts = (result.properties[prop] for result in self.evidence)
        reasons = (one.lacks.get(fault, "") or one.reason for one in verdicts)
        return next(filter(None, reasons), self.sum.reason)

    def exercise(self) -> str:
        """The command that exercises a cell that is not; "" for none."""
        if self.state != NOT_EXERCISED:
            return ""
        commands = (row.command for row in self.sum.missing.values())
        return next(filter(None, commands), self.sum.command)

    def tried(self) -> str:
        """The opportunities of a cell in words, "" if the table has no rows for it."""
        if not self.sum.opportunities:
            return ""
        return count(self.sum.opportunities, "opportunity", "opportunities")

    def says(self) -> str:
        """The number of violated runs of those that exercised the property, and the rate."""
        judged = self.judged
        parts = []
        if self.violated:
            low, high = clopper_pearson(self.violated, judged)
            parts = [f"{self.violated} of {judged}: {percent(low)} to {percent(high)}"]
        elif self.sum.verdict is Verdict.HOLDS and not self.sum.unstaged:
            parts = [f"0 of {judged}: below {percent(none_in(judged))}"]
        if self.early:
            parts.append(f"{count(self.early, 'run')} before the first fault")
        if parts:
            return "; ".join(filter(None, (*parts, self.tried())))
        return f"0 of {count(self.runs, 'run')}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """squares: (system, property, fault) -> Square; left_out: runs that could not be executed

    stale   the same for which there are only runs that earlier checkers judged -> their number
    """

    systems: Sequence[str]
    properties: Sequence[str]
    faults: Sequence[str]
    squares: Mapping[tuple[str, str, str], Square]
    runs: int
    left_out: int
    speeds: Sequence[Speed] = ()
    stale: Mapping[tuple[str, str, str], int] = field(default_factory=dict)

    def states(self) -> Mapping[str, int]:
        """State -> number of cells. BELOW: held so often that the rate is below RARE; PROMISED:
        violated though promised."""
        every = self.squares.values()
        counts = Counter(square.state for square in every)
        rare = sum(square.state == HELD and none_in(square.held) < RARE for square in every)
        promised = sum(square.promised > 0 for square in every)
        return {**counts, BELOW: rare, PROMISED: promised}

    def rows(self, system: str) -> list[str]:
        """The properties that were judged for a system."""
        return [
            prop
            for prop in self.properties
            if any((system, prop, fault) in {**self.squares, **self.stale} for fault in self.faults)
        ]

    def columns(self, system: str) -> list[str]:
        """The faults that any run of a system has a column for."""
        filed = {fault for name, _, fault in (*self.squares, *self.stale) if name == system}
        return [fault for fault in self.faults if fault in filed]


def matrix(results: Iterable[Result], simulated: Collection[str] = ()) -> Matrix:
    """All results as one matrix, without runs that could not be executed.

    simulated   backends on virtual time: not in the table of speeds, and ENOUGH_SIMULATED runs
    """
    results = list(results)
    named = _names(results, simulated)
    squares: dict[tuple[str, str, str], Square] = {}
    scenes: set[str] = set()
    runs, left_out = 0, 0
    for result in results:
        if failed(result):
            left_out += 1
            continue
        runs += 1
        scenes |= {staged(result.scenario)} if result.scenario else set()
        for prop, one in result.properties.items():
            for fault, (verdict, kinds) in _columns(result, one).items():
                enough = ENOUGH_SIMULATED if result.backend in simulated else ENOUGH
                square = squares.setdefault((named(result), prop, fault), Square(enough))
                # A violation stands; of an incomplete history the rest is not known.
                if result.problems and verdict is Verdict.HOLDS:
                    verdict = Verdict.UNKNOWN
                square.add(result, verdict, one, kinds, early=fault == CALM and len(one.under) > 1)
    made = of_squares(squares, runs, {}, scenes)
    return replace(made, left_out=left_out, speeds=speeds(results, simulated))


def of_squares(
    squares: Mapping[tuple[str, str, str], Square],
    runs: int,
    stale: Mapping[tuple[str, str, str], int],
    scenes: Collection[str] = (),
) -> Matrix:
    """The matrix of these squares. scenes: columns of scenarios."""
    every, known = [*squares, *stale], list(PROPERTIES)
    faults = {fault for _, _, fault in every}
    middle = sorted(faults - {*FIRST, SEVERAL}, key=lambda fault: (fault in scenes, fault))
    return Matrix(
        systems=sorted({system for system, _, _ in every}),
        properties=sorted(
            {prop for _, prop, _ in every},
            # Those of the user last.
            key=lambda prop: (known.index(prop) if prop in known else len(known), prop),
        ),
        faults=[fault for fault in (*FIRST, *middle, SEVERAL) if fault in faults],
        squares=squares,
        runs=runs,
        left_out=0,
        stale=stale,
    )


def _names(results: Iterable[Result], simulated: Collection[str]) -> Callable[[Result], str]:
    """The row of a result: its system; a system that ran on both has two, one "simulated"."""
    real = {result.system for result in results if result.backend not in simulated}

    def name(result: Result) -> str:
        both = result.backend in simulated and result.system in real
        return f"{result.system} simulated" if both else result.system

    return name


def _columns(result: Result, one: Outcome) -> dict[str, tuple[Verdict, str]]:
    """Columns of one property of a run, with the verdict in each and the active kinds.

    A run of a scenario counts as one only if every kind of its faults took effect.
    """
    effective = planned(result.effective)
    if result.scenario and effective == result.nemesis:
        unmet = one.verdict is Verdict.HOLDS and Verdict.UNKNOWN in one.under.values()
        verdict = Verdict.UNKNOWN if unmet else one.verdict
        return {staged(result.scenario): (verdict, effective)}
    if not one.under:
        return {effective if len(result.effective) < 2 else SEVERAL: (one.verdict, effective)}
    return {
        SEVERAL if "+" in kinds else kinds: (verdict, kinds) for kinds, verdict in one.under.items()
    }


def table(found: Matrix) -> dict[str, Any]:
    """The matrix as one JSON-ready object."""
    return {
        "schema": SCHEMA,
        "runs": found.runs,
        "not_carried_out": found.left_out,
        "faults": list(found.faults),
        "states": dict(found.states()),
        "cells": [
            _square_table(system, prop, fault, found.squares[system, prop, fault])
            for system in found.systems
            for prop in found.rows(system)
            for fault in found.faults
            if (system, prop, fault) in found.squares
        ],
        "stale": [
            {"system": system, "property": prop, "fault": fault, "runs": runs}
            for (system, prop, fault), runs in sorted(found.stale.items())
        ],
        "speeds": speed_table(found.speeds),
        "claims": {
            system: {"claim": claim.claim, "mechanism": claim.mechanism, "caveat": claim.caveat}
            for system in found.systems
            if (claim := claim_of(system)) is not None
        },
    }


def _square_table(system: str, prop: str, fault: str, square: Square) -> dict[str, Json]:
    low, high = clopper_pearson(square.violated, square.judged)
    return {
        "system": system,
        "property": prop,
        "fault": fault,
        "state": square.state,
        "held": square.held,
        "violated": square.violated,
        "unknown": square.unknown,
        "violated_before_faults": square.early,
        "violated_though_promised": square.promised,
        "rate_low": low,
        "rate_high": high,
        "says": square.says(),
        "not_exercised_because": square.why(prop, fault),
        "exercise": square.exercise(),
        "opportunities": {
            name: {"runs": row.runs, "count": row.count, "sentence": row.sentence}
            for name, row in square.sum.rows.items()
        },
        "several": dict(square.several),
        "evidence": [
            {"run": result.run, "key": result.key, "command": result.command}
            for result in square.evidence
        ],
    }
