"""What a client believed, what the service proved, promised, and may have thought."""

from __future__ import annotations

from typing import Any

from holdfast.checkers.holds.derive import INF, Attempt, attempts, by_id, by_lock, conflict
from holdfast.harness.core.case import Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Mode, Terms
from tests.checkers.faults import window
from tests.checkers.shorthand import case, history, on

OPEN = INF / SECOND


def first(text: str, **changes: Any) -> Attempt:
    """The first attempt of a history."""
    return attempts(case(text, **changes))[0]


def span(hold: tuple[int, int] | None) -> tuple[float, float] | None:
    """A hold in seconds."""
    return hold and (hold[0] / SECOND, hold[1] / SECOND)


def killed(node: str, at: float) -> Window:
    """A kill of a node, in seconds."""
    return window("kill", node, at, at + 1)


def test_a_claim_lasts_from_the_answer_until_the_release_is_sent() -> None:
    held = first("0a? 0a+7 0r?@5 0r+")
    assert span(held.certain) == (1, 5)
    assert (held.end_why, held.end_row) == ("release", 1)


def test_a_refused_acquire_holds_nothing() -> None:
    held = first("0a? 0a-")
    assert (held.possible, held.certain, held.proved, held.contract) == (None,) * 4


def test_an_unanswered_acquire_proves_nothing_and_may_hold_for_ever() -> None:
    for unknown in ("0a? 0a~", "0a?"):
        held = first(unknown)
        assert (held.certain, held.proved, held.contract) == (None,) * 3
        assert span(held.possible) == (0, OPEN)


def test_an_unanswered_acquire_is_proved_from_its_first_ok_renewal() -> None:
    held = first("0a? 0a~ 0n? 0n+ 0n?@8 0n+")
    assert span(held.proved) == (3, 8)
    assert held.known_ns == 3 * SECOND


def test_an_ok_renewal_proves_the_hold_up_to_its_sending() -> None:
    assert span(first("0a? 0a+7 0n?@4 0n+@9").proved) == (1, 4)


def test_where_an_ok_says_little_nothing_is_proved() -> None:
    weak = {"renew_proves": False, "release_proves": False, "release_once": False}
    held = first("0a? 0a+7 0n?@4 0n+ 0r? 0r+", promises=weak)
    assert held.proved is None


def test_nothing_is_proved_after_the_claim_has_ended() -> None:
    assert span(first("0a? 0a+7 0n?@3 0n+ 0L@5 0n? 0n+").proved) == (1, 3)


def test_a_later_ok_release_counts_where_it_can_be_ok_only_once() -> None:
    text = "0a? 0a+7 0r?@3 0r~ 0r?@6 0r+"
    assert span(first(text).certain) == (1, 6)
    repeated = {"release_once": False, "release_proves": False}
    assert span(first(text, promises=repeated).certain) == (1, 3)


def test_a_claim_ends_at_the_notice_the_kill_the_close_and_the_forced_unlock() -> None:
    assert span(first("0a? 0a+7 0L@4").certain) == (1, 4)
    assert span(first("0a? 0a+7 0C@4").certain) == (1, 4)
    assert span(first("0a? 0a+7 9f?@4 9f+").certain) == (1, 4)
    assert span(first("0a? 0a+7", windows=(killed("c0", 4),)).certain) == (1, 4)
    assert span(first("0a? 0a+7 0n?@3 0n!@4").certain) == (1, 4)


def test_a_kill_of_another_node_or_before_the_asking_ends_nothing() -> None:
    assert span(first("0a? 0a+7", windows=(killed("c1", 4),)).certain) == (1, OPEN)
    assert span(first("0a?@5 0a+7", windows=(killed("c0", 4),)).certain) == (6, OPEN)


def test_an_operator_who_aimed_at_another_token_or_failed_ends_nothing() -> None:
    for unlock in ("9f?@4 9f-", "9f?8@4 9f+"):
        assert span(first(f"0a? 0a+7 {unlock}").certain) == (1, OPEN)


def test_a_lease_counts_from_the_asking_and_then_from_the_last_ok_renewal() -> None:
    assert span(first("0a? 0a+7").contract) == (1, 10)
    assert span(first("0a? 0a+7 0n?@4 0n+").contract) == (1, 14)
    assert span(first("0a? 0a+7 0n?@4 0n+ 0r?@6").contract) == (1, 6)


def test_a_queued_grant_has_no_contract_before_it_is_renewed() -> None:
    assert first("0a? 0Q@11 0a+7@12").contract is None
    assert span(first("0a? 0Q@11 0a+7@12 0n? 0n+").contract) == (12, 23)


def test_a_slip_and_a_drift_shorten_the_contract() -> None:
    clocks = {"slip_ns": SECOND, "drift_ppm": 100_000}
    assert span(first("0a? 0a+7", promises=clocks).contract) == (1, 8)


