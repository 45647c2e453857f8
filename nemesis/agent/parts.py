"""The features that every fault agent has beside its own requests: a feature is one row here."""

from __future__ import annotations

from holdfast.nemesis.agent.disks.own_disks import OwnDisks
from holdfast.nemesis.agent.halves import Part
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.links.link_faults import Links
from holdfast.nemesis.agent.tracing.system_calls import CallTracing


def parts(world: World) -> list[Part]:
    """Those of an agent, in the order in which it lists their abilities."""
    return [world.part(Links), world.part(CallTracing), world.part(OwnDisks)]
