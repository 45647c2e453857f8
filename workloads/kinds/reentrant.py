"""A reentrant lock: its holder may acquire it again, and the last release frees it.

With `--set late_entry=1` an owner pauses before it enters again, about as long as its lease lasts.

Asks: exclusion, stale and expired writes, token order, ownership, loss notification, liveness, and
    whether a release reports correctly that the lock is fully released
Catches: an inner release that frees the lock or reports that, an owner that waits for itself
Checkers: all except lost updates
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.harness.core.operations import Grant, Terms
from holdfast.workloads.kinds.critical_section import ASKS as CRITICAL_SECTION_ASKS
from holdfast.workloads.shape import Shape

ASKS = (*CRITICAL_SECTION_ASKS, "truthful-queries")
AGAIN = Terms(reenter=True)
DEEPEST = 3


async def client(ctx: Context) -> None:
    """Acquires up to 3 times and writes at every depth, after each acquire and each release."""
    shape = Shape.of(ctx.options)
    while ctx.running:
        await _enter(ctx, shape, ctx.rng.choice(ctx.locks), ctx.rng.randint(1, DEEPEST))
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))


async def _enter(ctx: Context, shape: Shape, lock: str, deeper: int) -> None:
    """Each entry is a separate attempt with its own lease."""
    grant = await ctx.acquire(lock, wait_ns=shape.wait_ns, terms=AGAIN)
    if grant is None:
        return
    await ctx.renew(grant)
    await _write(ctx, shape, grant)
    if shape.late_entry and deeper > 1:
        # The service may end the lease late, or a new leader may have restarted it: then its owner
        # is let in again after the time that it was promised.
        await ctx.sleep(ctx.rng.randrange(ctx.lease_ns * 3 // 4, ctx.lease_ns * 3 // 2))
    if deeper > 1 and ctx.running:
        await _enter(ctx, shape, lock, deeper - 1)
        await _write(ctx, shape, grant)
    await ctx.release_reentrant(grant)


async def _write(ctx: Context, shape: Shape, grant: Grant) -> None:
    await ctx.sleep(shape.gap_ns)
    await ctx.write(grant)
