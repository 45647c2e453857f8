"""Fault windows for tests, in seconds of the run."""

from __future__ import annotations

from holdfast.harness.core.case import Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import BEFORE


def window(
    do: str, node: str, from_s: float, to_s: float, *, target: str = "one", effective: bool = True
) -> Window:
    """A fault on one node; `node` may join several with "+"."""
    return Window(
        id=f"{do}-{from_s}",
        do=do,
        target=target,
        nodes=tuple(node.split("+")),
        from_ns=round(from_s * SECOND),
        to_ns=round(to_s * SECOND),
        effective=effective,
        evidence={},
        holder=node if target == "holder" else "",
        traits=BEFORE[do],
    )
