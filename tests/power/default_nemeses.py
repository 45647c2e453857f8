"""Defective locks in `holdfast run` with default nemeses: in how many runs a user sees the defect.

    python -m tests.power.default_nemeses [SEEDS [LOCK ...]]

Thirteen locks with a defect under the five best-known kinds of fault, 20 s each in the simulator,
with nothing but `--system` and `--nemesis`: the draw decides. A line per lock with the seeds, of
each kind, in which the defect shows; the last line is the sum. Of a mutant of the reference it
shows in any violated promise, of a lock in the memory of processes in the properties that lose a
grant: it has other limits too. Some cells cannot show it: a wall clock needs one that is set.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence

from holdfast.engine import seed_search
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verdicts.judged import Judged
from tests.power.honesty import simulated

KINDS = ("kill", "pause", "partition", "clock", "power")
MUTANTS = (
    "wall-clock",
    "release-by-lock",
    "endless-lease",
    "revive",
    "token-reset",
    "forgotten-holder",
    "impatient-leader",
    "lone-commit",
    "small-quorum",
    "late-disk",
)
LOCKS: Mapping[str, str] = {
    "single": "--system single",
    "majority": "--system majority",
    "redlock": "--system redlock --set persistence=none",
    **{name: f"--system reference --set mutant={name}" for name in MUTANTS},
}


FORGETS = frozenset({"mutual-exclusion", "durable-grants"})
"""What a lock violates that forgets its grants."""


def shows(lock: str, judged: Judged) -> bool:
    """Whether the defect of a lock shows in a run."""
    violated = [one for one in judged.verdicts if one.verdict is Verdict.VIOLATED]
    if lock in MUTANTS:
        return any(one.promised for one in violated)
    return any(one.property in FORGETS for one in violated)


def violated(lock: str, kind: str, seeds: Iterable[int]) -> int:
    """In how many seeds of a kind of fault the defect of a lock shows."""
    words = [*shlex.split(LOCKS[lock]), "--nemesis", kind, "--time", "20s", "--seed"]
    runs = (simulated([*words, str(seed)]) for seed in seeds)
    return sum(shows(lock, run) for run in runs)


def main(words: Sequence[str]) -> int:
    """Prints the table."""
    seeds = int(words[0]) if words else 3
    seed_search.warm()
    sums = dict.fromkeys(KINDS, 0)
    for lock in words[1:] or LOCKS:
        counts = {kind: violated(lock, kind, range(1, 1 + seeds)) for kind in KINDS}
        sums = {kind: sums[kind] + count for kind, count in counts.items()}
        sys.stdout.write(_line(lock, counts))
        sys.stdout.flush()
    runs = seeds * len(words[1:] or LOCKS)
    sys.stdout.write(_line(f"of {runs} each", sums))
    return 0


def _line(name: str, counts: Mapping[str, int]) -> str:
    cells = " ".join(f"{kind} {count:3}" for kind, count in counts.items())
    return f"{name:20} {cells}  {sum(counts.values()):4}\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
