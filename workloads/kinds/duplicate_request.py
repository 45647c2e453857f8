"""Commands sent twice, as after a timeout that left the outcome of the first one unknown.

Asks: that each takes effect once; exclusion, stale writes, token order, liveness
Catches: a resource that applies a retried command again
Checkers: applied-once and those of exclusion, fencing and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.shape import Shape

ASKS = (
    "applied-once",
    "mutual-exclusion",
    "no-stale-write",
    "token-order",
    "deadlock-freedom",
    "orphan-freedom",
    "no-hung-request",
)


async def client(ctx: Context) -> None:
    """Every second write is sent twice with one identity."""
    shape = Shape.of(ctx.options)
    while ctx.running:
        grant = await ctx.acquire(ctx.rng.choice(ctx.locks), wait_ns=shape.wait_ns)
        if grant is not None:
            await ctx.renew(grant)
            for n in range(shape.writes):
                await ctx.sleep(shape.gap_ns)
                await ctx.write(grant, repeats=n % 2)
            await ctx.release(grant)
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))
