"""Holds for several leases, renewed after part of the lease (`--set renew_pct=33`).

Each renewal is up to `--set renew_spread_pct=0` % of the lease earlier or later: near its end, to
provoke races. With `--set lazy_pct=25` those of a quarter of the holds come when most of the lease
is over; with `--set late_pct=50` as well, those of half of these when all of it is. With
`--set extend=1` renewals ask for twice and for half of the first lease in turn. With
`--set brief_pct=60` most holds last 10 % of a lease: a lock that an owner lost is soon free.

Asks: exclusion under renewal, loss notification, ownership, stale and expired writes, liveness,
    fairness
Catches: renewals that revive an expired lease, losses without a notification
Checkers: all except lost updates
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.kinds.critical_section import ASKS as CRITICAL_SECTION_ASKS
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import FAIRNESS, turns

ASKS = (*CRITICAL_SECTION_ASKS, *FAIRNESS)


LATE_PCT = 85
"""Time of the renewals of a lazy owner, in % of its lease."""


async def client(ctx: Context) -> None:
    """Writes during the whole hold; stops when it is notified of a loss."""
    shape = Shape.of(ctx.options)
    ttls_ns = (2 * ctx.lease_ns, ctx.lease_ns // 2) if shape.extend else ()
    async for grant in turns(ctx, shape, silent=True):
        over = ctx.now_ns() + shape.held_ns(ctx.rng, ctx.lease_ns)
        every_ns = shape.renewals_ns(ctx.rng, ctx.lease_ns)
        if shape.lazy(ctx.rng):
            every_ns = (ctx.lease_ns * LATE_PCT // 100,)
            if shape.late(ctx.rng):
                every_ns = (shape.silence_ns(ctx.rng, ctx.lease_ns, late=True),)
        async with ctx.renewing(grant, every_ns=every_ns, ttls_ns=ttls_ns):
            while ctx.now_ns() < over and ctx.running and not ctx.lost(grant):
                await ctx.sleep(max(shape.gap_ns, ctx.lease_ns // 20))
                await ctx.write(grant)
