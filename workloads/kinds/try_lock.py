"""Try-lock: tries once without waiting, works if the lock is granted, gives up otherwise.

Asks: that a free lock is not refused; exclusion, token order, stale writes, liveness
Catches: double grants among tries, a lock that is refused although no client can hold it
Checkers: no-false-rejection and those of exclusion, fencing and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import EXCLUSION, LIVENESS, end, silence

ASKS = (*EXCLUSION, *LIVENESS, "no-false-rejection")


async def client(ctx: Context) -> None:
    """A rejected try is followed by a short pause, so that retries do not flood the service."""
    shape = Shape.of(ctx.options)
    if shape.together_ns:
        await ctx.sleep(shape.rest_ns(ctx.rng, ctx.now_ns(), 2))
    while ctx.running:
        grant = await ctx.try_acquire(ctx.rng.choice(ctx.locks))
        if grant is not None:
            await silence(ctx, shape, grant)
            for _ in range(shape.writes):
                await ctx.sleep(shape.gap_ns)
                await ctx.write(grant)
            await end(ctx, shape, grant)
        await ctx.sleep(shape.rest_ns(ctx.rng, ctx.now_ns(), 4 * shape.think_ns))
