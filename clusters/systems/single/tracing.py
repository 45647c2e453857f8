"""A lease table that tells each of its answers to the specification."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.clusters.systems.single.specification import Answered, Started
from holdfast.clusters.systems.single.table import Table


class TracedTable(Table):
    """As `Table`. emit: appends an event to the trace; run_ns: the clock of the run."""

    def __init__(
        self,
        name: str,
        *,
        leases: bool,
        emit: Callable[[Started | Answered], None],
        run_ns: Callable[[], int],
    ) -> None:
        super().__init__(name, leases=leases)
        self._emit, self._run_ns = emit, run_ns
        emit(Started(name, run_ns()))

    def answer(self, now_ns: int, question: Mapping[str, object]) -> Mapping[str, object]:
        """As `Table`."""
        reply = super().answer(now_ns, question)
        self._emit(Answered(self.name, self._run_ns(), now_ns, question, reply))
        return reply
