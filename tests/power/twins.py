"""Whether each row of the table separates: its planted bug, its twin, is found where a run has an
opportunity of the row, and hardly anywhere else.

    python -m tests.power.twins [SEEDS [ROW ...]]

Per row a plan that stages it, in the simulator, for its twin: the number of runs with an
opportunity, how many of these violate the property, and the same of runs without one. At least half
of the former should, and at most 3 % of the latter.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.checkers.opportunities.table import every_row
from holdfast.engine import seed_search
from holdfast.harness.core.verdict import Verdict
from tests.checkers import examples
from tests.power.honesty import simulated

LEASED = "--lease 4s --time 40s --set lazy_pct=50"
STOPPED = "--nemesis pause:target=holder --time 20s"
QUEUED = "--workload renewal --set hold_leases=1 --set wait_ms=60000"
LED = ":target=leader --time 20s"
KILLED = "--nemesis kill --time 20s"
PLANS: dict[str, str] = {
    "mutual-exclusion/forgotten-grant/crash": f"{KILLED} --lease 2s",
    "mutual-exclusion/new-leader-grants/crash": f"--nemesis kill:target=leader {LEASED}",
    "mutual-exclusion/too-few-votes/crash": (
        "--nemesis kill:target=minority,for=150ms,every=1s --time 20s --lease 2s --set lazy_pct=50"
    ),
    "token-order/counter-restarts/crash": KILLED,
    "token-order/new-leader-counts/crash": f"--nemesis kill{LED}",
    "token-order/too-few-votes/crash": (
        "--nemesis power:target=minority,for=150ms,every=1s --time 20s --lease 1s"
    ),
    "mutual-exclusion/new-leader-grants/stop": f"--nemesis pause:target=leader {LEASED}",
    "mutual-exclusion/new-leader-grants/cut": f"--nemesis partition:target=leader {LEASED}",
    "token-order/new-leader-counts/cut": f"--nemesis partition{LED}",
    "token-order/both-sides-decide/cut": "--nemesis partition --time 20s",
    "mutual-exclusion/wrong-clock/clocks": (
        "--nemesis clock:target=leader,step=6s --time 20s --set lazy_pct=50"
    ),
    "durable-grants/undone-grant/crash": (
        "--nemesis power:target=all,for=200ms,every=3s --time 20s --lease 2s --set lazy_pct=50"
    ),
    "durable-grants/undone-token/crash": (
        "--nemesis power:target=all,for=200ms,every=3s --time 20s --lease 2s"
    ),
    "durable-grants/undone-grant/operations": (
        "--nemesis backup-restore:for=2s,every=10s --time 80s --lease 4s --set lazy_pct=50"
        " --locks 6"
    ),
    "durable-grants/undone-token/operations": "--nemesis backup-restore:for=1s,every=4s --time 20s",
    "mutual-exclusion/undone-grant/operations": (
        "--nemesis backup-restore:for=2s,every=10s --time 80s --lease 4s --set lazy_pct=50"
        " --locks 6"
    ),
    "token-order/undone-token/operations": "--nemesis backup-restore:for=1s,every=4s --time 20s",
    "ownership/foreign-release/any": STOPPED,
    "ownership/foreign-renewal/any": STOPPED,
    "no-stale-write/unchecked-token/any": STOPPED,
    "no-expired-write/unchecked-end/any": STOPPED,
    "loss-notice/no-notice/any": (
        "--nemesis pause:target=holder,for=300ms,every=3s --time 20s --lease 1s"
        " --set one_lease=1 --set writes=8 --set gap_ms=900"
    ),
    "starvation-freedom/never-served/any": f"{STOPPED} {QUEUED}",
    "bounded-bypass/served-out-of-turn/any": f"{STOPPED} {QUEUED}",
    "bounded-wait/served-out-of-turn/any": f"{STOPPED} {QUEUED}",
    "bounded-bypass/new-leader-reorders/crash": f"--nemesis kill{LED} {QUEUED}",
    "bounded-bypass/new-leader-reorders/stop": f"--nemesis pause{LED} {QUEUED}",
    "bounded-bypass/new-leader-reorders/cut": f"--nemesis partition{LED} {QUEUED}",
    "deadlock-freedom/not-handed-on/any": (
        "--nemesis kill:target=minority,for=8s,every=12s --time 30s"
    ),
    "deadlock-freedom/never-ends/any": f"{KILLED} --set lazy_pct=50",
    "orphan-freedom/kept-for-nobody/any": (
        "--nemesis kill:target=client --time 20s --workload try-lock"
    ),
    "orphan-freedom/kept-for-silent/any": "--nemesis kill:target=holder --time 20s"
    " --workload try-lock",
    "no-hung-request/unbounded-wait/any": (
        "--nemesis kill --time 30s --workload renewal --set wait_ms=500"
    ),
    "no-multi-lock-deadlock/undetected-cycle/any": f"{KILLED} --workload many-locks --locks 3",
    "mutual-exclusion/held-at-once/any": STOPPED,
    "mutual-exclusion/over-admits/any": f"{STOPPED} --workload semaphore",
    "mutual-exclusion/opens-early/any": "--nemesis kill:target=holder --time 20s",
    "token-order/out-of-order/any": f"{STOPPED} --workload renewal --set wait_ms=300",
    "no-false-rejection/refuses-free/any": f"{KILLED} --workload try-lock",
    "no-false-rejection/refuses-holder/any": f"{KILLED} --workload try-lock",
    "no-lost-update/old-version/any": f"{STOPPED} --workload lost-update",
    "applied-once/applied-again/any": (
        "--nemesis reply-loss --time 20s --workload duplicate-request"
    ),
    "exactly-once-job/done-again/any": (
        "--nemesis kill:target=resource --time 20s --workload singleton-job"
    ),
    "truthful-queries/false-answer/any": f"{KILLED} --workload queries",
}
"""Row -> a plan that stages it; those of newer properties are in their own tests."""
for _one in examples.every():
    PLANS |= _one.plans
ON_SERVERS = {
    "mutual-exclusion/unsynced-grant/crash",
    "token-order/unsynced-counter/crash",
    "loss-notice/silent-reacquire/clients",
}
"""Rows whose twins are real servers or libraries."""
WEAK = {
    "token-order/new-leader-counts/crash",
    "mutual-exclusion/undone-grant/operations",
}
"""Rows that find their twins in fewer than half of the runs with an opportunity, or hardly in half.
The first one has none: no planted bug loses what a leader alone had."""


@dataclass(slots=True)
class Separated:
    """One row: runs with an opportunity, of them violated, and the same without."""

    met: int = 0
    found: int = 0
    none: int = 0
    elsewhere: int = 0

    def __str__(self) -> str:
        return (
            f"{self.found:3} of {self.met:3} found with an opportunity,"
            f" {self.elsewhere:3} of {self.none:3} without"
        )


def words_of(row: str) -> list[str]:
    """The options of a run that stages a row, with its twin."""
    twin = next(one.twin for one in every_row() if one.id == row)
    system, _, mutant = twin.partition(":")
    planted = ["--set", f"mutant={mutant}"] if mutant else []
    return ["--system", *shlex.split(system), *planted, *shlex.split(PLANS[row])]


def separated(row: str, seeds: Iterable[int]) -> Separated:
    """The runs of some seeds, by whether they have an opportunity of a row."""
    words, counts = words_of(row), Separated()
    prop, kind = row.split("/")[0], words[words.index("--nemesis") + 1].split(":")[0]
    for seed in seeds:
        judged = simulated([*words, "--seed", str(seed)])
        broken = next(one for one in judged.verdicts if one.property == prop)
        under = broken.under.get(kind)
        some = under is not None and any(
            one.row == row and one.count for one in under.opportunities
        )
        violated = broken.verdict is Verdict.VIOLATED
        counts.met += some
        counts.found += some and violated
        counts.none += not some
        counts.elsewhere += violated and not some
    return counts


def main(words: Sequence[str]) -> int:
    """Prints a line per row; 1 if one finds its twin in fewer than half of its runs."""
    seeds = int(words[0]) if words else 20
    seed_search.warm()
    weak = 0
    for row in words[1:] or PLANS:
        counts = separated(row, range(300, 300 + seeds))
        weak += not counts.met or 2 * counts.found < counts.met
        sys.stdout.write(f"{row:48} {counts}\n")
        sys.stdout.flush()
    return 1 if weak else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
