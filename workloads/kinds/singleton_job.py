"""A job that one of many shall do, once: the nightly report, one after the other.

Whoever gets the lock looks for the first job that is not done, does it and gives the lock back.
What tells that a job is done is its effect (mark=0), so that effect and knowledge cannot part. By
a mark of its own it is done at least once where the mark is set after the effect (mark=1), for the
owner may die between the two, and at most once where it is set before (mark=2).

Asks: that each job is done once, exclusion, stale writes, token order, liveness
Catches: jobs that are done by two owners, or by nobody though they are taken for done
Checkers: exactly-once-job and those of exclusion, fencing and liveness
"""

from __future__ import annotations

from holdfast.harness.client.context import Context
from holdfast.harness.core.job_keys import job_key, mark_key
from holdfast.harness.core.operations import ONCE, Grant
from holdfast.workloads.shape import Shape

ASKS = (
    "exactly-once-job",
    "mutual-exclusion",
    "no-stale-write",
    "token-order",
    "deadlock-freedom",
    "orphan-freedom",
    "no-hung-request",
)
WITH_THE_EFFECT, AFTER_IT, BEFORE_IT = 0, 1, 2
"""When a job is marked as done (`--set mark=1`)."""


async def client(ctx: Context) -> None:
    """Nobody remembers that it did a job: a new owner looks, and finds what is done."""
    shape = Shape.of(ctx.options)
    first: dict[str, int] = {}
    while ctx.running:
        lock = ctx.rng.choice(ctx.locks)
        grant = await ctx.acquire(lock, wait_ns=shape.wait_ns)
        if grant is not None:
            await ctx.renew(grant)
            number = await _first_open(ctx, shape, grant, first.get(lock, 0))
            if number >= 0:
                first[lock] = number
                await _do(ctx, shape, grant, number)
            await ctx.release(grant)
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.think_ns))


async def _do(ctx: Context, shape: Shape, grant: Grant, number: int) -> None:
    """The job takes its time, never twice the same; then its effect is there, all at once."""
    effect, mark = job_key(grant.lock, number), mark_key(grant.lock, number)
    if shape.mark == BEFORE_IT and await ctx.write(grant, base=0, key=mark) < 0:
        return
    await ctx.sleep(ctx.rng.randrange(1, 2 * shape.writes * shape.gap_ns))
    done = await ctx.write(grant, base=0, key=effect, repeats=ONCE) >= 0
    if done and shape.mark == AFTER_IT:
        await ctx.sleep(ctx.rng.randrange(1, 2 * shape.gap_ns))
        await ctx.write(grant, base=0, key=mark)


async def _first_open(ctx: Context, shape: Shape, grant: Grant, known: int) -> int:
    """The first job that is not done; -1 where the resource does not say.

    All before `known` are done. Jobs are done in turn, so it is found by doubling and halving.
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
