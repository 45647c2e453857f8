"""Role, timing and effects of a consensus node."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.clusters.systems.reference.consensus.messages import Entry, Message, Save, Snapshot


class Role(StrEnum):
    """The role of a node in its term."""

    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """election_ns: election timeout; sampled each time from it to twice that."""

    election_ns: int
    heartbeat_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Effects:
    """The effects of the steps since the last take, to be carried out in this order.

    ready    what the state machine has to apply: committed entries with their index, or a snapshot
             that replaces it
    """

    saves: tuple[Save, ...]
    sends: tuple[tuple[str, Message], ...]
    ready: tuple[tuple[int, Entry] | Snapshot, ...]


NOTHING_TO_DO = Effects(saves=(), sends=(), ready=())
