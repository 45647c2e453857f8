"""Acquires that are due at fixed times, whether or not the service keeps up.

With `--rate N` all clients together ask N times a second. Who falls behind asks as soon as it can
and records how late it was: a slow answer delays the next question, and a latency that counts from
the question alone would not show it. Without a rate each client asks again at once.

Asks: exclusion, token order, orphans, stale writes, liveness
Catches: what shows only under load, and at which load it does
Checkers: exclusion, fencing and liveness; HOLDS only if nine tenths of what was due was asked
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.harness.core.clock import SECOND
from holdfast.workloads.shape import Shape

ASKS = (
    "mutual-exclusion",
    "no-stale-write",
    "token-order",
    "deadlock-freedom",
    "orphan-freedom",
    "no-hung-request",
)


async def client(ctx: Context) -> None:
    """Takes a lock when it is due, writes once if it got it, gives it back."""
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
