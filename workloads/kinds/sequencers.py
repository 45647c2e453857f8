"""Sequencers: holds as one string, checked for being in force during and after the hold.

Asks: that the result of a check is correct; exclusion, ownership, loss notifications, token order,
    liveness
Catches: a service that accepts every sequencer it ever issued, or rejects valid ones
Checkers: truthful-queries and those of exclusion and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import EXCLUSION, OWNERSHIP

ASKS = ("truthful-queries", *EXCLUSION, *OWNERSHIP, "deadlock-freedom", "no-hung-request")


async def client(ctx: Context) -> None:
    """Checks the sequencer before each write, as a resource would, and once after the hold."""
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
