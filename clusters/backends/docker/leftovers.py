"""Leftovers in this host's engine: containers and networks, with their driver's mark as a label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.clusters.backends.docker import engine
from holdfast.harness.runs import registry
from holdfast.harness.runs.registry import Leftover


class OfEngine:
    """Implements `Source`."""

    kinds = ("container", "network")
    here = True

    def find(self, notes: Sequence[registry.Noted], within_s: float) -> Iterable[Leftover]:
        """Containers and networks of runs without a driver; none if there is no engine.

        Errors: EnvironmentFailed if it does not respond in time."""
        if engine.precheck() is not None:
            return
        wanted = {engine.RUN_LABEL: "", engine.NODES_LABEL: ""}
        found = engine.in_plain_words(engine.labelled, engine.ContainerEngine(within_s), wanted)
        for kind, things in zip(self.kinds, found, strict=True):
            for thing in things:
                labels: dict[str, Any] = thing["Labels"]
                label, mark = labels[engine.NODES_LABEL], labels.get(engine.DRIVER_LABEL, "")
                if registry.abandoned(label, mark, notes):
                    name = thing.get("Name") or thing["Names"][0].lstrip("/")
                    yield Leftover(kind=kind, id=thing["Id"], label=label, text=name)

    def clean(self, leftover: Leftover) -> None:
        """Removes it. Errors: EnvironmentFailed."""
        remove = engine.remove_container if leftover.kind == "container" else engine.remove_network
        engine.in_plain_words(remove, engine.ContainerEngine(), {"Id": leftover.id})

    def keeps(self, run: registry.Noted) -> bool:
        """Never: what the engine has of a run was found, or it did not respond."""
        return False


LEFTOVERS = OfEngine()
