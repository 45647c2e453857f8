"""Locks as sequential objects, for histories whose unknown outcomes need a search."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from holdfast.checkers.linearizability.exact.pairing import token_of
from holdfast.harness.core.operations import NO_TOKEN
from holdfast.harness.foreign.operations import ForeignOp


def judged(op: ForeignOp, command: Hashable) -> Hashable | None:
    """The command of an operation, or None for a renewal, which no model of a lock specifies."""
    return None if op.f == "renew" else command


class Mutex:
    """A lock without owners: any client may release it. State: "held" or "free"."""

    initial: Hashable = "free"

    def command(self, op: ForeignOp) -> Hashable | None:
        return judged(op, op.f)

    def step(self, state: Hashable, command: Hashable) -> Hashable | None:
        after = "held" if command == "acquire" else "free"
        return after if after != state else None

    def reads(self, command: Hashable) -> bool:
        """No operation of a lock is a pure read."""
        return False


def owner(op: ForeignOp) -> Hashable:
    """The holder after an acquire: the attempt if the history names it, else the process."""
    return ("process", op.process) if op.attempt is None else ("attempt", op.attempt)


class OwnerMutex:
    """Only its owner releases it; no owner acquires twice. State: (owner or None, last token)."""

    initial: Hashable = (None, NO_TOKEN)

    def __init__(self, *, tokens: bool = False) -> None:
        self._tokens = tokens

    def command(self, op: ForeignOp) -> Hashable | None:
        return judged(op, (op.f, owner(op), token_of(op) if self._tokens else NO_TOKEN))

    def step(self, state: Hashable, command: Hashable) -> Hashable | None:
        assert isinstance(state, tuple) and isinstance(command, tuple)
        (held, last), (f, who, token) = state, command
        if f == "release":
            return (None, last) if held == who else None
        if held is not None or (token != NO_TOKEN and token <= last):
            return None
        return (who, max(last, token))

    def reads(self, command: Hashable) -> bool:
        """No operation of a lock is a pure read."""
        return False


class LeaseMutex:
    """A hold may expire at any time; an ok release proves that it had not."""

    initial: Hashable = (None,)

    def command(self, op: ForeignOp) -> Hashable | None:
        return judged(op, (op.f, owner(op)))

    def step(self, state: Hashable, command: Hashable) -> Hashable | None:
        assert isinstance(state, tuple) and isinstance(command, tuple)
        f, who = command
        if f == "acquire":
            return (who,)
        return (None,) if state[0] == who else None

    def reads(self, command: Hashable) -> bool:
        """No operation of a lock is a pure read."""
        return False


class Reentrant:
    """Its owner may acquire again, and frees it by as many releases. State: (owner, depth)."""

    initial: Hashable = (None, 0)

    def command(self, op: ForeignOp) -> Hashable | None:
        return judged(op, (op.f, ("process", op.process)))

    def step(self, state: Hashable, command: Hashable) -> Hashable | None:
        assert isinstance(state, tuple) and isinstance(command, tuple)
        (held, depth), (f, who) = state, command
        if f == "acquire":
            return (who, depth + 1) if held in (None, who) else None
        if held != who:
            return None
        return (who, depth - 1) if depth > 1 else (None, 0)

    def reads(self, command: Hashable) -> bool:
        """No operation of a lock is a pure read."""
        return False


@dataclass(frozen=True, slots=True)
class Semaphore:
    """At most `limit` permits are held at once, any number per client. State: sorted owners."""

    limit: int

    @property
    def initial(self) -> Hashable:
        return ()

    def command(self, op: ForeignOp) -> Hashable | None:
        return judged(op, (op.f, repr(owner(op))))

    def step(self, state: Hashable, command: Hashable) -> Hashable | None:
        assert isinstance(state, tuple) and isinstance(command, tuple)
        f, who = command
        if f == "acquire":
            return tuple(sorted((*state, who))) if len(state) < self.limit else None
        if who not in state:
            return None
        at = state.index(who)
        return (*state[:at], *state[at + 1 :])

    def reads(self, command: Hashable) -> bool:
        """No operation of a lock is a pure read."""
        return False


class ReadWrite:
    """Readers share, a writer is exclusive; a process that holds may acquire shared (a downgrade).

    State: sorted holds, (process, owner, shared). reentry: all holds of a process go together, so
    that it may upgrade and reenter.
    """

    initial: Hashable = ()

    def __init__(self, *, reentry: bool = False) -> None:
        self._reentry = reentry

    def command(self, op: ForeignOp) -> Hashable | None:
        return judged(op, (op.f, repr(op.process), repr(owner(op)), op.shared))

    def step(self, state: Hashable, command: Hashable) -> Hashable | None:
        assert isinstance(state, tuple) and isinstance(command, tuple)
        f, process, who, shared = command
        hold = (process, who, shared)
        if f == "release":
            freed = [one for one in state if one[1] == who]
            freed = [one for one in freed if one[2] == shared] or freed
            if not freed:
                return None
            at = state.index(freed[0])
            return (*state[:at], *state[at + 1 :])
        if not all(self._beside(one, hold) for one in state):
            return None
        return tuple(sorted((*state, hold)))

    def _beside(self, held: tuple[str, str, bool], hold: tuple[str, str, bool]) -> bool:
        """Whether a hold may be taken beside one that is held."""
        if held[0] != hold[0]:
            return held[2] and hold[2]
        return self._reentry or hold[2]

    def reads(self, command: Hashable) -> bool:
        """No operation of a lock is a pure read."""
        return False
