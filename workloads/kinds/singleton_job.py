"""A singleton job: several clients, of which one does each job, once, such as a nightly report.

The holder looks for the first job that is not done, does it and releases the lock. With mark=0 the
effect itself shows that a job is done, so effect and mark cannot differ. With a separate mark a job
is done at least once if the mark is set after the effect (mark=1), because the owner may die in
between, and at most once if it is set before (mark=2).

Asks: that each job is done once; exclusion, stale writes, token order, liveness
Catches: jobs that are done by two owners, or marked as done but never done
Checkers: exactly-once-job and those of exclusion, fencing and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.harness.core.job_keys import job_key, mark_key
from holdfast.harness.core.operations import ONCE, Grant
from holdfast.workloads.shape import Shape
from holdfast.workloads.turns import EXCLUSION, LIVENESS, end, silence

ASKS = ("exactly-once-job", *EXCLUSION, *LIVENESS)
WITH_THE_EFFECT, AFTER_IT, BEFORE_IT = 0, 1, 2
"""When a job is marked as done (`--set mark=1`)."""


async def client(ctx: Context) -> None:
    """Clients keep no state about jobs: a new owner looks up which are done."""
    shape = Shape.of(ctx.options)
    first: dict[str, int] = {}
    while ctx.running:
        lock = ctx.rng.choice(ctx.locks)
        grant = await ctx.acquire(lock, wait_ns=shape.wait_ns)
        if grant is not None:
            await silence(ctx, shape, grant)
            await ctx.renew(grant)
            number = await _first_open(ctx, shape, grant, first.get(lock, 0))
            if number >= 0:
                first[lock] = number
                await _do(ctx, shape, grant, number)
            await end(ctx, shape, grant)
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))


async def _do(ctx: Context, shape: Shape, grant: Grant, number: int) -> None:
    """The job takes a random time; then it takes effect atomically."""
    effect, mark = job_key(grant.lock, number), mark_key(grant.lock, number)
    if shape.mark == BEFORE_IT and await ctx.write(grant, base=0, key=mark) < 0:
        return
    await ctx.sleep(ctx.rng.randrange(1, 2 * shape.writes * shape.gap_ns))
    done = await ctx.write(grant, base=0, key=effect, repeats=ONCE) >= 0
    if done and shape.mark == AFTER_IT:
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.gap_ns))
        await ctx.write(grant, base=0, key=mark)


async def _first_open(ctx: Context, shape: Shape, grant: Grant, known: int) -> int:
    """The first job that is not done; -1 without a response from the resource.

    All before `known` are done. Jobs are done in order: exponential and binary search.
    """
    name = job_key if shape.mark == WITH_THE_EFFECT else mark_key
    low, step = known, 1
    while (version := await ctx.read(grant, key=name(grant.lock, low + step - 1))) > 0:
        low, step = low + step, 2 * step
    high = low + step - 1
    while version >= 0 and low < high:
        middle = (low + high) // 2
        version = await ctx.read(grant, key=name(grant.lock, middle))
        low, high = (middle + 1, high) if version > 0 else (low, middle)
    return -1 if version < 0 else low
