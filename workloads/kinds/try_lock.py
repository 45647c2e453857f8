"""Never waits: asks, works if it got the lock, goes away if not.

Asks: that nobody is refused a free lock, exclusion, token order, stale writes, liveness
Catches: double grants among tries, a lock that refuses though nobody can hold it
Checkers: no-false-rejection and those of exclusion, fencing and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.shape import Shape

ASKS = (
    "mutual-exclusion",
    "no-stale-write",
    "token-order",
    "deadlock-freedom",
    "orphan-freedom",
    "no-hung-request",
    "no-false-rejection",
)


async def client(ctx: Context) -> None:
    """A refused try is followed by a short pause, so that refusals do not flood the service."""
    shape = Shape.of(ctx.options)
    while ctx.running:
        grant = await ctx.try_acquire(ctx.rng.choice(ctx.locks))
        if grant is not None:
            for _ in range(shape.writes):
                await ctx.sleep(shape.gap_ns)
                await ctx.write(grant)
            await ctx.release(grant)
        await ctx.sleep(ctx.rng.randrange(1, 4 * shape.think_ns))
