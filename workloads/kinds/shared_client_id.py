"""Processes that share one client id (on `reference`: `--set owner=everybody`).

Each repeats its release and renewal when the lock already belongs to another process: as a second
process of the same name would, or the first one after a retry.

Asks: that only the holder releases and renews; exclusion, token order, stale writes, liveness
Catches: services that identify an owner by its name instead of its attempt
Checkers: ownership and those of exclusion, fencing and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Grant
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import EXCLUSION, LIVENESS

ASKS = ("ownership", *EXCLUSION, *LIVENESS)


async def client(ctx: Context) -> None:
    """Repeats the release or renewal of its latest hold some time after its end."""
    shape = Shape.of(ctx.options)
    before: Grant | None = None
    while ctx.running:
        if before is not None:
            await ctx.renew(before)
            await ctx.release(before)
        before = await ctx.acquire(ctx.rng.choice(ctx.locks), wait_ns=shape.wait_ns)
        if before is not None:
            await ctx.renew(before)
            for _ in range(shape.writes):
                await ctx.sleep(shape.gap_ns)
                await ctx.write(before)
            await ctx.release(before)
        rest_ns = ctx.rng.randrange(1, 4 * shape.writes * shape.gap_ns + shape.think_ns)
        while ctx.running and rest_ns > 0:
            # Half a minute at most: longer than the run waits for its clients at the end.
            await ctx.sleep(min(rest_ns, SECOND))
            rest_ns -= SECOND
