"""A workload of the user: an object with `client` and `ASKS`, as a built-in workload module has.

`holdfast.workloads.user_workload:MODULE.NAME` is the workload NAME of a user's module. Standard
library only, because it runs on the clients' nodes.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import ABILITIES


class UserWorkload:
    """What every client runs when it is called; UsageError lists all that is wrong with it.

    ASKS    properties that it requests; NEEDS: abilities that it requires of a lock client
    """

    def __init__(self, name: str, made: Any) -> None:
        client, asks = getattr(made, "client", None), getattr(made, "ASKS", ())
        self.ASKS: Sequence[str] = (asks,) if isinstance(asks, str) else tuple(asks)
        self.NEEDS: Sequence[str] = tuple(getattr(made, "NEEDS", ()))
        problems = []
        if not inspect.iscoroutinefunction(client):
            problems.append("missing `client`, a coroutine function with one argument")
        if not self.ASKS:
            problems.append("missing ASKS, the properties that it requests")
        problems += [f"NEEDS: unknown ability {n!r}" for n in self.NEEDS if n not in ABILITIES]
        if problems:
            raise UsageError(*(f"workload {name}: {problem}" for problem in problems))
        self._client: Callable[[object], Awaitable[None]] = made.client

    async def __call__(self, ctx: object) -> None:
        """The work of one client."""
        await self._client(ctx)


def __getattr__(name: str) -> UserWorkload:
    """The workload of MODULE.NAME."""
    module, dot, attr = name.rpartition(".")
    if not dot:
        raise AttributeError(name)
    return UserWorkload(attr, load(f"{module}:{attr}"))
