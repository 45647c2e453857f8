"""Corrupted packets: one byte of the data of TCP segments differs, and their checksums are right.

Models
    What TCP's checksum does not find: bad memory in a router or a network card, a proxy with a bug.
    The program reads the wrong byte. Byte number `byte` (8) of the data of a segment becomes 0xff,
    in `share` of the segments (0.3) that have one. In a run with it no system is judged by its
    promises, for the network lies; what it shows is which wrong bytes a protocol refuses.
    (A wrong checksum is no fault of its own: the receiver drops the packet, as packet-loss does.)
Needs
    link: a network namespace per node with nftables.
Heals
    Later data is not changed; what was changed remains.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.harness.core.json_value import Json
from holdfast.nemesis.link_fault import OnLinks, from_one, share_ppm

BYTE = from_one(1000)


def _args(params: Mapping[str, str]) -> Mapping[str, Json]:
    byte = BYTE(params.get("byte", "8"))
    return {"share_ppm": share_ppm(params.get("share", "0.3")), "byte": byte}


NEMESIS = OnLinks(
    name="packet-corrupt",
    act="corrupt",
    traits=Traits(lies=True, kills_later=True, on_packets=True, simulator=NOT_SIMULATED),
    known={"share": share_ppm, "byte": BYTE},
    args=_args,
)
