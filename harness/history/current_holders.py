"""Who holds now, as the schedule of faults asks for it. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

LOOK_S = 0.002
"""So long between two looks at who holds, where somebody waits for a holder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """An ok acquire without a release sent, as far as the rows say."""

    process: int
    node: str
    attempt: int
    since_ns: int
