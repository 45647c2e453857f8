"""Hierarchical locks: the holder of a path holds all paths below it, and writes there.

Asks: that no ancestor or descendant of a held path is held, and that tokens are ordered along every
    ancestor chain; ownership, loss notifications, liveness and fairness on each chain
Catches: conflicts that are checked one level up or down only, forgotten descendants, waiters of
    another path that are not woken
Checkers: those of exclusion, fencing, ownership and liveness; each chain is judged as one lock
"""

from __future__ import annotations

import random

from holdfast.harness.client.context import Context
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import EXCLUSION, FAIRNESS, LIVENESS, OWNERSHIP

ASKS = (*EXCLUSION, *OWNERSHIP, *LIVENESS, *FAIRNESS)
FORK = ("a", "b")
"""Children of each path; paths two levels below the root are leaves."""


async def client(ctx: Context) -> None:
    """Locks mostly leaves, sometimes branches, rarely the whole tree; writes to leaves."""
    shape = Shape.of(ctx.options)
    while ctx.running:
        steps = ctx.rng.choice((0, 1, 1, 2, 2, 2))
        path = _down(ctx.rng, ctx.rng.choice(ctx.locks), steps)
        grant = await ctx.acquire(path, wait_ns=shape.wait_ns)
        if grant is not None:
            await ctx.renew(grant)
            for _ in range(shape.writes):
                await ctx.sleep(shape.gap_ns)
                await ctx.write(grant, key=_down(ctx.rng, path, 2 - steps))
            await ctx.release(grant)
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))


def _down(rng: random.Random, path: str, steps: int) -> str:
    return "/".join((path, *(rng.choice(FORK) for _ in range(steps))))
