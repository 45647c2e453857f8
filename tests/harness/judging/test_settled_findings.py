"""Findings of parts: which of them count, and which rows are kept for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from holdfast.harness.core.case import MERGED_DTYPE, by_column
from holdfast.harness.core.verdict import Finding, PropertyVerdict, Verdict
from holdfast.harness.history.parts import Part
from holdfast.harness.judging import settled_findings
from holdfast.harness.judging.settled_findings import Settled

STRINGS = ("", "a", "b", "c", "/x", "/x/y")


def part(locks: Sequence[str], unsure: Sequence[str] = (), first: int = 0) -> Part:
    """A part with one row per lock, at 1 ns, 2 ns and so on; `first` is the number of its first."""
    rows = np.zeros(len(locks), MERGED_DTYPE)
    rows["key"] = [STRINGS.index(lock) for lock in locks]
    rows["t_inv"] = rows["t_ret"] = np.arange(1, len(locks) + 1)
    return Part(
        rows=by_column(rows),
        numbers=first + np.arange(len(locks)),
        attempts=(1, np.zeros(len(locks), np.int64)),
        carried=np.zeros(len(locks), bool),
        until_ns=100,
        late=0,
        unsure=frozenset(STRINGS.index(lock) for lock in unsure),
        since_ns=-1,
        next_since_ns=0,
    )


def verdict(*found: tuple[str, tuple[int, ...]]) -> PropertyVerdict:
    """One finding per lock and its witnesses."""
    findings = tuple(
        Finding(kind="deadlock", sentence="", witnesses=rows, lock=lock, t_ns=1)
        for lock, rows in found
    )
    return PropertyVerdict(
        property="deadlock-freedom", verdict=Verdict.VIOLATED, reason="", findings=findings
    )


EXPLAINED: dict[str, tuple[str, Sequence[str], Sequence[str], bool]] = {
    "nothing was dropped": ("a", "aa", "", False),
    "of another lock": ("a", "aa", "bc", False),
    "of this lock": ("a", "aa", "ba", True),
    "of one of its locks": ("a", "ab", "b", True),
    "of a lock between its locks": ("a", "ab", "c", True),
    "of a path below": ("/x", ("/x",), ("/x/y",), True),
    "of a path above": ("/x/y", ("/x/y",), ("/x",), True),
}


@pytest.mark.parametrize("why", EXPLAINED)
def test_an_attempt_that_was_dropped_may_explain_what_is_about_its_lock(why: str) -> None:
    lock, rows, unsure, explained = EXPLAINED[why]
    mine = Settled("deadlock-freedom", STRINGS, {})
    mine.take(verdict((lock, tuple(range(len(rows))))), part(rows, unsure), 50, -1)
    assert (len(mine.found), mine.unsure) == ((0, 1) if explained else (1, 0))
    assert bool(mine.doubt()) == explained


def test_rows_are_kept_of_findings_that_count_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled_findings, "MOST_FINDINGS", 2)
    mine = Settled("deadlock-freedom", STRINGS, {})
    mine.take(verdict(("a", (0, 1))), part("aa", first=7), 50, -1)
    assert list(mine.rows) == [7, 8]
    # The same finding with one more witness, which the first part did not have.
    mine.take(verdict(("a", (0, 1, 2))), part("aab", first=7), 50, -1)
    assert (list(mine.rows), len(mine.found), mine.more) == ([7, 8], 1, False)
    mine.take(verdict(("b", (0,)), ("c", (1,))), part("bc", first=20), 50, -1)
    assert (list(mine.rows), len(mine.found), mine.more) == ([7, 8, 20], 2, True)


def test_what_may_end_later_counts_once_it_went_on() -> None:
    mine = Settled("deadlock-freedom", STRINGS, {})
    mine.take(verdict(("a", (0,))), part("a", first=3), 0, -1)
    assert not mine.found and not mine.rows
    # Seen again, now that the rows before the dropped attempt are gone.
    mine.take(verdict(("a", (0,))), part("a", "a", first=3), 50, 0)
    assert [one.witnesses for one in mine.found.values()] == [(3,)]
    assert list(mine.rows) == [3]
