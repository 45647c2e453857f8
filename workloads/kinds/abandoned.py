"""Owners that die while holding: now and then a client exits with the lock held.

Asks: orphans and deadlock freedom after an owner's crash, exclusion, stale writes, token order
Catches: locks that stay held forever, forgotten waiters
Checkers: exclusion, fencing and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.kinds.paced import ASKS as PACED_ASKS
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import turns

ASKS = PACED_ASKS
ONE_IN = 40
"""Average number of holds per hold whose owner dies."""


async def client(ctx: Context) -> None:
    """The driver replaces a dead client by a new one with its own number."""
    shape = Shape.of(ctx.options)
    async for grant in turns(ctx, shape):
        await ctx.renew(grant)
        for _ in range(shape.writes):
            await ctx.sleep(shape.gap_ns)
            await ctx.write(grant)
        if ctx.rng.randrange(ONE_IN) == 0:
            ctx.die()
