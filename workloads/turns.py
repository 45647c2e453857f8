"""Turns of a client: a hold after another, and the properties for which workloads ask alike."""

from __future__ import annotations

from collections.abc import AsyncIterator

from holdfast.harness.client.context import Context
from holdfast.harness.core.operations import PLAIN, Grant, Terms
from holdfast.workloads.shape import Shape

EXCLUSION = ("mutual-exclusion", "no-stale-write", "token-order")
OWNERSHIP = ("ownership", "loss-notice")
LIVENESS = ("deadlock-freedom", "orphan-freedom", "no-hung-request")
FAIRNESS = ("starvation-freedom", "bounded-bypass", "bounded-wait")


async def turns(ctx: Context, shape: Shape, terms: Terms = PLAIN) -> AsyncIterator[Grant]:
    """Grants of random locks until the run ends. Each is released after its turn, and after each
    acquire the client pauses, and before the first one where all begin together."""
    if shape.together_ns:
        await ctx.sleep(shape.rest_ns(ctx.rng, ctx.now_ns(), 2))
    while ctx.running:
        grant = await ctx.acquire(ctx.rng.choice(ctx.locks), wait_ns=shape.wait_ns, terms=terms)
        if grant is not None:
            yield grant
            await ctx.release(grant)
        await ctx.sleep(shape.rest_ns(ctx.rng, ctx.now_ns(), 2 * shape.think_ns))
