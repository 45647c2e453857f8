"""A cluster of reference nodes in memory: messages that get lost, doubled and late, nodes that die.

Everything is drawn from one seed. `World.run` checks, at every step, what agreement means.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Mapping
from typing import Any

from holdfast.clusters.systems.reference.consensus.messages import (
    NOTHING,
    Ballot,
    Durable,
    Entry,
    Message,
    Save,
    Tail,
    pack,
    unpack,
)
from holdfast.clusters.systems.reference.consensus.raft import Role
from holdfast.clusters.systems.reference.options import ReferenceOptions
from holdfast.clusters.systems.reference.service.node import Asked, Input, LockNode, NodeEffects

MS = 1_000_000
SECOND = 1000 * MS
TTL_NS = 300 * MS
LOCKS = ("a", "b", "c")


def keep(disk: Durable, save: Save) -> Durable:
    """The disk after one save."""
    if isinstance(save, Durable):
        return save
    if isinstance(save, Ballot):
        return Durable(ballot=save, snapshot=disk.snapshot, entries=disk.entries)
    kept = disk.entries[: save.first - disk.snapshot.index - 1]
    return Durable(ballot=disk.ballot, snapshot=disk.snapshot, entries=(*kept, *save.entries))


class World:
    """Nodes, their disks, the messages between them, and a few clients that ask again and again.

    forgetful   crashed nodes come back with an empty disk, which must not go unnoticed
    """

    def __init__(self, seed: int, nodes: int = 3, *, forgetful: bool = False) -> None:
        self.rng = random.Random(f"world {seed}")
        self.now_ns = 0
        self.names = [f"n{n}" for n in range(1, nodes + 1)]
        self.options = ReferenceOptions(
            election_ns=100 * MS, snapshot_every=self.rng.choice((10, 40, 1000))
        )
        self.loss = self.rng.choice((0.0, 0.05, 0.2))
        self.slow_ns = self.rng.choice((2, 10, 60)) * MS
        self.forgetful = forgetful
        self.disks = dict.fromkeys(self.names, NOTHING)
        self.boots = dict.fromkeys(self.names, 0)
        self.up: dict[str, LockNode] = {}
        self.alarms: dict[str, int] = {}
        self.checked: dict[str, int] = {}
        self.cut: dict[str, None] = {}
        self.calm = False
        self.leaders: dict[int, str] = {}
        self.agreed: dict[int, Entry] = {}
        self.first_seen_ns: dict[tuple[int, int], int] = {}
        self.clients = [Client(number, self.rng) for number in range(4)]
        self._heap: list[tuple[int, int, str, int, Input | None]] = []
        self._serial = itertools.count()
        for name in self.names:
            self.start(name)

    def start(self, name: str) -> None:
        """Boots a node from its disk."""
        self.boots[name] += 1
        self.checked[name] = 0
        self.up[name] = LockNode(
            name=name,
            peers=self.names,
            options=self.options,
            rng=random.Random(f"{name} {self.boots[name]} {self.rng.random()}"),
            durable=self.disks[name],
            now_ns=self.now_ns,
        )
        self._wake(name, 0)

    def crash(self, name: str) -> None:
        """Stops a node for good; what it had on disk stays."""
        self.up.pop(name, None)
        if self.forgetful:
            self.disks[name] = NOTHING

    def run(self, for_ns: int) -> None:
        """Lets so much time pass."""
        until_ns = self.now_ns + for_ns
        next_chaos_ns = self.now_ns
        while self._heap and self._heap[0][0] <= until_ns:
            self.now_ns, _, name, boot, item = heapq.heappop(self._heap)
            node = self.up.get(name)
            stale = item is None and self.alarms[name] != self.now_ns
            if node is not None and boot == self.boots[name] and not stale:
                self._step(name, node, () if item is None else (item,))
            if self.now_ns >= next_chaos_ns:
                next_chaos_ns = self.now_ns + 5 * MS
                self._clients()
                if not self.calm:
                    self._chaos()
        self.now_ns = until_ns

    def _step(self, name: str, node: LockNode, inputs: tuple[Input, ...]) -> None:
        effects = node.step(self.now_ns, inputs)
        if not self.calm and self.rng.random() < 0.0005:
            self.crash(name)
            return
        for save in effects.saves:
            self.disks[name] = keep(self.disks[name], save)
            if isinstance(save, Tail):
                for n, entry in enumerate(save.entries):
                    self.first_seen_ns.setdefault((save.first + n, entry.term), self.now_ns)
        self._watch(name, node)
        self._emit(name, effects)
        self._wake(name, max(effects.due_ns - self.now_ns, MS // 10))

    def _emit(self, name: str, effects: NodeEffects) -> None:
        for peer, message in effects.sends:
            for _ in range(1 if self.calm else self.rng.choice((1, 1, 1, 1, 2))):
                if not self._lost(name, peer):
                    self._later(self._delay_ns(), peer, self._again(message))
        for connection, frame in effects.replies:
            if self.calm or self.rng.random() >= self.loss:
                self.clients[connection].hear(frame, self.leader())

    def _again(self, message: Message) -> Message:
        """Through JSON now and then, as over a wire."""
        return unpack(pack(message)) if self.rng.random() < 0.1 else message

    def _delay_ns(self) -> int:
        if self.calm:
            return MS
        return self.rng.randrange(MS // 10, 5 * MS if self.rng.random() < 0.8 else self.slow_ns)

    def _lost(self, one: str, other: str) -> bool:
        if self.calm:
            return False
        return (one in self.cut) != (other in self.cut) or self.rng.random() < self.loss

    def _later(self, wait_ns: int, name: str, item: Input | None) -> None:
        boot = self.boots[name]
        heapq.heappush(self._heap, (self.now_ns + wait_ns, next(self._serial), name, boot, item))

    def _wake(self, name: str, wait_ns: int) -> None:
        """Steps a node then; an alarm set before no longer counts."""
        if self.alarms.get(name) != self.now_ns + wait_ns:
            self.alarms[name] = self.now_ns + wait_ns
            self._later(wait_ns, name, None)

    def _chaos(self) -> None:
        roll = self.rng.random()
        if roll < 0.015:
            leader = self.leader()
            self.crash(leader if leader and roll < 0.005 else self.rng.choice(self.names))
        elif roll < 0.09:
            for name in self.names:
                if name not in self.up:
                    self.start(name)
                    break
        elif roll < 0.11:
            few = self.rng.sample(self.names, self.rng.randrange(1, len(self.names)))
            self.cut = dict.fromkeys(few)
        elif roll < 0.15:
            self.cut = {}

    def _clients(self) -> None:
        for client in self.clients:
            question = client.question(self.now_ns)
            target = client.target or self.rng.choice(self.names)
            if question is None or self._lost(target, target):
                continue
            self._later(self._delay_ns(), target, Asked(connection=client.number, frame=question))

    def heal(self) -> None:
        """Everything is up, connected and quick from here on."""
        self.calm = True
        self.cut = {}
        for name in self.names:
            if name not in self.up:
                self.start(name)

    def leader(self) -> str | None:
        """The leader of the highest term among those that are up."""
        leading = [
            (node.consensus.term, name)
            for name, node in self.up.items()
            if node.consensus.role is Role.LEADER
        ]
        return max(leading)[1] if leading else None

    def _watch(self, name: str, node: LockNode) -> None:
        """What must hold at every instant, or AssertionError."""
        consensus = node.consensus
        if consensus.role is Role.LEADER:
            first = self.leaders.setdefault(consensus.term, name)
            assert first == name, f"{first} and {name} both lead in term {consensus.term}"
        log = consensus.log
        done = max(self.checked.get(name, 0), log.base)
        for index in range(done + 1, consensus.applied + 1):
            entry = self.agreed.setdefault(index, log.at(index))
            assert entry == log.at(index), f"{name} has applied another entry {index}"
        self.checked[name] = consensus.applied

    def shortest_lease_ns(self) -> int:
        """The least time between a grant or renewal entering a log and its expiry doing so."""
        shortest = 1 << 62
        for index, entry in self.agreed.items():
            command = entry.command
            if command is None or command["op"] != "expire":
                continue
            began = command["renewal"]
            # It may have been in the log of a leader that failed, with an earlier term, before.
            stamps = [(began, self.agreed[began].term), (index, entry.term)]
            first, last = (self.first_seen_ns[stamp] for stamp in stamps)
            shortest = min(shortest, last - first)
        return shortest


class Client:
    """Acquires, renews, releases; asks the same thing again until it is answered."""

    def __init__(self, number: int, rng: random.Random) -> None:
        self.number = number
        self.rng = rng
        self.target: str | None = None
        self.session = 0
        self.seq = 0
        self.hold: Mapping[str, Any] | None = None
        self.open: dict[str, Any] | None = None
        self.asked_ns = -SECOND
        self.finals: dict[Any, int] = {}
        self.grants: dict[int, int] = {}
        self.stopped = False

    def question(self, now_ns: int) -> dict[str, Any] | None:
        """What to ask now, if anything."""
        if self.open is None and not self.stopped:
            self.open = self._new()
            self.asked_ns = -SECOND
        if self.open is None or now_ns < self.asked_ns + 30 * MS:
            return None
        self.asked_ns = now_ns
        return dict(self.open)

    def _new(self) -> dict[str, Any]:
        if not self.session:
            return {"id": 0, "op": "open", "ttl_ns": 0}
        self.seq += 1
        base: dict[str, Any] = {"id": self.seq, "session": self.session, "seq": self.seq}
        base["done"] = self.seq
        if self.hold is None:
            return {
                **base,
                "op": "acquire",
                "lock": self.rng.choice(LOCKS),
                "attempt": self.number << 32 | self.seq,
                "ttl_ns": TTL_NS,
                "wait_ns": self.rng.choice((0, -1, 100 * MS)),
                "owner": f"c{self.number}",
            }
        if self.rng.random() < 0.1:
            self.hold = None
            self.seq -= 1
            return self._new()
        held = {name: self.hold[name] for name in ("lock", "attempt", "token")}
        if self.rng.random() < 0.4:
            return {**base, **held, "op": "renew", "ttl_ns": TTL_NS}
        return {**base, **held, "op": "release"}

    def hear(self, frame: Mapping[str, Any], leader: str | None) -> None:
        """An answer, or an event about a queued acquire."""
        said = frame["is"] if "is" in frame else frame["event"]
        number = frame.get("seq", frame.get("id"))
        if said == "granted":
            first = self.finals.setdefault(number, frame["token"])
            assert first == frame["token"], "one request was granted twice"
        if self.open is None or number != self.open["id"]:
            return
        if said in ("not-leader", "deposed"):
            self.target = frame.get("leader") if self.rng.random() < 0.7 else None
            return
        if said in ("queued", "freed", "lost"):
            return
        if said == "opened":
            self.session = frame["session"]
        elif said == "granted":
            assert frame["token"] not in self.grants, "one token for two grants"
            self.grants[frame["token"]] = self.seq
            self.hold = frame
        elif said != "renewed":
            self.hold = None
        self.open = None
