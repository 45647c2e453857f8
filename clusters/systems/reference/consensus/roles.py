"""What a node is in its term, how patient it is, and what it wants done."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.clusters.systems.reference.consensus.messages import Entry, Message, Save, Snapshot


class Role(StrEnum):
    """What a node is in its term."""

    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """election_ns: a follower waits so long for its leader, up to twice that, drawn anew."""

    election_ns: int
    heartbeat_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Effects:
    """What follows from the steps since the last take, to be done in this order.

    ready    what the state machine has to take in: committed entries with their index, or a
             snapshot that replaces it
    """

    saves: tuple[Save, ...]
    sends: tuple[tuple[str, Message], ...]
    ready: tuple[tuple[int, Entry] | Snapshot, ...]


NOTHING_TO_DO = Effects(saves=(), sends=(), ready=())
