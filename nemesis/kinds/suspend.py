"""Suspended machines: processes stop, and no monotonic time passes for them.

Models
    A virtual machine that is suspended or live-migrated, a laptop with a closed lid: all threads of
    a node are stopped (SIGSTOP) for 2 leases (default of `for`). Unlike after a `pause`, a lease
    that it counts on its monotonic clock has not run out when it resumes: CLOCK_MONOTONIC did
    not advance and stays behind for the rest of the run; CLOCK_REALTIME and CLOCK_BOOTTIME went on.
    Every second one is of the holder.
Needs
    suspend: x86-64 Linux, processes that the fault agent may signal and whose memory it may write.
Heals
    The monotonic clocks are put back, then SIGCONT; moot if it was killed meanwhile.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import Traits
from holdfast.nemesis.kinds import pause
from holdfast.nemesis.node_fault import Aimed

TRAITS = Traits(stops=True, stops_monotonic=True, passes=True, pattern="pause")
NEMESIS = Aimed(
    name="suspend",
    agent=("holdfast.nemesis.agent.suspends:SUSPEND",),
    usual=pause.NEMESIS.usual,
    traits=TRAITS,
    leases=2,
)
