"""Queries: the holder of a lock, queue length and own position, and conditional acquires.

A conditional acquire is granted only if there was no hold since a given version. With
`--set metadata=1` each hold carries a text that names its attempt, and queries return it.

Asks: that query results are correct and waiters are notified of grants; exclusion, tokens, liveness
Catches: outdated holders, metadata of other holds, positions counted from the wrong end, wrong
    queue lengths, conditions that are not checked
Checkers: truthful-queries, grant-notice and those of exclusion and liveness
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from holdfast.harness.client.context import Context
from holdfast.harness.core.operations import Grant, Terms
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import FAIRNESS, LIVENESS, end, silence

ASKS = ("truthful-queries", "grant-notice", "mutual-exclusion", "token-order", *LIVENESS, *FAIRNESS)


async def client(ctx: Context) -> None:
    """Half of the acquires are conditional, if the lock can: the last known grant is still the
    newest. What the lock does not report is not asked."""
    shape = Shape.of(ctx.options)
    newest: dict[str, int] = {}
    plain = Terms(metadata="whose it is") if shape.metadata else Terms()
    while ctx.running:
        lock = ctx.rng.choice(ctx.locks)
        known = lock in newest and ctx.rng.random() < 0.5 and ctx.conditional
        terms = replace(plain, newest=newest[lock]) if known else plain
        grant = await _wait(ctx, shape, lock, terms)
        if grant is not None:
            newest[lock] = grant.token
            await silence(ctx, shape, grant)
            for _ in range(shape.writes):
                await ctx.sleep(shape.gap_ns)
                await ctx.renew(grant)
                await ctx.holder(lock)
            await ctx.length(lock)
            await end(ctx, shape, grant)
        seen = await ctx.holder(lock)
        if seen is not None and seen >= 0:
            newest[lock] = seen
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))


async def _wait(ctx: Context, shape: Shape, lock: str, terms: Terms) -> Grant | None:
    """Acquires, and queries its queue position meanwhile."""
    asking = asyncio.ensure_future(ctx.acquire(lock, wait_ns=shape.wait_ns, terms=terms))
    await ctx.sleep(shape.gap_ns)
    while not asking.done():
        await ctx.place(lock)
        await ctx.sleep(shape.gap_ns)
    return await asking
