"""Batches of correct histories before every checker: what was judged, and how often it held."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from holdfast import catalogue
from holdfast.harness.core.case import Case
from holdfast.harness.core.loading import load
from holdfast.harness.core.verdict import Verdict
from tests.checkers.correct_services.histories import batch
from tests.checkers.correct_services.kinds import SERVICES, Service


@dataclass(slots=True)
class Tally:
    """Histories and rows, cases, how often each property held, and what was violated."""

    histories: int = 0
    rows: int = 0
    cases: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    violated: list[str] = field(default_factory=list)

    def add(self, case: Case, histories: int, where: str) -> None:
        self.histories += histories
        self.rows += len(case.history.rows)
        for prop, checker in catalogue.CHECKERS.items():
            told = load(checker)(case)
            self.cases[prop] += 1
            self.held[prop] += told.verdict is Verdict.HOLDS
            if told.verdict is Verdict.VIOLATED and prop in case.promises.keeps:
                finding = told.findings[0]
                self.violated.append(f"{where}: {prop}, {finding.kind}: {finding.sentence}")

    def join(self, other: Tally) -> None:
        """Adds what another batch came to."""
        self.histories += other.histories
        self.rows += other.rows
        self.cases += other.cases
        self.held += other.held
        self.violated += other.violated


def judge(seeds: range, size: int, services: tuple[Service, ...] = SERVICES) -> Tally:
    """Each service once per seed, so many histories together."""
    tally = Tally()
    for seed in seeds:
        for service in services:
            tally.add(batch(service, seed, size), size, f"{service.name}, {seed}, {size} together")
    return tally
