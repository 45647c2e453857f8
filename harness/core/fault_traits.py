"""What a kind of fault does, as data: declared by its nemesis, recorded in the manifest of a run.

Checkers, the verifier, the driver and reports read traits and never the name of a kind, so a kind
that a user adds is judged like a built-in one. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from holdfast.harness.core.json_value import Json

NOT_SIMULATED, SIMULATED, SIMULATOR_ONLY = "no", "yes", "only"
"""Whether the simulator can inject a kind of fault, or nothing else can."""
IN_TURN = "/"
"""Between targets that the faults of one kind have in turn, in the options of a plan."""
COPY, SNAPSHOT, REPLACE, RESTART = "copy", "snapshot", "replace", "restart"
UPGRADE, HANDOVER, FORCE = "upgrade", "handover", "force"
COMPACT, DEFRAGMENT = "compact", "defragment"
OPERATIONS: Mapping[str, str] = {
    COPY: "copies of the servers' data folders are put back",
    SNAPSHOT: "a snapshot made by the service's own command is restored on all servers",
    REPLACE: "a member is removed and joins again with an empty data folder",
    RESTART: "servers are killed and started again, one after the other",
    HANDOVER: "the leader makes another server the leader",
    FORCE: "a replica is promoted without the leader's agreement",
    UPGRADE: "servers are started with another release, one after the other",
    COMPACT: "the service deletes its history up to the present revision",
    DEFRAGMENT: "a server rewrites its file without the free space in it",
}
"""What operators do to servers. Each system declares which of them it supports."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Swarm:
    """How the swarm of `holdfast sim` samples a kind of fault.

    places      its places in the list from which kinds are sampled; two places: twice as often. A
                place is part of what a seed means, so a new kind takes a place after the last one
    targets     targets besides "", the sequence of targets of the kind itself
    instant_ns  further lengths of a fault, besides those of every kind
    options     option -> values to choose from, sampled in this order
    disks       it has an effect only where servers write to a disk
    """

    places: tuple[int, ...]
    targets: tuple[str, ...] = ()
    instant_ns: tuple[int, ...] = ()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    disks: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Traits:
    """What one kind of fault does. The defaults are the cautious ones: they report least.

    kills             SIGKILLs the processes of its nodes at the moment it is injected
    kills_later       its nodes may exit at any time during it, and are started again at the heal
    stops             stops all threads of its nodes until the heal, as SIGSTOP does
    stops_monotonic   the monotonic clocks of its nodes do not advance while it stops them, and
                      stay behind by that time
    stops_amid_send   stops its nodes in the middle of a send, which leaves at the heal
    leaves_running    every node still runs and responds during it
    shifts_clocks     moves the clocks that its nodes read
    cuts              drops every packet between its nodes and others, in one direction at least
    passes            leaves nothing behind: one recovery time and one lease after the heal its
                      effect is over. Otherwise (a restart, a wrong clock) it may show at any later
                      time
    on_packets        acts on packets between nodes: needs a network per node
    on_connections    acts on the connections of one client: needs a network per client
    in_client         the client's own process carries it out
    counts_calls      may wait for a request within a call of a client, which marks its calls then
    needs_disk        acts on a disk of its own that each server has (option `disk_mib`)
    loses_unsynced    its nodes lose what was not synced, at the times `cut_ns` of its evidence
    hangs_disk        no write of its nodes becomes durable from `frozen_ns` of its evidence on
    operates          what it does as an operator of the servers, of `OPERATIONS`; "" for nothing
    lies              the hardware reports as done what it did not do: no system promises anything
    lies_if           an option and its value with which it lies
    simulator         "yes", "no" or "only": whether the simulator can inject it
    stand_in          the most similar kind of every backend, "" for none (used by `shrink`)
    pattern           its hatching in reports: "partition", "pause", "kill", "clock", "" for the
                      common one
    swarm             how `holdfast sim` samples it; None: never
    """

    kills: bool = False
    kills_later: bool = False
    stops: bool = False
    stops_monotonic: bool = False
    stops_amid_send: bool = False
    leaves_running: bool = False
    shifts_clocks: bool = False
    cuts: bool = False
    passes: bool = False
    on_packets: bool = False
    on_connections: bool = False
    in_client: bool = False
    counts_calls: bool = False
    needs_disk: bool = False
    loses_unsynced: bool = False
    hangs_disk: bool = False
    operates: str = ""
    lies: bool = False
    lies_if: tuple[str, str] | None = None
    simulator: str = SIMULATED
    stand_in: str = ""
    pattern: str = ""
    swarm: Swarm | None = None

    def lies_with(self, options: Mapping[str, str]) -> bool:
        """Whether a fault with these options reports as done what was not done."""
        return self.lies or (self.lies_if is not None and self.lies_if in options.items())

    def operation(self, options: Mapping[str, str]) -> str:
        """What a fault with these options does as an operator, of `OPERATIONS`; "" for nothing."""
        by_option = self.operates in (COPY, HANDOVER)
        return options.get("via", self.operates) if by_option else self.operates

    @property
    def reverts(self) -> bool:
        """It puts an earlier state of the servers back, which most systems promise nothing about:
        their promises for "any" kind do not cover it."""
        return self.operates == COPY

    @property
    def stops_nodes(self) -> bool:
        """It does nothing but stop nodes, from the injection on."""
        return self.kills or self.stops

    @property
    def delays_clients(self) -> bool:
        """A client that it strikes may be late by itself: stopped, or with a wrong clock."""
        return self.stops or self.shifts_clocks

    @property
    def takes_servers_down(self) -> bool:
        """A server that it strikes does no work until the heal."""
        return self.stops_nodes or self.stops_amid_send


