"""What a row of the catalogue says, and one of the track record."""

from __future__ import annotations

from dataclasses import dataclass

NEW = "not reported before, as far as we could find"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One entry: "module:attr", and what it is in one sentence.

    `only` is the one backend that can do it, "" for all. `needs`: what a workload asks of a
    system's client beyond the five methods, of `harness.ports.ABILITIES`.
    """

    entry: str
    says: str
    only: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemRow:
    """A lock service: the entry, how many servers it has by default, and at most.

    `simulated` names what runs as one of its servers in the simulator, "" if nothing can; `real`
    is what of it is the same there as elsewhere and what is not, "" if all of it is the same.
    `peers`: its servers talk to each other. If not, a partition cuts clients off from servers.
    `known`: (property, kind of finding) that it promises and is known to violate, by design.
    """

    entry: str
    says: str
    nodes: int
    most: int
    simulated: str = ""
    real: str = ""
    peers: bool = True
    known: tuple[tuple[str, str], ...] = ()

    @property
    def in_simulator(self) -> str:
        """Whether it runs in the simulator, and what of it is real there."""
        if not self.simulated:
            return "no"
        return f"yes; real there: {self.real or 'its servers and clients'}"


@dataclass(frozen=True, kw_only=True, slots=True)
class BackendRow:
    """A place for nodes: the entry, what says why it cannot run here, and what a run starts under.

    `prefix` names a function that gives the words to put before the driver's command line, "" none;
    `instead` is the backend to take where this one cannot run, "" for none.
    """

    entry: str
    says: str
    precheck: str
    prefix: str
    instead: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One row of the track record.

    breaks   the property that comes out VIOLATED
    says     what happens, one sentence
    command  the words after `holdfast run`, without --seed
    seen     (k, n): so many of so many tries, with seeds 1 to n
    cited    where it was reported
    fixed    words that make the same command clean, with (k, n) violated; "" where none is known
    """

    package: str
    breaks: str
    says: str
    command: str
    seen: tuple[int, int]
    cited: str
    fixed: str = ""
    clean: tuple[int, int] = (0, 0)
    quick: bool = False
