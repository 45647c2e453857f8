"""Leader election: the holder is the leader, for a long term; its token is the number of its term.

A new leader reads first, which fences off previous leaders, then writes repeatedly while its hold
is renewed. It steps down when it is notified of a loss, or after its term (`--set hold_leases=30`),
and then pauses so that other clients can lead.

Asks: one leader at a time, increasing terms, loss notification, stale and expired writes, liveness
Catches: two leaders (split brain), decreasing terms, stale leaders that do not know it
Checkers: all except lost updates
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.kinds.critical_section import ASKS as CRITICAL_SECTION_ASKS
from holdfast.workloads.shape import Shape

ASKS = CRITICAL_SECTION_ASKS


async def client(ctx: Context) -> None:
    """Every client is always a candidate; each lock has one leader."""
    shape = Shape.of(ctx.options)
    while ctx.running:
        grant = await ctx.acquire(ctx.rng.choice(ctx.locks), wait_ns=shape.wait_ns)
        if grant is not None:
            over = ctx.now_ns() + shape.held_ns(ctx.rng, ctx.lease_ns)
            async with ctx.renewing(grant, every_ns=shape.renewals_ns(ctx.rng, ctx.lease_ns)):
                await ctx.read(grant)
                while ctx.now_ns() < over and ctx.running and not ctx.lost(grant):
                    await ctx.sleep(max(shape.gap_ns, ctx.lease_ns // 20))
                    await ctx.write(grant)
            await ctx.release(grant)
            await ctx.sleep(ctx.lease_ns)
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))
