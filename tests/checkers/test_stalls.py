"""Locks that are free and yet not granted: deadlock freedom and orphan freedom."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.checkers.properties import deadlock_freedom, orphan_freedom
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.verdict import Verdict
from tests.checkers.faults import window
from tests.checkers.shorthand import case, history

HANDED_OVER = "0a?@0 0a+1@1 1a?@1.5 0r?@2 0r+@3 1a+2@4 1r?@5 1r+@6"
GRANTED_PROBE = " 9p?@7 9p+3@8 9r?@9 9r+@10"
REFUSED_PROBE = " 9p?@20 9p-@30"


def both(judged: Case) -> tuple[Verdict, Verdict]:
    """The verdicts on deadlock freedom and on orphan freedom."""
    fresh = Case(**{name: getattr(judged, name) for name in _FIELDS})
    return deadlock_freedom.check(judged).verdict, orphan_freedom.check(fresh).verdict


_FIELDS = [name for name in Case.__dataclass_fields__ if name != "memo"]


def test_a_lock_that_the_probe_is_granted_is_free() -> None:
    assert both(case(HANDED_OVER + GRANTED_PROBE)) == (Verdict.HOLDS, Verdict.HOLDS)


def test_a_released_lock_that_the_probe_is_refused_is_orphaned() -> None:
    judged = case(HANDED_OVER + REFUSED_PROBE)
    assert both(judged) == (Verdict.VIOLATED, Verdict.VIOLATED)
    (finding,) = orphan_freedom.check(judged).findings
    assert finding.sentence == (
        "'db' was refused once, for its whole wait from 20.000 s to 30.000 s, although no client"
        " could hold it; c1 (token 2) held it last"
    )
    (finding,) = deadlock_freedom.check(judged).findings
    assert "no client was granted 'db', although c9 asked for it" in finding.sentence
    assert len(finding.witnesses) == 3


def test_a_waiter_that_nobody_wakes_is_deadlocked_and_no_orphan() -> None:
    text = HANDED_OVER + " 2a?@20 2Q@21 2Q@25 2a-@26 9p?@30 9p+3@31"
    assert both(case(text)) == (Verdict.VIOLATED, Verdict.HOLDS)


def test_a_waiter_that_is_granted_far_too_late_was_deadlocked() -> None:
    text = HANDED_OVER + " 2a?@20 2Q@21 2Q@25 2a+3@26 2r?@27 2r+@28 9p?@30 9p+4@31"
    assert both(case(text))[0] is Verdict.VIOLATED


def test_a_late_answer_without_word_of_waiting_is_no_deadlock() -> None:
    text = HANDED_OVER + " 2a?@20 2a+3@26 2r?@27 2r+@28 9p?@30 9p+4@31"
    assert both(case(text)) == (Verdict.HOLDS, Verdict.HOLDS)


def test_tries_that_are_refused_for_ever_are_an_orphan_and_no_deadlock() -> None:
    tries = " ".join(f"2t?@{20 + n / 2} 2t-@{20.2 + n / 2}" for n in range(10))
    text = HANDED_OVER + " " + tries + " 9p?@30 9p+3@31"
    assert both(case(text)) == (Verdict.HOLDS, Verdict.VIOLATED)


def test_one_refused_try_is_not_for_ever() -> None:
    text = HANDED_OVER + " 2t?@20 2t-@20.2" + " 9p?@30 9p+3@31"
    assert both(case(text)) == (Verdict.HOLDS, Verdict.HOLDS)


EXCUSES: dict[str, tuple[str, dict[str, Any]]] = {
    "a holder that still renews": ("2a?@10 2a+3@11 2n?@18 2n+@19" + REFUSED_PROBE, {}),
    "an unanswered release within its lease": ("2a?@21 2a+3@22 2r?@23 2r~@24 9p?@22 9p-@31", {}),
    "an acquire that may yet be granted": ("2a?@19 2a~@20" + REFUSED_PROBE, {}),
    "an acquire that never returned": ("2a?@19" + REFUSED_PROBE, {}),
    "a fault that has hardly healed": (
        REFUSED_PROBE,
        {"windows": (window("pause", "n1", 12, 14),)},
    ),
    "a service that nobody could reach": ("9p?@20 9p~@30", {}),
    "a short wait": ("9p?@20 9p-@22.9", {}),
}


@pytest.mark.parametrize("why", EXCUSES)
def test_a_refusal_with_an_excuse_is_unknown(why: str) -> None:
    text, changes = EXCUSES[why]
    assert both(case(f"{HANDED_OVER} {text}", **changes)) == (Verdict.UNKNOWN, Verdict.UNKNOWN)


def test_every_unknown_acquire_may_burn_one_lease_and_no_more() -> None:
    text = HANDED_OVER + " 2a?@7 2a~@8 9p?@20 9p-@{}"
    assert both(case(text.format("35.9")))[0] is Verdict.UNKNOWN
    assert both(case(text.format("36.1")))[0] is Verdict.VIOLATED


def test_refusals_around_a_free_span_are_not_added_up() -> None:
    text = HANDED_OVER + " 2a?@5 2a-@8.5 3a?@8.6 3a-@11.5 9p?@30 9p+3@31"
    assert both(case(text))[0] is Verdict.HOLDS
    text = HANDED_OVER + " 2a?@6 2a-@8.5 3a?@8.6 3a-@11.5 9p?@30 9p+3@31"
    assert both(case(text))[0] is Verdict.VIOLATED


def test_a_request_that_never_left_is_no_refusal() -> None:
    told = history(HANDED_OVER + REFUSED_PROBE)
    told.rows["err"][-1] = len(told.strings)
    told = type(told)(rows=told.rows, strings=(*told.strings, "never-sent"), writers=told.writers)
    verdict = deadlock_freedom.check(case(told))
    assert verdict.verdict is Verdict.UNKNOWN
    assert verdict.reason == "the probe of 'db' got no response: the service was unavailable"


def test_a_dead_owner_without_a_lease_is_a_deadlock_and_no_orphan() -> None:
    text = "0a?@0 0a+1@1 1a?@2 1a-@4 0C@5 9p?@20 9p-@30"
    judged = case(text, promises={"bound": "none", "tokens": "none"})
    assert both(judged) == (Verdict.VIOLATED, Verdict.UNKNOWN)


def test_an_acquire_that_was_given_back_is_nobodys_excuse_where_no_lease_ends_a_hold() -> None:
    endless: dict[str, Any] = {"promises": {"bound": "none", "tokens": "none"}}
    asked = HANDED_OVER + " 2a?@7 2a~@8"
    assert both(case(asked + REFUSED_PROBE, **endless)) == (Verdict.UNKNOWN, Verdict.UNKNOWN)
    given_back = asked + " 2r?@8.1 2r!@8.2 9p?@{} 9p-@{}"
    judged = case(given_back.format(20, 30), **endless)
    assert both(judged) == (Verdict.VIOLATED, Verdict.VIOLATED)
    judged = case(given_back.format(9, 21), **endless)
    assert both(judged) == (Verdict.UNKNOWN, Verdict.UNKNOWN)


def test_a_killed_owner_of_a_lease_lock_lets_go_when_it_runs_out() -> None:
    text = "0a?@0 0a+1@1 1a?@2 1Q@2.5 1a+2@11 1r?@12 1r+@13 9p?@14 9p+3@15"
    killed = window("kill", "c0", 3, 12, target="holder")
    assert both(case(text, windows=(killed,), kinds=("kill",)))[0] is Verdict.HOLDS
    text = "0a?@0 0a+1@1 1a?@2 1Q@2.5 1a-@8 9p?@14 9p-@30"
    killed = window("kill", "c0", 3, 4, target="holder")
    assert both(case(text, windows=(killed,))) == (Verdict.VIOLATED, Verdict.VIOLATED)


def test_a_killed_owner_lets_go_when_its_session_ends_whatever_lease_was_asked_for() -> None:
    text = "0a?@0 0a+1@1 1a?@2 1Q@2.5 1a-@8 9p?@14 9p-@30"
    fault = {"windows": (window("kill", "c0", 3, 4, target="holder"),), "kinds": ("kill",)}
    short: dict[str, Any] = {"bound": "session", "session_ns": 2 * SECOND}
    assert both(case(text, promises=short, **fault)) == (Verdict.VIOLATED, Verdict.VIOLATED)
    long: dict[str, Any] = {"bound": "session", "session_ns": 30 * SECOND}
    assert Verdict.VIOLATED not in both(case(text, promises=long, **fault))
    leased: dict[str, Any] = {"bound": "lease", "session_ns": 30 * SECOND}
    assert both(case(text, promises=leased, **fault)) == (Verdict.VIOLATED, Verdict.VIOLATED)


def test_a_lock_that_was_never_probed_is_unknown() -> None:
    verdict = orphan_freedom.check(case(HANDED_OVER))
    assert verdict.verdict is Verdict.UNKNOWN
    assert verdict.reason == "never probed after the run: db"


def test_a_lost_row_may_explain_a_deadlock_but_a_slow_client_does_not() -> None:
    def judged(problem: str) -> Verdict:
        told = history(HANDED_OVER + REFUSED_PROBE, problems=[problem])
        return deadlock_freedom.check(case(told)).verdict

    assert judged("writer c1: rows 3 to 8 are missing") is Verdict.UNKNOWN
    assert judged("c1 exited unexpectedly") is Verdict.UNKNOWN
    assert judged("c1 was not idle within 30 s") is Verdict.VIOLATED


def test_other_locks_go_on_meanwhile() -> None:
    text = HANDED_OVER + " 9p?:db@20 9p-@30 3a?:x@19 3a+9@19.5 3r?:x@29 3r+@30"
    verdict = deadlock_freedom.check(case(text))
    assert [finding.lock for finding in verdict.findings] == ["db"]


def test_clock_error_takes_from_both_sides() -> None:
    text = HANDED_OVER + " 9p?@6 9p-@9.5"
    assert both(case(text))[0] is Verdict.VIOLATED
    assert both(case(text, error_ns=SECOND))[0] is Verdict.UNKNOWN


def unbitten(at: float) -> Window:
    return window("partition", "n1", at, at + 1, effective=False)


def test_a_fault_that_was_not_seen_to_bite_still_excuses() -> None:
    judged = case(HANDED_OVER + REFUSED_PROBE, windows=(unbitten(19),))
    assert both(judged)[0] is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("minority_s", "faults", "found"),
    [
        (2, [("kill", "n1", 15, 60)], True),
        (2, [("pause", "n2", 15, 60)], True),
        (2, [("kill", "n1", 15, 60), ("clock", "n2", 28, 40)], False),
        (2, [("kill", "n1", 22, 60)], False),
        (2, [("kill", "n1", 15, 29)], False),
        (2, [("kill", "n1+n2", 15, 60)], False),
        (2, [("kill", "n1", 15, 60), ("pause", "n2", 16, 17)], False),
        (2, [("kill", "n1+c1", 15, 60)], False),
        (2, [("partition", "n1", 15, 60)], False),
        (12, [("kill", "n1", 15, 60)], False),
        (-1, [("kill", "n1", 15, 60)], False),
    ],
)
def test_who_promises_to_do_without_a_minority_is_judged_while_it_is_stopped(
    minority_s: int, faults: list[tuple[str, str, float, float]], found: bool
) -> None:
    text = HANDED_OVER + " 2a?@20 2Q@21 2Q@35 2a-@36 9p?@90 9p+3@91"
    judged = case(
        text,
        promises={"minority_ns": minority_s * SECOND},
        windows=[window(*fault) for fault in faults],
        options={"servers": "3"},
    )
    findings = deadlock_freedom.deadlocks(judged)
    assert bool(findings) == found
    if findings:
        stopped = faults[0][1]
        assert f"no client could hold it, with only {stopped} stopped: its" in findings[0].sentence


SERVED = {"resource": "fenced", "servers": "1"}
AGAIN = tuple(window("kill", "c0", at, at + 1) for at in (3, 8, 13, 18, 23))


@pytest.mark.parametrize("bound", ["none", "lease"])
def test_kills_of_clients_do_not_disturb_a_service(bound: str) -> None:
    """Kills of one client, each within the recovery time of the one before."""
    asked = " ".join(f"1Q@{at / 2}" for at in range(5, 50))
    given: dict[str, Any] = {"promises": {"bound": bound, "tokens": "none"}, "options": SERVED}
    text = f"0a?@0 0a+1@1 1a?@2 {asked} 1a-@25"
    assert both(case(text, windows=AGAIN, **given))[0] is Verdict.VIOLATED
    servers = tuple(window("kill", "n1", w.from_ns / SECOND, w.to_ns / SECOND) for w in AGAIN)
    assert both(case(text, windows=servers, **given))[0] is not Verdict.VIOLATED
    # Where there is no server, a client may have a part of the service in it.
    alone = {**given, "options": {"resource": "fenced", "servers": "0"}}
    assert both(case(text, windows=AGAIN, **alone))[0] is not Verdict.VIOLATED


def test_an_acquire_that_a_kill_cut_off_keeps_no_lock_that_only_a_release_frees() -> None:
    """If it was granted, then to a dead owner; but it may take effect a little later."""
    asked = " ".join(f"1Q@{at / 2}" for at in range(5, 60))
    given: dict[str, Any] = {"promises": {"bound": "none", "tokens": "none"}, "options": SERVED}
    cut_off = f"0a?@0 0a+1@0.5 0r?@1 0r+@1.5 2a?@1.8 1a?@2 {asked} 1a-@30"
    killed = (window("kill", "c2", 2.2, 3),)
    assert both(case(cut_off, windows=killed, **given))[0] is Verdict.VIOLATED
    assert both(case(cut_off, **given))[0] is not Verdict.VIOLATED


def test_a_server_is_called_stopped_only_where_that_was_seen() -> None:
    judged = case(
        HANDED_OVER + " 2a?@20 2Q@21 2Q@35 2a-@36 9p?@90 9p+3@91",
        promises={"minority_ns": 2 * SECOND},
        windows=[window("kill", "n1", 15, 60, effective=False)],
        options={"servers": "3"},
    )
    (finding,) = deadlock_freedom.deadlocks(judged)
    assert "no client could hold it: its last owner" in finding.sentence
