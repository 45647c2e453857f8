"""Open TCP connections of a node, as its kernel lists them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection
from pathlib import Path

from holdfast.nemesis.agent.nft import Namespace

ESTABLISHED = "01"
TABLES = (("tcp", 8), ("tcp6", 32))
"""File and length of its addresses; a socket of IPv6 may carry IPv4 (`::ffff:10.0.0.1`)."""
MAPPED = "0000000000000000FFFF0000"


def with_peers(network: Namespace, peers: Collection[str]) -> dict[str, list[tuple[int, int]]]:
    """Peer -> (its port, the node's port) of each established connection."""
    ports: dict[str, list[tuple[int, int]]] = {}
    with network.inside():
        tables = {name: Path(f"/proc/thread-self/net/{name}").read_text() for name, _ in TABLES}
    for name, length in TABLES:
        for line in tables[name].splitlines()[1:]:
            _, ours, theirs, state = line.split()[:4]
            address = theirs.partition(":")[0]
            if state != ESTABLISHED or (length == 32 and not address.startswith(MAPPED)):
                continue
            peer = socket.inet_ntoa(struct.pack("=I", int(address[-8:], 16)))
            if peer in peers:
                ports.setdefault(peer, []).append((_port(theirs), _port(ours)))
    return ports


def _port(end: str) -> int:
    return int(end.partition(":")[2], 16)
