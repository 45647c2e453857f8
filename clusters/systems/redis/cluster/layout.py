"""Who has which slots: the file from which a node starts, and what nodes report later."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from holdfast.clusters.systems.redis import PORT
from holdfast.clusters.systems.redis.cluster import BUS_PORT, PRIMARIES, SLOTS
from holdfast.harness.core.ports import Node


def nodes_file(node: Node, servers: Sequence[Node], label: str) -> str:
    """The cluster configuration of one node at its first start, in the server's own format, so
    that no command has to join the nodes."""
    lines = []
    for place, server in enumerate(servers):
        primary = place < PRIMARIES
        of = "-" if primary else node_id(servers[place - PRIMARIES], label)
        role = "master" if primary else "slave"
        flags = f"myself,{role}" if server.name == node.name else role
        epoch = place % PRIMARIES + 1
        words = [
            node_id(server, label),
            f"{server.address}:{PORT}@{BUS_PORT}",
            flags,
            of,
            "0 0",
            str(epoch),
            "connected",
            *([slots_of(place)] if primary else []),
        ]
        lines.append(" ".join(words))
    return "\n".join([*lines, f"vars currentEpoch {PRIMARIES} lastVoteEpoch 0", ""])


def node_id(node: Node, label: str) -> str:
    """40 hexadecimal digits, as the server wants them."""
    return hashlib.sha1(f"{label} {node.name}".encode(), usedforsecurity=False).hexdigest()


def slots_of(place: int) -> str:
    """The slots of one initial primary: as even as possible."""
    first, last = place * SLOTS // PRIMARIES, (place + 1) * SLOTS // PRIMARIES - 1
    return f"{first}-{last}"


def serves(said: str, slot: int) -> int | None:
    """The configuration epoch in which the node that said this (CLUSTER NODES) is the primary of a
    slot; None if it is not."""
    for line in said.splitlines():
        words = line.split()
        if "myself" in words[2] and "master" in words[2]:
            ranges = [word.split("-") for word in words[8:] if not word.startswith("[")]
            if any(int(ends[0]) <= slot <= int(ends[-1]) for ends in ranges):
                return int(words[6])
    return None
