"""A semaphore: a fixed number of permits, and clients that hold one or two of them for a while.

A client whose lock grants one permit at a time asks for one.

Asks: that no more permits are held than exist; ownership, loss notifications, liveness
Catches: one permit too many, permits that are never released, forgotten waiters
Checkers: exclusion, ownership and liveness; no writes, because tokens do not order two permits
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.harness.core.operations import Mode, Terms
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import FAIRNESS, LIVENESS, OWNERSHIP

ASKS = ("mutual-exclusion", *OWNERSHIP, *LIVENESS, *FAIRNESS)


async def client(ctx: Context) -> None:
    """Holds for the duration of the writes of other workloads, and renews once in the middle."""
    shape = Shape.of(ctx.options)
    most = min(2, shape.permits, ctx.most_permits or 2)
    while ctx.running:
        permits = ctx.rng.randint(1, most)
        terms = Terms(mode=Mode.PERMITS, permits=permits, limit=shape.permits)
        grant = await ctx.acquire(ctx.rng.choice(ctx.locks), wait_ns=shape.wait_ns, terms=terms)
        if grant is not None:
            await ctx.sleep(shape.writes * shape.gap_ns // 2)
            await ctx.renew(grant)
            await ctx.sleep(shape.writes * shape.gap_ns // 2)
            await ctx.release(grant)
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))
