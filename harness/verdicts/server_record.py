"""What the servers' own record says, compared with what the clients were answered.

It is evidence of its own kind: no verdict and no exit code counts it.
"""

from __future__ import annotations

from dataclasses import dataclass

KINDS = {
    "granted-not-recorded": "granted by the response, but the record has no such hold",
    "granted-early": "granted by the response, before the hold begins in the record",
    "refused-but-held": "refused by the response, but held in the record after it",
    "released-but-held": "released by the response, but held in the record after it",
    "not-owner-but-held": "not the owner by the response, but held in the record after it",
    "renewed-not-held": "renewed by the response, after the end of the hold in the record",
    "released-not-held": "released by the response, after the end of the hold in the record",
    "lost": "ended in the record before its lease, without a release",
    "token-differs": "the token of the response is not that of the record",
    "two-holders": "the record itself has two holders at once",
}
"""Kinds of difference, and what each means."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One difference. t_ns: of the response, or of what the record shows; at: place in the record,
    -1 if it is about what the record does not have."""

    kind: str
    sentence: str
    lock: str
    t_ns: int
    process: int = -1
    at: int = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Gap:
    """A span in which events may be missing: nothing is concluded across it."""

    from_ns: int
    to_ns: int
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerRecord:
    """The comparison of one run.

    source     what was read
    events, holds   of the record
    granted    acquires that were answered as granted: `matched` of them have their hold in the
               record, `uncovered` lie in a gap or after the end of the record
    undone     acquires that were refused, whose hold begins and ends before the response
    unknown    acquires without an outcome: by the record `took_effect`, `no_effect`; the others
               remain undecided
    strangers  holds of owners that are no acquire of a client
    total      number of differences, of which the first are in `differences`
    whole      whether the record goes on to the end of the run
    problem    why the record could not be read, "" if it could
    """

    source: str = ""
    events: int = 0
    holds: int = 0
    granted: int = 0
    matched: int = 0
    uncovered: int = 0
    undone: int = 0
    unknown: int = 0
    took_effect: int = 0
    no_effect: int = 0
    strangers: int = 0
    total: int = 0
    differences: tuple[Difference, ...] = ()
    gaps: tuple[Gap, ...] = ()
    whole: bool = False
    problem: str = ""

    @property
    def undecided(self) -> int:
        """Acquires without an outcome that the record does not decide either."""
        return self.unknown - self.took_effect - self.no_effect
