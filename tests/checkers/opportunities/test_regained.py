"""Where a renewal could have taken a lost lock again, whatever it was answered."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.checkers.opportunities.regained import regained
from holdfast.harness.core.verdict import Seen
from tests.checkers.faults import window
from tests.checkers.shorthand import case

WEAK = {"renew_proves": False}
LOST = "0a?/1@0.1 0a+7/1@1 1a?@4 1a+8@5 1r?@6 1r+@7 "
AWAY = (window("pause", "c0", 2, 8),)


def looked(text: str, windows: tuple[Any, ...] = AWAY, **promises: Any) -> Seen:
    """What the row sees of a history in which c0 was paused from 2 s to 8 s."""
    made = case(text, promises={**WEAK, **promises}, windows=windows)
    return regained(made, made.windows)


@pytest.mark.parametrize("answer", ["0n+@10", "0n!@10"])
def test_an_answer_either_way_is_an_opportunity(answer: str) -> None:
    seen = looked(LOST + "0n?@9 " + answer)
    assert seen.count == 1 and seen.staged and seen.roles == {"hold": 0, "other": 1, "renewal": 3}
    assert seen.fault == AWAY[0].id


@pytest.mark.parametrize(
    "text",
    [
        LOST + "0n?@9 0n~@10",  # no answer shows anything
        LOST + "0n?@9",
        LOST + "2a?@7.5 2a+9@8 0n?@9 0n!@10",  # another one holds
        LOST + "2a?@7.5 2a~@8 0n?@9 0n!@10",  # or may
        LOST + "0L@8.5 0n?@9 0n!@10",  # it was notified before it asked
        "0a?/1@0.1 0a+7/1@1 0n?@9 0n+@10",  # nobody came in between
    ],
)
def test_what_shows_nothing_stages_nothing(text: str) -> None:
    seen = looked(text)
    assert seen.count == 0 and not seen.staged


def test_an_owner_that_no_fault_kept_away_is_another_matter() -> None:
    told = LOST + "0n?@9 0n!@10"
    assert looked(told, (window("pause", "c0", 9.5, 12),)).count == 0
    assert looked(told, (window("pause", "c1", 2, 8),)).count == 0


def test_where_an_ok_renewal_proves_the_hold_ownership_asks_for_it() -> None:
    assert looked(LOST + "0n?@9 0n!@10", renew_proves=True).count == 0
