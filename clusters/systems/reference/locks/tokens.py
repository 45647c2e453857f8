"""The counter of all fencing tokens, and the newest token of each lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.clusters.systems.reference.locks.state import Answer, Waiter

MOST = 4096
"""limit on the locks whose newest token is kept; one granted before all these counts as new"""


@dataclass(slots=True)
class TokenCounter:
    """last: the last token granted, over all locks. newest: lock -> token, the oldest first."""

    last: int = 0
    newest: dict[str, int] = field(default_factory=dict)

    def next(self, lock: str) -> int:
        """A token larger than all before it."""
        self.last += 1
        self.newest.pop(lock, None)
        self.newest[lock] = self.last
        if len(self.newest) > MOST:
            del self.newest[next(iter(self.newest))]
        return self.last

    def changed(self, waiter: Waiter) -> Answer | None:
        """The response to a conditional acquire whose token is not the newest; None if it is."""
        newest = self.newest.get(waiter.lock, 0)
        met = waiter.newest in (-1, newest)
        return None if met else {"is": "changed", "newest": newest}

    def dump(self) -> dict[str, Any]:
        """As JSON."""
        return {"last": self.last, "newest": [list(entry) for entry in self.newest.items()]}

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> TokenCounter:
        """The tokens of a dump."""
        return cls(last=state["last"], newest=dict(state["newest"]))
