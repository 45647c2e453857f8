"""The findings of a run by cause.

What shares attempts is one incident, and a fault explains an incident only if it was in effect
between its first request and its finding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.harness.core.clock import MILLISECOND as MS
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import BEFORE, Traits
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.verdict import Promises, Severity, Verdict
from holdfast.harness.properties import KINDS, of_mechanism
from holdfast.harness.verdicts.cause_steps import steps_of
from holdfast.harness.verdicts.causes import MECHANISMS, REFUSED, causes_of
from holdfast.harness.verdicts.judged import (
    Cause,
    Event,
    Judged,
    Judgement,
    ObservedFault,
    Shown,
)
from tests.checkers.shorthand import LEASE_LOCK

LEASE_NS = 2 * SECOND


def call(
    op: str, client: int, n: int, from_ms: float, to_ms: float = 0, status: str = "ok"
) -> Event:
    """A call of the n-th attempt of a client."""
    return Event(
        row=int(from_ms * 10) + client,
        op=op,
        node=f"c{client}",
        process=client,
        attempt=(client << 32) + n,
        t_inv_ns=int(from_ms * MS),
        t_ret_ns=int((to_ms or from_ms) * MS),
        status=status,
        arg=LEASE_NS,
    )


def finding(kind: str, at_ms: float, *events: Event, cause: str = "", rule: str = "") -> Shown:
    """A finding whose holds are those of its acquires."""
    return Shown(
        kind=kind,
        sentence=f"the {kind} at {at_ms} ms",
        lock="db",
        t_ns=int(at_ms * MS),
        witnesses=events,
        spans=tuple(
            (one.t_ret_ns, int(at_ms * MS), one.node, n)
            for n, one in enumerate(events)
            if one.op == "acquire"
        ),
        cause=cause,
        certificate={"rule": rule} if rule else None,
    )


def fault(
    do: str, node: str, from_ms: float, to_ms: float, *, id: str = "f1", effective: bool = True
) -> ObservedFault:
    return ObservedFault(
        id=id,
        do=do,
        nodes=(node,),
        from_ns=int(from_ms * MS),
        to_ns=int(to_ms * MS),
        effective=effective,
    )


def causes(
    faults: tuple[ObservedFault, ...] = (),
    limits: dict[str, list[Shown]] | None = None,
    **broken: list[Shown],
) -> tuple[Cause, ...]:
    """The causes of a run with these findings, by property; `limits` are not promised."""
    return causes_of(judged(faults, limits or {}, broken), BEFORE)


def judged(
    faults: tuple[ObservedFault, ...],
    limits: dict[str, list[Shown]],
    broken: dict[str, list[Shown]],
    promises: Promises | None = None,
) -> Judged:
    """A run with these findings."""
    rows = [
        Judgement(
            property=prop.replace("_", "-"),
            verdict=Verdict.VIOLATED,
            promised=promised,
            severity=Severity.HIGH,
            findings=tuple(several),
        )
        for promised, findings in ((True, broken), (False, limits))
        for prop, several in findings.items()
    ]
    return Judged(
        run="r", system="s", backend="sim", workload="w", seed=1, verdict=Verdict.VIOLATED,
        exit_code=1, command="", start_ns=0, stop_ns=0, end_ns=0, servers=("n1", "n2"),
        verdicts=tuple(rows), faults=faults, promises=promises,
    )  # fmt: skip


def late(kind: str, old: Event, *between: Event, at_ms: float, rule: str = "") -> Shown:
    """A late write of the owner `old`."""
    client, n = old.process, old.attempt & 0xFFFFFFFF
    served = call("served-write", client, n, at_ms)
    return finding(kind, at_ms, old, *between, call("write", client, n, at_ms - 1), served,
                   rule=f"{kind}/{rule}")  # fmt: skip


OLD, NEW = call("acquire", 2, 1, 900, 1000), call("acquire", 5, 1, 2000, 3000)
PAUSE = fault("pause", "c2", 1100, 5100)


def test_one_write_that_violates_two_properties_is_one_entry_with_fault_and_effect() -> None:
    admitted = call("served-write", 5, 1, 3100)
    stale = late("stale-accepted-write", OLD, NEW, admitted, at_ms=5200, rule="tokens")
    expired = late("expired-owner-write", OLD, at_ms=5200, rule="passed")
    (one,) = causes((PAUSE,), {"no-stale-write": [stale], "no-expired-write": [expired]})
    assert (one.times, one.under, one.faults, one.broken) == (1, ("pause",), ("f1",), False)
    assert one.findings == {"no-stale-write": (0,), "no-expired-write": (0,)}
    assert one.sentence == (
        "c2 was granted 'db' at 1.000 s; c2 was stopped (pause) at 1.100 s for 4.00 s, longer than"
        " its lease of 2.00 s; c5 was granted 'db' at 3.000 s; c5 wrote at 3.100 s;"
        " the resource accepted c2's late write at 5.200 s."
    )


def test_a_fault_that_took_no_effect_or_came_later_or_struck_another_client_explains_nothing() -> (
    None
):
    stale = late("expired-owner-write", OLD, at_ms=5200, rule="lease")
    for other in (
        fault("pause", "c2", 1100, 5100, effective=False),
        fault("pause", "c2", 5300, 5400),
        fault("pause", "c4", 1100, 5100),
    ):
        (one,) = causes((other,), {"no-expired-write": [stale]})
        assert (one.under, one.faults, one.without) == ((), (), 1)
        assert "stopped" not in one.sentence


def test_what_follows_from_two_holds_is_counted_with_them_and_a_paused_owner_is_not() -> None:
    grant = finding("double-grant", 3000, OLD, call("renew", 2, 1, 3500), NEW)
    token = finding("token-repeated", 3000, OLD, NEW)
    stale = late("stale-accepted-write", OLD, NEW, at_ms=5200, rule="tokens")
    of_lock = {"mutual_exclusion": [grant], "token_order": [token]}
    (one,) = causes((), {"no-stale-write": [stale]}, **of_lock)
    assert one.kind == "double-grant" and one.times == 1
    assert set(one.findings) == {"mutual-exclusion", "token-order", "no-stale-write"}
    first, second = causes((PAUSE,), {"no-stale-write": [stale]}, **of_lock)
    assert (first.kind, second.kind) == ("double-grant", "stale-accepted-write")
    assert (first.broken, second.broken) == (True, False)


def test_where_only_a_release_ends_a_hold_its_owner_is_late_because_of_the_second_grant() -> None:
    """Its renewals failed while its connections were reset; a lease would have ended meanwhile."""
    grant = finding("double-holder", 3000, OLD, call("release", 2, 1, 6000), NEW)
    stale = late("stale-accepted-write", OLD, NEW, at_ms=5200, rule="time")
    rows = {"mutual_exclusion": [grant]}, {"no-stale-write": [stale]}
    forever = replace(LEASE_LOCK, bound="none")
    (one,) = causes_of(judged((PAUSE,), rows[1], rows[0], forever), BEFORE)
    assert one.kind == "double-holder" and set(one.findings) == {
        "mutual-exclusion", "no-stale-write"
    }  # fmt: skip
    assert len(causes_of(judged((PAUSE,), rows[1], rows[0], LEASE_LOCK), BEFORE)) == 2


def test_the_late_writes_of_an_owner_that_should_not_have_been_granted_follow_from_its_grant() -> (
    None
):
    """Its acquire gave up silently while c2 held; c2 is granted the lock again, and writes."""
    false, again = call("acquire", 5, 1, 900, 3000), call("acquire", 2, 2, 4000, 4100)
    grant = finding("broken-lease", 3000, OLD, call("renew", 2, 1, 3500), false)
    stale = late("stale-accepted-write", false, again, at_ms=5200, rule="time")
    (one,) = causes((), {"no-stale-write": [stale]}, mutual_exclusion=[grant])
    assert set(one.findings) == {"mutual-exclusion", "no-stale-write"}
    # The owner that was there before is late for a reason of its own.
    former = late("stale-accepted-write", OLD, again, at_ms=5200, rule="time")
    assert len(causes((), {"no-stale-write": [former]}, mutual_exclusion=[grant])) == 2


def test_refusals_of_a_lock_that_is_stuck_follow_from_that() -> None:
    tries = [call("try", 1, n, 1000 + n, status="fail") for n in range(5)]
    stuck = finding("orphan", 1000, call("try", 2, 1, 900), tries[0], tries[3])
    refused = [finding(REFUSED, 1000 + n, one) for n, one in enumerate(tries)]
    first, second = causes((), {"no-false-rejection": refused}, orphan_freedom=[stuck])
    assert first.kind == "orphan" and first.times == 1 and first.broken
    assert first.findings == {"orphan-freedom": (0,), "no-false-rejection": (0, 1, 2, 3)}
    assert second.kind == REFUSED and second.findings == {"no-false-rejection": (4,)}


def test_an_owner_that_knew_of_its_loss_is_late_by_itself() -> None:
    grant = finding("double-grant", 3000, OLD, call("renew", 2, 1, 3500), NEW)
    for rule, entries in (("told", 2), ("released", 2), ("lease", 1)):
        expired = late("expired-owner-write", OLD, at_ms=5200, rule=rule)
        got = causes((), {"no-expired-write": [expired]}, mutual_exclusion=[grant])
        assert len(got) == entries, rule


def test_a_release_of_anothers_hold_is_the_cause_of_the_whole_chain_of_overlaps() -> None:
    third, fourth = call("acquire", 1, 1, 3200, 3300), call("acquire", 4, 1, 3200, 3400)
    release = call("release", 2, 1, 5150)
    maybe = finding("broken-lease", 3000, OLD, release, NEW, cause="late-release")
    freed = finding("double-grant", 3300, OLD, release, NEW, third, cause="foreign-release")
    # No attempt in common with those before it, and its first owner was granted while they held.
    rest = finding("double-grant", 3400, call("acquire", 3, 1, 3100, 3200), fourth)
    own = finding("foreign-release", 5150, OLD, NEW, release)
    (one,) = causes((PAUSE,), mutual_exclusion=[maybe, freed, rest], ownership=[own])
    assert (one.kind, one.cause, one.times) == ("double-grant", "foreign-release", 1)
    assert one.sentence.startswith("c2 was stopped (pause) at 1.100 s")
    # Long after the lock came to rest the same kind of finding is no part of the chain.
    apart = finding(
        "double-grant", 9400, call("acquire", 3, 2, 9000, 9100), call("acquire", 4, 2, 9000, 9200)
    )
    (joint,) = causes((), mutual_exclusion=[maybe, freed, apart], ownership=[own])
    assert joint.times == 1 and joint.findings["mutual-exclusion"] == (0, 1, 2)
    # Such a release that no grant followed is the same defect.
    alone = call("acquire", 2, 7, 9000, 9100), call("acquire", 4, 7, 9200, 9300)
    other = finding("foreign-release", 9400, *alone, call("release", 2, 7, 9400))
    notice = finding("wrong-reason", 9450, alone[1], call("lost", 4, 7, 9450))
    (whole,) = causes(
        (PAUSE,), mutual_exclusion=[maybe, freed, rest], ownership=[own, other], loss=[notice]
    )
    assert whole.times == 2 and whole.findings["loss"] == (0,)


def test_a_renewal_whose_answer_names_another_hold_is_of_the_incident_of_that_hold() -> None:
    """The service knows owners by name: c5's renewal of a hold that it had released extends c2's,
    and frees c2 of it later. The token of the answer is all that says so."""
    held, newer = replace(OLD, token=7), replace(NEW, token=8)
    former = replace(call("acquire", 5, 9, 100), token=6)
    renewal = replace(call("renew", 5, 9, 1500), token=7)
    grant = finding("broken-lease", 3000, held, newer)
    foreign = finding("foreign-renewal", 1500, former, renewal)
    (one,) = causes((), mutual_exclusion=[grant], ownership=[foreign])
    assert one.kind == "broken-lease" and set(one.findings) == {"mutual-exclusion", "ownership"}
    for other in (replace(renewal, token=-1), replace(renewal, token=6), replace(renewal, token=9)):
        apart = finding("foreign-renewal", 1500, former, other)
        assert len(causes((), mutual_exclusion=[grant], ownership=[apart])) == 2
    # A token that two owners have names neither.
    twice = finding("token-repeated", 4000, held, replace(call("acquire", 3, 1, 3900), token=7))
    got = causes((), ownership=[foreign], token_order=[twice])
    assert [set(one.findings) for one in got] == [{"token-order"}, {"ownership"}]


def test_a_hold_that_was_released_by_another_is_a_trace_of_foreign_releases() -> None:
    """Its owner was notified of a release that it had not requested; whose it was, nobody saw."""
    third = call("acquire", 3, 4, 6000)
    notice = finding("wrong-reason", 6500, third, call("lost", 3, 4, 6500))
    freed = replace(notice, certificate={"rule": "wrong-reason/released"})
    other = replace(notice, certificate={"rule": "wrong-reason/early"})
    own = finding("foreign-release", 3500, OLD, NEW, call("release", 2, 1, 3500))
    (one,) = causes((), ownership=[own], loss_notice=[freed])
    assert one.kind == "foreign-release" and set(one.findings) == {"ownership", "loss-notice"}
    assert len(causes((), ownership=[own], loss_notice=[other])) == 2
    (alone,) = causes((), loss_notice=[freed])
    assert alone.kind == "wrong-reason"


def test_late_releases_are_one_cause_whatever_delayed_them() -> None:
    third, fourth = call("acquire", 3, 1, 6000), call("acquire", 4, 1, 7500)
    first = finding("foreign-release", 5150, OLD, NEW, call("release", 2, 1, 5150))
    second = finding("foreign-release", 8000, third, fourth, call("release", 3, 1, 8000))
    clock, loss = PAUSE, fault("reply-loss", "c3", 6100, 7900, id="f2")
    (one,) = causes((clock, loss), ownership=[first, second])
    assert one.times == 2 and set(one.under) == {"pause", "reply-loss"}


def test_two_faults_that_both_may_explain_it_are_both_named_once() -> None:
    grant = finding("broken-lease", 3000, OLD, NEW)
    clock = ObservedFault(
        id="f2", do="clock", nodes=("n1",), requested_ns=1010 * MS, from_ns=1048 * MS,
        to_ns=4 * SECOND, effective=True, evidence={"offset_ns": {"n1": 5 * SECOND}},
    )  # fmt: skip
    (one,) = causes((fault("kill", "n2", 1200, 1300), clock), mutual_exclusion=[grant])
    assert set(one.under) == {"kill", "clock"} and set(one.faults) == {"f1", "f2"}
    assert one.sentence == (
        "the clock of n1 was set 5.00 s ahead (clock) at 1.010 s; n2 was killed (kill) at 1.200 s;"
        " the broken-lease at 3000 ms."
    )


def test_the_step_of_a_clock_is_said_whether_it_was_measured_per_node_or_per_process() -> None:
    """On hosts the agent steps each process, and its evidence has them by number."""
    grant = finding("broken-lease", 1500, call("acquire", 1, 1, 1000), call("acquire", 2, 1, 1500))
    for moved, text in (
        ({"n1": 5 * SECOND}, "was set 5.00 s ahead"),
        ({"n1": {"17921": 5 * SECOND, "17922": 5 * SECOND}}, "was set 5.00 s ahead"),
        ({"n1": {"17921": -5 * SECOND}}, "was set 5.00 s back"),
        ({"n1": {"17921": 5 * SECOND, "17922": SECOND}}, "was changed"),
        ("none", "was changed"),
    ):
        clock = ObservedFault(
            id="f1", do="clock", nodes=("n1",), requested_ns=1100 * MS, from_ns=1110 * MS,
            to_ns=4 * SECOND, effective=True, evidence={"offset_ns": moved},
        )  # fmt: skip
        (one,) = causes((clock,), mutual_exclusion=[grant])
        assert f"the clock of n1 {text} (clock)" in one.sentence


@pytest.mark.parametrize(
    ("traits", "evidence", "words"),
    [
        (Traits(kills_later=True), {"did": "shut down"}, "s2 was shut down (own) at 1.000 s"),
        (Traits(kills=True), {}, "s2 was killed (own) at 1.000 s"),
        (Traits(kills_later=True), {"did": ["a"]}, "s2 was killed (own) at 1.000 s"),
        (Traits(), {"did": "pinned to one CPU"}, "s2 was pinned to one CPU (own) at 1.000 s for"),
        (Traits(), {"did": "x" * 500}, f"s2 was {'x' * 60} (own) at"),
        (Traits(), {}, "own of s2 at 1.000 s for"),
        # As runs of 0.2 have it.
        (Traits(kills_later=True), {"shutdown_ns": {"s2": 9}}, "s2 was shut down (own) at"),
    ],
)
def test_what_a_fault_did_is_said_in_the_words_of_its_evidence(
    traits: Traits, evidence: dict[str, Json], words: str
) -> None:
    fault = ObservedFault(
        id="f1", do="own", target="s2", nodes=("s2",), from_ns=SECOND, requested_ns=SECOND,
        to_ns=4 * SECOND, effective=True, evidence=evidence,
    )  # fmt: skip
    found = finding("overlap", 3000, call("acquire", 1, 1, 900, 950), call("acquire", 2, 1, 2000))
    run = judged((fault,), {}, {"mutual_exclusion": [found]})
    (struck,) = (step for step in steps_of(run, found, [fault], {"own": traits}) if step.fault)
    assert struck.text.startswith(words)


@pytest.mark.parametrize(
    ("did", "call", "said"),
    [
        ("stopped", {"call": "unlink", "target": "/l"},
         "c1 was stopped before its unlink of /l (syscall) at 2.000 s for 2.00 s"),
        ("stopped", {"call": "sendto", "target": "10.0.0.1:80", "number": 3,
          "point": "after"},
         "c1 was stopped after its sendto to 10.0.0.1:80, number 3 since the fault began"),
        ("stopped", {"call": "sendto", "target": "1.0.0.1:80", "number": 3, "of": "release"},
         "c1 was stopped before its sendto to 1.0.0.1:80, number 3 of its release (syscall)"),
        ("stopped", {"call": "sendto", "target": "10.0.0.1:80", "of": "release"},
         "c1 was stopped before its sendto to 10.0.0.1:80, in its release (syscall)"),
        ("killed", {"call": "mkdir", "target": "/l", "point": "after"},
         "c1 was killed after its mkdir of /l (syscall) at 2.000 s;"),
        ("failed", {"call": "link", "target": "/l -> /m", "point": "after"},
         "the link of /l -> /m by c1 failed after it was made (syscall) at 2.000 s;"),
        ("skipped", {"call": "fsync", "target": "/l"},
         "the fsync of /l by c1 was skipped (syscall) at 2.000 s;"),
    ],
)  # fmt: skip
def test_a_fault_at_a_call_says_which_call_of_which_path_it_met(
    did: str, call: dict[str, Any], said: str
) -> None:
    grant = finding("broken-lease", 3000, OLD, NEW)
    within = call.get("of", "") if "number" in call else ""
    evidence = {"did": did, "within": within, "caught": {"c1": [{"t_ns": 2 * SECOND, **call}]}}
    met = ObservedFault(
        id="f1", do="syscall", nodes=("c1", "c2"), requested_ns=1010 * MS, from_ns=1048 * MS,
        to_ns=4 * SECOND, effective=True, evidence=evidence,
    )  # fmt: skip
    (one,) = causes((met,), mutual_exclusion=[grant])
    assert said in one.sentence and "c2" not in one.sentence.split("(syscall)")[0]


def test_a_fault_that_outlasted_a_session_is_compared_with_the_session() -> None:
    """The lease that was asked for is 2 s; the service keeps a session that is gone for 3 s."""
    write = late("stale-accepted-write", OLD, NEW, at_ms=5200)
    (one,) = causes((PAUSE,), no_stale_write=[write])
    assert "for 4.00 s, longer than its lease of 2.00 s" in one.sentence
    lasting = replace(LEASE_LOCK, bound="session", session_ns=3 * SECOND)
    (one,) = causes_of(judged((PAUSE,), {}, {"no_stale_write": [write]}, lasting), BEFORE)
    assert "for 4.00 s, longer than its session of 3.00 s" in one.sentence
    longer = replace(LEASE_LOCK, bound="session", session_ns=5 * SECOND)
    (one,) = causes_of(judged((PAUSE,), {}, {"no_stale_write": [write]}, longer), BEFORE)
    assert "longer than" not in one.sentence


def test_incidents_that_need_different_faults_are_different_causes_and_as_few_as_explain_all() -> (
    None
):
    first = finding("broken-lease", 3000, OLD, NEW)
    later = call("acquire", 2, 2, 8000, 8100), call("acquire", 5, 2, 8000, 8500)
    second = finding("broken-lease", 8500, *later)
    clock, kill = fault("clock", "n1", 1100, 1200), fault("kill", "n2", 8200, 8300, id="f2")
    both = causes((clock, kill), mutual_exclusion=[first, second])
    assert [(one.under, one.times) for one in both] == [(("clock",), 1), (("kill",), 1)]
    again = fault("clock", "n1", 8150, 8200, id="f3")
    (one,) = causes((clock, kill, again), mutual_exclusion=[first, second])
    assert (one.under, one.faults, one.times) == (("clock",), ("f1", "f3"), 2)


def test_what_also_happens_without_a_fault_needs_none() -> None:
    first = finding("broken-lease", 3000, OLD, NEW)
    later = call("acquire", 2, 2, 8000, 8100), call("acquire", 5, 2, 8000, 8500)
    faults = (fault("clock", "n1", 1100, 1200),)
    got = causes(faults, mutual_exclusion=[first, finding("broken-lease", 8500, *later)])
    assert [(one.under, one.times, one.without) for one in got] == [((), 2, 1)]
    assert "clock" not in got[0].sentence


def test_promises_come_first_and_then_what_others_can_follow_from() -> None:
    stuck = finding("deadlock", 1000, call("acquire", 1, 1, 500))
    false = finding("false-answer", 900, call("query", 1, 2, 800))
    grant = finding("double-grant", 3000, OLD, NEW)
    hung = finding("hung-request", 100, call("acquire", 4, 4, 50))
    got = causes((), {"no-hung-request": [hung]}, deadlock_freedom=[stuck],
                 truthful_queries=[false], mutual_exclusion=[grant])  # fmt: skip
    kinds = [one.kind for one in got]
    assert kinds == ["double-grant", "false-answer", "deadlock", "hung-request"]


def test_a_run_without_a_violation_has_no_cause() -> None:
    assert causes() == ()


def test_each_kind_of_finding_has_a_mechanism_or_explains_nothing() -> None:
    """A new kind is placed on purpose: else it would stand last, beside the waits."""
    placed = [kind for kinds in MECHANISMS.values() for kind in kinds]
    assert len(placed) == len(set(placed))
    assert {*placed, *of_mechanism("none")} == set(KINDS)
