"""What is commonly claimed of one property of one lock, and under which faults it is not claimed.

The claims are data in the folder of each system; nothing was measured. That nothing is claimed
is said of what its documentation leaves open.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.reports.many.claims import CLAIMS, CellClaim

TEXTBOOK = (
    "mutual-exclusion",
    "deadlock-freedom",
    "starvation-freedom",
    "bounded-wait",
    "no-stale-write",
)
"""The properties that textbooks have a column for, in their order."""
PARTITIONED = {
    "safety under partition": ("mutual-exclusion", "partition"),
    "liveness under partition": ("deadlock-freedom", "partition"),
}
"""Columns of one property under one kind of fault: what a lock gives up when it is cut apart."""


def _yes(says: str, *lost: str) -> CellClaim:
    return CellClaim(claimed=True, says=says, lost=lost)


def _no(says: str) -> CellClaim:
    return CellClaim(claimed=False, says=says)


_RACE = _no("the first poll after a release gets it: clients poll, there is no queue")
_UNBOUNDED = _no("without a queue no number of grants to others bounds a wait")
CELLS: Mapping[str, Mapping[str, CellClaim]] = {name: one.cells for name, one in CLAIMS.items()}
_FENCED = _yes("the resource refuses a token that is older than the newest it has seen")
_UNFENCED = _no("a resource that compares no tokens takes a late write, whatever the lock does")
SYNCED = "persistence=always"
"""Of a server that syncs each write: a crash loses no acknowledged write."""


def cell_claim(label: str, prop: str) -> CellClaim | None:
    """What is claimed of a property of a system as a result names it; None: nothing is known."""
    system, *options = label.split(" ")
    if system not in CELLS:
        return None
    claim = CELLS[system].get(prop)
    if prop == "no-stale-write":
        claim = _UNFENCED if "unfenced" in options else claim or _FENCED
    if claim is None:
        return None
    if "queue=racing" in options and prop in ("starvation-freedom", "bounded-wait"):
        return _RACE if prop == "starvation-freedom" else _UNBOUNDED
    if "leases=none" in options and prop == "deadlock-freedom":
        return _no("a hold ends by its release only: a crashed owner's lock is held forever")
    lost = tuple(kind for kind in claim.lost if kind != "kill" or SYNCED not in options)
    return CellClaim(claimed=claim.claimed, says=claim.says, lost=lost)
