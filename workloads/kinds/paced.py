"""Acquires at fixed times (open loop), whether or not the service keeps up.

With `--rate N` all clients together send N acquires per second. A client that falls behind sends as
soon as it can and records its delay: a slow response delays the next request, and a latency
measured from the request alone would hide that (coordinated omission). Without a rate each client
sends the next acquire immediately.

Asks: exclusion, token order, orphans, stale writes, liveness
Catches: violations that need load, and the load that they need
Checkers: exclusion, fencing and liveness; HOLDS only if at least 90% of the planned acquires were
    sent
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.harness.core.clock import SECOND
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import EXCLUSION, LIVENESS

ASKS = (*EXCLUSION, *LIVENESS)


async def client(ctx: Context) -> None:
    """Acquires a lock at the planned time; if granted, writes once and releases it."""
    rate = Shape.of(ctx.options).rate
    every_ns = SECOND * int(ctx.options["clients"]) // rate if rate else 0
    due_ns = ctx.now_ns() + ctx.rng.randrange(every_ns) if rate else 0
    while ctx.running:
        if rate:
            due_ns += every_ns
            await ctx.sleep(max(0, due_ns - ctx.now_ns()))
            if not ctx.running:
                return
        grant = await ctx.try_acquire(ctx.rng.choice(ctx.locks), due_ns=due_ns)
        if grant is not None:
            await ctx.write(grant)
            await ctx.release(grant)
