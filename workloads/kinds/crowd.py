"""Many identical clients compete for one lock (thundering herd), each with short holds.

Asks: starvation, overtaking beyond the queue's order, exclusion, liveness
Catches: queues that are not served from their head, waits that grow without bound
Checkers: starvation-freedom, bounded-bypass and those of exclusion and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.kinds.priority_flood import ASKS as FLOOD_ASKS
from holdfast.workloads.shape import Shape

ASKS = FLOOD_ASKS


async def client(ctx: Context) -> None:
    """One write per hold; then the client requests the lock again."""
    shape = Shape.of(ctx.options)
    while ctx.running:
        grant = await ctx.acquire(ctx.locks[0], wait_ns=shape.wait_ns)
        if grant is not None:
            await ctx.write(grant)
            await ctx.release(grant)
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))
