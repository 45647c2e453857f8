"""The general linearizability search: is there an order that a sequential object allows?

Claims: an exact verdict on any object with a small sequential specification; if VIOLATED, with the
    first completion that no order can explain.
Assumes: a failed operation had no effect; one of unknown outcome took effect at some time after its
    invocation, or never; keys do not influence each other.
Blind to: an object that returns specified values for wrong reasons.
Cost: one configuration per operation if the first choice is right; at worst exponential in the
    number of concurrent operations and those of unknown outcome. Configurations are cached, so that
    none is visited twice, and counted: beyond the budget, or beyond twenty operations tried per
    configuration of it, the verdict is UNKNOWN with how far it got.

After Wing and Gong's search, with the cached configurations of Lowe (2017): a configuration is the
next completion to explain, the concurrent operations that already took effect, and the state. Three
rules prune it, and none loses an order. A read that is right in the present state takes effect at
once. Of equal pending operations, the one that must end first takes effect first. A configuration
is skipped if one that used fewer of the operations of unknown outcome, and is otherwise equal, was
visited before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

from holdfast.checkers.linearizability.judgement import (
    BUDGET,
    EXPLAINED,
    Budget,
    ModelJudgement,
    by_key,
    joined,
    said,
    shown,
)
from holdfast.harness.core.operations import Status
from holdfast.harness.core.verdict import Finding, Verdict
from holdfast.harness.foreign.operations import OPEN, ForeignOp, distinct

STATES_SHOWN = 4
COMPARED = 16
TOLD = 1 << 14
"""Configurations between two reports on how far a search is."""
LOOKED = 20
"""Limit on the operations tried, times the budget: some configurations have very many."""


class Specification(Protocol):
    """A sequential object. States and commands are hashable; no state is None.

    initial     the state before the first operation
    command     arguments and return value of an operation, as `step` expects them; operations with
                equal commands are interchangeable; None if the operation constrains nothing
    step        the state after a command, or None if the object would not have returned so
    reads       whether a command never changes a state, whatever the state
    """

    @property
    def initial(self) -> Hashable: ...

    def command(self, op: ForeignOp) -> Hashable | None: ...

    def step(self, state: Hashable, command: Hashable) -> Hashable | None: ...

    def reads(self, command: Hashable) -> bool: ...


Rule = Callable[[Sequence[ForeignOp]], tuple[ModelJudgement, int] | None]
"""Decides the operations of one key without a search: the judgement, and how many responses an
order has to explain; None if it does not decide them."""


def linearizable(
    ops: Sequence[ForeignOp],
    spec: Specification,
    budget: Budget = BUDGET,
    rule: Rule = lambda _: None,
) -> ModelJudgement:
    """Judge a history key by key. The budget is for all keys together that `rule` leaves over."""
    parts, spent, explained = [], 0, 0
    for group in by_key(ops).values():
        decided = rule(group)
        if decided is not None:
            parts.append(decided[0])
            explained += decided[1]
            continue
        left = replace(budget, configurations=budget.configurations - spent)
        search = _Search(group, spec, left, spent)
        parts.append(search.judge())
        spent += search.visited
        explained += search.answers
    return joined(parts, ops, EXPLAINED, explained)


@dataclass(frozen=True, slots=True)
class _Pending:
    """An operation in the search. bit: its place in a configuration's set."""

    op: ForeignOp
    command: int
    read: bool
    bit: int


@dataclass(frozen=True, slots=True)
class _Step:
    """One completion: operations that must have taken effect by then, and those that may have.

    reads, acts   pending operations that end, the completing one among them, by that end
    unknown       how many operations of unknown outcome had begun by then
    """

    who: _Pending
    reads: tuple[_Pending, ...]
    acts: tuple[_Pending, ...]
    unknown: int


