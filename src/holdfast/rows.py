"""What a row of the catalogue says."""

from __future__ import annotations

from dataclasses import dataclass


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

    `simulated` names what runs as one of its servers in the simulator, "" if nothing can.
    """

    entry: str
    says: str
    nodes: int
    most: int
    simulated: str = ""


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
