"""Every order of a small history, tried one by one: slow, plain, and written for this alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from holdfast.harness.core.operations import Status
from holdfast.harness.foreign.operations import ForeignOp

Step = Callable[[Hashable, ForeignOp], Hashable | None]


def explained(ops: Sequence[ForeignOp], initial: Hashable, step: Step) -> bool:
    """Whether some order explains every answer; unknown operations may be left out."""
    acts = [op for op in ops if op.status in (Status.OK, Status.INFO)]
    return _place(frozenset(range(len(acts))), initial, acts, step)


def _place(left: frozenset[int], state: Hashable, acts: Sequence[ForeignOp], step: Step) -> bool:
    sure = [n for n in left if acts[n].status is Status.OK]
    if not sure:
        return True
    for n in left:
        if any(acts[m].end < acts[n].begin for m in sure):
            continue
        after = step(state, acts[n])
        if after is not None and _place(left - {n}, after, acts, step):
            return True
    return False


def who(op: ForeignOp) -> str:
    return f"a{op.attempt}" if op.attempt is not None else f"p{op.process}"


def mutex(state: Hashable, op: ForeignOp) -> Hashable | None:
    if op.f == "acquire":
        return 1 if state == 0 else None
    return 0 if state == 1 else None


def owner_mutex(state: Hashable, op: ForeignOp) -> Hashable | None:
    if op.f == "acquire":
        return who(op) if state == "" else None
    return "" if state == who(op) else None


def fenced(state: Hashable, op: ForeignOp) -> Hashable | None:
    assert isinstance(state, tuple)
    held, last = state
    if op.f == "release":
        return ("", last) if held == who(op) else None
    if held or (op.status is Status.OK and op.token <= last):
        return None
    return (who(op), op.token if op.status is Status.OK else last)


def lease_mutex(state: Hashable, op: ForeignOp) -> Hashable | None:
    if op.f == "acquire":
        return who(op)
    return "" if state == who(op) else None


def reentrant(state: Hashable, op: ForeignOp) -> Hashable | None:
    assert isinstance(state, tuple)
    held = list(state)
    if op.f == "acquire":
        return (*held, op.process) if not held or held[0] == op.process else None
    return tuple(held[1:]) if held and held[0] == op.process else None


def semaphore(limit: int) -> Step:
    def step(state: Hashable, op: ForeignOp) -> Hashable | None:
        assert isinstance(state, tuple)
        if op.f == "acquire":
            return (*state, who(op)) if len(state) < limit else None
        if who(op) not in state:
            return None
        at = state.index(who(op))
        return (*state[:at], *state[at + 1 :])

    return step


def read_write(state: Hashable, op: ForeignOp) -> Hashable | None:
    """State: who, process and mode of each hold. A process may acquire shared beside its own."""
    assert isinstance(state, tuple)
    if op.f == "release":
        mine = [hold for hold in state if hold[0] == who(op)]
        mine = [hold for hold in mine if hold[2] == op.shared] or mine
        if not mine:
            return None
        at = len(state) - 1 - state[::-1].index(mine[-1])
        return (*state[:at], *state[at + 1 :])
    others = [shared for _, process, shared in state if process != op.process]
    alone = all(others) if op.shared else not state
    return (*state, (who(op), op.process, op.shared)) if alone else None


def read_write_reentrant(state: Hashable, op: ForeignOp) -> Hashable | None:
    """The same, but a process may acquire exclusive beside its own holds too."""
    assert isinstance(state, tuple)
    if op.f == "release" or op.shared:
        return read_write(state, op)
    alone = all(process == op.process for _, process, _ in state)
    return (*state, (who(op), op.process, op.shared)) if alone else None


def register(state: Hashable, op: ForeignOp) -> Hashable | None:
    """State: the value as text, for None means that the object refuses."""
    if op.f == "write":
        return repr(op.value)
    if op.f == "read":
        unknown = op.status is Status.INFO
        return state if unknown or state == repr(op.result) else None
    assert isinstance(op.value, tuple)
    old, new = op.value
    if op.status is Status.OK and op.result is False:
        return state if state != repr(old) else None
    return repr(new) if state == repr(old) else None


def store(state: Hashable, op: ForeignOp) -> Hashable | None:
    assert isinstance(state, str)
    if op.f == "get":
        return state if op.status is Status.INFO or (op.result or "") == state else None
    assert isinstance(op.value, str)
    return op.value if op.f == "put" else state + op.value
