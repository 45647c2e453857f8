"""A leader's own times of its holds: age and time left, which are not in the log.

The replicated state has no clock. A leader counts by its own clock, from the time at which it
applied a grant or a renewal; the age of a hold that began before it led is unknown.
"""

from __future__ import annotations

from holdfast.clusters.systems.reference.locks.state import Answer, Hold


class Ages:
    """When holds began and when their leases expire, on the clock of `step`."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[int | None, int]] = {}

    def counted(self, hold: Hold, now_ns: int) -> None:
        """A grant, or a renewal of it, is applied."""
        name = hold.token, hold.attempt
        begun_ns = self._known.get(name, (None, 0))[0] if hold.renewals else now_ns
        self._known[name] = begun_ns, now_ns + hold.ttl_ns

    def ended(self, hold: Hold) -> None:
        """The hold is over; an unknown one is ignored."""
        self._known.pop((hold.token, hold.attempt), None)

    def taken_over(self) -> None:
        """The beginnings of all holds become unknown."""
        self._known = {name: (None, due_ns) for name, (_, due_ns) in self._known.items()}

    def clear(self) -> None:
        """Forgets all."""
        self._known.clear()

    def told(self, answer: Answer, now_ns: int) -> Answer:
        """A response about a holder, with "held_ns" and "left_ns" if they are known."""
        known = self._known.get((answer.get("token", -1), answer.get("attempt", -1)))
        if known is None:
            return answer
        begun_ns, due_ns = known
        held = {} if begun_ns is None else {"held_ns": now_ns - begun_ns}
        return {**answer, **held, "left_ns": max(0, due_ns - now_ns)}
