"""How processes share the tests: the first ones take what computes, later ones what waits.

Two processes of tests that compute fill two cores. Tests of servers, sockets and time-outs wait
for half of their time or more: in `make test` a third process takes those, and so the first two
seldom have to. With a third that computes too, tests of real processes missed their bounds now and
then. In `make test-long` most wait, and their servers and clients need a core: one process
computes.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler.loadfile import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.kept_times import kept, long_run

COMPUTING, COMPUTING_LONG = 2, 1
"""Processes that begin with tests that compute, and take others when those are gone."""
WAITING = 0.5
"""Of the time of a file: the least share of waiting by which it counts as one that waits."""


def waiting(*, long: bool) -> set[str]:
    """The files of tests that wait."""
    times = {name: row.column(long=long) for name, row in kept().items()}
    return {name for name, (taken, cpu) in times.items() if cpu <= (1 - WAITING) * taken}


class Shares(LoadFileScheduling):  # type: ignore[misc]
    """Whole files, in the order of collection, but each process its own kind first."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._waiting = waiting(long=long_run())
        self._computing = COMPUTING_LONG if long_run() else COMPUTING

    def _assign_work_unit(self, node: WorkerController) -> None:
        late = int(node.gateway.id.removeprefix("gw")) % self.numnodes >= self._computing
        mine = (name for name in self.workqueue if (name in self._waiting) == late)
        chosen = next(mine, None)
        if chosen is not None:
            self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Shares | None:
    """None where files are not kept together."""
    return Shares(config, log) if config.getvalue("dist") == "loadfile" else None
