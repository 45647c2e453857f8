"""An owner hangs while its lease is renewed, and an operator ends its hold.

Asks: that the next waiter is granted the lock with a larger token, that the old owner is notified
    and its late write rejected; ownership, token order, liveness
Catches: a grant before the operator's unlock, an owner that is not notified, an accepted late
    write, a lock that is lost with its hung owner
Checkers: those of exclusion, fencing, notifications and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import EXCLUSION, LIVENESS, OWNERSHIP, turns

ASKS = (*EXCLUSION, *OWNERSHIP, *LIVENESS)
OPERATOR, HANGING = 1, 2
"""Indices of the clients with a special role."""
PATIENCE = 2
"""Number of leases after which the operator ends a hold."""


async def client(ctx: Context) -> None:
    """The first client is the operator, the second hangs when it holds, the others work."""
    shape = Shape.of(ctx.options)
    if ctx.process == OPERATOR:
        await _operates(ctx)
        return
    async for grant in turns(ctx, shape):
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


async def _operates(ctx: Context) -> None:
    """Queries the holder, and ends a hold that has lasted too long."""
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
