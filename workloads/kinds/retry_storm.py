"""A retry storm: most clients do not queue but retry at once, and a few wait in the queue.

`--set backoff_ms=20` is the longest pause after a rejection (default: 0); with it the storm abates.

Asks: that rejections have a reason, that grants continue and queued requests are granted
Catches: grants that stop under retries, rejections of a free lock, waiters overtaken by tries
Checkers: no-false-rejection, starvation-freedom (livelock) and those of exclusion and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import EXCLUSION, LIVENESS

ASKS = ("no-false-rejection", "starvation-freedom", *EXCLUSION, *LIVENESS)
PATIENT_IN = 4
"""One in this number of clients queues."""


async def client(ctx: Context) -> None:
    """Tries until the lock is granted, works, releases it, pauses, and begins again."""
    shape = Shape.of(ctx.options)
    patient = ctx.process % PATIENT_IN == 0
    while ctx.running:
        lock = ctx.rng.choice(ctx.locks)
        if patient:
            grant = await ctx.acquire(lock, wait_ns=shape.wait_ns)
        else:
            grant = await ctx.try_acquire(lock)
        if grant is None:
            await ctx.sleep(ctx.rng.randrange(shape.backoff_ns) if shape.backoff_ns else 0)
            continue
        await ctx.renew(grant)
        for _ in range(shape.writes):
            await ctx.sleep(shape.gap_ns)
            await ctx.write(grant)
        await ctx.release(grant)
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))
