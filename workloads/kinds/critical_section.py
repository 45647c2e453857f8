"""The basic use of a lock: acquire, write several times without checking the lease, release.

It renews once, right after the grant. With `--set one_lease=1` it does not, so that it shows what
is wrong with a first lease. With `--set lazy_pct=25` a quarter of the owners are silent after their
writes, for most of their lease, and then write once more. With `--set late_pct=50` half of these
wake up when their lease is over, write, and then renew: a process that was busy. With
`--set stopped=1` the process of such an owner does not run until then, as in a long collection of
garbage: nothing keeps its session alive.

Asks: exclusion, stale and expired writes, token order, ownership, loss notification, liveness
Catches: double grants, broken leases, stale writes by a holder that was paused past its lease
Checkers: all except lost updates
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import LIVENESS, OWNERSHIP, turns

ASKS = (
    "mutual-exclusion",
    "no-stale-write",
    "no-expired-write",
    "token-order",
    *OWNERSHIP,
    *LIVENESS,
)


async def client(ctx: Context) -> None:
    """Writes are spaced; unless `look` is set, the lease is not checked between them, which is the
    hazard."""
    shape = Shape.of(ctx.options)
    async for grant in turns(ctx, shape, silent=True):
        asked_ns, lazy = ctx.now_ns(), shape.lazy(ctx.rng)
        renewed = shape.one_lease or await ctx.renew(grant)
        for _ in range(shape.writes):
            if shape.gap_ns:
                await ctx.sleep(shape.gap_ns)
            if shape.gives_up(renewed, ctx.now_ns() - asked_ns, ctx.lease_ns):
                break
            await ctx.write(grant)
        if lazy:
            late = shape.late(ctx.rng)
            pause = ctx.stall if late and shape.stopped else ctx.sleep
            await pause(shape.silence_ns(ctx.rng, ctx.lease_ns, late=late))
            await ctx.write(grant)
            if late:
                await ctx.renew(grant)
