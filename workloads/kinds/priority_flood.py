"""Endless high-priority requests and a few low-priority ones, which must be granted as well.

Asks: starvation, exclusion, stale writes, token order, liveness
Catches: priorities without ageing, so that low-priority requests wait forever
Checkers: starvation-freedom, bounded-bypass and those of exclusion and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.harness.core.operations import Terms
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import EXCLUSION, FAIRNESS, LIVENESS

ASKS = (*EXCLUSION, *LIVENESS, *FAIRNESS)
PATIENT_IN = 3
"""One in this number of clients has low priority."""
URGENT = (5, 6, 7)


async def client(ctx: Context) -> None:
    """High-priority clients request again at once; low-priority clients use the longest wait."""
    shape = Shape.of(ctx.options)
    patient = ctx.process % PATIENT_IN == 0
    while ctx.running:
        terms = Terms(priority=0 if patient else ctx.rng.choice(URGENT))
        grant = await ctx.acquire(ctx.locks[0], wait_ns=shape.wait_ns, terms=terms)
        if grant is not None:
            await ctx.renew(grant)
            await ctx.sleep(shape.gap_ns)
            await ctx.write(grant)
            await ctx.release(grant)
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns if patient else shape.think_ns))
