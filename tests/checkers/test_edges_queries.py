"""Queries, beliefs and holds on an edge: within the clock error, second in line, row 0.

Each case was found by a change of one comparison, constant or guard that no other test noticed
(benchmarks/results/mutants.md).
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from holdfast.checkers.facts import legal_orders
from holdfast.checkers.facts.stale_belief import stale_beliefs
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.contradictions import fallen
from holdfast.checkers.holds.derive import INF, Attempt, attempts, conflict
from holdfast.checkers.holds.overlaps import Leaders, reach
from holdfast.checkers.holds.statements import RELEASES, RENEWALS, UNIQUE
from holdfast.checkers.holds.succession import Succession
from holdfast.checkers.properties import exactly_once_job, no_expired_write, no_false_rejection
from holdfast.checkers.properties.loss_notice import writes_after_notice
from holdfast.checkers.properties.second_hold import shortening
from holdfast.checkers.properties.truthful_queries import check
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.job_keys import mark_key
from holdfast.harness.core.operations import CHANGED, Mode, Op, Terms
from tests.checkers.examples import Specimen
from tests.checkers.shorthand import case, history, on
from tests.harness.verification.specimens import QUERIES, SPECIMENS


def findings(text: str, *, error_s: float = 0, err: str = "", terms: tuple[Terms, ...] = ()) -> int:
    """How many responses of a history cannot be right."""
    changes = {"error_ns": round(error_s * SECOND)}
    one = Specimen(rule="", prop=QUERIES, text=text, err=err, terms=terms, changes=changes)
    return len(check(one.case()).findings)


WITHIN = ((0, 1), (0.2, 1), (0.3, 0), (1, 0))
"""A clock error in seconds, and how many findings there are of something 0.5 s apart."""


@pytest.mark.parametrize(("error_s", "found"), WITHIN)
def test_a_hold_known_within_the_error_before_a_query_may_have_begun_during_it(
    error_s: float, found: int
) -> None:
    words = "0a?@0 0a+7@1 1q?@1.5 1q+@2 0n?@9 0n+@10"
    assert findings(words, error_s=error_s) == found


@pytest.mark.parametrize(("error_s", "found"), WITHIN)
def test_a_hold_proved_within_the_error_after_a_query_may_have_ended_during_it(
    error_s: float, found: int
) -> None:
    words = "0a?@0 0a+7/2@1 1q?@8 1q+@8.5 0r?@9 0r+@10"
    assert findings(words, error_s=error_s) == found


@pytest.mark.parametrize(("error_s", "found"), WITHIN)
def test_who_asked_within_the_error_after_a_refusal_may_have_been_granted_before_it(
    error_s: float, found: int
) -> None:
    words = "0a?@0 0a+1@1 0r?@2 0r+@3 1t?@10 1t-@11 2a?@11.5 2a+2@12"
    terms = Terms(), Terms(newest=1), Terms()
    assert findings(words, error_s=error_s, err=f"{CHANGED}: 2", terms=terms) == found


@pytest.mark.parametrize(("error_s", "found"), WITHIN)
def test_who_asked_within_the_error_after_a_query_may_be_the_unknown_holder(
    error_s: float, found: int
) -> None:
    words = "0q?@0 0q+7=0@1 1a?@1.5 1a~@9"
    assert findings(words, error_s=error_s) == found


@pytest.mark.parametrize(("error_s", "found"), WITHIN)
def test_an_end_reported_within_the_error_before_a_query_may_have_come_during_it(
    error_s: float, found: int
) -> None:
    words = "0a?@0 0a+7@1 0r?@2 0r+@3 1q?@3.5 1q+7=0@9"
    assert findings(words, error_s=error_s) == found
    words = "0a?@0 0a+7@1 0r?@2 0r+@3 0c?@3.5 0c+@9"
    assert findings(words, error_s=error_s) == found


@pytest.mark.parametrize(("error_s", "found"), WITHIN)
def test_a_newer_grant_known_within_the_error_before_a_query_may_have_come_after_it(
    error_s: float, found: int
) -> None:
    words = "0a?@0 0a+7@1 0r?@2 1a?@2.5 1a+8@3 2q?@3.5 2q+7=0@20 0r+@21"
    assert findings(words, error_s=error_s) == found


@pytest.mark.parametrize(("error_s", "found"), WITHIN)
def test_a_place_is_judged_by_those_who_asked_within_the_error_too(
    error_s: float, found: int
) -> None:
    words = "0a?@0 0a+1@1 1a?@2 1k?@4 1k+=1@5 0r?@6 0r+@7 1a+2@20"
    # 0 returned before the query; 2 asked within the error after it.
    assert findings(words.replace("@5", "@5 2a?@5.5"), error_s=error_s) == found


def test_a_text_is_of_one_hold_that_is_shown_and_of_no_second_one() -> None:
    again = Terms(reenter=True)
    one = Specimen(
        rule="", prop=QUERIES, text="0a? 0a+7 0a? 0a+7 1q? 1q+7=0", err="the office cat",
        terms=(again, again),
    )  # fmt: skip
    given = one.case()
    (finding,) = check(given).findings
    rows = given.history.rows
    asked = [n for n, f in enumerate(rows["f"]) if f in (Op.ACQUIRE, Op.HOLDER)]
    assert finding.witnesses == (asked[0], asked[-1])


def test_assumptions_that_fall_together_are_all_named() -> None:
    words = "0a? 0a+1 0r? 0r+ 0r? 0r+ 0n? 0n+ 1a? 1a+1 1r? 1r+"
    ((_, names),) = fallen(case(words)).items()
    assert {RELEASES, RENEWALS, UNIQUE} <= set(names)
    assert fallen(case("0a? 0a+1 0r? 0r+ 1a? 1a+2 1r? 1r+")) == {}
    twice = "0a?:{0} 0a+{1} 0r?:{0} 0r+ 1a?:{0} 1a+{1} 1r?:{0} 1r+"
    given = case(f"{twice.format('x', 1)} {twice.format('y', 2)}")
    assert [given.history.strings[key] for key in fallen(given)] == ["x", "y"]


@pytest.mark.parametrize(
    ("words", "renewal"),
    [
        # The second renewal, unanswered, asks for less: 4 + 3 < 2 + 10.
        ("0a?@0 0a+7/10@1 0n?/10@2 0n+@3 0n?/3@4 0n~@5 1a?@6 1a+8@7", 1),
        # The end of the claim bounds it, and no renewal.
        ("0a?@0 0a+7/10@1 0n?/9@2 0n~@3 0r?@5 0r+@6", None),
        # The unanswered renewal ends with the acquire, 2 + 8; the other grant is not its own.
        ("0a?@0 0a+7/10@1 0n?/8@2 0n~@3 1a?/3@4 1a+8/3@5", None),
        # The last ok renewal itself granted less than the acquire: 2 + 6.
        ("0a?@0 0a+7/10@1 0n?/6@2 0n+/6@3 1a?@6 1a+8@7", None),
    ],
)
def test_a_lease_is_shortened_by_the_very_renewal_that_fits_its_end(
    words: str, renewal: int | None
) -> None:
    given = case(words)
    rows = [n for n, f in enumerate(given.history.rows["f"]) if f == Op.RENEW]
    (a, *_) = attempts(given)
    assert shortening(given, a) == (-1 if renewal is None else rows[renewal])


def test_a_belief_names_its_rows_from_the_first_of_the_history_on() -> None:
    given = case("0a?@0 0a+1/2@1 1a?@4 1a+2/2@5 0n?@6 0n!@7")
    (belief,) = stale_beliefs(given)
    assert belief.told(given).witnesses == (0, 1, 2)


def test_a_hold_that_the_service_confirmed_is_no_belief() -> None:
    given = case("0a? 0a+7 1a? 1a+8 0n? 0n+ 0r? 0r+", promises={"tokens": "none"})
    far = reach(given)
    assert all(far(a) >= min(a.end_ns, given.end_ns) for a in attempts(given))
    assert stale_beliefs(given) == ()


def test_of_two_beliefs_beside_one_grant_the_longer_is_told() -> None:
    words = "0a?@0 0a+1/1@1 1a?@3 1a+2/1@4 2a?@6 2a+3/9@7 {}n?@8 {}n!@9 {}n?@9.5 {}n!@10"
    for first, second in ((0, 1), (1, 0)):
        given = case(words.format(first, first, second, second))
        told = {b.newer.process: (b.older.process, b.ns // SECOND) for b in stale_beliefs(given)}
        assert told[2] == (second, 3)


def test_the_largest_that_conflicts_is_found_among_readers_and_writers() -> None:
    chance = random.Random("leaders")
    words = " ".join(f"{p}a? {p}a+{p}" for p in range(6))
    for _ in range(300):
        terms = tuple(Terms(mode=chance.choice((Mode.SHARED, Mode.EXCLUSIVE))) for _ in range(6))
        found = attempts(case(on(history(words), *terms)))
        found = tuple(replace(a, process=chance.randrange(4)) for a in found)
        values = [chance.randrange(8) for _ in found]
        leaders = Leaders(found, values)
        for b in found:
            for among in range(len(found) + 1):
                rivals = [n for n in range(among) if conflict(found[n], b)]
                best = leaders.best(b, among)
                assert (best is None) == (not rivals)
                assert best is None or _value(best, found, values) == max(values[n] for n in rivals)


def _value(one: Attempt, found: tuple[Attempt, ...], values: list[int]) -> int:
    return values[found.index(one)]


def test_an_attempt_that_the_history_does_not_have_is_no_entry() -> None:
    assert table(case("0a? 0a+1 1a? 1a+2")).of_id([1, 99, 0]).tolist() == [0, -1, -1]


def test_a_notice_to_an_attempt_that_was_refused_ends_no_hold() -> None:
    assert no_expired_write.check(case("0a? 0a- 0L 0w? 0S+ 0w+")).findings == ()


def test_a_waiter_that_gave_up_long_ago_keeps_nobody_out() -> None:
    (finding,) = no_false_rejection.check(case("0a?@0 0a-@2 1t?@20 1t-@21")).findings
    assert finding.kind == "spurious-refusal"


def test_of_two_false_notices_each_is_known_by_the_renewal_after_it() -> None:
    words = "0a?:x 0a+1:x 1a?:y 1a+2:y 0L:x 1L:y {} 0w?:x 0w-:x 1w?:y 1w-:y"
    both = "0n?:x 0n+:x 1n?:y 1n+:y"
    for renewals, left in ((both, 0), ("0n?:x 0n+:x", 1), ("1n?:y 1n+:y", 1), ("", 2)):
        assert len(writes_after_notice(case(words.format(renewals)))) == left


def test_updates_each_based_on_its_predecessor_are_an_order_and_others_are_none() -> None:
    chain = "0a? 0a+1 0w?=0 0S+=1 0w+=1 0w?=1 0S+=2 0w+=2 0w? 0S+=3 0w+=3"
    ((lock, rows),) = legal_orders.of_updates(case(chain)) or ()
    assert (lock, len(rows)) == ("db", 3)
    assert legal_orders.of_updates(case(chain.replace("0w?=1", "0w?=0"))) is None


def test_a_successor_may_be_the_first_grant_that_was_known() -> None:
    given = case("0a?/1@0 1a?@5 1a+8@6 1r?@7 1r+@8 0a+7/1@9")
    first, second = attempts(given)
    assert (first.token, second.token) == (7, 8)
    assert list(Succession(given, first.key).successors(first, INF)) == [second]
    assert list(Succession(given, first.key).successors(second, INF)) == []


def test_the_mark_of_a_job_is_no_second_effect_of_it() -> None:
    told = history("0a?:x 0a+1:x 0w?:x#0 0S=1 0w+=1 0w?:mark 0S=1 0w+=1")
    strings = [mark_key("x", 0) if text == "mark" else text for text in told.strings]
    given = case(replace(told, strings=strings))
    assert exactly_once_job.check(given).findings == ()
    twice = ["x#0" if text == "mark" else text for text in told.strings]
    (finding,) = exactly_once_job.check(case(replace(told, strings=twice))).findings
    assert finding.kind == "job-done-twice"


def test_a_lock_of_readers_and_of_permits_has_no_order_of_tokens() -> None:
    words = "0a? 0a+1 0r? 0r+ 1a? 1a+2 1r? 1r+"
    reader, permit = Terms(mode=Mode.SHARED), Terms(mode=Mode.PERMITS, permits=1, limit=2)
    for terms, none in (((reader, permit), True), ((reader, reader), False), ((permit,), False)):
        assert (legal_orders.of_tokens(case(on(history(words), *terms))) is None) == none


@pytest.mark.parametrize(("unknown", "wrong"), [("", 1), ("23", 0), ("32", 0), ("3", 1), ("2", 0)])
def test_any_attempt_of_unknown_outcome_sent_before_may_have_changed_a_lock(
    unknown: str, wrong: int
) -> None:
    changed = next(one for one in SPECIMENS if one.rule == "false-condition/refused")
    words = {"2": " 2a?@4.5 2a~@4.6", "3": " 3a?@20 3a~@21"}
    given = replace(changed, text=changed.text + "".join(words[one] for one in unknown)).case()
    assert len(check(given).findings) == wrong
