"""Faults of one client on virtual time: lost replies, connections reset, calls cancelled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.json_value import Json

if TYPE_CHECKING:
    from holdfast.clusters.backends.sim.backend import SimBackend

Evidence = dict[str, Json]
Args = Mapping[str, Any]
ON_THE_WIRE = ("reply-loss", "reset")


class Disturb:
    """What passes between some clients and the lock servers: a frame is swallowed, and the
    connection that has lost it is reset. So many times, from so many bytes of frames on."""

    def __init__(self, cluster: SimBackend, args: Args) -> None:
        if args["what"] not in ON_THE_WIRE:
            raise EnvironmentFailed(f"simulator: unsupported fault {args['what']}")
        self._network = cluster.network
        self._replies = args["what"] == "reply-loss"
        self._nodes = tuple(args["nodes"])
        self._left, self._after = int(args["count"]), int(args["after"])
        self._passed = 0
        self._reset = 0
        cluster.network.disturbances.append(self)

    def swallows(self, source: str, target: str, frame: object) -> bool:
        """Whether this frame is lost on its way, and its connection with it."""
        client, server = (target, source) if self._replies else (source, target)
        if self._left <= 0 or client not in self._nodes or not self._network.serves(server):
            return False
        self._passed += len(json.dumps(frame, default=str)) if self._after else 1
        if self._passed < self._after:
            return False
        self._left -= 1
        self._reset += 1
        return True

    def observe(self) -> Evidence:
        """How many connections were reset over a frame that was lost; effective if one was."""
        return {"effective": self._reset > 0, "connections reset": self._reset}

    def heal(self, others: list[object]) -> Evidence:
        """What comes later passes."""
        self._network.disturbances.remove(self)
        return self.observe()


class Order:
    """Running calls of some clients are cancelled by their own caller."""

    def __init__(self, cluster: SimBackend, args: Args) -> None:
        if args["what"] != "cancel":
            raise EnvironmentFailed(f"simulator: clients do not support {args['what']}")
        self._cancelled: list[float] = []
        for name in args["nodes"]:
            host = cluster.hosts[name]
            if host.loop is not None and host.client is not None:
                host.loop.call_soon(self._cancel, host.client.guard, args)

    def _cancel(self, guard: Any, args: Args) -> None:
        guard.cancel_calls(
            args["count"],
            after_s=args["after_ns"] / SECOND,
            within_s=args["for_ns"] / SECOND,
            told=lambda ran_s: self._cancelled.append(round(ran_s * 1000, 1)),
        )

    def observe(self) -> Evidence:
        """How long the calls had run that were cancelled, ms."""
        return {"effective": bool(self._cancelled), "cancelled after ms": list(self._cancelled)}

    def heal(self, others: list[Any]) -> Evidence:
        """What has not been cancelled by now is left alone."""
        return self.observe()
