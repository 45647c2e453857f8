"""What makes certificates of properties that hold."""

from __future__ import annotations

import pytest

from holdfast.harness.core.case import Case
from holdfast.harness.core.errors import HoldfastError
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from holdfast.harness.judging.certificates import Certifier, Order
from tests.checkers.shorthand import case, history

PROP = "mutual-exclusion"


def verdict(word: Verdict) -> PropertyVerdict:
    return PropertyVerdict(property=PROP, verdict=word, reason="")


def test_an_order_is_derived_of_what_holds_alone() -> None:
    asked = list[Case]()

    def none_known(given: Case) -> Order:
        asked.append(given)
        return None

    given = case(history("0a? 0a+1 0r? 0r+"))
    certifier = Certifier({PROP: none_known})
    for word in (Verdict.VIOLATED, Verdict.UNKNOWN):
        assert certifier.of_pass(given, verdict(word)) is None
    assert asked == []
    assert certifier.of_pass(given, verdict(Verdict.HOLDS)) is None and asked == [given]
    assert Certifier({}).of_pass(given, verdict(Verdict.HOLDS)) is None
    assert certifier.orders == b""


def test_an_order_that_cannot_be_derived_is_a_mistake_of_ours_and_no_pass() -> None:
    def broken(given: Case) -> Order:
        raise ZeroDivisionError("of nothing")

    with pytest.raises(HoldfastError, match=f"no order that proves {PROP}: ZeroDivisionError"):
        Certifier({PROP: broken}).of_pass(case(history("0a? 0a+1 0r? 0r+")), verdict(Verdict.HOLDS))
