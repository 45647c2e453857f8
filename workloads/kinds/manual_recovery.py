"""An owner that hangs while it is renewed for ever, and an operator that takes its lock away.

Asks: that the lock goes on to the next with a larger token, that the old owner is told and its
    late write refused; ownership, token order, liveness
Catches: a lock that is granted before it was taken away, an owner that is not told, a late write
    that gets through, a lock that is lost with its hung owner
Checkers: those of exclusion, fencing, notices and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.shape import Shape

ASKS = (
    "mutual-exclusion",
    "no-stale-write",
    "token-order",
    "ownership",
    "loss-notice",
    "deadlock-freedom",
    "orphan-freedom",
    "no-hung-request",
)
OPERATOR, HANGING = 1, 2
"""Numbers of the clients that are not ordinary ones."""
PATIENCE = 2
"""An operator steps in when one hold has lasted for so many leases."""


async def client(ctx: Context) -> None:
    """The first client is the operator, the second hangs whenever it holds, the others work."""
    shape = Shape.of(ctx.options)
    if ctx.process == OPERATOR:
        await _operates(ctx)
        return
    while ctx.running:
        grant = await ctx.acquire(ctx.rng.choice(ctx.locks), wait_ns=shape.wait_ns)
        if grant is not None:
            await ctx.write(grant)
            if ctx.process == HANGING:
                async with ctx.renewing(grant):
                    while ctx.running and not ctx.lost(grant):
                        await ctx.sleep(ctx.lease_ns // 8)
                # Long enough for the next owner to have written.
                await ctx.sleep(ctx.lease_ns // 2)
            else:
                await ctx.renew(grant)
                await ctx.sleep(shape.gap_ns)
            await ctx.write(grant)
            await ctx.release(grant)
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))


async def _operates(ctx: Context) -> None:
    """Looks who holds, and ends a hold that has been the same for too long."""
    since: dict[str, tuple[int, int]] = {}
    while ctx.running:
        for lock in ctx.locks:
            token, now_ns = await ctx.holder(lock), ctx.now_ns()
            before, from_ns = since.get(lock, (-1, now_ns))
            if token is None or token < 0 or token != before:
                since[lock] = (-1 if token is None else token, now_ns)
            elif now_ns - from_ns > PATIENCE * ctx.lease_ns:
                await ctx.force_unlock(lock, token=token)
        await ctx.sleep(ctx.lease_ns // 4)
