"""New connections are refused; open ones work.

Models
    A full backlog or connection table, a firewall rule made too narrow, a service that was taken
    out of its load balancer: a TCP connection to the target (way=in), from it (way=out) or both is
    refused at once (answer=reset), or gets no answer until its timeout (answer=drop). A client that
    keeps its connection notices nothing; one that connects for each call, or after an error, fails.
Needs
    link: a network namespace per node with nftables. If no node connects during the fault, it has
    no effect.
Heals
    Connections are accepted.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.agent.links.rules import ANSWERS
from holdfast.nemesis.link_fault import OnLinks
from holdfast.nemesis.options import one_of

NEMESIS = OnLinks(
    name="refuse-connections",
    act="refuse",
    traits=Traits(passes=True, on_packets=True, simulator=NOT_SIMULATED, pattern="partition"),
    known={"answer": one_of(*ANSWERS)},
    args=lambda params: {"answer": params.get("answer", "reset")},
)
