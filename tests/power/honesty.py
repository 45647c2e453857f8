"""Whether a run without opportunities of a row is UNKNOWN, and the command that it prints has one.

    python -m tests.power.honesty [SEEDS [ROW ...]]

In the simulator, on correct services: plans that mostly lack what rows need, such as runs of one
client or of three seconds. A run is about each row that its verdicts name for its kind of fault,
so that one run, and the one of its command, count for several rows. A run without an opportunity
of a row that it staged must not say HOLDS; its command, run as printed, should have one. A run
that did not stage a row, and so requires nothing of it, counts as aside.
"""

from __future__ import annotations

import gc
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.api import plan_options
from holdfast.checkers.opportunities.table import every_row
from holdfast.engine import seed_search
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verdicts.judged import Judged, Opportunities
from holdfast.planning import prepare
from holdfast.planning.lazy_holders import with_lazy_holders

LACKING = (
    "--time 10s --set lazy_pct=0",
    "--time 3s",
    "--time 10s --clients 1",
    "--time 10s --set think_ms=3000 --set lazy_pct=0",
    "--time 5s --clients 2 --set think_ms=20000",
)
"""Options of plans that lack opportunities, for the seeds in turn."""
PLANS = (
    "--nemesis kill:target=majority",
    "--nemesis kill:target=leader",
    "--nemesis kill:target=minority",
    "--nemesis power:target=majority",
    "--nemesis pause:target=leader",
    "--nemesis partition:target=leader",
    "--nemesis partition",
    "--nemesis clock:target=leader",
    "--nemesis backup-restore",
    "--nemesis pause:target=holder",
    "--nemesis kill:target=leader --workload renewal",
    "--nemesis pause:target=leader --workload renewal",
    "--nemesis partition:target=leader --workload renewal",
    "--nemesis kill --workload duplicate-request",
    "--nemesis kill --workload singleton-job",
    "--nemesis kill --workload queries",
    "--nemesis kill --workload try-lock",
    "--nemesis kill --workload lost-update",
    "--nemesis kill --workload many-locks --locks 3",
    "--system chubby --nemesis kill:target=holder",
)
"""Plans whose verdicts name all rows of the table among them."""
WHOLE = ("clients", "locks", "nodes", "seed")


class Counted(NamedTuple):
    """One row in one run. staged, met: as its opportunities say; held: it HOLDS under the fault;
    unknown, answered: it is so for lack of this row, and the command had an opportunity."""

    row: str
    staged: bool
    met: bool
    held: bool
    unknown: bool
    answered: bool


@dataclass(slots=True)
class Honest:
    """One row. without: runs that staged it without an opportunity; held: of them, those that said
    HOLDS; unnamed: without a command; met: commands that had an opportunity; aside: runs that did
    not stage it and hold without."""

    runs: int = 0
    without: int = 0
    held: int = 0
    unnamed: int = 0
    met: int = 0
    aside: int = 0

    def __str__(self) -> str:
        return (
            f"{self.runs:4} runs {self.without:4} without: {self.held} HOLDS,"
            f" {self.unnamed} without a command; {self.met} of {self.without - self.unnamed}"
            f" commands had one; {self.aside} aside"
        )


def simulated(words: Sequence[str]) -> Judged:
    """The judged run of words of `holdfast run`, in the simulator. Of an option that is given twice
    the later counts."""
    table: dict[str, object] = {"backend": "sim", "clients": 5, "locks": 1}
    options = {}
    for name, value in zip(words[::2], words[1::2], strict=True):
        if name == "--set":
            options[value.partition("=")[0]] = value
        else:
            table[name[2:]] = int(value) if name[2:] in WHOLE else value
    plan = with_lazy_holders(plan_options.from_options(table, list(options.values())))
    ran = seed_search.in_memory(prepare.manifest(prepare.prepared(plan), "honesty", ""))
    verdicts = ran.verdicts
    del ran
    gc.collect()
    return verdicts


def seen(judged: Judged, kind: str) -> dict[str, tuple[Opportunities, Verdict, bool]]:
    """Row -> its opportunities under a kind of fault, the verdict of its property there, and
    whether the run needs one."""
    return {
        one.row: (one, row.under[kind].verdict, one in row.under[kind].needed())
        for row in judged.verdicts
        if kind in row.under
        for one in row.under[kind].opportunities
    }


def counted(plan: str, seed: int, wanted: Iterable[str] = ()) -> Iterator[Counted]:
    """What a seed of a plan counts for each row, or for some."""
    words = ["--system", "reference", *shlex.split(f"{plan} {LACKING[seed % len(LACKING)]}")]
    kind = words[words.index("--nemesis") + 1].split(":")[0]
    judged = simulated([*words, "--seed", str(seed)])
    rows = seen(judged, kind)
    lacking = [row for row, (one, _, needed) in rows.items() if needed and not one.count]
    again: Mapping[str, tuple[Opportunities, Verdict, bool]] = {}
    if judged.remedy and set(lacking) & set(wanted or lacking):
        again = seen(simulated(shlex.split(judged.remedy)[2:]), kind)
    for row, (one, verdict, needed) in rows.items():
        yield Counted(
            row,
            staged=needed,
            met=one.count > 0,
            held=verdict is Verdict.HOLDS,
            unknown=bool(judged.remedy),
            answered=row in again and again[row][0].count > 0,
        )


def add(honest: Honest, one: Counted) -> None:
    """Counts a run of a row."""
    honest.runs += 1
    if one.met:
        return
    if not one.staged:
        honest.aside += one.held
        return
    honest.without += 1
    honest.held += one.held
    honest.unnamed += not one.unknown
    honest.met += one.answered


def table(seeds: Iterable[int], plans: Sequence[str], rows: Sequence[str]) -> dict[str, Honest]:
    """The counts of some rows over some plans."""
    honest = {row: Honest() for row in rows}
    for plan in plans:
        for seed in seeds:
            for one in counted(plan, seed, rows):
                if one.row in honest:
                    add(honest[one.row], one)
    return honest


def main(words: Sequence[str]) -> int:
    """Prints a line per row; 1 if a run said HOLDS without an opportunity."""
    seeds = int(words[0]) if words else 100
    rows = list(words[1:]) or [row.id for row in every_row()]
    seed_search.warm()
    found = table(range(500, 500 + seeds), PLANS, rows)
    for row, honest in found.items():
        sys.stdout.write(f"{row:48} {honest}\n")
    return 1 if any(honest.held for honest in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
