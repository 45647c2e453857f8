"""Whether a run without opportunities of a row is UNKNOWN, and the command that it prints has one.

    python -m tests.power.honesty [SEEDS [ROW ...]]

Per row of the table, in the simulator, on a correct service: plans that mostly lack what the
row needs. Each run that is about it and has no opportunity must not say HOLDS under its kind of
fault; its command, run as printed, should have one.
"""

from __future__ import annotations

import gc
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.api import plan_options
from holdfast.checkers.opportunities.fault_classes import FaultClass
from holdfast.checkers.opportunities.row import OpportunityRow
from holdfast.checkers.opportunities.table import ROWS
from holdfast.engine import seed_search
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verdicts.judged import Judged, Opportunities
from holdfast.planning import prepare
from holdfast.planning.lazy_holders import with_lazy_holders

KINDS = {
    FaultClass.CRASH: "kill",
    FaultClass.STOP: "pause:target=leader",
    FaultClass.CUT: "partition",
    FaultClass.CLOCK: "clock",
    FaultClass.OPERATION: "backup-restore",
    FaultClass.ANY: "kill",
}
PUNCTUAL = "--set lazy_pct=0"
WORKLOADS = {
    "bounded-bypass": f"--workload renewal {PUNCTUAL}",
    "bounded-wait": f"--workload renewal {PUNCTUAL}",
    "starvation-freedom": f"--workload renewal {PUNCTUAL}",
    "applied-once": "--workload duplicate-request",
    "exactly-once-job": "--workload singleton-job",
    "grant-notice": "--workload queries",
    "no-false-rejection": "--workload try-lock",
    "no-lost-update": "--workload lost-update",
    "no-multi-lock-deadlock": "--workload many-locks --locks 3",
    "truthful-queries": "--workload queries",
}
"""Where the basic workload does not ask for a property."""
WHOLE = ("clients", "locks", "nodes", "seed")


@dataclass(slots=True)
class Honest:
    """One row. without: runs about it without an opportunity; held: of them, those that said
    HOLDS; unnamed: without a command; met: commands that had an opportunity."""

    seeds: int = 0
    without: int = 0
    held: int = 0
    unnamed: int = 0
    met: int = 0

    def __str__(self) -> str:
        return (
            f"{self.seeds} seeds, {self.without} without: {self.held} HOLDS, {self.unnamed} without"
            f" a command; {self.met} of {self.without - self.unnamed} commands had one"
        )


def simulated(words: Sequence[str]) -> Judged:
    """The judged run of words of `holdfast run`, in the simulator."""
    table: dict[str, object] = {"backend": "sim", "clients": 5, "locks": 1}
    options = []
    for name, value in zip(words[::2], words[1::2], strict=True):
        if name == "--set":
            options.append(value)
        else:
            table[name[2:]] = int(value) if name[2:] in WHOLE else value
    plan = with_lazy_holders(plan_options.from_options(table, options))
    ran = seed_search.in_memory(prepare.manifest(prepare.prepared(plan), "honesty", ""))
    verdicts = ran.verdicts
    del ran
    gc.collect()
    return verdicts


def seen(judged: Judged, row: OpportunityRow, kind: str) -> tuple[Verdict, Opportunities | None]:
    """The verdict of its property under a kind of fault, and its opportunities there; None if the
    run need not have any, for it is about other rows of the property."""
    verdict = next(one for one in judged.verdicts if one.property == row.property)
    under = verdict.under.get(kind)
    if under is None:
        return verdict.verdict, None
    found = next((one for one in under.needed() if one.row == row.id), None)
    return under.verdict, found


def counted(row: OpportunityRow, seeds: Iterable[int]) -> Honest:
    """The counts of one row."""
    honest = Honest()
    system = row.twin if row.twin == "single" else "reference"
    nemesis = "power" if row.unsynced else KINDS[row.faults]
    kind = nemesis.split(":")[0]
    if row.change.target:
        nemesis = f"{kind}:target={row.change.target}"
    base = f"--system {system} --nemesis {nemesis} --time 10s"
    words = shlex.split(f"{base} {WORKLOADS.get(row.property, PUNCTUAL)}")
    for seed in seeds:
        honest.seeds += 1
        judged = simulated([*words, "--seed", str(seed)])
        verdict, found = seen(judged, row, kind)
        if found is None or found.count:
            continue
        honest.without += 1
        honest.held += verdict is Verdict.HOLDS
        if not judged.remedy:
            honest.unnamed += 1
            continue
        _, found = seen(simulated(shlex.split(judged.remedy)[2:]), row, kind)
        honest.met += found is not None and found.count > 0
    return honest


def main(words: Sequence[str]) -> int:
    """Prints a line per row; 1 if a run said HOLDS without an opportunity."""
    seeds = int(words[0]) if words else 100
    rows = [row for row in ROWS if row.faults in KINDS and (not words[1:] or row.id in words[1:])]
    seed_search.warm()
    held = 0
    for row in rows:
        honest = counted(row, range(500, 500 + seeds))
        held += honest.held
        sys.stdout.write(f"{row.id:48} {honest}\n")
        sys.stdout.flush()
    return 1 if held else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
