"""Servers that are asked to stop (SIGTERM), as a deployment does, and restart later.

Models
    `systemctl restart`, a container that is replaced, a node that is drained: each server gets
    SIGTERM and may write its state, hand over its leadership and close its connections. What runs
    after `grace` (2s, 5s at most) gets SIGKILL. The leader first, then any server, then all.
    A lock that survives this fault and not `kill` keeps its state only on a clean shutdown.
Needs
    terminate: processes that the fault agent may signal, and a driver that restarts them. Not the
    simulator, whose servers have no signal handlers.
Heals
    The reply to the heal names the servers to restart; the driver restarts and adopts them.
"""

from __future__ import annotations

from holdfast.harness.core.durations import duration_text, positive_ns
from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.agent.signals import LONGEST_GRACE_NS
from holdfast.nemesis.node_fault import in_turn
from holdfast.nemesis.server_fault import OnServers


def _grace_ns(text: str) -> int:
    """The time between SIGTERM and SIGKILL. Errors: ValueError, UsageError."""
    grace_ns = positive_ns(text)
    if grace_ns > LONGEST_GRACE_NS:
        raise ValueError(f"invalid duration {text!r}: at most {duration_text(LONGEST_GRACE_NS)}")
    return grace_ns


# Not `kills`: a server that shuts down may sync its disk first, so this fault cannot show what is
# lost in a crash, and no opportunity of a crash is counted for it.
NEMESIS = OnServers(
    name="terminate",
    agent=("holdfast.nemesis.agent.signals:TERMINATE",),
    usual=in_turn(("leader|one", "one", "all"), ("leader|one", "one", "minority|one", "all")),
    traits=Traits(kills_later=True, simulator=NOT_SIMULATED, pattern="kill"),
    known={"grace": _grace_ns},
    args=lambda params: {"grace_ns": _grace_ns(params.get("grace", "2s"))},
)
