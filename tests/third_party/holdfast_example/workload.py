"""A workload in which the previous holder is awake when the lock becomes free."""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.workloads.shape import Shape


class Greedy:
    """Requests the lock again immediately after each release."""

    ASKS = ("mutual-exclusion", "token-order", "no-hung-request")

    @staticmethod
    async def client(ctx: Context) -> None:
        """Acquire, renew, write, release; then acquire again without a delay."""
        shape = Shape.of(ctx.options)
        while ctx.running:
            grant = await ctx.acquire(ctx.locks[0], wait_ns=shape.wait_ns)
            if grant is None:
                await ctx.sleep(shape.think_ns)
                continue
            await ctx.renew(grant)
            await ctx.sleep(shape.gap_ns)
            await ctx.write(grant)
            await ctx.release(grant)
