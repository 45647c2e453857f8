"""What was exercised is counted exactly: on every lock, second events, and moments on an edge.

Each case was found by a change of one comparison, constant or guard that no other test noticed
(benchmarks/results/mutants.md).
"""

from __future__ import annotations

import pytest

from holdfast.checkers.coverage.needs_of_waits import contended
from holdfast.checkers.coverage.requirements import exercise
from holdfast.checkers.facts.fault_windows import coverage
from holdfast.checkers.holds.attempt_table import table
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op
from tests.checkers.faults import window
from tests.checkers.shorthand import case

ON_EACH_LOCK = {
    # need: words of one lock, and what is counted of it
    "handovers": ("0a? 0a+1 0r? 0r+ 1a? 1a+2 1r? 1r+ 0a? 0a+3", "handovers", 2),
    "judged-holds": (
        "0a? 0a+1 1t? 1t- 1t? 1t- 0r? 0r+",
        "acquires during a judged hold",
        2,
    ),
    "tokens": ("0a? 0a+1 0r? 0r+ 1a? 1a+2 1r? 1r+", "grants after another client's", 1),
    "rivals": (
        "9a? 9a+1 0a? 0Q 1a? 9r? 9r+ 0a+2 0r? 0r+ 1a+3 1r? 1r+",
        "acquires behind one that waited",
        1,
    ),
    "contention": ("0a? 0a+1 1t? 1t- 0r? 0r+", "contended acquires", 1),
}


def on_locks(words: str, locks: str) -> str:
    """The words once per lock, one lock after the other."""
    return " ".join(f"{word}:{lock}" for lock in locks for word in words.split())


@pytest.mark.parametrize("need", ON_EACH_LOCK)
def test_what_happens_on_every_lock_is_counted_on_every_lock(need: str) -> None:
    words, name, times = ON_EACH_LOCK[need]
    for locks in ("x", "xy", "xyz"):
        met = exercise(case(on_locks(words, locks)), needs=(need,))
        assert met.counts[name] == times * len(locks), (need, locks)
        assert met.missing == ()


def test_a_lock_of_one_client_alone_does_not_end_the_count_of_the_others() -> None:
    alone = on_locks("0a? 0a+1 0r? 0r+", "x")
    passed = on_locks("0a? 0a+2 0r? 0r+ 1a? 1a+3 1r? 1r+", "y")
    for words in (f"{alone} {passed}", f"{passed} {alone}"):
        met = exercise(case(words), needs=("tokens", "handovers"))
        assert met.counts["grants after another client's"] == met.counts["handovers"] == 1


@pytest.mark.parametrize(
    ("back", "after"), [(3.999999999, False), (4, False), (4.000000001, True), (9, True)]
)
def test_a_grant_comes_after_a_fault_from_the_next_moment_on(back: float, after: bool) -> None:
    words = f"0a?@0 0a+1@1 1a?@2 0r?@2.5 0r+@2.6 1a+2@{back}"
    given = case(words, windows=[window("kill", "n1", 2, 4)], options={"servers": "3"})
    given = Case(**{**vars(given), "kinds": ("kill",), "memo": {}})
    missing = coverage(given)["kill"].missing
    assert any("no grant after" in reason for reason in missing) != after


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        # Freed before the fault, and waited for.
        ("0a?@0 0a+1@1 1a?@2 0r?@3 0r+@3.5 1a+2@20", True),
        # The release may have come to nothing: it may be held for its lease, beyond the fault.
        ("0a?@0 0a+1@1 1a?@2 0r?@5 0r~@6 1a+2@20", False),
        # Who asked before may have been granted it, whether or not it was told.
        ("0a?@0 0a~@1 1a?@2 1a+2@20", False),
        # Who asked only then did not.
        ("2a?@5 2a~@6 0a?@0 0a+1@1 1a?@2 0r?@3 0r+@3.5 1a+2@20", True),
    ],
)
def test_a_grant_is_expected_in_a_fault_shorter_than_a_lease_only_of_a_lock_that_was_free(
    words: str, expected: bool
) -> None:
    given = case(words, windows=[window("kill", "n1", 4, 7)], options={"servers": "3"})
    given = Case(**{**vars(given), "kinds": ("kill",), "memo": {}})
    missing = coverage(given)["kill"].missing
    assert any("no grant during a kill" in reason for reason in missing) == expected


def test_an_acquire_that_its_own_client_blocks_is_contended_by_the_next_latest_of_others() -> None:
    # 0 re-enters during its own long hold; 1's hold was over, or not, when it asked.
    words = "1a?@0 1a+1/1@1 0a?@2 0a+2@3 1r?@{} 1r+@9 0a?@6 0a+2@7"
    for over, waited in ((5, [False, True, False]), (6.5, [False, True, True])):
        given = case(words.format(over))
        found = table(given)
        assert contended(given, found.op >= 0).tolist() == waited


@pytest.mark.parametrize(
    ("bound", "words", "judged"),
    [
        ("lease", "0a?@0 0a+1/1@1", 0),
        ("lease", "0a?@0 0a+1/1.1@1", 1),
        ("connection", "0a?@0 0a+1@1 0r?@1 0r+@2", 0),
        ("connection", "0a?@0 0a+1@1 0r?@1.1 0r+@2", 1),
        ("none", "0a?@0 0a+1@1 0r?@1 0r+@2", 0),
        ("none", "0a?@0 0a+1@1 0r?@1.1 0r+@2", 1),
    ],
)
def test_a_hold_of_no_length_cannot_be_judged(bound: str, words: str, judged: int) -> None:
    met = exercise(case(words, promises={"bound": bound}), needs=("judged-holds",))
    assert met.counts["judged grants"] == judged


def test_a_reentry_is_counted_where_it_was_requested_and_lacking_where_none_came() -> None:
    for words, counts, missing in (
        ("0a? 0a+1 0a? 0a+2", {"reentrant grants": 1}, 0),
        ("0a? 0a+1 0r? 0r+ 0a? 0a+2", {"reentrant grants": 0}, 1),
    ):
        given = case(words)
        assert exercise(given, needs=("reentry",)).missing == ()
        given = case(words)
        given.history.rows["op"][given.history.rows["f"] == Op.ACQUIRE] |= 1
        met = exercise(given, needs=("reentry",))
        assert counts.items() <= met.counts.items() and len(met.missing) == missing
