"""Commands sent twice, as after a timeout that left the outcome of the first one unknown.

Asks: that each takes effect once; exclusion, stale writes, token order, liveness
Catches: a resource that applies a retried command again
Checkers: applied-once and those of exclusion, fencing and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import EXCLUSION, LIVENESS, turns

ASKS = ("applied-once", *EXCLUSION, *LIVENESS)


async def client(ctx: Context) -> None:
    """Every second write is sent twice with one identity."""
    shape = Shape.of(ctx.options)
    async for grant in turns(ctx, shape):
        await ctx.renew(grant)
        for n in range(shape.writes):
            await ctx.sleep(shape.gap_ns)
            await ctx.write(grant, repeats=n % 2)
