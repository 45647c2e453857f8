"""What a run must have met: each need alone, and the one place where verdicts are made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.checkers.coverage.requirements import NEEDS, Exercise, conclude, exercise
from holdfast.checkers.facts.verdicts_by_fault import Met
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.verdict import Finding, Verdict
from tests.checkers.faults import window
from tests.checkers.shorthand import case, history

ALONE = "0a? 0a+1 0r? 0r+ 1a? 1a+2 1r? 1r+"
CONTENDED = "0a? 0a+1 1a? 0r? 0r+ 1a+2 1r? 1r+"


def missing(told: str | Case, *needs: str) -> list[str]:
    judged = case(told) if isinstance(told, str) else told
    met = exercise(judged, needs=needs)
    return [*met.missing, *(reason for kind in met.kinds.values() for reason in kind.missing)]


def test_every_need_says_what_it_demands() -> None:
    for demand, _ in NEEDS.values():
        assert len(demand) > 10


def test_an_unknown_need_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        exercise(case(ALONE), needs=("luck",))


def test_an_acquire_that_met_a_held_lock_is_contended() -> None:
    assert missing(ALONE, "contention") == ["no acquire waited: 0 of 2"]
    assert not missing(CONTENDED, "contention")
    assert exercise(case(CONTENDED), needs=("contention",)).counts == {
        "acquires": 2,
        "contended acquires": 1,
    }


def test_an_acquire_that_was_told_to_wait_is_contended() -> None:
    assert not missing("0a? 0Q 0a+1 0r? 0r+", "contention")


def test_a_refused_try_met_a_held_lock() -> None:
    assert not missing("0a? 0a+1 1t? 1t- 0r? 0r+", "contention")


def test_a_probe_is_no_contention() -> None:
    assert missing("0a? 0a+1 9p? 9p-", "contention") == ["no acquire waited: 0 of 1"]


def test_a_lock_without_lease_is_judged_by_certain_holds_and_a_lease_lock_is_not() -> None:
    late = "0a?@0 1a?@0 0a+1@50 0r?@51 0r~@52"
    assert missing(late, "judged-holds") == ["no grant has a hold that can be judged: 0 of 1"]
    assert not missing(case(late, promises={"bound": "none"}), "judged-holds")


def test_one_owner_alone_shows_nothing_of_the_resource() -> None:
    assert missing("0a? 0a+1 0w? 0S+ 0w+", "requests") == [
        "the resource received requests of 1 attempt only"
    ]


def test_every_lock_is_to_be_probed() -> None:
    text = "0a?:x 0a+1 0a?:y 0a+1 9p?:x 9p+2"
    assert missing(text, "probes") == ["never probed after the run: y"]
    assert missing("", "probes") == ["no client asked for a lock"]


def test_turned_down_releases_losses_and_tokens_are_counted() -> None:
    assert missing(ALONE, "stale-releases") == [
        "no client but the holder released or renewed: 0 of 2"
    ]
    assert missing(ALONE, "losses") == ["no holder lost its lock"]
    assert not missing("0a? 0a+1 0n? 0n!", "stale-releases", "losses")
    assert missing("0a? 0a+", "tokens") == ["no grant carried a token: 0 of 1"]


UNDER_FAULT = "0a?@0 0a+1@1 1a?@2 0r?@4 0r+@5 1a+2@6 1r?@7 1r+@8 0a?@20 0a+3@21"


def under(*windows: Any, **changes: Any) -> Case:
    """UNDER_FAULT on three servers, with a pause planned."""
    options = {"resource": "fenced", "servers": "3"}
    fields = {"kinds": ("pause",), "options": options, **changes}
    return case(UNDER_FAULT, windows=windows, **fields)


def test_a_fault_with_work_inside_around_and_after_it_counts() -> None:
    assert not missing(under(window("pause", "n1", 3, 7)), "faults")


NOT_EXERCISED = {
    "never injected": ((), "no pause took place"),
    "no effect": ((window("pause", "n1", 3, 7, effective=False),), "no pause took effect: 0 of 1"),
    "another kind": ((window("kill", "n1", 3, 7),), "no pause took place"),
    "idle time": (
        (window("pause", "n1", 10, 12),),
        "no acquire was in flight during a pause: 0 in 1 window",
    ),
    "no grant": (
        (window("pause", "n1", 8.5, 19.5),),
        "no grant during a pause that was longer than any hold could last: 0 in 1 window",
    ),
    "the end": ((window("pause", "n1", 3, 30),), "no grant after the last pause had healed"),
    "not the holder": (
        (window("pause", "c1", 3, 7, target="holder"),),
        "no pause of the holder found it holding: 0 of 1",
    ),
}


@pytest.mark.parametrize("why", NOT_EXERCISED)
def test_a_fault_that_met_nothing_says_so(why: str) -> None:
    windows, reason = NOT_EXERCISED[why]
    assert reason in missing(under(*windows), "faults")


def test_a_part_does_not_miss_grants_in_a_window_that_lies_before_it() -> None:
    """Their rows are not in it: whether there were some is known from the parts before."""
    windows, reason = NOT_EXERCISED["no grant"]
    whole = under(*windows)
    assert reason in missing(replace(whole, since_ns=19 * SECOND, memo={}), "faults")
    assert reason not in missing(replace(whole, since_ns=20 * SECOND, memo={}), "faults")


def test_a_hold_across_an_edge_is_needed() -> None:
    text = "0a?@0 1t?@0.5 0a+1@1 0r?@2 0r+@3 1t-@6 0a?@6.5 0a+2@7 0r?@7.1 0r+@7.2 0a?@20 0a+3@21"
    judged = case(text, windows=(window("pause", "n1", 4, 8),), kinds=("pause",))
    assert missing(judged, "faults") == [
        "no hold was open when a pause began or ended: 0 of 1 window"
    ]


def test_a_fault_of_the_holder_that_held_counts() -> None:
    assert not missing(under(window("pause", "c0", 3, 7, target="holder")), "faults")


def test_one_window_of_a_kind_may_make_up_for_another() -> None:
    short, idle = window("pause", "n1", 3, 5), window("pause", "n1", 5.5, 7)
    assert not missing(under(short, idle), "faults")


def test_no_grant_is_asked_for_where_no_quorum_was_left() -> None:
    assert not missing(under(window("pause", "n1+n2", 3, 5, target="majority")), "faults")


LONG_HOLD = "0a?@0 0a+1@1 1a?@2 0r?@24 0r+@25 1a+2@26 1r?@27 1r+@28"


@pytest.mark.parametrize(
    ("bound", "to_s", "lacking"),
    [("lease", 20, True), ("lease", 12, False), ("connection", 20, False), ("none", 20, False)],
)
def test_no_grant_is_expected_while_the_lock_may_stay_held(
    bound: str, to_s: float, lacking: bool
) -> None:
    """A lease of 10 s ends within 17 s of partition, and need not end within 9 s."""
    judged = case(
        LONG_HOLD,
        windows=(window("partition", "n1", 3, to_s),),
        kinds=("partition",),
        options={"resource": "fenced", "servers": "3"},
        promises={"bound": bound},
    )
    assert bool(missing(judged, "faults")) is lacking


def test_a_grant_is_expected_in_a_short_fault_while_the_lock_is_free() -> None:
    text = "0a?@0 0a+1@1 0r?@2 0r+@3 1a?@4 1a+2@9 1r?@9.2 1r+@9.4 0a?@9.1 0a+3@9.6"
    options = {"resource": "fenced", "servers": "3"}
    cut = (window("partition", "n1", 4.5, 8),)
    judged = case(text, windows=cut, kinds=("partition",), options=options)
    assert any("no grant during a partition" in reason for reason in missing(judged, "faults"))


@pytest.mark.parametrize("waits", [False, True])
def test_in_a_short_fault_a_free_lock_is_to_be_granted_only_to_a_client_that_waits(
    waits: bool,
) -> None:
    """x is held, y is free: that y is not granted says something only if a client waited for it."""
    text = "2a?:y@0.2 2a+5:y@0.4 2r?:y@0.6 2r+:y@0.8 0a?:x@0 0a+1:x@1 1a?:x@4 "
    text += "3a?:y@4.2 3a+6:y@9 " if waits else ""
    text += "0r?:x@9.1 0r+:x@9.2 1a+2:x@9.3"
    options = {"resource": "fenced", "servers": "3"}
    cut = (window("partition", "n1", 4.5, 8),)
    judged = case(text, windows=cut, kinds=("partition",), options=options)
    lacking = any("no grant during a partition" in reason for reason in missing(judged, "faults"))
    assert lacking is waits


def test_every_planned_kind_is_to_be_met() -> None:
    judged = under(window("pause", "n1", 3, 7), kinds=("pause", "kill"))
    assert missing(judged, "faults") == ["no kill took place"]


def finding(kind: str) -> Finding:
    return Finding(kind=kind, sentence="it went wrong", witnesses=(0, 1), lock="db", t_ns=1)


ENOUGH = Exercise(counts={"grants": 7}, missing=(), kinds={})
LACKS = ("no acquire waited: 0 of 2", "no holder lost its lock")
LACKING = Exercise(counts={}, missing=LACKS, kinds={})
ROWS_LOST = "writer c0: rows 4 to 9 are missing"
LATE = "c0 was not idle within 30 s"


@pytest.mark.parametrize(
    ("kinds", "problem", "met", "expected"),
    [
        ((), "", ENOUGH, Verdict.HOLDS),
        ((), "", LACKING, Verdict.UNKNOWN),
        ((), ROWS_LOST, ENOUGH, Verdict.UNKNOWN),
        ((), LATE, ENOUGH, Verdict.UNKNOWN),
        (("double-grant",), "", LACKING, Verdict.VIOLATED),
        (("double-grant",), ROWS_LOST, LACKING, Verdict.VIOLATED),
        (("double-holder",), ROWS_LOST, ENOUGH, Verdict.UNKNOWN),
        (("double-holder",), LATE, ENOUGH, Verdict.VIOLATED),
        (("double-holder", "double-grant"), ROWS_LOST, ENOUGH, Verdict.VIOLATED),
    ],
)
def test_a_violation_outranks_a_lack_and_a_lack_outranks_a_pass(
    kinds: tuple[str, ...], problem: str, met: Exercise, expected: Verdict
) -> None:
    told = history(ALONE, problems=[problem] if problem else [])
    verdict = conclude(case(told), "mutual-exclusion", [finding(k) for k in kinds], (), met)
    assert verdict.verdict is expected
    assert len(verdict.findings) == len(kinds)
    assert problem in verdict.reason or verdict.verdict is Verdict.VIOLATED


UNDER = {
    # Kinds of fault with enough coverage and without: verdict, and the verdict of each kind.
    (): (Verdict.HOLDS, {"none": Verdict.HOLDS}),
    ("kill",): (Verdict.HOLDS, {"kill": Verdict.HOLDS}),
    ("-kill",): (Verdict.UNKNOWN, {"kill": Verdict.UNKNOWN}),
    ("kill", "-pause"): (Verdict.HOLDS, {"kill": Verdict.HOLDS, "pause": Verdict.UNKNOWN}),
    ("-kill", "-pause"): (Verdict.UNKNOWN, {"kill": Verdict.UNKNOWN, "pause": Verdict.UNKNOWN}),
}


@pytest.mark.parametrize("of_kinds", UNDER)
@pytest.mark.parametrize("problem", ["", ROWS_LOST, LATE])
@pytest.mark.parametrize("kind", ["", "double-grant", "double-holder"])
@pytest.mark.parametrize("lacks", [(), LACKS])
def test_no_kind_of_fault_holds_where_the_property_may_be_violated(
    of_kinds: tuple[str, ...], problem: str, kind: str, lacks: tuple[str, ...]
) -> None:
    kinds = {
        name.removeprefix("-"): Met(counts={}, unmet={"asked": "idle"} if name[0] == "-" else {})
        for name in of_kinds
    }
    met = Exercise(counts={}, missing=lacks, kinds=kinds)
    found = [finding(kind)] if kind else []
    told = case(history(ALONE, problems=[problem] if problem else []))
    verdict = conclude(told, "mutual-exclusion", found, (), met)
    explained = kind == "double-holder" and problem == ROWS_LOST
    whole, each = UNDER[of_kinds]
    if lacks or problem or kind:
        whole, each = Verdict.UNKNOWN, dict.fromkeys(each, Verdict.UNKNOWN)
    if kind and not explained:
        whole, each = Verdict.VIOLATED, each | {"none": Verdict.VIOLATED}
    assert verdict.verdict is whole
    assert {name: at.verdict for name, at in verdict.under.items()} == each
    for at in verdict.under.values():
        if at.verdict is not Verdict.UNKNOWN:
            assert not at.reason
        elif explained:
            assert "1 finding that a lost row could explain" in at.reason
        elif kind:
            assert at.reason == "violated without any fault"
        elif problem:
            assert at.reason == f"the history may be incomplete: {problem}"
        else:
            assert at.reason == ("; ".join(lacks) or "idle")


@pytest.mark.parametrize(("rate", "slow"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_run_below_its_planned_rate_exercised_nothing(rate: int, slow: bool) -> None:
    words = " ".join(f"{n}a?@{n} {n}a+{n}@{n + 0.5}" for n in range(10))
    given = case(words, stop_ns=10 * SECOND, options={"rate": str(rate)})
    assert bool(exercise(given, needs=()).doubts) == slow
    nine = case(words.replace("9a?@9 9a+9@9.5", ""), stop_ns=10 * SECOND, options={"rate": "1"})
    assert not exercise(nine, needs=()).doubts
    eight = case(words.split(" 8a")[0], stop_ns=10 * SECOND, options={"rate": "1"})
    (why,) = exercise(eight, needs=()).doubts
    assert why.startswith("driven at 80% of the planned rate, 8 of 10 acquires")


def test_all_lacks_are_told_at_once() -> None:
    verdict = conclude(case(ALONE), "ownership", (), (), LACKING)
    assert verdict.reason == "no acquire waited: 0 of 2; no holder lost its lock"
