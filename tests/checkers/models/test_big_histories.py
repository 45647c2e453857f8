"""Exact verdicts across blocks of rows: clean until a violation is planted."""

from __future__ import annotations

import pytest
from benchmarks.checking import RULES, drawn

from holdfast.checkers.linearizability.exact import capacity, hold_intervals, rules
from holdfast.checkers.linearizability.exact.rules import conflicts

BLOCKED = (capacity, hold_intervals, rules)
SHARED = "rw"
"""The planted second holder is a reader beside a reader with this seed: legal."""


@pytest.mark.parametrize("locks", [1, 7])
def test_a_big_history_is_clean_until_something_is_planted(
    monkeypatch: pytest.MonkeyPatch, locks: int
) -> None:
    for module in BLOCKED:
        monkeypatch.setattr(module, "BLOCK", 1 << 10)
    for violation in (False, True):
        for rule in (rule for name, rule in RULES.items() if name != SHARED):
            columns = drawn(
                20_000, clients=5, locks=locks, unknown=0.2, violation=violation, seed=3,
                permits=rule.limit,
            )  # fmt: skip
            found = [one.kind for one in conflicts(columns, rule)]
            assert set(found) == ({"double-hold"} if violation else set())
