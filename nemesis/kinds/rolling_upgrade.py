"""All servers are started with another release, each after its predecessor is ready.

Models
    An upgrade without downtime, or a downgrade: for a while servers of two releases form one
    cluster, on the data of the old one. With `back=yes` the operators undo it at the heal. A target
    of fewer servers stops half way: `target=n1+n2` of three.
Needs
    rolling-upgrade: a system whose servers can be had in two releases (etcd), on the backends local
    and local-proxy; `to` names the other release.
Heals
    With `back=yes` every server gets the plan's release again, the last one first; with `back=no`
    the other release stays. A server that does not serve with the other release gets the plan's
    release back at once, and the servers after it keep theirs.
"""

from __future__ import annotations

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import NOT_SIMULATED, UPGRADE, Traits
from holdfast.nemesis.operation import ALL, OnService
from holdfast.nemesis.options import one_of


def release(text: str) -> str:
    """A parser of `to`; its system knows the releases. UsageError if it is empty."""
    if not text.strip():
        raise UsageError("expected a release")
    return text


TRAITS = Traits(kills_later=True, operates=UPGRADE, simulator=NOT_SIMULATED, pattern="kill")
NEMESIS = OnService(
    name="rolling-upgrade",
    traits=TRAITS,
    usual=lambda n, rng: ALL,
    known={"to": release, "back": one_of("no", "yes")},
    args=lambda params: {"to": params["to"], "back": params.get("back") == "yes"},
)
