"""Zero window: the other end of a connection seems to read nothing, so the sender must wait.

Models
    A peer that is alive and does not read: a full buffer, a blocked thread. The receive window in
    each TCP packet becomes 0; the sender keeps its data back and only probes. The connection is
    open, acknowledged and never times out in the kernel, so no keepalive finds it. way=in: the
    target reads window 0 and sends nothing more; way=out: the other ends send nothing more to it.
Needs
    link: a network namespace per node with nftables.
Heals
    True windows again; a sender goes on with the next packet it receives, or its next probe.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.link_fault import OnLinks

NEMESIS = OnLinks(
    name="zero-window",
    act="zero-window",
    traits=Traits(passes=True, on_packets=True, simulator=NOT_SIMULATED, pattern="partition"),
)
