"""The probe: a new client that acquires every lock once, after the heal and the last client."""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Op
from holdfast.harness.core.waiting import until
from holdfast.harness.recording.phase import PROBE


async def client(ctx: Context) -> None:
    """Waits for the probe phase, then for each lock at most the time in the run's options."""
    await until(lambda: ctx.reached(PROBE), within_ns=int(ctx.options["over_ns"]), now=ctx.now_ns)
    for lock in ctx.locks:
        wait_ns = int(ctx.options.get("probe_ns", 10 * SECOND))
        grant = await ctx.acquire(lock, wait_ns=wait_ns, op=Op.PROBE)
        if grant is not None:
            await ctx.release(grant)
