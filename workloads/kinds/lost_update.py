"""Read-modify-write of one value under the lock.

Asks: lost updates and exclusion, stale writes, token order, liveness
Catches: two accepted writes that are based on one version
Checkers: no-lost-update and those of exclusion, fencing and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import EXCLUSION, LIVENESS, turns

ASKS = ("no-lost-update", *EXCLUSION, *LIVENESS)


async def client(ctx: Context) -> None:
    """Each write names the version that it is based on; the resource does not check it."""
    shape = Shape.of(ctx.options)
    async for grant in turns(ctx, shape):
        asked_ns = ctx.now_ns()
        renewed = await ctx.renew(grant)
        for _ in range(shape.writes):
            version = await ctx.read(grant)
            await ctx.sleep(shape.gap_ns)
            if shape.gives_up(renewed, ctx.now_ns() - asked_ns, ctx.lease_ns):
                break
            if version >= 0 and await ctx.write(grant, base=version) < 0:
                # It may still be on its way: what is read now is not what is built upon then.
                break
