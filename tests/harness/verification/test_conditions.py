"""What rules ask about recorded rows, each condition by itself and on its edge."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.checkers.facts import legal_orders
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Mode, Terms
from holdfast.harness.verification.conditions import Conditions, Row
from holdfast.harness.verification.rule import OPS, assumed
from holdfast.harness.verification.rules import RULES
from tests.checkers.certified import recorded, verified
from tests.checkers.shorthand import case, history, on
from tests.harness.verification.test_verify import held

WRITES = "0a? 0a+1 0w?=0 0S+=1 0w?=1 0S+=2 0w?=2 0S+=3 0w?=1 0S+=2 0w?=3 0S+=4"


def asked(given: Case) -> tuple[dict[str, Any], list[Row]]:
    """The conditions of a run by name, and its rows in the order of their writers."""
    run = recorded(given)
    return Conditions(run).names(), [Row(run.rows, at) for at in range(run.rows.count)]


def test_a_write_that_was_passed_over_is_missing_although_a_later_one_names_its_version() -> None:
    names, rows = asked(case(WRITES))
    served = [row for row in rows if row.f == 13]
    assert [names["missing"](row) for row in served] == [True, True, True, True, False]
    names, rows = asked(case("0a? 0a+1 0w?=0 0S+=1 0w?=1 0S+=2 0w?=2 0S+=3"))
    assert not any(names["missing"](row) for row in rows if row.f == 13)


def test_a_job_is_undone_unless_it_is_in_the_log_or_a_write_of_it_was_left_unanswered() -> None:
    for words, undone in (
        ("0d?:x#1 0d+=1", True),
        ("0d?:x#1 0d+=1 0w?:x#1", False),
        ("0d?:x#1 0d+=1 0w?:x#1 0w+=1", True),
        ("0d?:x#1 0d+=1 0w?:x#1 0S+ 0w+=1", False),
        ("0d?:x#1 0d+=1 0w?:x#2", True),
    ):
        names, rows = asked(case(words))
        assert names["undone"](rows[0]) == undone, words


@pytest.mark.parametrize("renew", [True, False])
@pytest.mark.parametrize(("proves", "once"), [(True, False), (False, True), (False, False)])
def test_an_ok_says_owned_as_far_as_it_is_declared_to(
    renew: bool, proves: bool, once: bool
) -> None:
    said = {"renew_proves": renew, "release_proves": proves, "release_once": once}
    names, rows = asked(case("0a? 0a+1 0n? 0n+ 0r? 0r+", promises=said))
    assert names["says_owned"](rows[1]) == renew
    assert names["says_owned"](rows[2]) == (proves or once)


def test_two_grants_are_apart_if_they_are_of_two_owners_of_one_lock_who_are_no_readers() -> None:
    reader, writer = Terms(mode=Mode.SHARED), Terms()
    permit = Terms(mode=Mode.PERMITS, permits=1, limit=2)
    for lock, terms, apart in (
        ("db", (writer, writer), True), ("db", (reader, writer), True),
        ("db", (permit, permit), True), ("db", (reader, reader), False),
        ("x", (writer, writer), False),
    ):  # fmt: skip
        words = f"0a? 0a+1 1a?:{lock} 1a+1 0a? 0a+1"
        names, rows = asked(case(on(history(words), *terms)))
        assert names["apart"](rows[0], rows[2]) == apart, (lock, terms)
        # Neither asked to be let in again, so its two attempts are two owners.
        assert names["apart"](rows[0], rows[1]) == (terms[0] == writer)
    names, rows = asked(case(on(history("0a? 0a+1 0a? 0a+1"), Terms(reenter=True))))
    assert not names["apart"](rows[0], rows[1])


def test_how_often_one_may_be_overtaken_follows_from_the_order_that_is_promised() -> None:
    never = 1 << 62
    for order, aging, starved, overtaken in (
        ("fifo", -1, 3, 0), ("fifo", 4, 7, 0), ("racing", -1, 3, never), ("racing", 4, 7, never),
        ("priority", -1, 3, never), ("priority", 0, 3, 3), ("priority", 4, 7, 7),
    ):  # fmt: skip
        given = case("0a? 0a+1 1a? 1a- 2a? 2a-", promises={"order": order, "aging": aging})
        allowed = asked(given)[0]["allowed"]
        assert (allowed("starved"), allowed("overtaken")) == (starved, overtaken), (order, aging)


def test_an_order_by_another_rule_is_no_order() -> None:
    given, verdicts = held("mutual-exclusion", legal_orders.of_grants)
    verdicts["verdicts"][0]["certificate"]["rule"] = "order/token-order"
    (why,) = verified(given, verdicts).refused
    assert "there is no rule" in why


@pytest.mark.parametrize("change", [{"verdict": "UNKNOWN"}, {"findings": [{"kind": "orphan"}]}])
def test_only_a_property_that_holds_has_an_order(change: dict[str, Any]) -> None:
    given, verdicts = held("mutual-exclusion", legal_orders.of_grants)
    verdicts["verdicts"][0] |= change
    assert "only a property that holds has one" in verified(given, verdicts).refused[0]


@pytest.mark.parametrize(
    ("op", "assumption"), [("renew", "renew_proves"), ("release", "release_proves")]
)
def test_a_proof_assumes_what_its_response_is_declared_to_prove(op: str, assumption: str) -> None:
    rule = next(rule for rule in RULES.values() if not rule.assumes)
    row = SimpleNamespace(f=OPS[op])
    assert assumed(rule, {"a_proof": row, "b_known": row, "c": row}) == (assumption,)
    assert assumed(rule, {"a": row}) == ()
