"""Read-write locks: readers share, a writer is exclusive, and a writer may become a reader.

Claims: HOLDS iff the operations can be put in an order in which no writer holds beside another.
Assumes: a failed operation had no effect; `mode` of an acquire is shared or exclusive (none:
    exclusive). A process that holds may acquire shared, and release in any order: a downgrade, if
    it holds exclusive. It does not acquire exclusive (an upgrade, or a reentry): a history in which
    it does is refused with that operation. Without attempts a release frees the last hold of its
    mode.
Blind to: fairness between readers and writers.
Cost: O(n log n); a search if a process continues after an operation of unknown outcome.

A downgrade in the exact rule: while its process holds exclusive, its shared hold adds nothing to
what others must not do. So the shared hold counts from the release of the exclusive one on, and not
at all if it ended before that.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from holdfast.checkers.linearizability.exact.pairing import FS, paired
from holdfast.checkers.linearizability.exact.rules import Rule
from holdfast.checkers.linearizability.judgement import BUDGET, Budget, ModelJudgement, said
from holdfast.checkers.linearizability.locks import exactly
from holdfast.checkers.linearizability.search import linearizable
from holdfast.checkers.linearizability.specifications import ReadWrite
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Status
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.foreign.operations import ForeignOp, distinct

HOLDS = "no writer held beside another"
ONLY = "in --model rw a process that holds may acquire shared, but not exclusive"


def read_write(ops: Sequence[ForeignOp], budget: Budget = BUDGET) -> ModelJudgement:
    """Judge a read-write lock. UsageError for an upgrade or a reentry."""
    plain = paired(ops)
    if plain.reused:
        return _searched(ops, budget)
    walk = _walk(ops)
    if walk.nested and any(_momentary(ops, hold) for hold in walk.holds):
        return _searched(ops, budget)
    if walk.doubtful or (plain.strange and not walk.beside):
        return _searched(ops, budget)
    return _exactly(ops, walk) if walk.beside else exactly(plain, ops, Rule(readers=True), HOLDS)


@dataclass(slots=True)
class _Hold:
    """A hold of a process. number, ended: its acquire and release in the history, -1: none."""

    number: int
    acquire: ForeignOp
    ended: int = -1


@dataclass(slots=True)
class _Walk:
    """The holds of all processes, in the order of their calls.

    nested     (exclusive, shared) hold of each downgrade
    beside     whether a process acquired while it held
    doubtful   whether one of these acquires has an unknown outcome and yet certainly took effect
    """

    holds: list[_Hold]
    nested: list[tuple[_Hold, _Hold]]
    beside: bool = False
    doubtful: bool = False


def _walk(ops: Sequence[ForeignOp]) -> _Walk:
    """UsageError if a process certainly acquires in a way that this model does not have."""
    walk, held = _Walk([], []), dict[Hashable, list[_Hold]]()
    counts = _counted_releases(ops)
    named = dict[Hashable, tuple[_Hold, list[_Hold]]]()
    for number, op in enumerate(ops):
        if op.f not in FS or op.status not in (Status.OK, Status.INFO):
            continue
        key, attempt = distinct(op.key), (distinct(op.key), op.attempt)
        mine = held.setdefault((op.process, key), [])
        if op.f == "acquire":
            proved = op.attempt is not None and counts.get(attempt, (Status.INFO, -1))[0]
            if op.status is Status.INFO and proved is not Status.OK:
                continue  # It may never have taken effect, so it is left out.
            hold = _Hold(number, op)
            _beside(walk, mine, hold)
            walk.holds.append(hold)
            mine.append(hold)
            named[attempt] = hold, mine
        elif op.attempt is not None:
            if attempt in named and counts[attempt][1] == number:
                _end(*named[attempt], number)
        elif (freed := _freed(mine, op)) is not None:
            _end(freed, mine, number)
    return walk


def _counted_releases(ops: Sequence[ForeignOp]) -> dict[Hashable, tuple[Status, int]]:
    """The release of each named attempt that ends its hold: the first ok one, else the first."""
    releases: dict[Hashable, tuple[Status, int]] = {}
    for number, op in enumerate(ops):
        if op.f != "release" or op.attempt is None or op.status not in (Status.OK, Status.INFO):
            continue
        attempt = (distinct(op.key), op.attempt)
        before = releases.get(attempt)
        if before is None or (op.status is Status.OK and before[0] is not Status.OK):
            releases[attempt] = op.status, number
    return releases


def _end(hold: _Hold, mine: list[_Hold], number: int) -> None:
    hold.ended = number
    mine.remove(hold)


def _beside(walk: _Walk, mine: Sequence[_Hold], hold: _Hold) -> None:
    """Notes an acquire beside holds of its process. UsageError unless it is shared."""
    if not mine:
        return
    walk.beside = True
    if any(one.acquire.status is Status.INFO for one in (hold, *mine)):
        walk.doubtful = True
        return
    if not hold.acquire.shared:
        what = "an upgrade" if mine[-1].acquire.shared else "a reentry"
        raise UsageError(
            f"{hold.acquire.where}: {said(hold.acquire)} is {what}: its process holds by"
            f" {said(mine[-1].acquire)}; {ONLY}"
        )
    walk.nested += [(one, hold) for one in mine if not one.acquire.shared]


def _freed(mine: Sequence[_Hold], op: ForeignOp) -> _Hold | None:
    """The hold that a release without an attempt frees: the last of its mode, else the last."""
    of_mode = [hold for hold in mine if hold.acquire.shared == op.shared]
    left = of_mode or list(mine)
    return left[-1] if left else None


def _momentary(ops: Sequence[ForeignOp], hold: _Hold) -> bool:
    """Whether a hold is only known to have lasted for a moment, somewhere in a time.

    At the release of a downgrade the exclusive hold ends where the shared one begins, and in the
    exact rule such a moment would fit between the two.
    """
    released = hold.ended >= 0 and ops[hold.ended].begin < hold.acquire.end
    return released or hold.acquire.status is Status.INFO


def _exactly(ops: Sequence[ForeignOp], walk: _Walk) -> ModelJudgement:
    """Each hold with an attempt of its own, and the shared one of a downgrade shortened."""
    made = dict(enumerate(ops))
    for name, hold in enumerate(walk.holds):
        for number in (hold.number, hold.ended):
            if number >= 0 and ops[number].attempt is None:
                made[number] = replace(made[number], attempt=f"hold {name}")
    for exclusive, shared in walk.nested:
        if exclusive.ended < 0 or 0 <= shared.ended < exclusive.ended:
            made.pop(shared.number)
            made.pop(shared.ended, None)
        else:
            freed = ops[exclusive.ended].begin
            made[shared.number] = replace(made[shared.number], end=freed)
    return exactly(paired(list(made.values())), ops, Rule(readers=True), HOLDS)


def _searched(ops: Sequence[ForeignOp], budget: Budget) -> ModelJudgement:
    """By search. UsageError if only upgrades or reentries explain the history."""
    judged = linearizable(ops, ReadWrite(), budget)
    if judged.verdict is not Verdict.VIOLATED:
        return judged
    if linearizable(ops, ReadWrite(reentry=True), budget).verdict is Verdict.VIOLATED:
        return judged
    raise UsageError(f"only an upgrade or a reentry explains that {judged.reason}; {ONLY}")
