"""Classes of faults: kinds that a lock survives, or does not, for the same reason."""

from __future__ import annotations

from enum import StrEnum

from holdfast.harness.core.fault_traits import Traits


class FaultClass(StrEnum):
    """What a fault does to the servers that it strikes."""

    CRASH = "crash"
    """they may come back with less than they had acknowledged: kills, power losses, operations"""
    OTHER = "other"


def fault_class(traits: Traits) -> FaultClass:
    """The class of a kind of fault."""
    crash = traits.kills or traits.kills_later or traits.loses_unsynced or traits.operates
    return FaultClass.CRASH if crash else FaultClass.OTHER
