"""A flood of urgent requests, and a few that are not: the latter must get their turn as well.

Asks: that nobody starves, exclusion, stale writes, token order, liveness
Catches: priorities that never age, so that whoever is not urgent waits for ever
Checkers: starvation-freedom, bounded-bypass and those of exclusion and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.harness.core.operations import Terms
from holdfast.workloads.shape import Shape

ASKS = (
    "mutual-exclusion",
    "no-stale-write",
    "token-order",
    "deadlock-freedom",
    "orphan-freedom",
    "no-hung-request",
    "starvation-freedom",
    "bounded-bypass",
    "bounded-wait",
)
PATIENT_IN = 3
"""One client in so many is never urgent."""
URGENT = (5, 6, 7)


async def client(ctx: Context) -> None:
    """The urgent ones ask again at once; the patient ones wait as long as they may."""
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
