"""A span in which a process, or its whole host, was starved of CPU."""

from __future__ import annotations

from dataclasses import dataclass

DELAY, PRESSURE = "delay", "pressure"
"""Kinds: the process was delayed; processes on its host waited for CPU nearly all the time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Starved:
    """A span on the run's clock. kind: DELAY, of the process on `node`; PRESSURE, of its host."""

    node: str
    kind: str
    from_ns: int
    to_ns: int
