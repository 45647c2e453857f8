"""So many seeds of correct histories: python -m tests.checkers.correct_services FIRST LAST [SIZE]

A line per seed as soon as it is judged, with the sum so far; the sums per property at the end.
"""

from __future__ import annotations

import gc
import sys
import time

from tests.checkers.correct_services.judging import Tally, judge

first, last, size = (int(word) for word in (*sys.argv[1:], "100")[:3])
# Garbage is collected once a seed: walks over hundreds of thousands of live events and rows take
# a fifth of the time otherwise.
gc.disable()
total, begun = Tally(), time.process_time()


def tell(*lines: str) -> None:
    """Lines that are seen at once, also through a pipe."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


for seed in range(first, last):
    found = judge(range(seed, seed + 1), size)
    total.join(found)
    gc.collect()
    spent = time.process_time() - begun
    so_far = f"{total.histories} histories, {len(total.violated)} violated, {spent:.0f} s"
    tell(f"seed {seed}: {len(found.violated)} violated; so far {so_far}", *found.violated)
spent = time.process_time() - begun
tell(f"{total.histories} histories, {total.rows} rows, {spent:.0f} s of CPU, {sys.version}")
for prop, cases in total.cases.items():
    tell(f"  {prop:24} HOLDS in {total.held[prop]} of {cases} cases")
tell(f"{len(total.violated)} violated", *total.violated)
sys.exit(bool(total.violated))
