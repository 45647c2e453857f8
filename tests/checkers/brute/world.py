"""A tiny world of whole ticks: processes as generators, messages that are late, twice or lost."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

Step = Generator["int | Box", None, None]


@dataclass(slots=True)
class Box:
    """Where an answer arrives, or is waited for in vain until `by`."""

    by: int
    answer: Any = None
    waiter: Callable[[], None] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """One message in `late` takes up to `delay` ticks; one in so many is lost, or comes twice.

    A process stalls between two steps as rarely, and as long, as a message is late.
    """

    late: int
    delay: int
    lost: int
    twice: int


@dataclass(slots=True)
class World:
    """What is due when. Things due at one tick happen in any order."""

    rng: random.Random
    network: Network
    now: int = 1
    rows: list[dict[str, int]] = field(default_factory=list)
    dead: set[int] = field(default_factory=set)
    _due: list[tuple[int, float, int, Callable[[], None]]] = field(default_factory=list)
    _count: int = 0

    def at(self, tick: int, act: Callable[[], None]) -> None:
        """Does something at a tick, now at the earliest."""
        self._count += 1
        heapq.heappush(self._due, (max(tick, self.now), self.rng.random(), self._count, act))

    def run(self, until: int) -> None:
        """Does all that is due up to a tick."""
        while self._due and self._due[0][0] <= until:
            self.now, _, _, act = heapq.heappop(self._due)
            act()
        self.now = until

    def lag(self) -> int:
        """How long one message or one step of a process takes."""
        late = self.rng.randrange(self.network.late) == 0
        return self.rng.randrange(self.network.delay) if late else self.rng.randrange(2)

    def send(self, act: Callable[[], None]) -> None:
        """Delivers a message: some time, twice or never."""
        if self.network.lost and self.rng.randrange(self.network.lost) == 0:
            return
        self.at(self.now + self.lag(), act)
        if self.network.twice and self.rng.randrange(self.network.twice) == 0:
            self.at(self.now + self.lag(), act)

    def start(self, process: int, steps: Step) -> None:
        """Lets a process take its steps until it ends or dies."""

        def go() -> None:
            if process in self.dead:
                return
            wanted = next(steps, None)
            if isinstance(wanted, Box):
                self._wait(wanted, go)
            elif wanted is not None:
                self.at(self.now + wanted, go)

        self.at(self.now, go)

    def put(self, box: Box, answer: Any) -> None:
        """An answer arrives; a second one is ignored, and so is one that comes too late."""
        if box.answer is None and self.now <= box.by:
            box.answer = answer
            if box.waiter is not None:
                waiter, box.waiter = box.waiter, None
                self.at(self.now + self.lag(), waiter)

    def _wait(self, box: Box, go: Callable[[], None]) -> None:
        def give_up() -> None:
            if box.waiter is not None:
                box.waiter = None
                go()

        if box.answer is not None:
            self.at(self.now, go)
            return
        box.waiter = go
        self.at(box.by, give_up)
