"""Key-value store of texts: put, append, get.

Claims: HOLDS iff for each key some order of the operations explains every text that `get` returned.
Assumes: `put` replaces the text, `append` adds at its end, `get` returns it; a key without a write
    has the empty text. Keys are independent, so each is judged separately.
Blind to: order between keys.
Cost: O(n log n) for a key without appends whose texts have one put each; see `zones.py`. Else that
    of the search; see `search.py`. Concurrent appends could make as many states as they have
    orders. All texts that are no prefix of a text that `get` returned are one state, because no
    return value distinguishes them; so only orders that some return value supports are followed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence

from holdfast.checkers.linearizability.judgement import BUDGET, Budget, ModelJudgement
from holdfast.checkers.linearizability.search import linearizable
from holdfast.checkers.linearizability.zones import certainly, zoned
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Status
from holdfast.harness.foreign.operations import ForeignOp, brief

UNSEEN = ("unseen",)
"""The state of every text that is no prefix of a text that `get` returned."""


class Store:
    """One key of the store, with the texts that `get` returned. State: its text, or UNSEEN."""

    def __init__(self, got: Sequence[str]) -> None:
        self._got = sorted(set(got))

    @property
    def initial(self) -> Hashable:
        return ""

    def command(self, op: ForeignOp) -> Hashable | None:
        """(f, text)."""
        if op.f not in ("get", "put", "append"):
            raise UsageError(
                f"{op.where}: '{brief(op.f)}' is not an operation of this model"
                " (get, put, append); choose another --model"
            )
        if op.f == "get":
            text = "" if op.result is None else op.result
            return ("get", text) if op.status is Status.OK else None
        if not isinstance(op.value, str):
            raise UsageError(f"{op.where}: {op.f} expects a text, not {brief(op.value)}")
        return (op.f, op.value)

    def step(self, state: Hashable, command: Hashable) -> Hashable | None:
        assert isinstance(command, tuple)
        what, text = command
        if what == "get":
            return state if state == text else None
        if what == "put":
            return self._seen(text)
        return self._seen(state + text) if isinstance(state, str) else UNSEEN

    def _seen(self, text: str) -> Hashable:
        at = bisect_left(self._got, text)
        return text if at < len(self._got) and self._got[at].startswith(text) else UNSEEN

    def reads(self, command: Hashable) -> bool:
        assert isinstance(command, tuple)
        return bool(command[0] == "get")


def kv(ops: Sequence[ForeignOp], budget: Budget = BUDGET) -> ModelJudgement:
    """Judge a store of texts, key by key."""
    whole = certainly(ops, "get", "put", "")
    if whole is not None:
        return whole
    got = [op.result for op in ops if op.f == "get" and isinstance(op.result, str)]
    return linearizable(ops, Store(got), budget, _put_and_got)


def _put_and_got(ops: Sequence[ForeignOp]) -> tuple[ModelJudgement, int] | None:
    """A key without appends is a register, whose texts may have one put each."""
    return zoned(ops, "get", "put", "")
