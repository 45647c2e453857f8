"""What the fault agent consists of beside its own requests: features that every agent has.

A feature of the agent is a class and a row here. Kinds of fault bring their halves (`halves`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from holdfast.nemesis.agent.disks.own_disks import OwnDisks
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.request_errors import Evidence
from holdfast.nemesis.agent.request_forms import Args, Form


class Part(Protocol):
    """A feature of the agent, which has one of each. forms: of the requests that it answers."""

    @property
    def forms(self) -> Mapping[str, Form]: ...

    def answer(self, do: str, args: Args) -> Evidence:
        """Carries out one of its requests. Errors: Refused, OSError."""
        ...

    def recover(self) -> Evidence:
        """Undoes what the part of an earlier agent left; how much of it there was."""
        ...

    def abilities(self) -> Evidence:
        """What it can do on this host, each tested: true, or the reason why not."""
        ...


def parts(world: World) -> list[Part]:
    """Those of this agent."""
    return [world.part(OwnDisks)]
