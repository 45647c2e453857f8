"""A lock held across a call to a dependency that is usually fast and sometimes slow.

One call in five takes `--set hold_leases=3` leases. The owner does not renew meanwhile; with
`--set renews=1` it does.

Asks: stale, expired and lost writes of late owners; exclusion, liveness
Catches: results that are written after the lease under which they were computed
Checkers: no-lost-update and those of exclusion, fencing and liveness
"""

from __future__ import annotations

import contextlib

from holdfast.harness.client.context import Context
from holdfast.harness.core.operations import Grant
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import LIVENESS, turns

ASKS = (
    "no-lost-update",
    "no-stale-write",
    "no-expired-write",
    "mutual-exclusion",
    "token-order",
    "ownership",
    *LIVENESS,
)
SLOW_IN = 5
"""One in this number of calls is slow."""


async def client(ctx: Context) -> None:
    """Reads, calls the dependency, writes the result."""
    shape = Shape.of(ctx.options)
    async for grant in turns(ctx, shape):
        keeps = ctx.renewing(grant) if shape.renews else contextlib.nullcontext()
        async with keeps:
            await _work(ctx, shape, grant)


async def _work(ctx: Context, shape: Shape, grant: Grant) -> None:
    version = await ctx.read(grant)
    slow = ctx.rng.randrange(SLOW_IN) == 0
    await ctx.sleep(shape.hold_leases * ctx.lease_ns if slow else shape.gap_ns)
    if version >= 0:
        await ctx.write(grant, base=version)
