"""Owners that die holding: now and then a client stops dead with the lock in its hand.

Asks: orphans and deadlock freedom after an owner's death, exclusion, stale writes, token order
Catches: locks that stay held for ever, waiters that are forgotten
Checkers: exclusion, fencing and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.kinds.paced import ASKS as PACED_ASKS
from holdfast.workloads.shape import Shape

ASKS = PACED_ASKS
ONE_IN = 40
"""How many holds there are, on average, to one whose owner dies."""


async def client(ctx: Context) -> None:
    """The driver starts a new client in the dead one's place, with a number of its own."""
    shape = Shape.of(ctx.options)
    while ctx.running:
        grant = await ctx.acquire(ctx.rng.choice(ctx.locks), wait_ns=shape.wait_ns)
        if grant is not None:
            await ctx.renew(grant)
            for _ in range(shape.writes):
                await ctx.sleep(shape.gap_ns)
                await ctx.write(grant)
            if ctx.rng.randrange(ONE_IN) == 0:
                ctx.die()
            await ctx.release(grant)
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))
