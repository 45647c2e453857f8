"""A checker: each client that keeps requesting is granted a lock."""

from __future__ import annotations

from collections import defaultdict

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.holds.derive import Attempt, attempts
from holdfast.checkers.user_checker import checker
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, PropertyVerdict

ENOUGH = 3


@checker("everybody-served", says="every client that keeps requesting is granted a lock")
def served(case: Case) -> PropertyVerdict:
    """VIOLATED: a client made 3 or more requests and none of them was granted."""
    requests: defaultdict[int, list[Attempt]] = defaultdict(list)
    for attempt in attempts(case):
        if attempt.op != Op.PROBE:
            requests[attempt.process].append(attempt)
    findings = [
        Finding(
            kind="never-served",
            sentence=f"{case.nodes[process]} made {len(all_of)} requests and none was granted",
            witnesses=(all_of[0].row, all_of[-1].row),
            lock=case.history.strings[all_of[0].key],
            t_ns=all_of[-1].inv_ns,
        )
        for process, all_of in requests.items()
        if len(all_of) >= ENOUGH and not any(one.status is Status.OK for one in all_of)
    ]
    return conclude(case, "everybody-served", findings, (), exercise(case, needs=("contention",)))
