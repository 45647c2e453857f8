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
    OTHER = "other"
    ANY = "any"
    """of rows that are the same under every class"""


def fault_class(traits: Traits) -> FaultClass:
    """The class of a kind of fault. One that may kill later is no crash: it may never have."""
    if traits.kills:
        return FaultClass.CRASH
    if traits.stops:
        return FaultClass.STOP
    if traits.cuts:
        return FaultClass.CUT
    return FaultClass.CLOCK if traits.shifts_clocks else FaultClass.OTHER
