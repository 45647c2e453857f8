"""CPU quotas: servers get a small share of the CPU time that they had.

Models
    A container at its CPU limit, a neighbour that takes the machine: all threads run for `share`
    (10%) of each `period` (100ms) and are stopped for the rest, for 2 leases (default of `for`). A
    call of 1 ms takes up to 100 ms; a call of 50 ms takes half a second. The leader first, then any
    server.
Needs
    cpu-quota: processes that the fault agent may signal (SIGSTOP); no control groups. Not the
    simulator, where code takes no time.
Heals
    All threads run.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.core.durations import positive_ns
from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.harness.core.json_value import Json
from holdfast.nemesis.link_fault import share_ppm
from holdfast.nemesis.node_fault import in_turn
from holdfast.nemesis.server_fault import OnServers


def _args(params: Mapping[str, str]) -> Mapping[str, Json]:
    share = share_ppm(params.get("share", "10%"))
    return {"share_ppm": share, "period_ns": positive_ns(params.get("period", "100ms"))}


NEMESIS = OnServers(
    name="cpu-quota",
    agent=("holdfast.nemesis.agent.limits.cpu_quota:CPU_QUOTA",),
    usual=in_turn(("leader|one",), ("leader|one", "follower|one", "minority|one", "all")),
    traits=Traits(passes=True, simulator=NOT_SIMULATED, pattern="pause"),
    known={"share": share_ppm, "period": positive_ns},
    args=_args,
    leases=2,
)
