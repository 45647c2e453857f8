"""The event between two grants that is named as what made the second one possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from holdfast.checkers.properties import mutual_exclusion
from holdfast.harness.core.case import Case, Election, Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import Mode, Op, Terms
from holdfast.harness.judging import second_grant
from holdfast.harness.judging.second_grant import happened
from holdfast.harness.judging.shown_rows import event
from holdfast.harness.verdicts.advice import EVENTS, advice_of
from holdfast.harness.verdicts.judged import Shown, Step
from tests.checkers.shorthand import case, history, on

FIRST = "0a?@0 0a+1@0.1"
KEPT = "0n?@9 0n+@9.1"
"""That the first owner still held at 9 s."""


def fault(node: str, from_s: float, to_s: float, **traits: Any) -> Window:
    """An effective fault of one node."""
    return Window(
        id="f1", do="some", target=node, nodes=(node,), from_ns=int(from_s * SECOND),
        to_ns=int(to_s * SECOND), effective=True, evidence={}, traits=Traits(**traits),
    )  # fmt: skip


def named(text: str, *terms: Terms, **changes: Any) -> Step:
    """The event of the first finding of a history."""
    options = {"resource": "fenced", "servers": "3"}
    whole = case(on(history(text), *terms), options=options, **changes)
    step = happened(whole, shown(whole))
    assert step is not None
    assert step.t_ns <= whole.end_ns
    return step


def shown(whole: Case) -> Shown:
    """The first violation of mutual exclusion, as the judge shows it."""
    first = mutual_exclusion.check(whole).findings[0]
    return Shown(
        kind=first.kind,
        sentence=first.sentence,
        lock=first.lock,
        t_ns=first.t_ns,
        witnesses=tuple(event(whole.history, row, whole.nodes) for row in first.witnesses),
    )


def second(at_s: float) -> str:
    """The second grant, to process 1, which asked a tenth of a second before."""
    return f"1a?@{at_s - 0.1} 1a+2@{at_s}"


WAITED = "1a?@1 1Q@1.1 {} 1a+2@5"
CASES: dict[str, tuple[str, str]] = {
    "nothing": ("nothing", f"{FIRST} {second(5)} {KEPT}"),
    "both ask at once": ("concurrent", f"0a?@0 1a?@0.01 0a+1@0.1 1a+2@0.2 {KEPT}"),
    "a release of another": (
        "foreign-release",
        f"{FIRST} 2t?@1 2t-@1.1 2r?@3 2r+@3.1 {second(5)} {KEPT}",
    ),
    "a waiter gives up": (
        "gave-up",
        f"{FIRST} {WAITED.format('2a?@1 2Q@1.2 2a-@4.97')} {KEPT}",
    ),
    "time": ("lease", f"{FIRST} {WAITED.format('')} {KEPT}"),
    "a renewal that did not count": (
        "lease",
        f"{FIRST} 0n?@8 0n+@8.1 1a?@1 1Q@1.1 1Q@8.2 1a+2@11 0n?@12 0n+@12.1",
    ),
    "no token": ("no-token", f"{FIRST} 1a?@4 1a+@5 {KEPT}"),
    "the token of the first": ("same-token", f"{FIRST} 1a?@4 1a+1@5 {KEPT}"),
    "an answer that was lost": (
        "unanswered",
        f"{FIRST} 2a?@1 2a~@3 {second(5)} {KEPT}",
    ),
    "a session": ("session", f"{FIRST} {second(5)} 0C@5.03"),
    "a grant that came late": (
        "late-answer",
        "0a?@0 1a?@1 1a+2@2 0a+1@5 0n?@6 0n+@6.1",
    ),
    "an ok after the lease": ("late-ok", f"{FIRST} {second(12)} 0n?@13 0n+@13.1"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_event_between_two_grants(name: str) -> None:
    wanted, text = CASES[name]
    assert named(text).event == wanted


def stopped_amid_a_call(node: str, to_s: float, did: str = "stopped") -> Window:
    caught: Json = {node: [{"call": "unlink", "target": "/l", "t_ns": 1}]}
    return replace(fault("c9", 1, to_s), evidence={"did": did, "caught": caught})


@pytest.mark.parametrize(
    ("window", "event"),
    [
        (stopped_amid_a_call("c2", 5.01), "resumed"),
        (stopped_amid_a_call("c1", 4.98), "resumed"),
        (stopped_amid_a_call("c2", 5.2), "nothing"),
        (stopped_amid_a_call("c2", 4.8), "nothing"),
        (stopped_amid_a_call("c0", 5.01), "nothing"),
        (stopped_amid_a_call("n1", 5.01), "nothing"),
        (stopped_amid_a_call("c2", 5.01, "delayed"), "nothing"),
    ],
)
def test_who_went_on_just_then_after_it_stood_at_a_call_is_named(
    window: Window, event: str
) -> None:
    step = named(f"{FIRST} {second(5)} {KEPT}", windows=(window,))
    assert step.event == event and bool(step.fault) == (event == "resumed")


FAULTS: dict[str, tuple[str, str, dict[str, bool]]] = {
    "clock": ("clock-change", "n1", {"shifts_clocks": True}),
    "restart": ("restart", "n1", {"kills": True}),
    "connection": ("connection", "c0", {"on_connections": True}),
    "owner": ("owner-fault", "c0", {"stops": True}),
    "server": ("server-fault", "n2", {"cuts": True}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_between_two_grants_is_named_and_one_before_or_after_them_is_not(name: str) -> None:
    wanted, node, traits = FAULTS[name]
    text = f"{FIRST} {second(5)} {KEPT}"
    step = named(text, windows=(fault(node, 3, 4, **traits),))
    assert (step.event, step.fault) == (wanted, "f1")
    for from_s, to_s in ((-2, -1), (6, 7)):
        assert named(text, windows=(fault(node, from_s, to_s, **traits),)).event == "nothing"


def test_what_came_before_the_last_refusal_is_excluded() -> None:
    refused = f"{FIRST} 2t?@4 2t-@4.1 {second(5)} {KEPT}"
    for window in (
        fault("n1", 1, 2, shifts_clocks=True),
        fault("n1", 1, 2, kills=True),
        fault("c0", 1, 2, on_connections=True),
        fault("n2", 1, 2, cuts=True),
    ):
        assert named(refused, windows=(window,)).event == "nothing"
    election = Election(t_ns=1 * SECOND, leader="n2", term=2)
    assert named(refused, elections=(election,)).event == "nothing"
    later = Election(t_ns=int(4.5 * SECOND), leader="n2", term=2)
    assert named(refused, elections=(election, later)).event == "election"


def test_a_session_that_was_over_is_named_with_its_own_length() -> None:
    """Of a lock that ends with its client's session the lease that was asked for says nothing."""
    text = f"{FIRST} {second(12)} 0n?@13 0n+@13.1"
    lasting = {"bound": "session", "session_ns": 11 * SECOND}
    assert "c0's lease of 10.0 s, counted from its grant" in named(text).text
    step = named(text, promises=lasting)
    assert step.event == "late-ok" and "c0's session of 11.0 s, counted from its grant" in step.text


