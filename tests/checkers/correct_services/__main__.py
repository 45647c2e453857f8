"""So many seeds of correct histories: python -m tests.checkers.correct_services FIRST LAST [SIZE]

A line per seed as soon as it is judged, the sum of all at the end.
"""

from __future__ import annotations

import sys
import time

from tests.checkers.correct_services.judging import Tally, judge

first, last, size = (int(word) for word in (*sys.argv[1:], "200")[:3])
total, begun = Tally(), time.process_time()


def tell(*lines: str) -> None:
    """Lines that are seen at once, also through a pipe."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


for seed in range(first, last):
    found = judge(range(seed, seed + 1), size)
    total.join(found)
    spent = time.process_time() - begun
    tell(f"seed {seed}: {len(found.violated)} violated, {spent:.0f} s", *found.violated)
spent = time.process_time() - begun
tell(f"{total.histories} histories, {total.rows} rows, {spent:.0f} s of CPU, {sys.version}")
for prop, cases in total.cases.items():
    tell(f"  {prop:24} HOLDS in {total.held[prop]} of {cases} cases")
tell(f"{len(total.violated)} violated", *total.violated)
sys.exit(bool(total.violated))