class _Search:
    def __init__(
        self, ops: Sequence[ForeignOp], spec: Specification, budget: Budget, before: int = 0
    ) -> None:
        """before: configurations that other keys took."""
        self._spec = spec
        self._budget = budget.configurations
        self._tell, self._before = budget.tell, before
        self._room = LOOKED * max(budget.configurations, BUDGET.configurations)
        self._commands: list[Hashable] = []
        self._states: list[Hashable] = []
        self._numbers: dict[Hashable, int] = {}
        self._after: dict[tuple[int, int], int] = {}
        self._low = 0
        self._unknown_acts: list[_Pending] = []
        self._unknown_of: dict[int, list[tuple[int, _Pending]]] = {}
        self._looked = 0
        self._crowded = False
        self._entered: set[tuple[int, int, int]] = set()
        self._least: dict[tuple[int, int, int], list[int]] = {}
        self._steps = self._plan(ops)
        self.visited = 0
        self._furthest = 0
        self._stuck: set[int] = set()

    def _plan(self, ops: Sequence[ForeignOp]) -> list[_Step]:
        """The completions in order, each with what is pending then.

        Bits of operations that end are reused after their end; they come below those of operations
        of unknown outcome, which stay. Writes a [0, 9], b [2, 4] and c of unknown outcome from 1
        on: the edges are a( c( b( b) a), so the first step is b's, with a and b pending and c
        known, the second a's. Bits 0 and 1 are a's and b's, c's is 2.
        """
        known: dict[Hashable, int] = {}
        named = []
        for op in ops:
            command = None
            if op.status in (Status.OK, Status.INFO):
                command = self._spec.command(op)
            if command is None or (op.end == OPEN and self._spec.reads(command)):
                continue
            number = known.setdefault(distinct(command), len(self._commands))
            if number == len(self._commands):
                self._commands.append(command)
            named.append((op, number, self._spec.reads(command)))
        edges = sorted(
            [(op.begin, 0, n) for n, (op, _, _) in enumerate(named)]
            + [(op.end, 1, n) for n, (op, _, _) in enumerate(named) if op.end != OPEN]
        )
        bits, self._low = _bits(edges, [op.end == OPEN for op, _, _ in named])
        items = [_Pending(*each, 1 << bit) for each, bit in zip(named, bits, strict=True)]
        steps, pending = [], dict[int, _Pending]()
        room = self._room
        for _, ends, n in edges:
            if not ends and items[n].op.end == OPEN:
                known_so_far = self._unknown_of.setdefault(items[n].command, [])
                known_so_far.append((len(self._unknown_acts), items[n]))
                self._unknown_acts.append(items[n])
                continue
            if not ends:
                pending[n] = items[n]
                continue
            room -= len(pending)
            if room < 0:
                self._crowded = True
                break
            order = sorted(pending.values(), key=lambda item: (item.op.end, item.op.begin))
            steps.append(
                _Step(
                    items[n],
                    tuple(item for item in order if item.read),
                    tuple(item for item in order if not item.read),
                    len(self._unknown_acts),
                )
            )
            del pending[n]
        return steps

    @property
    def answers(self) -> int:
        """Number of return values that an order has to explain."""
        return len(self._steps)

    def _number(self, state: Hashable) -> int:
        number = self._numbers.setdefault(distinct(state), len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def _next(self, state: int, command: int) -> int:
        """Number of the state after a command; -1 if it is not allowed."""
        key = (state, command)
        if key not in self._after:
            after = self._spec.step(self._states[state], self._commands[command])
            self._after[key] = -1 if after is None else self._number(after)
        return self._after[key]

    def judge(self) -> ModelJudgement:
        if self._crowded:
            return self._unknown(f"more than {self._room} pairs of concurrent operations")
        start = (0, 0, self._number(self._spec.initial))
        frames: list[Iterator[tuple[int, int, int]]] = [iter((start,))]
        while frames:
            config = next(frames[-1], None)
            if config is None:
                frames.pop()
                continue
            at, used, state = self._settled(*config)
            if at == len(self._steps):
                return self._holds()
            if self.visited >= self._budget or self._looked >= LOOKED * self._budget:
                return self._unknown()
            self.visited += 1
            if self._tell is not None and not self.visited % TOLD:
                self._tell(self._before + self.visited, self._furthest, len(self._steps))
            if self._known(at, used, state):
                continue
            self._reach(at, state)
            frames.append(self._choices(at, used, state))
        return self._violated()

    def _known(self, at: int, used: int, state: int) -> bool:
        """Whether this configuration, or one that allows all that it allows, was entered before.

        Only the first few of equal rank are compared: a search without backtracking used the fewest
        operations of unknown outcome.
        """
        if (at, used, state) in self._entered:
            return True
        self._entered.add((at, used, state))
        unknown = used >> self._low
        ranks = self._least.setdefault((at, used & ((1 << self._low) - 1), state), [])
        if any(unknown | fewer == unknown for fewer in ranks):
            return True
        if len(ranks) < COMPARED:
            ranks.append(unknown)
        return False

    def _settled(self, at: int, used: int, state: int) -> tuple[int, int, int]:
        """The same configuration after all steps that need no choice."""
        while at < len(self._steps):
            step = self._steps[at]
            for item in step.reads:
                if not used & item.bit and self._next(state, item.command) >= 0:
                    used |= item.bit
            if not used & step.who.bit:
                break
            used ^= step.who.bit
            at += 1
        return at, used, state

    def _choices(self, at: int, used: int, state: int) -> Iterator[tuple[int, int, int]]:
        """Configurations after one more operation, the one that must end next first."""
        tried = set()
        step = self._steps[at]
        self._looked += len(step.acts)
        for item in chain(step.acts, self._unused(step.unknown, used)):
            if used & item.bit or item.command in tried:
                continue
            tried.add(item.command)
            after = self._next(state, item.command)
            if after < 0 or (after == state and item.op.end == OPEN):
                continue
            yield at, used | item.bit, after

    def _unused(self, begun: int, used: int) -> Iterator[_Pending]:
        """The first operation of unknown outcome of each command that was not used yet.

        Those of one command are used in order of invocation, so that binary search finds the first.
        """
        for items in self._unknown_of.values():
            self._looked += 1
            at = bisect_left(items, True, key=lambda item: not used & item[1].bit)
            if at < len(items) and items[at][0] < begun:
                yield items[at][1]

    def _reach(self, at: int, state: int) -> None:
        if at > self._furthest:
            self._furthest = at
            self._stuck.clear()
        if at == self._furthest:
            self._stuck.add(state)

    def _holds(self) -> ModelJudgement:
        return ModelJudgement(
            verdict=Verdict.HOLDS, reason="", exercised={"configurations": self.visited}
        )

    def _unknown(self, why: str = "") -> ModelJudgement:
        if not why:
            stuck = self._steps[self._furthest].who.op
            why = (
                f"stopped after {self.visited} configurations: {self._furthest} of"
                f" {len(self._steps)} responses are explained, the next is {said(stuck)}"
            )
        return ModelJudgement(
            verdict=Verdict.UNKNOWN,
            reason=why,
            exercised={"configurations": self.visited},
        )

    def _violated(self) -> ModelJudgement:
        step = self._steps[self._furthest]
        op = step.who.op
        states = sorted(shown(self._states[state]) for state in self._stuck)
        more = len(states) - STATES_SHOWN
        could = " or ".join(states[:STATES_SHOWN]) + (f" or {more} more" if more > 0 else "")
        others = [item.op for item in (*step.reads, *step.acts) if item is not step.who]
        others += [item.op for item in self._unknown_acts[: step.unknown]]
        beside = sorted(others, key=lambda other: other.begin)[-5:]
        sentence = (
            f"{said(op)} fits no order of the earlier responses:"
            f" by then the state could only be {could}"
        )
        if beside:
            sentence += f", with {len(others)} concurrent, the last {said(beside[-1])}"
        finding = Finding(
            kind="not-linearizable",
            sentence=sentence,
            witnesses=(op.place, *(other.place for other in beside)),
            lock="" if op.key is None else str(op.key),
            t_ns=op.end,
        )
        return ModelJudgement(
            verdict=Verdict.VIOLATED,
            reason=sentence,
            exercised={"configurations": self.visited},
            findings=(finding,),
        )


def _bits(edges: Sequence[tuple[int, int, int]], unknown: Sequence[bool]) -> tuple[list[int], int]:
    """A bit for each operation, and the number of bits for those that end."""
    bits, free, low = [-1] * len(unknown), list[int](), 0
    for _, ends, n in edges:
        if ends:
            free.append(bits[n])
        elif not unknown[n]:
            if not free:
                free.append(low)
                low += 1
            bits[n] = free.pop()
    high = low
    for n, stays in enumerate(unknown):
        if stays:
            bits[n] = high
            high += 1
    return bits, low
