"""Whether the command that an UNKNOWN run prints answers all that the run left unknown.

    python -m tests.power.remedies [SEEDS [SYSTEM ...]]

Built-in systems of the simulator under each kind of fault, with the workload of a plain command, in
runs of 1 to 20 s in turn. A run that is UNKNOWN must print a command; run as printed, that
leaves no promised property UNKNOWN.
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from holdfast.engine import seed_search
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verdicts.judged import Judged
from tests.power.honesty import simulated

SYSTEMS = ("reference", "chubby", "single", "majority", "redlock")
KINDS = ("", "partition", "pause", "pause:target=holder", "kill", "clock", "power")
LENGTHS = ("1s", "2s", "4s", "10s", "20s")


def lacks(judged: Judged) -> dict[str, str]:
    """The promised properties that a run left UNKNOWN, or under a kind of fault, and why."""
    reasons: dict[str, str] = {}
    for row in judged.verdicts:
        if not row.promised or row.verdict is Verdict.VIOLATED:
            continue
        if row.verdict is Verdict.UNKNOWN:
            reasons[row.property] = row.reason
        for kind, under in row.under.items():
            if under.promised and under.verdict is Verdict.UNKNOWN:
                reasons.setdefault(f"{row.property} under {kind}", under.reason)
    return reasons


def measured(system: str, nemesis: str, seeds: Iterable[int]) -> tuple[str, Counter[str]]:
    """A line on the runs of a system under one kind of fault, and what their commands lack."""
    unknown, silent, answered, runs = 0, 0, 0, 0
    still: Counter[str] = Counter()
    for seed in seeds:
        runs += 1
        words = ["--system", system, "--time", LENGTHS[seed % len(LENGTHS)], "--seed", str(seed)]
        words += ["--nemesis", nemesis] if nemesis else []
        judged = simulated(words)
        lacking = lacks(judged)
        if judged.exit_code != 3 and not lacking:
            continue
        unknown += 1
        if not judged.remedy:
            silent += 1
            still.update(f"no command: {name}: {why}" for name, why in lacking.items())
            continue
        again = lacks(simulated(shlex.split(judged.remedy)[2:]))
        answered += not again
        still.update(f"command: {name}: {why}" for name, why in again.items())
    line = f"{system:10} {nemesis or 'none':20} {runs} runs, {unknown} UNKNOWN, {silent} without a"
    return f"{line} command; {answered} of {unknown - silent} commands leave nothing", still


def main(words: Sequence[str]) -> int:
    """Prints a line per cell and what its commands left; 1 if a run had no command."""
    seeds = int(words[0]) if words else 30
    seed_search.warm()
    silent = False
    for system in words[1:] or SYSTEMS:
        for nemesis in KINDS:
            line, still = measured(system, nemesis, range(700, 700 + seeds))
            silent |= any(name.startswith("no command") for name in still)
            sys.stdout.write(f"{line}\n")
            sys.stdout.writelines(f"    {n:4} {name}\n" for name, n in still.most_common(8))
            sys.stdout.flush()
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
