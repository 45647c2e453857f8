"""A feature that looks at a run beside the judge, at each stage at which it may want to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from holdfast.harness.core.case import Case
from holdfast.harness.core.errors import HoldfastError
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged
from holdfast.harness.verdicts.section import Section


@dataclass(frozen=True, kw_only=True, slots=True)
class Watch:
    """What a lens can do while the driver of a run works.

    tell              shows a line to the user at once
    quiet             whether the user asked for no lines
    until_violation   whether the user wants the workload to end at the first violation
    end_workload      ends it now
    """

    tell: Callable[[str], None] = lambda line: None
    quiet: bool = True
    until_violation: bool = False
    end_workload: Callable[[], None] = lambda: None


class Lens:
    """Base class: it sees nothing. Lenses are called in the order of the catalogue (LENSES), then
    those of plug-ins, each with what its predecessor returned. A lens changes no verdict."""

    def during(
        self, run: RunDir, manifest: Manifest, watch: Watch
    ) -> AbstractContextManager[object]:
        """Entered once the driver of the run works, and left when it has ended; nothing by default.

        On virtual time it is entered too, although all rows are written at the end of the run.
        """
        return nullcontext()

    def of_case(self, run: RunDir, manifest: Manifest, judged: Judged, case: Case) -> Judged:
        """The judged run with what the lens has seen in the history, while it is in memory.

        Not called for a run that is judged in parts.
        """
        return judged

    def after(
        self, run: RunDir, manifest: Manifest, judged: Judged, orders: bytes | None
    ) -> Judged:
        """The judged run with what it has seen; HoldfastError if the verdict may not be reported.

        orders   content of the file of orders; None for a run that was judged in parts
        """
        return judged

    def section(self, judged: Judged) -> Section | None:
        """What the report of the run has about it; None for nothing."""
        return None


def kept(lens: Lens, before: Judged, after: Judged) -> Judged:
    """What a lens returned; HoldfastError if it changed a verdict, or made a failed run pass."""
    worse = before.exit_code == 0 or after.exit_code == before.exit_code
    if (after.verdict, after.verdicts) != (before.verdict, before.verdicts) or not worse:
        raise HoldfastError(f"lens {type(lens).__name__} changed a verdict, which no lens may")
    return after
