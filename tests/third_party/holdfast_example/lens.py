"""A lens: the client that was granted a lock most often."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from holdfast.checkers.holds.derive import attempts
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.judging.lens import Lens
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged
from holdfast.harness.verdicts.section import Section

KEY = "busiest"


class Busiest(Lens):
    """Counts grants by client."""

    def of_case(self, run: RunDir, manifest: Manifest, judged: Judged, case: Case) -> Judged:
        """The counts, under a key of its own."""
        granted = [
            one.process for one in attempts(case) if one.status is Status.OK and one.op != Op.PROBE
        ]
        counts = {case.nodes[process]: n for process, n in Counter(granted).most_common()}
        return replace(judged, seen={**judged.seen, KEY: counts})

    def section(self, judged: Judged) -> Section | None:
        """The client with the most grants, and how many that were."""
        counts = judged.seen.get(KEY)
        if not isinstance(counts, dict) or not counts:
            return None
        name, most = next(iter(counts.items()))
        result = f"{name} was granted {most} of {sum(counts.values())} locks."
        return Section(anchor=KEY, title="Busiest client", short="Busiest", result=result)


BUSIEST = Busiest()
