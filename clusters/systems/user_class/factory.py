"""Makes the client of a user's lock class that a worker uses.

`holdfast.clusters.systems.user_class.factory:MODULE.CLASS` is the factory for a class of a user's
module.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.clusters.systems.user_class.client import OwnClient
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import ClientSetup


def __getattr__(name: str) -> Callable[[ClientSetup], Any]:
    """The factory for MODULE.CLASS."""
    module, dot, attr = name.rpartition(".")
    if not dot:
        raise AttributeError(name)
    return partial(_client, load(f"{module}:{attr}"))


def _client(made: type[object], setup: ClientSetup) -> object:
    if setup.clock is not None:
        # It needs the simulator, which is not part of the code on nodes.
        from holdfast.clusters.systems.user_class.virtual_client import VirtualOwnClient

        return VirtualOwnClient(made, setup)
    return OwnClient(made, setup)
