"""A span in which a process, or every process of its host, was given no processor."""

from __future__ import annotations

from dataclasses import dataclass

DELAY, PRESSURE = "delay", "pressure"
"""The process itself went on late; somebody on its host waited for a processor nearly always."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Starved:
    """A span on the run's clock. kind: DELAY, of the process on `node`; PRESSURE, of its host."""

    node: str
    kind: str
    from_ns: int
    to_ns: int
