"""A read-write lock: readers share it and read, a writer holds it exclusively and writes.

Asks: exclusion by mode, starvation of writers, stale and expired writes, token order, ownership
Catches: a writer beside readers, writers starved by readers, stale writes after a read
Checkers: all except lost updates
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.harness.core.operations import PLAIN, Mode, Terms
from holdfast.workloads.kinds.critical_section import ASKS as CRITICAL_SECTION_ASKS
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import FAIRNESS, turns

ASKS = (*CRITICAL_SECTION_ASKS, *FAIRNESS)
READER = Terms(mode=Mode.SHARED)
WRITER_IN = 3
"""One in this number of clients writes; if all wrote sometimes, all would soon wait for writes."""


async def client(ctx: Context) -> None:
    """A client is either a reader or a writer."""
    shape = Shape.of(ctx.options)
    writes = ctx.process % WRITER_IN == 0
    terms = PLAIN if writes else READER
    async for grant in turns(ctx, shape, terms):
        await ctx.renew(grant)
        for _ in range(shape.writes):
            await ctx.sleep(shape.gap_ns)
            await (ctx.write(grant) if writes else ctx.read(grant))
