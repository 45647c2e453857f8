"""Holds shown as one word: whether one is in force is asked while it lasts and after its end.

Asks: that what the service says of a hold is so; exclusion, ownership, loss notices, token order,
    liveness
Catches: a service that takes whatever it once gave out for good, or forgets what it gave out
Checkers: truthful-queries, and those of exclusion and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.shape import Shape

ASKS = (
    "truthful-queries",
    "mutual-exclusion",
    "no-stale-write",
    "token-order",
    "ownership",
    "loss-notice",
    "deadlock-freedom",
    "no-hung-request",
)


async def client(ctx: Context) -> None:
    """Looks before it writes, as a careful resource would for it, and once more afterwards."""
    shape = Shape.of(ctx.options)
    while ctx.running:
        grant = await ctx.acquire(ctx.rng.choice(ctx.locks), wait_ns=shape.wait_ns)
        if grant is not None:
            await ctx.renew(grant)
            for _ in range(shape.writes):
                await ctx.sleep(shape.gap_ns)
                if await ctx.check(grant) is False:
                    break
                await ctx.write(grant)
            await ctx.release(grant)
            await ctx.check(grant)
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))
