"""Finds out which hosts' packets arrive through the tunnel, before anything runs on the nodes.

`python3 -S -m holdfast.clusters.backends.ssh.reach OWN PEER...` in the network of a run, OWN and
PEERs being the hosts' addresses there. Prints the addresses of the peers whose packets came, as
JSON. Standard library only.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections.abc import Sequence

PORT = 7399
WITHIN_S = 8.0
"""Below the silence after which a host agent that is done would exit."""
EVERY_S = 0.05
FAREWELLS = 3
"""Packets to each peer after the last has come: one of them tells a peer that it was heard."""


def heard(own: str, peers: Sequence[str], within_s: float = WITHIN_S) -> list[str]:
    """The peers from which a packet came. Each of them does the same meanwhile."""
    came: set[str] = set()
    came_there: set[str] = set()
    deadline = time.monotonic() + within_s
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plug:
        plug.bind((own, PORT))
        while len(came) + len(came_there) < 2 * len(peers) and time.monotonic() < deadline:
            _send(plug, peers, came)
            until = time.monotonic() + EVERY_S
            while (left_s := until - time.monotonic()) > 0:
                if not select.select([plug], [], [], left_s)[0]:
                    break
                data, (sender, _) = plug.recvfrom(1 << 16)
                if sender in peers:
                    came.add(sender)
                    if own in json.loads(data):
                        came_there.add(sender)
        for _ in range(FAREWELLS):
            _send(plug, peers, came)
    return sorted(came)


def _send(plug: socket.socket, peers: Sequence[str], came: set[str]) -> None:
    """A packet to each peer: who was heard here."""
    packet = json.dumps(sorted(came)).encode()
    for peer in peers:
        try:
            plug.sendto(packet, (peer, PORT))
        except OSError:  # Rejected here, as by a firewall: it does not arrive.
            continue


def main(argv: Sequence[str]) -> int:
    """Prints the outcome."""
    print(json.dumps(heard(argv[1], argv[2:])))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
