"""What lies exactly on an edge, or comes second: one lock more, one more of a kind, nothing at all.

Each case was found by a change of one comparison, constant or guard of a checker that no other test
noticed (benchmarks/results/mutants.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast import catalogue
from holdfast.checkers.coverage.requirements import exercise
from holdfast.checkers.facts import legal_orders
from holdfast.checkers.facts.fault_windows import _quorum_left
from holdfast.checkers.facts.stale_belief import stale_beliefs
from holdfast.checkers.facts.verdicts_by_fault import at_work
from holdfast.checkers.holds.attempt_table import Table, table
from holdfast.checkers.holds.contradictions import against
from holdfast.checkers.holds.derive import attempts
from holdfast.checkers.holds.overlaps import reach
from holdfast.checkers.holds.statements import ENDING, UNIQUE, answers
from holdfast.checkers.holds.waits import waits
from holdfast.checkers.properties import (
    bounded_wait,
    deadlock_freedom,
    loss_notice,
    wait_cycles,
)
from holdfast.checkers.properties.livelock import _tried
from holdfast.checkers.properties.lock_timeline import Counted, conditional
from holdfast.checkers.properties.loss_notice import writes_after_notice
from holdfast.checkers.properties.second_hold import shortening
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Mode, Op, Terms
from holdfast.harness.core.verdict import Finding, PropertyVerdict, Verdict
from tests.checkers.certified import told, verified
from tests.checkers.faults import window
from tests.checkers.shorthand import case, history, on


def kinds(prop: str, given: Any) -> list[str]:
    return [finding.kind for finding in load(catalogue.CHECKERS[prop])(given).findings]


def test_nobody_overtaken_is_overtaken_by_none() -> None:
    assert waits(case("0a? 0a+1")).most == 0
    assert waits(case("9a? 9a+1 0a? 0Q 9r? 9r+ 1a? 1a+2 1r? 1r+ 0a+3")).most == 1


def test_permission_to_write_on_is_noted_only_where_somebody_wrote_on() -> None:
    for words, noted in (("0a? 0a+1 0L 0w? 0S- 0w-", True), ("0a? 0a+1 0L 1a? 1a+2", False)):
        given = case(words, options={"workload": "critical-section", "resource": "fenced"})
        assert ("ignore notices" in loss_notice.check(given).reason) == noted
        other = case(words, options={"workload": "own", "resource": "fenced"})
        assert "ignore notices" not in loss_notice.check(other).reason


def test_of_two_notices_each_has_its_own_writes_and_none_at_the_very_moment() -> None:
    words = "0a? 0a+1 1a?:x 1a+2:x 0L 1L:x 0w? 0S- 0w- 1w?:x 1S- 1w-"
    given = case(words)
    assert [len(writes) for _, writes in writes_after_notice(given)] == [1, 1]
    assert writes_after_notice(case("0a? 0a+1 0w?@3 0L@3 0S- 0w-")) == []
    # The notice may stand in the first row of all.
    assert [at for at, _ in writes_after_notice(case("0L 0w? 0S- 0w-"))] == [0]


def test_a_second_lock_is_waited_for_while_any_of_the_last_ones_is_held() -> None:
    words = "0a?:x 0a+1:x 1a?:y 1a+2:y 0a?:y 0Q:y 1r?:y 1r+:y 0a+3:y 0r?:y 0r+:y"
    words = words.replace("+1:x", "+1").replace("+2:y", "+2").replace("+3:y", "+3")
    met = exercise(case(words), needs=("second-locks",))
    assert met.counts["waits that held another lock"] == 1
    later = " ".join(f"0a?:z{n} 0a+{n} 0r?:z{n} 0r+" for n in range(10, 20))
    met = exercise(case(f"{words} {later}"), needs=("second-locks",))
    assert met.counts["waits that held another lock"] == 1


@pytest.mark.parametrize(
    ("target", "servers", "left"),
    [
        ("holder", "0", True), ("holder+client", "0", True), ("leader", "3", True),
        ("leader", "2", False), ("holder+leader", "3", True),
        ("holder|waiter|client|clients|resource|minority", "0", True),
    ],
)  # fmt: skip
def test_a_quorum_is_left_where_no_more_than_one_server_is_struck(
    target: str, servers: str, left: bool
) -> None:
    one = replace(window("kill", "n1", 1, 2), target=target)
    assert _quorum_left(case("0a? 0a+1", options={"servers": servers}), one) == left


def test_what_made_a_lease_shorter_is_the_renewal_that_can_have_done_it() -> None:
    for words, cut in (
        ("0a?@0 0a+7/10@1 0n?/5@2 0n~@3 1a?@4 1a+8@5", 2),  # 2 + 5 < 10
        ("0a?@0 0a+7/10@1 0n?/1@2 0n~@3 0n?/9@4 0n+@5 1a?@6 1a+8@7", None),  # 4 + 1: of the ok one
        ("0a?@0 0a+7/10@1 1a?@4 1a+8@5", -1),
        ("0a?@0 0a+7/10@1 0n?/8@2 0n~@3 1a?@4 1a+8@5", -1),  # 2 + 8 is no less than 10
    ):
        given = case(words)
        rows = given.history.rows
        renewals = [n for n in range(len(rows)) if rows["f"][n] == Op.RENEW]
        expected = {2: 1, None: renewals[0] if renewals else -1, -1: -1}[cut]
        assert shortening(given, attempts(given)[0]) == expected, words


def test_a_table_says_of_leases_of_no_length_that_they_never_end() -> None:
    from holdfast.checkers.holds.vectorized import derive

    for ttl in (0, 1e-9, 2e-9):
        given = case(f"0a? 0a+1/{ttl:.9f} 1a? 1a+2")
        one_by_one, at_once = Table(given), Table(replace(given, memo={}))
        one_by_one.fill(range(2), attempts(given))
        assert derive(at_once)[0]
        assert at_once.over[0] == one_by_one.over[0]


def test_rivals_and_paths_are_counted_on_every_lock() -> None:
    waited = "9a?:{0} 9a+1 0a?:{0} 0Q:{0} 1a?:{0} 9r?:{0} 9r+ 0a+2 0r?:{0} 0r+ 1a+3 1r?:{0} 1r+"
    for locks in (("x",), ("x", "y"), ("x", "y", "z")):
        words = " ".join(waited.format(lock) for lock in locks)
        met = exercise(case(words), needs=("rivals",))
        assert met.counts["acquires behind one that waited"] == len(locks)


def test_acquires_are_counted_by_the_path_that_they_asked_for() -> None:
    words = "0a?:/x 0a+1 1a?:/x/y 1a- 1a?:/x/y 1a- 1a?:/x/y 1a- 0r?:/x 0r+"
    met = exercise(case(words, promises={"subtrees": True}), needs=("subtrees",))
    assert met.counts["acquires above or below a held lock"] == 3


def test_of_all_who_came_later_one_that_held_then_makes_an_ok_foreign() -> None:
    first = "1a?@4 1a+2@5 1r?@6 1r+@7"
    second = "2a?@8 2a+3@9 2n?@14 2n+3@15"
    longer = "1a?@4 1a+2@5 2a?@6 2a+3@7 2r?@8 2r+@9 1n?@14 1n+2@15"
    reader = Terms(mode=Mode.SHARED)
    for words in (f"{first} {second}", second, longer):
        whole = on(history(f"0a?@0 0a+1/2@1 {words} 0n?@10 0n+@11"), Terms(), reader, reader)
        given = case(whole, promises={"renew_proves": False})
        assert kinds("ownership", given) == ["foreign-renewal"]
    given = case(f"0a?@0 0a+1/2@1 {first} 0n?@10 0n+@11", promises={"renew_proves": False})
    assert kinds("ownership", given) == []


def test_a_token_that_nobody_had_is_no_answer_once_a_larger_one_was_granted() -> None:
    words = "0a? 0a+4 0r? 0r+ 0a? 0a+7 0r? 0r+ 1a? 1a~ 2q? 2q+{}=0"
    assert kinds("truthful-queries", case(words.format(5))) == ["false-answer"]
    assert kinds("truthful-queries", case(words.format(8))) == []


def test_a_token_of_two_owners_is_in_no_order_whichever_of_them_is_alone() -> None:
    words = "0a? 0a+1 0r? 0r+ 1a? 1a+1 1r? 1r+"
    reader, writer = Terms(mode=Mode.SHARED), Terms()
    for terms, none in (
        ((reader, writer), True), ((writer, reader), True), ((writer, writer), True),
        ((reader, reader), False),
    ):  # fmt: skip
        given = case(on(history(words), *terms), promises={"tokens_unique": False})
        assert (legal_orders.of_tokens(given) is None) == none


def test_why_a_part_under_a_fault_is_unknown_names_the_lost_row_where_a_finding_is_proved() -> None:
    given = case(history("0a? 0a+1 1a? 1a+2 0n? 0n+", problems=("row 7 was lost",)))
    verdict = load(catalogue.CHECKERS["mutual-exclusion"])(given)
    assert verdict.verdict == "VIOLATED"
    faulty = replace(given, windows=(window("kill", "n1", 1, 2),), kinds=("kill", "reset"), memo={})
    under = load(catalogue.CHECKERS["mutual-exclusion"])(faulty).under
    assert [one.verdict for one in under.values()] == ["VIOLATED", "UNKNOWN"]
    assert under["reset"].reason == "the history may be incomplete: row 7 was lost"


def test_tries_alone_make_a_storm_and_only_those_that_were_not_granted() -> None:
    given = case("0t? 0t- 1t? 1t+1 2a? 2a-")
    spans = [_tried(given, a) for a in attempts(given)]
    assert [span is not None for span in spans] == [True, False, False]


def test_a_condition_about_tokens_may_name_the_first_token_and_none_of_permits() -> None:
    terms = Terms(newest=0), Terms(newest=5), Terms()
    given = case(on(history("0t? 0t- 1t? 1t+6 2t? 2t-"), *terms))
    assert [newest for _, newest in conditional(given)] == [0, 5]
    permits = Terms(mode=Mode.PERMITS, permits=1, limit=2)
    assert not list(conditional(case(on(history("0t? 0t-"), permits))))


def test_counting_of_the_first_so_many_is_as_by_hand() -> None:
    values = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
    counted = Counted(values)
    for among in range(len(values) + 1):
        for least in range(11):
            assert counted.at_least(among, least) == sum(v >= least for v in values[:among])


def test_grants_beyond_a_queue_are_those_of_the_worst_wait() -> None:
    one = "9a? 9a+1 0a? 0Q 9r? 9r+ {} 0a+{} 0r? 0r+"
    passing = "1a? 1a+{0} 1r? 1r+"
    none = case(one.format("", 2))
    some = case(one.format(" ".join(passing.format(n) for n in (2, 3, 4)), 5))
    assert bounded_wait.check(none).exercised["grants beyond a queue"] == 0
    assert bounded_wait.check(some).exercised["grants beyond a queue"] == 3
    other = "9a?:y 9a+1 0a?:y 0Q:y 9r?:y 9r+ 1a?:y 1a+2 1r?:y 1r+ 0a+3 0r?:y 0r+"
    for both in (f"{other} {WORST}", f"{WORST} {other}"):
        assert bounded_wait.check(case(both)).exercised["grants beyond a queue"] == 3


WORST = (
    "9a? 9a+11 0a? 0Q 9r? 9r+ 1a? 1a+12 1r? 1r+ 1a? 1a+13 1r? 1r+ 1a? 1a+14 1r? 1r+ 0a+15 0r? 0r+"
)


def test_table_and_reach_know_a_hold_of_one_instant() -> None:
    given = case("0a?@1 0a+1/1@2 1a?@2 1a+2@3")
    assert table(given).bound.tolist()[0] == 2 * SECOND
    assert reach(given)(attempts(given)[0]) == 2 * SECOND
    assert kinds("mutual-exclusion", given) == []


def test_a_circle_is_judged_by_what_lies_between_faults() -> None:
    limit = wait_cycles.FOUND_WITHIN_NS
    spans = list(wait_cycles._without([], (5, 5 + limit)))
    assert spans == []
    assert list(wait_cycles._without([], (5, 6 + limit))) == [(5, 6 + limit)]
    fault = (6 + limit, 7 + limit)
    whole = (5, 8 + 2 * limit)
    assert list(wait_cycles._without([fault], whole)) == [
        (5, 6 + limit), (7 + limit, 8 + 2 * limit),
    ]  # fmt: skip
    assert list(wait_cycles._without([(5, 7)], (5, 7 + limit))) == []


@pytest.mark.parametrize(
    ("target", "nodes", "left"), [("leader+follower", "n1+n2", False), ("one", "n1+n2", True)]
)
def test_two_servers_of_three_leave_no_quorum(target: str, nodes: str, left: bool) -> None:
    one = replace(window("kill", nodes, 1, 2), target=target)
    assert _quorum_left(case("0a? 0a+1", options={"servers": "3"}), one) == left


def test_a_fault_that_passes_had_a_part_if_it_was_over_shortly_before_the_first_witness() -> None:
    faults = (window("pause", "n1", 1, 2), window("clock", "n1", 1, 2))
    # 5 s of recovery and a lease of 10 s after its heal at 2 s.
    for inv, t, kinds_at_work in (
        (16, 30, "clock+pause"),
        (18, 30, "clock"),
        (30, 16, "clock+pause"),
    ):
        given = case(f"0a?@{inv} 0a+1@40", windows=faults)
        finding = Finding(kind="orphan", sentence="", witnesses=(0,), lock="db", t_ns=t * SECOND)
        assert at_work(given, finding) == kinds_at_work


def test_a_path_is_probed_by_itself_or_by_one_above_it() -> None:
    words = "0a?:/x/y 0a+1 0r?:/x/y 0r+ 9p?:{0} 9p+2"
    for probed, lacks in (("/x", False), ("/x/y", False), ("/z", True), ("/x/y/z", True)):
        given = case(words.format(probed), promises={"subtrees": True})
        missing = exercise(given, needs=("probes",)).missing
        assert any("never probed after the run: /x/y" in each for each in missing) == lacks


def test_a_grant_comes_after_another_clients_however_many_of_its_own_came_first() -> None:
    words = "0a? 0a+1 0r? 0r+ 0a? 0a+2 0r? 0r+ 1a? 1a+3 1r? 1r+"
    assert exercise(case(words), needs=("tokens",)).counts["grants after another client's"] == 1
    words += " 0a? 0a+4 0r? 0r+"
    assert exercise(case(words), needs=("tokens",)).counts["grants after another client's"] == 2


def test_a_fault_that_begins_just_as_the_time_for_a_notice_is_over_excuses_nothing() -> None:
    # Lost at 13 s, to be told by 16 s; the pause begins then, or a moment before.
    words = "0a?@0 0a+1/5@1 1a?@12 1a+2@13 0d?@60 0d+@61"
    limit = 3
    for begins, excused in (
        (13 + limit - 0.5, True),
        (13 + limit, True),
        (13 + limit + 0.5, False),
    ):
        given = case(words, windows=(window("partition", "c0", begins, begins + 60),))
        found = kinds("loss-notice", given)
        assert (found == []) == excused, (begins, found)


def test_an_answer_about_an_attempt_that_never_asked_is_no_false_one() -> None:
    assert kinds("truthful-queries", case("0c? 0c+")) == []


def test_a_try_is_excused_by_a_lease_for_as_long_as_it_may_be_late_but_by_no_release() -> None:
    words = "0a?@0 0a+1@1 {} 1t?@{} 1t-@{}"
    for ended, begin, excused in (
        ("0r?@2 0r+@3", 3, True),
        ("0r?@2 0r+@3", 3.000000001, False),
        ("0L@2", 13.5, True),
        ("0L@2", 14.1, False),
        ("0r?@2 0r!@3", 6, True),
        ("0r?@2 0r!@3", 6.1, False),
        ("0n?@2 0n!@3 0r?@4 0r+@9", 6, True),
        ("0n?@2 0n!@3 0r?@4 0r+@9", 6.1, False),
    ):
        given = case(words.format(ended, begin, begin + 0.5))
        assert (kinds("no-false-rejection", given) == []) == excused, (ended, begin)


@pytest.mark.parametrize(
    ("at", "found"), [(11, True), (10, True), (9.5, True), (11.000000001, False)]
)
def test_a_request_is_judged_up_to_the_very_end_of_its_lease(at: float, found: bool) -> None:
    # Asked for at 1 s, for 10 s: the refusal is written down by 11 s, or later.
    given = case("0a?@1 0a+1@2 0w?@3 0S-@9 0w-@12")
    rows = given.history.rows
    served = rows["f"] == Op.SERVED_WRITE
    rows["t_ret"][served] = round(at * SECOND)
    assert (kinds("no-false-rejection", given) == ["false-rejection"]) == found


@pytest.mark.parametrize(("error_s", "hidden"), [(0, False), (0.4, False), (0.6, True)])
def test_an_attempt_of_unknown_token_may_hold_for_all_that_clocks_tell(
    error_s: float, hidden: bool
) -> None:
    # Asked for one second after the question was answered.
    given = case("0q?@0 0q+7=0@1 1a?@2 1a~@3", error_ns=round(error_s * SECOND))
    assert (kinds("truthful-queries", given) == []) == hidden


def test_a_newer_grant_among_readers_is_no_holder_beside_the_one_that_is_named() -> None:
    reader, writer = Terms(mode=Mode.SHARED), Terms()
    words = "0a? 0a+5 1a? 1a+6 2q? 2q+5=0"
    assert kinds("truthful-queries", case(on(history(words), reader, reader))) == []
    words = "0a? 0a+5 0r? 0r+ 1a? 1a+6 2q? 2q+5=0"
    assert kinds("truthful-queries", case(on(history(words), writer, writer))) == ["false-answer"]
    assert kinds("truthful-queries", case(on(history(words), reader, writer))) == ["false-answer"]


def test_every_minority_that_is_promised_at_once_is_judged_at_once() -> None:
    # Answered again as soon as the leases are over: a promise of 0 s is one.
    text = "0a?@0 0a+1@1 0r?@2 0r+@3 2a?@20 2Q@21 2Q@35 2a-@36 9p?@90 9p+3@91"
    for minority, found in ((0, 1), (-1, 0)):
        given = case(
            text,
            promises={"minority_ns": minority},
            windows=[window("kill", "n1", 15, 60)],
            options={"servers": "3"},
        )
        assert len(deadlock_freedom.deadlocks(given)) == found


def test_an_owner_without_lease_that_died_keeps_no_others_out_by_its_unanswered_acquire() -> None:
    # Of connections: 2's acquire was not answered, and its connection was closed.
    for bound, closed, found in (
        ("connection", True, True), ("connection", False, False),
        ("session", True, True), ("session", False, False), ("none", True, False),
    ):  # fmt: skip
        text = "0a?@0 0a+1@1 0r?@2 0r+@3 2a?@7 2a~@8" + (" 2C@9" if closed else "")
        given = case(text + " 9p?@60 9p-@90", promises={"bound": bound})
        assert bool(kinds("orphan-freedom", given)) == found, (bound, closed)


def test_an_attempt_that_was_never_answered_has_not_passed_its_lock_on() -> None:
    # It may be granted it after the other: only the other's own end is known.
    words = "0a? 0a{} 0n? 0n+ 1a?@20 1a+2 1r? 1r+ 0w? 0S+ 0w+"
    assert kinds("no-expired-write", case(words.format("+1/2"), promises=NO_LEASE)) != []
    assert kinds("no-expired-write", case(words.format("~"), promises=NO_LEASE)) == []


NO_LEASE = {"bound": "connection", "renew_proves": False, "release_once": False}


def test_every_lock_on_which_a_token_is_repeated_contradicts_that_they_are_unique() -> None:
    words = "0a?:{0} 0a+{1} 0r?:{0} 0r+ 1a?:{0} 1a+{1} 1r?:{0} 1r+"
    given = case(" ".join(words.format(lock, n) for n, lock in enumerate("xyz", 5)))
    assert [given.history.strings[key] for key in against(given, UNIQUE)] == ["x", "y", "z"]
    assert kinds("token-order", given) == ["token-repeated"] * 3


def test_every_repetition_of_a_token_is_told() -> None:
    words = "0a? 0a+5 0r? 0r+ 1a? 1a+5 1r? 1r+ 2a? 2a+5 2r? 2r+"
    assert kinds("token-order", case(words)) == ["token-repeated"] * 2


@pytest.mark.parametrize(("error_s", "named"), [(0.4, True), (0.45, True), (0.5, False)])
def test_two_clock_errors_after_the_end_an_ok_contradicts_what_it_proves(
    error_s: float, named: bool
) -> None:
    given = case("0a? 0a+1 0r? 0r+ 0n? 0n+", error_ns=round(error_s * SECOND))
    assert bool(answers(given)) == named


@pytest.mark.parametrize(("error_s", "late"), [(0, True), (0.4, True), (0.6, False)])
def test_a_lease_that_is_renewed_after_its_end_and_all_doubts_of_it_does_not_end(
    error_s: float, late: bool
) -> None:
    # Granted by 1 s for 2 s, with 3 s of tolerance; renewed at 7 s.
    given = case("0a?@0 0a+1/2@1 0n?@7 0n+@8", error_ns=round(error_s * SECOND))
    assert bool(against(given, ENDING)) == late


def test_beliefs_met_only_where_one_outlasts_the_grant_of_the_other_and_both_clocks_errors() -> (
    None
):
    words = "0a?@0 0a+1/2@1 1a?@4 1a+2/2@5 0n?@6 0n!@{}"
    for until, error_s, met in ((7, 0, 1), (7, 0.9, 1), (7, 1.1, 0)):
        given = case(words.format(until), error_ns=round(error_s * SECOND))
        assert len(stale_beliefs(given)) == met, (until, error_s)


@pytest.mark.parametrize("arg", [7, 8])
def test_a_session_is_kept_alive_by_its_own_heartbeats_alone(arg: int) -> None:
    words = "0h?@0 0h+/5@1 0a?@2 0a+1@3 0h?@4 0h+/5@5"
    given = case(words, promises={"bound": "session"})
    beats = [n for n, f in enumerate(given.history.rows["f"]) if f == Op.HEARTBEAT]
    given.history.rows["arg"][beats[0]], given.history.rows["arg"][beats[1]] = 7, arg
    (a,) = attempts(given)
    assert a.bound_ns == (9 if arg == 7 else 5) * SECOND
    assert a.lease_row == beats[arg == 7]


def test_a_session_that_was_closed_before_keeps_no_later_hold() -> None:
    words = "0h?@0 0h+/50@1 0C@2 0h?@3 0h+/5@4 0C@5 {} 0a?@8 0a+1@9"
    for beat, bound in (("0h?@6 0h+/7@7", 13), ("", -1)):
        (a,) = attempts(case(words.format(beat), promises={"bound": "session"}))
        assert a.bound_ns == (bound * SECOND if bound > 0 else -1)


def test_the_order_of_grants_has_within_a_hold_what_is_no_hold_of_its_own() -> None:
    # 1's and 2's holds are instants: 1's before 0's hold begins, 2's within that of reader 0.
    reader = Terms(mode=Mode.SHARED)
    words = "1a?@0 0a?@1 0a+1@2 1a+1/0@3 2a?@4 2a+1/0@6 0r?@6 0r+@7"
    given = case(on(history(words), reader, reader, reader))
    ((_, rows),) = legal_orders.of_grants(given) or ()
    assert not verified(given, told(given, held(given))).refused
    assert sorted(rows) == [a.row for a in attempts(given)]


def held(given: Case) -> PropertyVerdict:
    """The order of its grants, as if mutual exclusion had been exercised."""
    verdict: PropertyVerdict = load(catalogue.CHECKERS["mutual-exclusion"])(given)
    assert not verdict.findings
    return replace(verdict, verdict=Verdict.HOLDS)


def test_a_grant_of_an_instant_follows_a_hold_that_ends_as_it_is_known() -> None:
    given = case("0a?@0 0a+1@1 1a?@2 1a+2/1@6 0r?@6 0r+@7")
    ((_, rows),) = legal_orders.of_grants(given) or ()
    assert rows == tuple(a.row for a in attempts(given))


@pytest.mark.parametrize(("error_s", "beyond"), [(0, 3), (0.4, 3), (0.6, 1)])
def test_who_was_answered_within_the_error_before_a_call_may_have_stood_before_it(
    error_s: float, beyond: int
) -> None:
    words = (
        "2t?@0 2t-@1 9a?@0.2 9a+1@1 0a?@2 0Q@3 9r?@4 9r+@5 1a?@6 1a+2@7 1r?@8 1r+@9"
        " 1a?@10 1a+3@11 1r?@12 1r+@13 1a?@14 1a+4@15 1r?@16 1r+@17 0a+5@18 0r?@19 0r+@20"
    )
    given = case(words, error_ns=round(error_s * SECOND))
    assert bounded_wait.check(given).exercised["grants beyond a queue"] == beyond
