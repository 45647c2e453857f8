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


async def end(ctx: Context, shape: Shape, grant: Grant, *, silent: bool = False) -> None:
    """Ends a hold: a lazy owner is silent first, and a share of the owners exits with the lock.

    silent   it was already
    """
    if not silent and shape.lazy(ctx.rng):
        await ctx.sleep(shape.silence_ns(ctx.rng, ctx.lease_ns, late=False))
    if shape.dies(ctx.rng):
        ctx.die()
    await ctx.release(grant)


async def turns(
    ctx: Context, shape: Shape, terms: Terms = PLAIN, *, silent: bool = False
) -> AsyncIterator[Grant]:
    """Grants of random locks until the run ends. Each is ended after its turn, and after each
    acquire the client pauses. silent: what is done in a turn includes the silence of lazy owners.
    """
    while ctx.running:
        grant = await ctx.acquire(ctx.rng.choice(ctx.locks), wait_ns=shape.wait_ns, terms=terms)
        if grant is not None:
            yield grant
            await end(ctx, shape, grant, silent=silent)
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))
