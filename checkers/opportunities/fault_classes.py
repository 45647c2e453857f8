"""Classes of faults: kinds that a lock survives, or does not, for the same reason."""

from __future__ import annotations

from enum import StrEnum

from holdfast.harness.core.fault_traits import Traits


class FaultClass(StrEnum):
    """What a fault does to the servers that it strikes."""

    CRASH = "crash"
    """they stop, and may come back with less than they had acknowledged: kills and power losses"""
    STOP = "stop"
    """they stop, and go on later with all that they had, unaware of the time: pauses"""
    CUT = "cut"
    """they go on, and do not reach each other or their clients: partitions"""
    CLOCK = "clocks"
    """they go on, and the clock by which they may count leases is wrong"""
    OPERATION = "operations"
    """an operator puts an earlier state back, or stops, replaces or promotes them in turn"""
    OTHER = "other"
    """the rest, and all that strikes no server: disks, links, limits, system calls and the calls of
    clients. What may be lost there is the same, an answer or a write that was under way"""
    ANY = "any"
    """of rows that are the same under every class"""


def fault_class(traits: Traits) -> FaultClass:
    """The class of a kind of fault. One that may kill later is no crash: it may never have."""
    does = {
        FaultClass.CRASH: traits.kills,
        FaultClass.STOP: traits.stops,
        FaultClass.CUT: traits.cuts,
        FaultClass.CLOCK: traits.shifts_clocks,
        FaultClass.OPERATION: bool(traits.operates),
    }
    return next((of for of, applies in does.items() if applies), FaultClass.OTHER)
