"""Classes of faults: kinds that a lock survives, or does not, for the same reason."""

from __future__ import annotations

from enum import StrEnum

from holdfast.harness.core.fault_traits import Traits


class FaultClass(StrEnum):
    """What a fault does to the servers that it strikes."""

    CRASH = "crash"
    """they stop, and may come back with less than they had acknowledged: kills and power losses"""
    OTHER = "other"


def fault_class(traits: Traits) -> FaultClass:
    """The class of a kind of fault. One that may kill later is no crash: it may never have."""
    return FaultClass.CRASH if traits.kills else FaultClass.OTHER
