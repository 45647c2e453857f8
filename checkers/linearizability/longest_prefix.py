"""The longest prefix of a history that some order explains, and the first operation that fits none.

Claims: `longest_prefix` takes the responses in the order in which they came. It finds the largest
    number of them that one order of operations explains, such an order, and the operation whose
    response no order explains as well; None if one order explains all.
Assumes: as the search in `search.py`. An operation that is still open where the prefix ends may
    have taken effect as it was answered later, or not at all.
Blind to: anything after the prefix.
Cost: that of the search. Beyond the budget there is no prefix, which the caller says.

This is for a drawing, never for a verdict: the models judge by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from holdfast.checkers.linearizability.judgement import shown
from holdfast.checkers.linearizability.kv import Store
from holdfast.checkers.linearizability.registers import RegisterModel
from holdfast.checkers.linearizability.search import Specification
from holdfast.checkers.linearizability.specifications import (
    LeaseMutex,
    Mutex,
    OwnerMutex,
    ReadWrite,
    Reentrant,
    Semaphore,
)
from holdfast.harness.core.operations import Status
from holdfast.harness.foreign.operations import OPEN, ForeignOp, distinct

BUDGET = 200_000
"""Limit on configurations: a second or two of CPU."""
MOST_STATES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefix:
    """The longest explained prefix of the operations of one key.

    order      the operations that take effect, in one order that explains it
    states     the state after each, as text
    explained  number of responses explained, of `responses`
    stuck      the operation whose response is the first that no order explains
    could      states that were possible then, as text; at most MOST_STATES
    """

    order: tuple[ForeignOp, ...]
    states: tuple[str, ...]
    explained: int
    responses: int
    stuck: ForeignOp
    could: tuple[str, ...]


class OverBudget(Exception):
    """The search was given up."""


def specification(model: str, ops: Sequence[ForeignOp]) -> Specification | None:
    """The sequential object of a built-in model; None if it has none."""
    family, _, parameter = model.partition(":")
    if family == "semaphore" and parameter.isdecimal():
        return Semaphore(int(parameter))
    made = SPECIFICATIONS.get(model)
    return made(ops) if made else None


def _store(ops: Sequence[ForeignOp]) -> Specification:
    return Store([op.result for op in ops if op.f == "get" and isinstance(op.result, str)])


SPECIFICATIONS: dict[str, Callable[[Sequence[ForeignOp]], Specification]] = {
    "mutex": lambda _: Mutex(),
    "owner-mutex": lambda _: OwnerMutex(),
    "lease-mutex": lambda _: LeaseMutex(),
    "fenced": lambda _: OwnerMutex(tokens=True),
    "reentrant": lambda _: Reentrant(),
    "rw": lambda _: ReadWrite(),
    "register": lambda _: RegisterModel(("read", "write")),
    "cas-register": lambda _: RegisterModel(("read", "write", "cas")),
    "kv": _store,
}


@dataclass(frozen=True, slots=True)
class _Config:
    """A configuration: responses explained, open operations that took effect, state, and the last
    operation that took effect with the configuration before it."""

    at: int
    used: frozenset[int]
    state: Hashable
    last: int = -1
    before: _Config | None = None


def longest_prefix(
    ops: Sequence[ForeignOp], spec: Specification, budget: int = BUDGET
) -> Prefix | None:
    """The longest explained prefix of one key's operations. Raises OverBudget."""
    acts, commands = _acts(ops, spec)
    ends, open_at = _responses(acts)
    start = _Config(0, frozenset(), spec.initial)
    best, could = start, dict[Hashable, None]()
    seen = {(start.at, start.used, distinct(start.state))}
    frames: list[Iterator[_Config]] = [iter((start,))]
    while frames:
        config = next(frames[-1], None)
        if config is None:
            frames.pop()
            continue
        if config.at > best.at:
            best, could = config, {}
        if config.at == len(ends):
            return None
        if config.at == best.at:
            could.setdefault(config.state)
        if len(seen) > budget:
            raise OverBudget
        frames.append(iter(_after(config, commands, ends, open_at, spec, seen)))
    chain = list(_chain(best))
    return Prefix(
        order=tuple(acts[one.last] for one in chain),
        states=tuple(shown(one.state) for one in chain),
        explained=best.at,
        responses=len(ends),
        stuck=acts[ends[best.at]],
        could=tuple(sorted(map(shown, could))[:MOST_STATES]),
    )


def _acts(ops: Sequence[ForeignOp], spec: Specification) -> tuple[list[ForeignOp], list[Hashable]]:
    """The operations that constrain an order, and their commands."""
    acts, commands = [], []
    for op in ops:
        # A reentrant lock's owner is its process; other models take the attempt if there is one.
        op = replace(op, attempt=None) if isinstance(spec, Reentrant) else op
        command = spec.command(op) if op.status in (Status.OK, Status.INFO) else None
        if command is not None and not (op.end == OPEN and spec.reads(command)):
            acts.append(op)
            commands.append(command)
    return acts, commands


def _responses(acts: Sequence[ForeignOp]) -> tuple[list[int], list[tuple[int, ...]]]:
    """The operations in the order of their responses; and for each, which were open then, the one
    that ends first before the others."""
    edges = sorted(
        [(op.begin, 0, n) for n, op in enumerate(acts)]
        + [(op.end, 1, n) for n, op in enumerate(acts) if op.end != OPEN]
    )
    ends, open_at, pending = [], [], dict[int, int]()
    for _, is_end, n in edges:
        if not is_end:
            pending[n] = acts[n].end
            continue
        ends.append(n)
        open_at.append(tuple(sorted(pending, key=lambda m: (pending[m], m))))
        del pending[n]
    return ends, open_at


def _after(
    config: _Config,
    commands: Sequence[Hashable],
    ends: Sequence[int],
    open_at: Sequence[tuple[int, ...]],
    spec: Specification,
    seen: set[tuple[int, frozenset[int], Hashable]],
) -> list[_Config]:
    """Configurations one operation later, without those seen before."""
    configs = []
    for n in open_at[config.at]:
        if n in config.used:
            continue
        state = spec.step(config.state, commands[n])
        if state is None:
            continue
        at, used = config.at, config.used | {n}
        while at < len(ends) and ends[at] in used:
            used -= {ends[at]}
            at += 1
        key = (at, used, distinct(state))
        if key not in seen:
            seen.add(key)
            configs.append(_Config(at, used, state, n, config))
    return configs


def _chain(config: _Config) -> list[_Config]:
    """The configurations up to this one, without the first, which has no operation."""
    chain = []
    while config.before is not None:
        chain.append(config)
        config = config.before
    return chain[::-1]
