"""So many seeds of correct histories: python -m tests.power.correct_services FIRST LAST [SIZE]"""

from __future__ import annotations

import sys
import time

from tests.power.correct_services.judging import judge

first, last, size = (int(word) for word in (*sys.argv[1:], "200")[:3])
begun = time.process_time()
found = judge(range(first, last), size)
spent = time.process_time() - begun
lines = [f"{found.histories} histories, {found.rows} rows, {spent:.0f} s of CPU, {sys.version}"]
for prop, cases in found.cases.items():
    lines.append(f"  {prop:24} HOLDS in {found.held[prop]} of {cases} cases")
lines += [f"{len(found.violated)} violated", *found.violated]
sys.stdout.write("\n".join(lines) + "\n")
sys.exit(bool(found.violated))
