"""Two locks at once: a client acquires one while it holds another, in random or fixed order.

Asks: that wait-for cycles are resolved; exclusion, ownership, token order, liveness
Catches: clients that wait for each other forever
Checkers: no-multi-lock-deadlock and those of exclusion and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import EXCLUSION, LIVENESS

ASKS = ("no-multi-lock-deadlock", *EXCLUSION, *LIVENESS)


async def client(ctx: Context) -> None:
    """`--set ordered=1`: all clients use one order, so that no wait-for cycle is possible."""
    shape = Shape.of(ctx.options)
    while ctx.running:
        wanted = ctx.rng.sample(ctx.locks, min(2, len(ctx.locks)))
        if shape.ordered:
            wanted.sort()
        first = await ctx.acquire(wanted[0], wait_ns=shape.wait_ns)
        if first is not None:
            async with ctx.renewing(first):
                await ctx.sleep(shape.gap_ns)
                await ctx.write(first)
                second = (
                    await ctx.acquire(wanted[-1], wait_ns=shape.wait_ns) if wanted[1:] else None
                )
                if second is not None:
                    await ctx.renew(second)
                    await ctx.write(second)
                    await ctx.release(second)
            await ctx.release(first)
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))
