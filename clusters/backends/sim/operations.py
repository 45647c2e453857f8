"""Copies of the disks of simulated servers, put back later."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.clusters.backends.sim.disk_faults import wanted_dead
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.fault_traits import COPY
from holdfast.harness.core.json_value import Json

if TYPE_CHECKING:
    from holdfast.clusters.backends.sim.backend import SimBackend


class Restore:
    """Servers whose disks are copied now, and put back to that copy at the heal."""

    def __init__(self, cluster: SimBackend, args: Mapping[str, Json]) -> None:
        nodes = args["nodes"]
        assert isinstance(nodes, list)
        if args["what"] != COPY:
            raise EnvironmentFailed(f"simulator: it cannot {args['what']} servers")
        self._cluster = cluster
        self._nodes = [str(node) for node in nodes]
        # A save changes the content of a disk in place.
        self._copies = {name: copy.deepcopy(cluster.hosts[name].kept) for name in self._nodes}

    def observe(self) -> dict[str, Json]:
        """Not effective before the copies are put back."""
        return {"effective": False, "how": COPY}

    def heal(self, others: Sequence[object]) -> dict[str, Json]:
        """The nodes crash, their disks are replaced; who is dead is started again, unless another
        fault wants it dead."""
        wanted, hosts = wanted_dead(others), self._cluster.hosts
        now_ns = self._cluster.engine.now_ns
        changed = []
        for name in self._nodes:
            self._cluster.crash(name)
            if _content(hosts[name].kept) != _content(self._copies[name]):
                changed.append(name)
            hosts[name].kept = self._copies[name]
        return {
            **self.observe(),
            "effective": bool(changed),
            "changed": [*changed],
            "operated_ns": [now_ns, now_ns],
            "restart": [name for name in self._nodes if name not in wanted],
        }


def _content(kept: object) -> object:
    """What is on a disk, in a form that can be compared."""
    return vars(kept) if hasattr(kept, "__dict__") else kept
