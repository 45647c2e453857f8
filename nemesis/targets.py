"""Resolves roles of a plan to nodes when a fault is due: leader, holder, majority."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from holdfast.harness.core.ports import View
from holdfast.nemesis.options import unknown


class Unresolved(LookupError):
    """No node has this role now. The fault is recorded as skipped, with this reason."""


def leader(view: View, rng: random.Random) -> list[str]:
    """The server that leads."""
    if view.leader is None:
        raise Unresolved("leader: no leader now, or the system has none")
    return [view.leader.name]


def follower(view: View, rng: random.Random) -> list[str]:
    """A server that does not lead."""
    leading = view.leader.name if view.leader else None
    names = [name for name in _up(servers(view), view) if name != leading]
    return [rng.choice(_some("follower", names))]


def holder(view: View, rng: random.Random) -> list[str]:
    """The client that holds a lock, with most of its lease left."""
    return [_some("holder: no client holds a lock now", view.holders)[0]]


def waiter(view: View, rng: random.Random) -> list[str]:
    """A client that holds nothing."""
    return [rng.choice(every_waiter(view, rng))]


def every_waiter(view: View, rng: random.Random) -> list[str]:
    """All clients that hold nothing."""
    names = [name for name in _up(clients(view), view) if name not in view.holders]
    return _some("waiters", names)


def one(view: View, rng: random.Random) -> list[str]:
    """Any running server."""
    return [rng.choice(_some("one", _up(servers(view), view)))]


def majority(view: View, rng: random.Random) -> list[str]:
    """Enough servers that the rest is no quorum."""
    names = _some("majority", servers(view))
    return _sample(names, len(names) // 2 + 1, rng)


def minority(view: View, rng: random.Random) -> list[str]:
    """As many servers as can be lost while the rest is a quorum."""
    names = servers(view)
    if len(names) < 3:
        raise Unresolved(f"minority: {len(names)} servers have no minority; deploy at least 3")
    return _sample(names, (len(names) - 1) // 2, rng)


def every_server(view: View, rng: random.Random) -> list[str]:
    """All servers."""
    return _some("all", servers(view))


def client(view: View, rng: random.Random) -> list[str]:
    """Any running client."""
    return [rng.choice(_some("client", _up(clients(view), view)))]


def every_client(view: View, rng: random.Random) -> list[str]:
    """All clients."""
    return _some("clients", clients(view))


def resource(view: View, rng: random.Random) -> list[str]:
    """The protected resource."""
    return _some("resource", [node.name for node in view.named("resource")])


NODE = re.compile(r"[nc][1-9][0-9]*")
"""Names of servers and clients; the plan decides their number."""
ROLES: dict[str, Callable[[View, random.Random], list[str]]] = {
    "leader": leader,
    "follower": follower,
    "holder": holder,
    "waiter": waiter,
    "waiters": every_waiter,
    "one": one,
    "majority": majority,
    "minority": minority,
    "all": every_server,
    "client": client,
    "clients": every_client,
    "resource": resource,
}


def unknown_parts(target: str) -> list[str]:
    """Parts of a target that are neither a role nor a possible node name, one line each."""
    known = [*ROLES, "n1", "c1", "probe"]
    return [
        unknown("target", part, known)
        for part in re.split(r"[|+]", target)
        if part not in known and not NODE.fullmatch(part)
    ]


def absent_parts(target: str, servers: int, clients: int) -> list[str]:
    """Parts of a target that name a server or a client beyond the number of them, one line each."""
    counts = {"n": ("server", servers), "c": ("client", clients)}
    problems = []
    for part in re.split(r"[|+]", target):
        if NODE.fullmatch(part):
            role, count = counts[part[0]]
            if int(part[1:]) > count:
                there = f"{part[0]}1" if count == 1 else f"{part[0]}1 to {part[0]}{count}"
                problems.append(f"target {part!r}: no such {role}; this run has {there}")
    return problems


def resolve(target: str, view: View, rng: random.Random) -> list[str]:
    """Names of the nodes that a target means now: roles and node names joined by "+".

    "leader|one" means the first alternative that can be resolved. Each node is returned once, in
    the order of the target. Errors: Unresolved with the reasons.
    """
    reasons = []
    for alternative in target.split("|"):
        try:
            return _resolve(alternative, view, rng)
        except Unresolved as error:
            reasons.append(str(error))
    raise Unresolved("; ".join(reasons))


def _resolve(target: str, view: View, rng: random.Random) -> list[str]:
    names = [node.name for node in view.nodes]
    found: list[str] = []
    for part in target.split("+"):
        if part in ROLES:
            found += ROLES[part](view, rng)
        elif part in names:
            found.append(part)
        else:
            raise Unresolved(unknown("target", part, [*ROLES, *names]))
    return list(dict.fromkeys(found))


def servers(view: View) -> list[str]:
    """Names of the servers, as deployed."""
    return [node.name for node in view.named("server")]


def clients(view: View) -> list[str]:
    """Names of the clients, as deployed."""
    return [node.name for node in view.named("client")]


def _up(names: Sequence[str], view: View) -> list[str]:
    """Those whose process was not killed by another fault."""
    return [name for name in names if name not in view.down]


def _some(role: str, names: Sequence[str]) -> list[str]:
    if not names:
        raise Unresolved(role if ":" in role else f"{role}: no node has this role now")
    return list(names)


def _sample(names: Sequence[str], size: int, rng: random.Random) -> list[str]:
    chosen = set(rng.sample(list(names), size))
    return [name for name in names if name in chosen]
