"""The findings of a run that is judged in parts (docs/decisions/0045).

Each counts once, when nothing can change it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from holdfast.harness.core.verdict import Finding, Proof, PropertyVerdict
from holdfast.harness.history import reader
from holdfast.harness.history.parts import Part

ANY_AGE = frozenset({"mutual-exclusion", "token-order", "no-stale-write", "ownership"})
"""Properties whose findings are true however old their rows are: no row that was dropped could
make one false."""
MOST_FINDINGS = 10_000
"""Findings of a property that are kept, and notes: of a lock that does not work there is no end."""

Identity = tuple[str, str, tuple[int, ...], int]
"""What makes a finding the same in two parts: its kind, lock, first witness and time."""


class _Lasting(NamedTuple):
    """A finding that later rows may still change: a lock that is granted to no client so far.

    newest_ns   time of its newest row, INF if that has no response yet
    rows        those that it rests on, by their number in the whole history
    """

    finding: Finding
    newest_ns: int
    rows: Mapping[int, np.void]

    def goes_on_in(self, other: Finding, newest_ns: int) -> bool:
        """Whether another finding, of a later part, is about the same lock at the same time."""
        mine = self.finding
        same = (mine.kind, mine.lock) == (other.kind, other.lock)
        return same and mine.t_ns <= newest_ns and other.t_ns <= self.newest_ns


@dataclass(slots=True)
class Settled:
    """The findings and notes of one property that no later row can change, so far.

    Their witnesses are numbers in the whole history. Their proofs have a rule, but no rows.

    strings   those of the history
    rows      every row that one of any property rests on, by its number in the whole history
    unsure    findings that may rest on rows that no part has
    more      whether there were more findings than are kept
    """

    prop: str
    strings: Sequence[str]
    rows: dict[int, np.void]
    found: dict[Identity, Finding] = field(default_factory=dict)
    notes: dict[Identity, Finding] = field(default_factory=dict)
    unsure: int = 0
    more: bool = False
    _lasting: list[_Lasting] = field(default_factory=list)

    def take(self, verdict: PropertyVerdict, part: Part, until_ns: int, before_ns: int) -> None:
        """Takes over what no row after a part can change: what it shows until `until_ns`.

        before_ns   that time of the part before. What is older may be new: a response that came in
                    this part may show it.
        """
        any_age = self.prop in ANY_AGE
        before, self._lasting = self._lasting, []
        for at, finding in enumerate((*verdict.findings, *verdict.notes)):
            if self.more:
                break
            note = at >= len(verdict.findings)
            rows = np.array([row for row in finding.witnesses if row >= 0], np.intp)
            begun, back = part.rows["t_inv"][rows], part.rows["t_ret"][rows]
            over = np.where(back == 0, reader.LAST_NS - 1, back)
            newest = max(finding.t_ns, int(over.max(initial=0)))
            oldest = int(begun.min(initial=finding.t_ns))
            far = not any_age and (oldest < part.since_ns or self._explained(finding, part))
            settled = newest <= until_ns
            lasted = next((one for one in before if one.goes_on_in(finding, newest)), None)
            if settled and not far:
                told = _in_whole(finding, part)
                if self._counts(told, note):
                    self._keep(_rows(finding, part))
            elif settled and newest <= before_ns:
                # With all that it rests on it was no finding, or one that was taken over.
                continue
            elif lasted is not None:
                # It was found with all that it rests on, and everything since then did not end it.
                if self._counts(lasted.finding, note):
                    self._keep(lasted.rows)
            elif settled:
                self.unsure += 1
            elif not far and not any_age and not note:
                told = _in_whole(finding, part)
                self._lasting.append(_Lasting(told, newest, _rows(finding, part)))

    def _explained(self, finding: Finding, part: Part) -> bool:
        """Whether an attempt of unknown outcome that was dropped may explain a finding: one for its
        lock, or for any lock if it is about several or about a path, which covers others."""
        if not part.unsure:
            return False
        keys = {int(part.rows["key"][row]) for row in finding.witnesses if row >= 0}
        several = {self.strings[key] for key in keys} != {finding.lock}
        return several or finding.lock.startswith("/") or bool(keys & part.unsure)

    def doubt(self) -> str:
        """Why the property cannot be HOLDS, "" if its findings do not speak against it."""
        if not self.unsure:
            return ""
        findings = "1 finding" if self.unsure == 1 else f"{self.unsure} findings"
        return (
            f"{findings} may rest on rows that no part has: judge the history at once, on a larger"
            " machine"
        )

    def _counts(self, finding: Finding, note: bool) -> bool:
        """Takes over a finding or note; False if it is known, or if there are too many."""
        kind = self.notes if note else self.found
        same = (finding.kind, finding.lock, finding.witnesses[:1], finding.t_ns)
        if same in kind:
            return False
        if len(kind) >= MOST_FINDINGS:
            self.more |= not note
            return False
        kind[same] = finding
        return True

    def _keep(self, rows: Mapping[int, np.void]) -> None:
        for number, row in rows.items():
            self.rows.setdefault(number, row)


def renumbered(finding: Finding, number: Callable[[int], int]) -> Finding:
    """The finding with other numbers of its rows; a row of -1 is none."""

    def other(row: int) -> int:
        return number(row) if row >= 0 else row

    return replace(
        finding,
        witnesses=tuple(map(other, finding.witnesses)),
        spans=tuple(
            (from_ns, to_ns, what, other(row)) for from_ns, to_ns, what, row in finding.spans
        ),
    )


def _in_whole(finding: Finding, part: Part) -> Finding:
    """A finding of a part with the numbers that its rows have in the whole history."""
    proof = finding.proof and Proof(rule=finding.proof.rule, roles={})
    return replace(renumbered(finding, lambda row: int(part.numbers[row])), proof=proof)


def _rows(finding: Finding, part: Part) -> dict[int, np.void]:
    """The rows of a finding of a part, by their numbers in the whole history."""
    rows = [row for row in (*finding.witnesses, *(span[3] for span in finding.spans)) if row >= 0]
    found = np.asarray(part.rows[np.array(rows, np.intp)])
    return dict(zip(part.numbers[rows].tolist(), found, strict=True))
