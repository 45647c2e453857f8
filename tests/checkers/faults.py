"""Fault windows for tests, in seconds of the run."""

from __future__ import annotations

from holdfast.harness.core.case import Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import BEFORE, COPY, Traits

POWER = Traits(kills=True, needs_disk=True, loses_unsynced=True)
HANG = Traits(needs_disk=True, hangs_disk=True)
RESTORED = Traits(kills_later=True, operates=COPY)
MEASURED = {POWER: ("power", "cut_ns"), HANG: ("disk-hang", "frozen_ns")}
OPERATION = ("backup-restore", "operated_ns")


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


def disk_fault(
    from_s: float, to_s: float, nodes: str = "n1", traits: Traits = POWER, effective: bool = True
) -> Window:
    """A power loss, a hang of disks or a restore, measured between two times, in seconds."""
    span = [round(from_s * SECOND), round(to_s * SECOND)]
    do, name = MEASURED.get(traits, OPERATION)
    return Window(
        id=f"{name}-{from_s}",
        do=do,
        target=nodes,
        nodes=tuple(nodes.split("+")),
        from_ns=span[0],
        to_ns=span[1],
        effective=effective,
        evidence={name: list(span)},
        traits=traits,
    )
