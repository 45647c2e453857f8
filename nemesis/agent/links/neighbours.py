"""Entries of a node's neighbour table (ARP), replaced by an address that no machine has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from holdfast.nemesis.agent.nft import Namespace, NetworkFailed, output_of

ABSENT = "02:00:00:00:00:00"
"""A hardware address that no machine has: locally administered, and not given to any by us."""


def devices(network: Namespace, addresses: Sequence[str]) -> dict[str, str]:
    """Address -> the device by which it is a neighbour. Errors: NetworkFailed if it is none."""
    return {address: _device(network, address) for address in addresses}


def lose(network: Namespace, found: Mapping[str, str]) -> None:
    """Frames to these addresses go to a machine that does not exist. Errors: NetworkFailed."""
    for address, device in found.items():
        entry = (address, "lladdr", ABSENT, "dev", device, "nud", "permanent")
        _ip(network, "neigh", "replace", *entry)


def lost(network: Namespace, found: Mapping[str, str]) -> set[str]:
    """Those addresses whose entry is ours now. Errors: NetworkFailed."""
    return {
        address
        for address, device in found.items()
        if ABSENT in _ip(network, "neigh", "show", address, "dev", device)
    }


def find(network: Namespace, found: Mapping[str, str]) -> None:
    """Removes the entries; the kernel asks for the true ones. Errors: NetworkFailed."""
    for address in lost(network, found):
        _ip(network, "neigh", "del", address, "dev", found[address])


def find_all(network: Namespace) -> int:
    """Removes every such entry, of whatever agent; their number. Errors: NetworkFailed."""
    left = [line.split() for line in _ip(network, "neigh", "show", "nud", "permanent").splitlines()]
    mine = {words[0]: words[2] for words in left if ABSENT in words}
    find(network, mine)
    return len(mine)


def _device(network: Namespace, address: str) -> str:
    route = _ip(network, "route", "get", address)
    device = re.search(r"dev (\S+)", route)
    if " via " in route or not device:
        raise NetworkFailed(f"{address} is no neighbour: {route.strip()}")
    return device[1]


def _ip(network: Namespace, *words: str) -> str:
    with network.inside():
        return output_of(["ip", *words], of="iproute2")
