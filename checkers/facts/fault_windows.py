"""Fault windows of a run: those that took effect, with calls inside and around them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from holdfast.checkers.facts.verdicts_by_fault import Met
from holdfast.checkers.holds.attempt_table import Table, table
from holdfast.checkers.holds.leases import INF, longest
from holdfast.harness.core.case import Case, Window, memoised
from holdfast.harness.core.operations import Op

Times = npt.NDArray[np.int64]

AIMED_AT_CLIENTS = frozenset({"holder", "waiter", "waiters", "client", "clients", "resource"})
"""Targets that are not servers."""
SPARES_A_QUORUM = AIMED_AT_CLIENTS | {"minority"}
"""Targets that do not affect a majority of the servers, whatever their number."""
ONE_SERVER = frozenset({"leader", "follower", "one"})
"""Targets that do not affect a majority if there are at least three servers."""


@memoised
def coverage(case: Case) -> dict[str, Met]:
    """Coverage of each kind of fault that was requested, and a reason for each requirement not met.

    Over all its windows that took effect, a kind needs: an acquire in flight; a grant inside, where
    one could be expected; a hold that was open at an edge; a grant after the last heal. A fault
    aimed at the holder counts only if the certain hold of a client on that node covers its
    beginning.
    """
    work = _work(case)
    return {kind: _kind(case, kind, work) for kind in case.kinds}


def _kind(case: Case, kind: str, work: _Work) -> Met:
    windows = [window for window in case.windows if window.do == kind]
    effective = [window for window in windows if window.effective]
    met = [window for window in effective if held_at_bite(case, window)]
    counts = {f"{kind} windows": len(met), f"{kind} windows without effect": 0}
    counts[f"{kind} windows without effect"] = len(windows) - len(effective)
    if not effective:
        none = f"no {kind} took effect: 0 of {len(windows)}" if windows else f"no {kind} took place"
        unmet = {"effect": none}
        return Met(counts=counts, unmet=unmet)
    if not met:
        unmet = {"target": f"no {kind} of the holder found it holding: 0 of {len(effective)}"}
        return Met(counts=counts, unmet=unmet)
    # Of a part of a run: a window before it shows no grants, for their rows are not in it.
    recent = [window for window in met if window.to_ns >= case.since_ns]
    open_to_grants = [window for window in recent if _can_grant(case, window)]
    return Met(
        counts=counts,
        unmet=_unmet(kind, met, open_to_grants, work),
        vacuous=frozenset() if open_to_grants else frozenset({"grant"}),
    )


def held_at_bite(case: Case, window: Window) -> bool:
    """Whether the targeted holder held when the fault took effect; True for any other target."""
    if window.target != "holder":
        return True
    nodes = {window.holder} if window.holder else set(window.nodes)
    attempts = table(case)
    held = attempts.certain & (attempts.ret <= window.from_ns) & (window.from_ns <= attempts.end)
    return any(case.nodes.get(process, "") in nodes for process in attempts.process[held].tolist())


class _Work:
    """Times of acquires, grants and holds as columns, to compare with windows."""

    def __init__(self, found: Table) -> None:
        asked = found.op != Op.PROBE
        held = found.certain & (found.ret < found.end)
        self.inv: Times = found.inv[asked]
        self.ret: Times = found.ret[asked]
        self.grants: Times = np.sort(found.ret[found.ok])
        self.hold_from: Times = found.ret[held]
        self.hold_to: Times = found.end[held]

    def asked_in(self, window: Window) -> bool:
        return bool(((self.inv <= window.to_ns) & (self.ret >= window.from_ns)).any())

    def grants_in(self, from_ns: int, to_ns: int) -> int:
        low, high = np.searchsorted(self.grants, (from_ns, to_ns + 1))
        return int(high - low)

    def held_at(self, t_ns: int) -> bool:
        return bool(((self.hold_from <= t_ns) & (self.hold_to >= t_ns)).any())


@memoised
def _work(case: Case) -> _Work:
    return _Work(table(case))


def _windows(n: int) -> str:
    return f"{n} window" if n == 1 else f"{n} windows"


def _unmet(
    kind: str, met: Sequence[Window], open_to_grants: Sequence[Window], work: _Work
) -> dict[str, str]:
    missing = {}
    n = len(met)
    if not any(work.asked_in(window) for window in met):
        missing["asked"] = f"no acquire was in flight during a {kind}: 0 in {_windows(n)}"
    if not any(work.held_at(w.from_ns) or work.held_at(w.to_ns) for w in met):
        missing["edge"] = f"no hold was open when a {kind} began or ended: 0 of {_windows(n)}"
    if open_to_grants and not any(work.grants_in(w.from_ns, w.to_ns) for w in open_to_grants):
        missing["grant"] = (
            f"no grant during a {kind} that was longer than any hold could last:"
            f" 0 in {_windows(len(open_to_grants))}"
        )
    last_heal_ns = max(window.to_ns for window in met)
    if not work.grants_in(last_heal_ns + 1, INF - 1):
        missing["after"] = f"no grant after the last {kind} had healed"
    return missing


def _can_grant(case: Case, window: Window) -> bool:
    """Whether a grant could be expected: a quorum still running, and a lock that is free and waited
    for.

    A lock that was held when the fault began may stay held for a lease, or without a time limit if
    only a connection or a release ends the hold. Only a lock that no client can have held through
    the whole window had to be granted.
    """
    if not _quorum_left(case, window) or window.target == "clients":
        return False
    attempts = table(case)
    held = attempts.certain & (attempts.ret <= window.from_ns) & (attempts.end >= window.to_ns)
    if case.promises.bound in ("lease", "session"):
        lasts_ns = longest(case.promises.lasting_ns(case.lease_ns), case.promises)
        if window.to_ns - window.from_ns <= lasts_ns:
            begun = (attempts.ok & (attempts.ret <= window.from_ns)) | (
                attempts.unknown & (attempts.inv <= window.from_ns)
            )
            held |= begun & (attempts.over >= window.from_ns)
        else:
            held &= False
            return len(np.unique(attempts.key[held])) < len(attempts.by_lock())
        # Within a lease a free lock had to be granted only if a client was already waiting for it:
        # of two locks one may be free for 200 ms because no client requests it.
        wanted = (attempts.inv <= window.from_ns) & (attempts.ret > window.from_ns)
        return bool(np.setdiff1d(attempts.key[wanted], attempts.key[held]).size)
    return len(np.unique(attempts.key[held])) < len(attempts.by_lock())


def _quorum_left(case: Case, window: Window) -> bool:
    if window.traits.leaves_running:
        return True
    servers = int(case.options.get("servers", "0"))
    roles = set(window.target.replace("|", "+").split("+"))
    if roles <= SPARES_A_QUORUM:
        return True
    if roles <= SPARES_A_QUORUM | ONE_SERVER and len(roles & ONE_SERVER) <= 1:
        return servers >= 3
    return 2 * len(servers_struck(case, window)) < servers


def servers_struck(case: Case, window: Window) -> list[str]:
    """The servers among the nodes of a fault, in order."""
    servers = int(case.options.get("servers", "0"))
    names = [f"n{n}" for n in range(1, servers + 1)]
    return [name for name in names if name in window.nodes]


def kills_only_clients(case: Case, window: Window) -> bool:
    """Whether a fault only kills clients, and the service runs elsewhere and goes on: what it may
    still keep for them are their holds and their acquires of unknown outcome."""
    if not window.traits.kills or window.traits.loses_unsynced or not window.nodes:
        return False
    served = int(case.options.get("servers", "0")) > 0
    return served and set(window.nodes) <= set(case.nodes.values())


def stops_a_minority(case: Case, window: Window) -> bool:
    """Whether a fault only stops servers, and fewer than half of them, including all that other
    faults strike meanwhile."""
    struck = servers_struck(case, window)
    if not window.traits.stops_nodes or not struck or len(struck) < len(window.nodes):
        return False
    for other in case.windows:
        meanwhile = other.from_ns <= window.to_ns and window.from_ns <= other.to_ns
        if meanwhile and not other.traits.leaves_running:
            struck = [*struck, *servers_struck(case, other)]
    return 2 * len(dict.fromkeys(struck)) < int(case.options.get("servers", "0"))


def stopped_servers(case: Case, from_ns: int, to_ns: int) -> list[str]:
    """The servers that an effective fault stopped at some time of a span, in order."""
    struck = dict.fromkeys(
        server
        for window in case.windows
        if window.effective and window.traits.stops_nodes
        if window.from_ns < to_ns and from_ns < window.to_ns
        for server in servers_struck(case, window)
    )
    return sorted(struck)