def to_table(traits: Traits) -> dict[str, Json]:
    """Traits as recorded in a manifest: of those that judging needs, the ones that are set."""
    plain = {name: getattr(traits, name) for name in RECORDED}
    return {name: value for name, value in plain.items() if value != getattr(UNKNOWN, name)}


def of_manifest(manifest: Mapping[str, Any]) -> Mapping[str, Traits]:
    """The traits of the kinds of a run. A manifest of an older version has none: see `BEFORE`."""
    recorded = manifest.get("traits")
    if recorded is None:
        return BEFORE
    return {
        kind: Traits(**{name: value for name, value in table.items() if name in RECORDED})
        for kind, table in recorded.items()
    }


PATTERNS = ("partition", "pause", "kill", "clock")
"""The hatchings of reports (`reports/templates/patterns.svg`)."""
PLANNING = ("lies_if", "on_packets", "counts_calls", "swarm")
"""The traits that are not needed after a run was planned."""
RECORDED = tuple(one.name for one in fields(Traits) if one.name not in PLANNING)
"""The traits that a manifest records."""
UNKNOWN = Traits()
"""The traits of an unknown kind."""

CUTS, STOPS, CRASHES, SKEWS = "cuts", "stops", "crashes", "skews"
LOSES_UNSYNCED, REVERTS, HANDS_OVER = "loses-unsynced", "reverts", "hands-over"
CLIENT_SIDE = "client-side"


def _only(first: str, *besides: str) -> Callable[[Traits], bool]:
    """Whether a kind does the first of these to a service, and nothing but them."""
    return lambda kind: {first} <= _harm(kind) <= {first, *besides}


def _harm(kind: Traits) -> set[str]:
    """The traits of a kind that say what it does to a service."""
    said = {
        "kills": kind.kills,
        "kills_later": kind.kills_later,
        "stops": kind.stops,
        "stops_monotonic": kind.stops_monotonic,
        "stops_amid_send": kind.stops_amid_send,
        "shifts_clocks": kind.shifts_clocks,
        "cuts": kind.cuts,
        "on_packets": kind.on_packets,
        "on_connections": kind.on_connections,
        "in_client": kind.in_client,
        "loses_unsynced": kind.loses_unsynced,
        "hangs_disk": kind.hangs_disk,
        "operates": kind.operates,
        "lies": kind.lies,
        "lies_if": kind.lies_if,
    }
    return {name for name, does in said.items() if does}


CLASSES: Mapping[str, Callable[[Traits], bool]] = {
    CUTS: lambda kind: kind.passes and _only("cuts")(kind),
    STOPS: lambda kind: kind.passes and _only("stops", "stops_monotonic")(kind),
    CRASHES: _only("kills"),
    SKEWS: _only("shifts_clocks"),
    LOSES_UNSYNCED: lambda kind: kind.kills and _only("loses_unsynced", "kills")(kind),
    REVERTS: lambda kind: kind.reverts,
    HANDS_OVER: lambda kind: kind.operates == HANDOVER,
    CLIENT_SIDE: lambda kind: kind.on_connections or kind.in_client,
}
"""Class of fault -> whether a kind belongs to it. A system promises by classes (`Promises.keeps`);
resolving a plan replaces them by the names of kinds, so that a run says what it was judged by. A
kind that does more than its class is in none, and then less is promised."""

BEFORE: Mapping[str, Traits] = {
    "partition": Traits(cuts=True, passes=True, pattern="partition"),
    "pause": Traits(stops=True, passes=True, pattern="pause"),
    "kill": Traits(kills=True, pattern="kill"),
    "clock": Traits(shifts_clocks=True, leaves_running=True, pattern="clock"),
    "reply-loss": Traits(on_connections=True, passes=True),
    "reset": Traits(on_connections=True, passes=True),
    "delay": Traits(on_connections=True, passes=True, leaves_running=True, simulator=NOT_SIMULATED),
    "black-hole": Traits(on_connections=True, simulator=NOT_SIMULATED),
    "hang-up": Traits(on_connections=True, simulator=NOT_SIMULATED),
    "cancel": Traits(in_client=True),
    "stall": Traits(in_client=True, passes=True, simulator=NOT_SIMULATED),
    "fork": Traits(in_client=True, simulator=NOT_SIMULATED),
    "slow-links": Traits(passes=True, simulator=SIMULATOR_ONLY),
    "freeze": Traits(stops_amid_send=True, simulator=SIMULATOR_ONLY, stand_in="pause"),
    "freeze-write": Traits(simulator=SIMULATOR_ONLY, stand_in="pause"),
    "torn-write": Traits(simulator=SIMULATOR_ONLY, stand_in="kill"),
}
"""The kinds that runs recorded before manifests had traits may name. A run of today records its
own; a new kind is not added here."""
