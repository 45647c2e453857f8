"""One property under several kinds of fault: each is judged by its own windows."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from holdfast.checkers.facts.verdicts_by_fault import at_work
from holdfast.checkers.properties.mutual_exclusion import check
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.verdict import Finding, PropertyVerdict, Severity, Verdict
from holdfast.harness.judging.outcome import overall
from holdfast.harness.verdicts.judged import Judgement, UnderKind
from tests.checkers.faults import window
from tests.checkers.shorthand import case

HELD = "0a?@0 0a+1@1 1a?@2 0r?@4 0r+@5 1a+2@6 1r?@7 1r+@8 0a?@20 0a+3@21 1a?@21.5 0r?@22 0r+@23"
HELD += " 1a+4@24 1r?@25 1r+@26"
BROKEN = HELD + " 0a?@60 0a+5@61 1a?@62 1a+6@63 0n?@64 0n+@65 1n?@64 1n+@65"
"""Two proved holds at once from 63 s on."""
PAUSE, CLOCK = window("pause", "n1", 3, 7), window("clock", "n1", 21.2, 22.5)
RESET = window("reset", "c0", 3, 7, effective=False)


def judged(text: str, *windows: Any, kinds: tuple[str, ...]) -> PropertyVerdict:
    return check(told(text, *windows, kinds=kinds))


def told(text: str, *windows: Any, kinds: tuple[str, ...] = ()) -> Case:
    options = {"resource": "fenced", "servers": "3"}
    return case(text, windows=windows, kinds=kinds, options=options)


def words(verdict: PropertyVerdict) -> dict[str, str]:
    return {kind: str(at.verdict) for kind, at in verdict.under.items()}


def test_a_run_without_faults_is_judged_without_faults() -> None:
    assert words(judged(HELD, kinds=())) == {"none": "HOLDS"}
    assert words(judged("0a? 0a+1", kinds=())) == {"none": "UNKNOWN"}


def test_one_kind_without_effect_takes_nothing_from_the_others() -> None:
    verdict = judged(HELD, PAUSE, CLOCK, RESET, kinds=("pause", "clock", "reset"))
    assert verdict.verdict is Verdict.HOLDS
    assert words(verdict) == {"pause": "HOLDS", "clock": "HOLDS", "reset": "UNKNOWN"}
    assert verdict.under["reset"].reason == "no reset took effect: 0 of 1"
    assert verdict.reason == (
        "no violation found under pause, clock; not exercised under reset (no reset took"
        " effect: 0 of 1)"
    )


def test_one_window_without_effect_takes_nothing_from_its_kind() -> None:
    missed = window("pause", "n2", 4, 5, effective=False)
    verdict = judged(HELD, PAUSE, missed, kinds=("pause",))
    assert words(verdict) == {"pause": "HOLDS"}
    assert verdict.under["pause"].exercised["pause windows without effect"] == 1


def test_where_no_kind_was_exercised_nothing_is_known() -> None:
    verdict = judged(HELD, RESET, kinds=("reset", "kill"))
    assert verdict.verdict is Verdict.UNKNOWN
    assert words(verdict) == {"reset": "UNKNOWN", "kill": "UNKNOWN"}


def test_what_was_not_exercised_at_all_was_not_under_any_kind() -> None:
    verdict = judged("0a?@0 0a+1@4 0r?@5 0r+@6 0a?@9 0a+2@10", PAUSE, kinds=("pause",))
    assert words(verdict) == {"pause": "UNKNOWN"}
    assert "no acquire waited" in verdict.under["pause"].reason


def test_a_violation_belongs_to_the_one_kind_at_work() -> None:
    near = window("partition", "n1", 62.5, 63.5)
    verdict = judged(BROKEN, PAUSE, near, kinds=("pause", "partition"))
    assert verdict.verdict is Verdict.VIOLATED
    assert words(verdict) == {"pause": "HOLDS", "partition": "VIOLATED"}
    assert verdict.under["partition"].findings == (0,)


def test_a_violation_amid_two_kinds_says_nothing_about_either() -> None:
    cut, delay = window("partition", "n1", 62, 64), window("delay", "n1", 62, 64)
    verdict = judged(BROKEN, cut, delay, kinds=("partition", "delay"))
    assert words(verdict) == {
        "partition": "UNKNOWN",
        "delay": "UNKNOWN",
        "delay+partition": "VIOLATED",
    }
    assert "which of them is needed is not known" in verdict.under["delay"].reason


def test_a_violation_before_any_fault_needs_none() -> None:
    late = window("pause", "n1", 70, 72)
    verdict = judged(BROKEN + " 0r?@75 0r+@76", late, kinds=("pause",))
    assert words(verdict) == {"pause": "UNKNOWN", "none": "VIOLATED"}
    assert verdict.under["pause"].reason == "violated without any fault"


@pytest.mark.parametrize(
    ("kind", "at_s", "expected"),
    [
        ("pause", 12.0, "pause"),
        ("pause", 30.0, "pause"),
        ("kill", 60.0, "kill"),
        ("pause", 2.0, "none"),
    ],
)
def test_what_a_fault_may_have_left_behind_counts(kind: str, at_s: float, expected: str) -> None:
    """Recovery 5 s and lease 10 s after the heal; of a restart without end, and of the only fault
    before it as well."""
    finding = Finding(
        kind="double-grant", sentence="", witnesses=(), lock="db", t_ns=round(at_s * SECOND)
    )
    assert at_work(told(HELD, window(kind, "n1", 3, 7)), finding) == expected


def row(verdict: str, *, promised: bool = True, **under: str) -> Judgement:
    """A row of verdicts.json; of `under` a verdict per kind, as the plan asked for."""
    kinds = {
        kind: UnderKind(verdict=Verdict(at), asked=True, promised=True, reason="idle")
        for kind, at in under.items()
    }
    return Judgement(
        property="ownership",
        verdict=Verdict(verdict),
        promised=promised,
        severity=Severity.HIGH,
        under=kinds,
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row("HOLDS", pause="HOLDS", kill="HOLDS")], ("HOLDS", 0)),
        ([row("HOLDS", pause="HOLDS", kill="UNKNOWN")], ("UNKNOWN", 3)),
        ([row("HOLDS"), row("UNKNOWN", promised=False, pause="UNKNOWN")], ("HOLDS", 0)),
        ([row("VIOLATED", pause="VIOLATED", kill="UNKNOWN")], ("VIOLATED", 1)),
        ([row("VIOLATED", promised=False), row("HOLDS", kill="UNKNOWN")], ("UNKNOWN", 3)),
        ([row("HOLDS")], ("HOLDS", 0)),
    ],
)
def test_a_run_passes_only_if_every_kind_that_was_asked_for_was_exercised(
    rows: list[Judgement], expected: tuple[str, int]
) -> None:
    assert overall(rows, ()) == expected


def test_what_a_run_is_not_for_need_not_be_exercised_under_every_kind() -> None:
    rows = [row("HOLDS", pause="HOLDS", kill="UNKNOWN")]
    assert overall(rows, (), ("mutual-exclusion",)) == ("HOLDS", 0)
    assert overall(rows, (), ("ownership",)) == ("UNKNOWN", 3)


def test_a_kind_under_which_nothing_is_promised_need_not_be_exercised() -> None:
    one = row("HOLDS", pause="HOLDS", clock="UNKNOWN")
    one = replace(one, under={**one.under, "clock": replace(one.under["clock"], promised=False)})
    assert not one.not_exercised()
    assert overall([one], ()) == ("HOLDS", 0)


def test_the_faults_of_a_finding_are_those_near_any_of_its_rows() -> None:
    chance, seen = random.Random("at work"), set[str]()
    given = told(HELD)
    rows = given.history.rows
    for _ in range(300):
        windows = [
            window(kind, "n1", begun, begun + chance.choice((0, 1, 4)))
            for kind in chance.sample(("pause", "kill", "partition"), chance.randrange(4))
            for begun in [chance.randrange(-40, 30)]
        ]
        witnesses = chance.sample(range(len(rows)), chance.randrange(4))
        t_ns = chance.randrange(40) * SECOND
        first_ns = min([int(rows["t_inv"][row]) for row in witnesses] + [t_ns])
        lasts_ns = given.promises.recovery_ns + given.lease_ns
        before = [w for w in windows if w.from_ns <= t_ns]
        near = [w for w in before if not w.traits.passes or w.to_ns + lasts_ns >= first_ns]
        finding = Finding(
            kind="double-grant", sentence="", witnesses=tuple(witnesses), lock="db", t_ns=t_ns
        )
        expected = "+".join(sorted({w.do for w in near or before})) or "none"
        assert at_work(replace(given, windows=tuple(windows), memo={}), finding) == expected
        seen.add(expected)
    assert len(seen) > 4


@pytest.mark.parametrize(
    ("reason", "lasted", "at"),
    [("no heal was observed", 4, "pause"), ("no heal was observed", 0, "none"), ("", 4, "none")],
)
def test_a_fault_that_was_never_measured_counts_only_if_it_lasted(
    reason: str, lasted: int, at: str
) -> None:
    unknown = replace(window("pause", "n1", 50, 50 + lasted, effective=False), reason=reason)
    broken = told(BROKEN, unknown, kinds=("pause",))
    (finding, *_) = check(broken).findings
    assert at_work(broken, finding) == at


@pytest.mark.parametrize(
    ("requested", "blamed"), [(-1, "none"), (63.1, "none"), (62.9, "clock"), (60, "clock")]
)
def test_a_fault_may_act_from_its_request_on(requested: float, blamed: str) -> None:
    """The agent notes the time when a clock has been stepped; a violation may come before that."""
    stepped = window("clock", "n1", 63.2, 70)
    asked_ns = -1 if requested < 0 else round(requested * SECOND)
    verdict = judged(BROKEN, replace(stepped, requested_ns=asked_ns), kinds=("clock",))
    assert verdict.findings[0].t_ns == 63 * SECOND
    assert words(verdict)[blamed] == "VIOLATED"
    assert ("none" in words(verdict)) == (blamed == "none")
