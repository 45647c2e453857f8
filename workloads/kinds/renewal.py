"""Holds far longer than the lease, renewed after part of it (`--set renew_pct=33`), each time up to
so many percent of it sooner or later (`--set renew_spread_pct=0`): near its end, for races.

`--set extend=1`: renewals are extensions, for twice the first lease and for half of it in turn.

Asks: exclusion under renewal, loss notice, ownership, stale and expired writes, liveness, fairness
Catches: renewals that revive an expired lease, losses that nobody is told of
Checkers: every one but lost updates
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.kinds.critical_section import ASKS as CRITICAL_SECTION_ASKS
from holdfast.workloads.shape import Shape

ASKS = (*CRITICAL_SECTION_ASKS, "starvation-freedom", "bounded-wait")


async def client(ctx: Context) -> None:
    """Writes all the while; stops when it is told that the lock is lost."""
    shape = Shape.of(ctx.options)
    ttls_ns = (2 * ctx.lease_ns, ctx.lease_ns // 2) if shape.extend else ()
    while ctx.running:
        grant = await ctx.acquire(ctx.rng.choice(ctx.locks), wait_ns=shape.wait_ns)
        if grant is not None:
            over = ctx.now_ns() + shape.hold_leases * ctx.lease_ns
            every_ns = shape.renewals_ns(ctx.rng, ctx.lease_ns)
            async with ctx.renewing(grant, every_ns=every_ns, ttls_ns=ttls_ns):
                while ctx.now_ns() < over and ctx.running and not ctx.lost(grant):
                    await ctx.sleep(max(shape.gap_ns, ctx.lease_ns // 20))
                    await ctx.write(grant)
            await ctx.release(grant)
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))
