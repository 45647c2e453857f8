"""A user's sequential specification, adapted to the search.

Claims: HOLDS iff some order of the operations of each key explains every return value by the user's
    `step`.
Assumes: `step` depends only on its two arguments and changes neither; a failed operation had no
    effect; keys do not influence each other.
Blind to: what the specification leaves open.
Cost: that of the search; see `search.py`.

A specification needs `initial` and `step(state, command)`, the state after a command, or None if
the object would not have returned so. A command is (f, arguments, result) unless it has its own
`command(op)`; the result is ... if it is unknown. `reads(command)` may declare that a command never
changes a state, which makes the search faster.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from holdfast.checkers.linearizability.judgement import BUDGET, Budget, Model, ModelJudgement, shown
from holdfast.checkers.linearizability.search import Specification, linearizable
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Status
from holdfast.harness.foreign.operations import ForeignOp


def given_specification(name: str, made: object) -> Specification:
    """The sequential object of a user's class or object; UsageError if it is none."""
    try:
        spec = made() if isinstance(made, type) else made
    except Exception as error:
        raise _failed(name, "cannot be made without arguments", error) from error
    missing = [part for part in ("initial", "step") if not hasattr(spec, part)]
    if missing:
        raise UsageError(
            f"--model {name}: no {' and no '.join(missing)} in it; a specification has an initial"
            " state and a step(state, command)"
        )
    return _Given(name, spec)


def given(name: str, made: object) -> Model:
    """The model of a user's class or object; UsageError if it is not a specification."""
    spec = given_specification(name, made)

    def judge(ops: Sequence[ForeignOp], budget: Budget = BUDGET) -> ModelJudgement:
        return linearizable(ops, spec, budget)

    return judge


def asked_and_answered(op: ForeignOp) -> Hashable:
    """The default command of an operation."""
    return (op.f, op.value, op.result if op.status is Status.OK else ...)


class _Given:
    """The user's functions; reports each of their errors with the arguments of the call."""

    def __init__(self, name: str, spec: Any) -> None:
        self._name, self._spec = name, spec
        self._command = getattr(spec, "command", asked_and_answered)
        self._reads = getattr(spec, "reads", _never)

    @property
    def initial(self) -> Hashable:
        return self._hashable(self._spec.initial, "initial")

    def command(self, op: ForeignOp) -> Hashable | None:
        return self._hashable(self._asked("command", self._command, op), "command(op)")

    def step(self, state: Hashable, command: Hashable) -> Hashable | None:
        after = self._asked("step", self._spec.step, state, command)
        return self._hashable(after, "step(state, command)")

    def reads(self, command: Hashable) -> bool:
        return bool(self._asked("reads", self._reads, command))

    def _asked(self, what: str, function: Callable[..., Any], *words: Any) -> Any:
        try:
            return function(*words)
        except Exception as error:
            arguments = ", ".join(shown(word) for word in words)
            raise _failed(self._name, f"{what}({arguments}) failed", error) from error

    def _hashable(self, value: Any, what: str) -> Hashable:
        try:
            hash(value)
        except TypeError as error:
            raise _failed(self._name, f"{what} must be hashable, as a tuple is", error) from error
        return value  # type: ignore[no-any-return]


def _never(command: Hashable) -> bool:
    return False


def _failed(name: str, what: str, error: Exception) -> UsageError:
    return UsageError(f"--model {name}: {what}: {type(error).__name__}: {error}")
