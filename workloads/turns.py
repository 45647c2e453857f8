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


async def silence(ctx: Context, shape: Shape, grant: Grant) -> None:
    """A lazy owner is silent before it uses the lock: one that is stopped meanwhile has not used it
    yet when it goes on. It renews first: it knows of a lease since its request only, and may have
    waited for long."""
    if shape.lazy(ctx.rng):
        await ctx.renew(grant)
        await ctx.sleep(shape.silence_ns(ctx.rng, ctx.lease_ns, late=False))


async def end(ctx: Context, shape: Shape, grant: Grant) -> None:
    """Ends a hold: a share of the owners exits with the lock."""
    if shape.dies(ctx.rng):
        ctx.die()
    await ctx.release(grant)


async def turns(
    ctx: Context, shape: Shape, terms: Terms = PLAIN, *, silent: bool = False
) -> AsyncIterator[Grant]:
    """Grants of random locks until the run ends. Each is ended after its turn, and after each
    acquire the client pauses, and before the first one where all begin together. silent: what is
    done in a turn includes the silence of lazy owners.
    """
    if shape.together_ns:
        await ctx.sleep(shape.rest_ns(ctx.rng, ctx.now_ns(), 2))
    while ctx.running:
        grant = await ctx.acquire(ctx.rng.choice(ctx.locks), wait_ns=shape.wait_ns, terms=terms)
        if grant is not None:
            if not silent:
                await silence(ctx, shape, grant)
            yield grant
            await end(ctx, shape, grant)
        await ctx.sleep(shape.rest_ns(ctx.rng, ctx.now_ns(), 2 * shape.think_ns))