def test_an_unknown_renewal_may_have_shortened_the_lease_and_never_lengthens_it() -> None:
    assert span(first("0a? 0a+7 0n?/3@2 0n~").contract) == (1, 5)
    assert span(first("0a? 0a+7 0n?/30@2 0n~").contract) == (1, 10)


def test_an_unknown_renewal_may_take_effect_after_a_later_ok_one() -> None:
    assert span(first("0a? 0a+7 0n?/2@2 0n~ 0n?@6 0n+").contract) == (1, 8)


def test_a_renewal_that_may_revive_counts_only_if_it_was_in_time() -> None:
    revives = {"renew_proves": False}
    assert span(first("0a? 0a+7 0n?@4 0n+@5", promises=revives).contract) == (1, 14)
    assert span(first("0a? 0a+7 0n?@9 0n+@11", promises=revives).contract) == (1, 10)


def test_a_session_binds_by_its_own_heartbeats_alone() -> None:
    session = {"bound": "session"}
    assert first("0a? 0a+7 0n? 0n+", promises=session).contract is None
    beats = "0h?@0 0h+ 0a?@2 0a+7 0h?@4 0h+ 0C@20"
    assert span(first(beats, promises=session).contract) == (3, 14)
    assert span(first("0a?@2 0a+7 0C@4 0h?@5 0h+", promises=session).certain) == (3, 4)


def test_a_heartbeat_of_the_session_before_binds_nothing() -> None:
    session = {"bound": "session"}
    assert first("0h?@0 0h+ 0C@2 0a?@3 0a+7", promises=session).contract is None


def test_a_lease_may_be_thought_to_run_as_long_as_anything_could_have_renewed_it() -> None:
    assert span(first("0a? 0a+7").possible) == (0, 11)
    assert span(first("0a? 0a+7 0n?@4 0n+@6").possible) == (0, 16)
    assert span(first("0a? 0a+7 0n?@4 0n~").possible) == (0, 21)
    assert span(first("0a? 0a+7 0r?@4 0r+@6").possible) == (0, 6)
    assert span(first("0a? 0a+7 0r?@4 0r~@6").possible) == (0, 11)
    assert span(first("0a? 0a+7 0r?@4 0r!@6").possible) == (0, 6)


def test_what_only_a_release_frees_may_be_held_until_it_is_answered() -> None:
    only = {"bound": "none"}
    assert span(first("0a? 0a+7 0r?@4 0r~", promises=only).possible) == (0, OPEN)
    assert span(first("0a? 0a+7 0r?@4 0r+", promises=only).possible) == (0, 5)


def test_attempts_of_one_process_conflict_unless_its_lock_may_let_it_in_again() -> None:
    words = "0a? 0a+7 1a? 1a+8 0a? 0a+9 1a?:x 1a+10"
    again, reader = Terms(reenter=True), Terms(mode=Mode.SHARED)
    for terms, promises, let_in in (
        ((), {}, False),
        ((again,), {}, True),
        ((Terms(), again), {}, False),
        ((), {"bound": "connection"}, True),
        ((), {"bound": "session"}, False),
        ((), {"bound": "none"}, False),
    ):
        mine, other, inner, elsewhere = attempts(
            case(on(history(words), *terms), promises=promises)
        )
        assert conflict(mine, other) and not conflict(mine, elsewhere)
        assert conflict(mine, inner) != let_in, (terms, promises)
    mine, other, inner, _ = attempts(case(on(history(words), reader, reader)))
    assert not conflict(mine, other) and not conflict(mine, inner)


def test_a_client_that_asks_for_several_paths_is_one_owner_of_them() -> None:
    for other, apart in (("/a", True), ("/a/b", False), ("/", False), ("/b", True)):
        told = case(f"0a?:/a 0a+1 0a?:/a 0a+2 0a?:{other} 0a+3", promises={"subtrees": True})
        assert conflict(*attempts(told)[:2]) == apart, other


def test_a_release_without_effect_leaves_the_lock_held() -> None:
    failed = first("0a? 0a+7 0r?@4 0r-")
    assert (span(failed.certain), span(failed.contract)) == ((1, 4), (1, 10))
    assert span(first("0a? 0a+7 0r?@4 0r~").contract) == (1, 4)
    assert span(first("0a? 0a+7 0r?@4 0r- 0n?@6 0n+").proved) == (1, 6)
    assert span(first("0a? 0a+7 0r?@4 0r- 0r?@6 0r+").contract) == (1, 6)


def test_attempts_are_found_by_lock_and_by_identity() -> None:
    told = case("0a? 0a+7 1a?:x 1a+8")
    mine, other = attempts(told)
    assert by_lock(told) == {mine.key: (mine,), other.key: (other,)}
    assert by_id(told)[other.id] is other