def test_an_owner_that_releases_one_of_its_entries_and_one_that_shares() -> None:
    entries = Terms(reenter=True)
    text = f"{FIRST} 0a?@1 0a+1@1.1 0r?@3 0r+@3.1 {second(5)} 0.1n?@9 0.1n+@9.1"
    assert named(text, entries).event == "released"
    shared = (Terms(mode=Mode.SHARED), Terms(), Terms(mode=Mode.SHARED))
    text = f"{FIRST} 2a?@0 2a+1@0.1 2r?@4.8 2r+@4.98 1a?@4 1a+2@5 {KEPT}"
    assert named(text, *shared).event == "other-release"


@pytest.mark.parametrize(
    ("wanted", "between"),
    [
        ("forced", "2f?@3 2f+@3.1"),
        ("session", "0C@4.98"),
        ("ran-out", ""),
        ("released", "0r?@1 0r+@1.1"),
    ],
)
def test_what_ended_the_hold_of_a_late_writer(wanted: str, between: str) -> None:
    at_s = 12 if wanted == "ran-out" else 5
    whole = case(f"{FIRST} {between} {second(at_s)}")
    asked = [row for row, one in enumerate(whole.history.rows) if one["f"] == Op.ACQUIRE]
    finding = Shown(
        kind="stale-accepted-write", sentence="", lock="db", t_ns=20 * SECOND,
        witnesses=tuple(event(whole.history, row, whole.nodes) for row in asked),
    )  # fmt: skip
    step = happened(whole, finding)
    assert step is not None and step.event == wanted


def test_the_death_of_an_owner_within_its_lock_delay_is_named() -> None:
    killed = fault("c0", 3, 4, kills=True)
    whole = case(f"{FIRST} {second(5)}", windows=(killed,))
    rows = [event(whole.history, row, whole.nodes) for row in (0, 1)]
    finding = Shown(
        kind="early-grant", sentence="", lock="db", t_ns=5 * SECOND, witnesses=tuple(rows)
    )
    step = happened(whole, finding)
    assert step is not None and (step.event, step.fault) == ("killed", "f1")


def test_the_kill_of_the_last_owner_of_a_lock_that_stays_closed_is_named() -> None:
    text = f"{FIRST} 1t?@6 1t-@6.1"
    for struck, wanted in (
        (fault("c0", 3, 4, kills=True), True),
        (fault("c1", 3, 4, kills=True), False),
    ):
        whole = case(text, windows=(struck,))
        last = (event(whole.history, 0, whole.nodes),)
        stuck = Shown(kind="deadlock", sentence="", lock="db", t_ns=5 * SECOND, witnesses=last)
        step = happened(whole, stuck)
        assert (step is not None and step.event == "owner-died") is wanted


def test_findings_about_one_grant_have_no_such_event() -> None:
    whole = case(f"{FIRST} {second(5)} {KEPT}")
    finding = shown(whole)
    assert happened(whole, Shown(kind="deadlock", sentence="", lock="db", t_ns=0)) is None
    one = finding.witnesses[:1]
    alone = Shown(kind=finding.kind, sentence="", lock="db", t_ns=0, witnesses=one)
    assert happened(whole, alone) is None


def test_each_event_has_advice_that_speaks_of_quorums_only_to_several_servers() -> None:
    finders: tuple[Callable[..., Step | None], ...] = (
        *second_grant.ENDED, *second_grant.FORGOTTEN, *second_grant.LOST, *second_grant.DIED,
    )  # fmt: skip
    assert len(set(finders)) >= len(EVENTS) - 4
    for name in EVENTS:
        alone = advice_of(name, 1)
        assert alone.index("If you use this lock: ") == 0 < alone.index(" If you wrote it: ")
        assert "majority of the servers" not in alone and "quorum" not in alone
    assert "majority of the servers" in advice_of("restart", 3)
