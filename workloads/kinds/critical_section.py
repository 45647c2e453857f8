"""The basic use of a lock: acquire, write several times without checking the lease, release.

Asks: exclusion, stale and expired writes, token order, ownership, loss notification, liveness
Catches: double grants, broken leases, stale writes by a holder that was paused past its lease
Checkers: all except lost updates
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.shape import Shape

ASKS = (
    "mutual-exclusion",
    "no-stale-write",
    "no-expired-write",
    "token-order",
    "ownership",
    "loss-notice",
    "deadlock-freedom",
    "orphan-freedom",
    "no-hung-request",
)


async def client(ctx: Context) -> None:
    """Writes are spaced; unless `look` is set, the lease is not checked between them, which is the
    hazard."""
    shape = Shape.of(ctx.options)
    while ctx.running:
        grant = await ctx.acquire(ctx.rng.choice(ctx.locks), wait_ns=shape.wait_ns)
        if grant is not None:
            asked_ns = ctx.now_ns()
            renewed = await ctx.renew(grant)
            for _ in range(shape.writes):
                if shape.gap_ns:
                    await ctx.sleep(shape.gap_ns)
                if shape.gives_up(renewed, ctx.now_ns() - asked_ns, ctx.lease_ns):
                    break
                await ctx.write(grant)
            await ctx.release(grant)
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))
