"""What can undo acknowledged changes: power losses, hung disks, operations on the servers.

What fewer servers lose with their power, the others still have: only a power loss of more than half
of them can undo what a service acknowledged. An earlier state of one server can undo it too: that
server then agrees to what it had refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.checkers.facts.fault_windows import servers_struck
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.overlaps import reaches, slack
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.operations import Op

OPERATED = ("operated_ns", "rejoined_ns")
"""Evidence of operations: when they were carried out, and when a former leader rejoined."""


class Span(NamedTuple):
    """Two times between which the disks lost their power or took no write, or between which an
    operation was carried out.

    operation   kind of the fault that was an operation on the servers; "" for none
    """

    from_ns: int
    to_ns: int
    operation: str = ""

    @property
    def what(self) -> str:
        """A power loss, or the name of the operation."""
        return self.operation or "power loss"


def losses(case: Case) -> list[Span]:
    """Effective power losses of a majority of the servers and operations on servers, in order.

    A forced failover is two: the promotion, and the time at which the former leader rejoins.
    """
    found = [span_of(w, "cut_ns") for w in _of_majorities(case) if w.traits.loses_unsynced]
    found += [span_of(w, name, w.do) for w in case.windows if _operated(w) for name in OPERATED]
    return sorted(span for span in found if span is not None)


def operations(case: Case) -> int:
    """Number of effective operations on servers."""
    spans = (span_of(w, OPERATED[0], w.do) for w in case.windows if _operated(w))
    return sum(span is not None for span in spans)


def _operated(window: Window) -> bool:
    return window.effective and bool(window.traits.operates)


def hangs(case: Case) -> list[Span]:
    """Spans in which no write of a majority of the servers became durable, in order."""
    found = (span_of(w, "frozen_ns") for w in _of_majorities(case) if w.traits.hangs_disk)
    return sorted(span for span in found if span is not None)


def _of_majorities(case: Case) -> Iterator[Window]:
    servers = int(case.options.get("servers", "0"))
    for window in case.windows:
        if window.effective and 2 * len(servers_struck(case, window)) > servers:
            yield window


def span_of(window: Window, name: str, operation: str = "") -> Span | None:
    """Two times of the evidence of a fault, None where it has none."""
    times = window.evidence.get(name)
    if isinstance(times, list) and len(times) == 2:
        first, last = times
        if type(first) is int and type(last) is int:
            return Span(first, last, operation)
    return None


def met_after(case: Case) -> tuple[int, int]:
    """Holds that lasted across a power loss or an operation, and acquires of other clients after it
    and before the end of such a hold: only those show whether it survived."""
    attempts, far, slack_ns = table(case), reaches(case), slack(case)
    held = met = 0
    for loss in losses(case):
        for entries in attempts.by_lock().values():
            across = entries[attempts.known[entries] + slack_ns < loss.from_ns]
            across = across[far[across] > loss.to_ns + slack_ns]
            later = entries[attempts.inv[entries] > loss.to_ns + slack_ns]
            later = later[attempts.op[later] != Op.PROBE]
            held += len(across)
            for one in across.tolist():
                others = later[attempts.process[later] != attempts.process[one]]
                met += int((attempts.inv[others] < far[one]).sum())
    return held, met
