"""From the files of a run to its verdict: the case, the windows of faults, what counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast.harness.core.case import MERGED_DTYPE, Case, History
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import UNKNOWN, Traits
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.ports import Fault
from holdfast.harness.core.verdict import (
    CALM,
    Finding,
    PropertyVerdict,
    Severity,
    Under,
    Verdict,
)
from holdfast.harness.history.reader import Recording
from holdfast.harness.judging.judge import OWNERS_ADMITTED, judge_case
from holdfast.harness.judging.outcome import meant, overall
from holdfast.harness.judging.run_case import LONGEST_NS, case_of
from holdfast.harness.plans.manifest import Manifest, RecordedChecker
from holdfast.harness.runs.journal import FaultRow, Mark
from holdfast.harness.verdicts.judged import Judged, Judgement, Outcome, UnderKind
from tests.manifests import manifest

HOLDS, VIOLATED, UNSURE = Verdict.HOLDS, Verdict.VIOLATED, Verdict.UNKNOWN
MUTEX, OWNED, LOST = "mutual-exclusion", "ownership", "no-lost-update"
UNDEPLOYED = "the run ended during deployment, before its workload began"
CUT_OFF = "the driver exited before the end of the run: no settle phase, no probe"
KILLS = Traits(kills=True, pattern="kill")


def recorded(*calls: tuple[int, int, Op, Status], problems: Sequence[str] = ()) -> Recording:
    """Calls (t_inv, t_ret, op, status) of client 3 on lock-1, each with its own attempt."""
    rows = np.zeros(len(calls), MERGED_DTYPE)
    for n, (begun, over, op, status) in enumerate(calls):
        rows[n]["t_inv"], rows[n]["t_ret"], rows[n]["f"], rows[n]["status"] = (
            begun,
            over,
            op,
            status,
        )
        rows[n]["process"], rows[n]["key"], rows[n]["attempt"], rows[n]["row"] = 3, 1, n + 1, n
        rows[n]["err"] = 2 if status is Status.INFO else 0
    history = History(
        rows=rows, strings=("", "lock-1", "refused 7"), writers=("w3",), problems=problems
    )
    return Recording(history=history, nodes={3: "c3"}, states={})


def mark(name: str, t_ns: int, reason: str | None = None, *problems: str) -> Mark:
    return Mark(mark=name, t_ns=t_ns, reason=reason, problems=problems or None)


def fault(event: str, ident: str = "f1", **values: Any) -> FaultRow:
    row = FaultRow(id=ident, event=event, do="kill", target="holder")
    return replace(row, **values)


ALL = (mark("start", 10), mark("stop", 50), mark("end", 90))
CALLS = ((12, 20, Op.ACQUIRE, Status.OK), (30, 70, Op.RELEASE, Status.OK))


def case(
    *faults: FaultRow, marks: Sequence[Mark] = ALL, of: Manifest | None = None,
    recording: Recording | None = None,
) -> Case:  # fmt: skip
    made = of or replace(manifest([MUTEX]), traits={"kill": KILLS})
    return case_of(made, recording or recorded(*CALLS), marks, faults)


@pytest.mark.parametrize(
    ("marks", "times", "problem"),
    [
        (ALL, (10, 50, 90), ""),
        (ALL[1:], (12, 50, 90), UNDEPLOYED),
        (ALL[:2], (10, 50, 70), CUT_OFF),
        (ALL[:1], (10, 70, 70), CUT_OFF),
        ((), (12, 70, 70), UNDEPLOYED),
        ((mark("failed", 5, "no port"),), (12, 70, 70),
         f"{UNDEPLOYED}: no port"),
        ((ALL[0], mark("failed", 5, "no port")), (10, 70, 70),
         f"{CUT_OFF}: no port"),
        ((*ALL[:2], mark("end", 60)), (10, 50, 70), ""),
        ((*ALL[:2], mark("end", 90, None, "c2 exited")), (10, 50, 90), "c2 exited"),
    ],
)  # fmt: skip
def test_the_stages_of_a_run_bound_its_case(
    marks: tuple[Mark, ...], times: tuple[int, int, int], problem: str
) -> None:
    found = case(marks=marks)
    assert (found.start_ns, found.stop_ns, found.end_ns) == times
    assert list(found.history.problems) == ([problem] if problem else [])


def test_a_run_without_rows_begins_and_ends_at_its_marks() -> None:
    empty = case(recording=recorded(problems=["rows are missing"]))
    assert (empty.start_ns, empty.stop_ns, empty.end_ns) == (10, 50, 90)
    assert empty.history.problems == ("rows are missing",)
    nothing = case(marks=(), recording=recorded())
    assert (nothing.start_ns, nothing.stop_ns, nothing.end_ns) == (0, 0, 0)


def test_marks_out_of_order_or_a_year_apart_are_damage() -> None:
    with pytest.raises(ValueError, match="out of order"):
        case(marks=(mark("start", 60), mark("stop", 50), mark("end", 90)))
    assert case(marks=(mark("start", 1), mark("end", 1 + LONGEST_NS))).end_ns == 1 + LONGEST_NS
    with pytest.raises(ValueError, match="more than a year apart"):
        case(marks=(mark("start", 1), mark("end", 2 + LONGEST_NS)))


def test_a_case_has_the_options_and_the_kinds_of_the_plan() -> None:
    made = manifest([MUTEX])
    faults = [
        Fault(id=f"f{n}", do=do, target="one", at_ns=0, for_ns=1) for n, do in enumerate("ab")
    ]
    plan = replace(made.plan, faults=(*faults, faults[0]), nemeses=(("c", {}), ("a", {})), nodes=5)
    options = replace(made.options, workload={"mark": "1"})
    found = case(of=replace(made, plan=plan, options=options))
    assert found.kinds == ("a", "b", "c")
    assert found.options == {
        "resource": plan.resource, "workload": "critical-section", "servers": "5", "mark": "1",
    }  # fmt: skip
    assert (found.lease_ns, found.asked, found.nodes) == (plan.lease_ns, (MUTEX,), {3: "c3"})


INJECTED = fault("injected", t_ns=20, before_ns=15, nodes=["n1"], evidence={"a": 1, "b": 1},
                 leader="n2", term=4, holder="c3")  # fmt: skip
HEALED = fault("healed", t_ns=40, effective=True, evidence={"b": 2})


def test_a_window_lasts_from_the_injection_to_the_heal_with_the_evidence_of_both() -> None:
    (window,) = case(fault("planned", at_ns=1), INJECTED, HEALED).windows
    assert (window.from_ns, window.to_ns, window.effective, window.reason) == (15, 40, True, "")
    assert (window.nodes, window.evidence) == (("n1",), {"a": 1, "b": 2})
    assert (window.holder, window.leader, window.term, window.traits) == ("c3", "n2", 4, KILLS)
    (unknown,) = case(INJECTED, HEALED, of=replace(manifest(), traits={})).windows
    assert (unknown.from_ns, unknown.traits) == (20, UNKNOWN), "only a kill begins at its request"


@pytest.mark.parametrize(
    ("rows", "span", "effective", "reason"),
    [
        ([INJECTED], (15, 90), False, "the run ended before the fault healed"),
        ([INJECTED, replace(HEALED, effective=False)], (15, 40), False, ""),
        ([INJECTED, replace(HEALED, effective=None)], (15, 40), False, ""),
        ([INJECTED, fault("failed", t_ns=60, reason="lost")], (15, 90), False, "lost"),
        ([INJECTED, HEALED, fault("failed", t_ns=60, reason="late")], (15, 40), True, "late"),
        ([fault("skipped", t_ns=25, reason="no leader")], (25, 25), False, "no leader"),
        ([fault("failed", t_ns=25)], (25, 25), False, ""),
        ([fault("failed", t_ns=25), HEALED], (25, 40), False, ""),
    ],
)
def test_what_went_wrong_with_a_fault_is_its_reason_and_it_does_not_count(
    rows: list[FaultRow], span: tuple[int, int], effective: bool, reason: str
) -> None:
    (window,) = case(*rows).windows
    assert ((window.from_ns, window.to_ns), window.effective, window.reason) == (
        span, effective, reason,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("killed", "healed", "nodes", "why"),
    [
        (91, 300, ["n1"], "f7 had killed n1 9 ms before"),
        (104, 300, ["n1"], "f7 had killed n1 4 ms after it began"),
        (10, 80, ["n1"], ""),
        (91, 300, ["n2"], ""),
        (160, 300, ["n1"], ""),
    ],
)
def test_a_fault_in_a_killed_process_says_that_it_was_killed(
    killed: int, healed: int, nodes: list[str], why: str
) -> None:
    """A clock of n1 is set in [96, 100] ms and back at 150 ms, and nobody saw it change."""
    ms = 10**6
    rows = (
        fault("injected", "f8", do="clock", t_ns=100 * ms, before_ns=96 * ms, nodes=["n1"]),
        fault("healed", "f8", do="clock", t_ns=150 * ms, effective=False),
        fault("injected", "f7", t_ns=killed * ms + 1, before_ns=killed * ms, nodes=nodes),
        fault("healed", "f7", t_ns=healed * ms, effective=True),
    )
    windows = {window.id: window for window in case(*rows).windows}
    assert windows["f8"].reason == why
    assert (windows["f8"].requested_ns, windows["f8"].from_ns) == (96 * ms, 100 * ms)
    assert windows["f7"].reason == ""


def test_windows_are_in_order_of_their_beginning_and_a_planned_fault_has_none() -> None:
    later = [fault("injected", "f0", t_ns=30, before_ns=29), fault("planned", "f9")]
    same = fault("injected", "f3", t_ns=20, before_ns=15)
    assert [window.id for window in case(*later, same, INJECTED).windows] == ["f1", "f3", "f0"]


def row(
    prop: str, verdict: Verdict, *, promised: bool = True, lacks: bool = False, reason: str = "why"
) -> Judgement:
    under = {"kill": UnderKind(verdict=UNSURE, asked=True, promised=True)} if lacks else {}
    return Judgement(property=prop, verdict=verdict, promised=promised, reason=reason,
                     severity=Severity.HIGH, under=under)  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "problems", "must", "word", "code"),
    [
        ([row("a", HOLDS)], [], (), HOLDS, 0),
        ([row("a", HOLDS), row("b", VIOLATED)], [], (), VIOLATED, 1),
        ([row("a", HOLDS), row("b", VIOLATED, promised=False)], [], (), HOLDS, 0),
        ([row("b", VIOLATED, promised=False)], [], (), VIOLATED, 0),
        ([row("b", VIOLATED, promised=False)], ["torn"], (), VIOLATED, 0),
        ([row("a", VIOLATED)], ["torn"], (), VIOLATED, 1),
        ([row("a", HOLDS)], ["torn"], (), UNSURE, 3),
        ([row("a", HOLDS), row("b", UNSURE)], [], (), UNSURE, 3),
        ([row("a", HOLDS), row("b", UNSURE, promised=False)], [], (), HOLDS, 0),
        ([row("b", UNSURE, promised=False)], [], (), UNSURE, 0),
        ([row("a", HOLDS, lacks=True)], [], (), UNSURE, 3),
        ([row("a", HOLDS, lacks=True)], [], ("b",), HOLDS, 0),
        ([row("a", HOLDS, lacks=True)], [], ("a",), UNSURE, 3),
        ([row("a", HOLDS), row("b", HOLDS, promised=False, lacks=True)], [], (), HOLDS, 0),
        ([], [], (), UNSURE, 0),
    ],
)
def test_promises_decide_the_verdict_of_a_run(
    rows: list[Judgement], problems: list[str], must: tuple[str, ...], word: Verdict, code: int
) -> None:
    assert overall(rows, problems, must) == (word, code)


def test_what_a_run_is_not_for_and_did_not_exercise_is_set_aside() -> None:
    rows = [row("a", HOLDS), row("b", UNSURE, reason="idle"), row("c", UNSURE), row("d", VIOLATED)]
    assert meant(rows, ()) == (rows, {}, [])
    kept, aside, untested = meant(rows, ("a", "c"))
    assert [one.property for one in kept] == ["a", "c", "d"]
    assert (aside, untested) == ({"b": "idle"}, ["c"])


def judged(
    verdicts: dict[str, PropertyVerdict], of: Manifest | None = None, given: Case | None = None
) -> Judged:
    made = of or manifest(list(verdicts))
    return judge_case(
        made,
        given or case(of=made),
        {prop: lambda _, one=one: one for prop, one in verdicts.items()},
    )


def verdict(prop: str, word: Verdict, **rest: Any) -> PropertyVerdict:
    made = PropertyVerdict(property=prop, verdict=word, reason="idle" if word is UNSURE else "")
    return replace(made, **rest)


def test_a_checker_that_crashes_leaves_its_property_unknown() -> None:
    def crashes(case: Case) -> PropertyVerdict:
        raise ZeroDivisionError("n is 0")

    made = manifest([MUTEX])
    found = judge_case(made, case(of=made), {MUTEX: crashes})
    said = "the checker crashed: ZeroDivisionError: n is 0; please report it"
    assert (found.verdict, found.exit_code, found.verdicts[0].reason) == (UNSURE, 3, said)


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (Status.FAIL, "false-rejection", True),
        (Status.FAIL, "spurious-refusal", False),
        (Status.OK, "false-rejection", False),
    ],
)
def test_a_refused_owner_is_told_in_a_run_that_does_not_ask_for_it(
    answer: Status, kind: str, told: bool
) -> None:
    made = manifest([MUTEX])
    served = recorded(*CALLS, (40, 41, Op.SERVED_WRITE, answer))
    finding = Finding(kind=kind, sentence="", witnesses=(), lock="lock-1", t_ns=40)
    found = judge_case(
        made,
        case(of=made, recording=served),
        {
            MUTEX: lambda _: verdict(MUTEX, HOLDS),
            OWNERS_ADMITTED: lambda _: verdict(OWNERS_ADMITTED, VIOLATED, findings=(finding,)),
        },
    )
    assert [row.property for row in found.verdicts] == [MUTEX, *[OWNERS_ADMITTED] * told]


def test_a_run_whose_acquires_all_failed_says_that_instead_of_each_reason() -> None:
    failing = recorded((12, 20, Op.ACQUIRE, Status.INFO))
    made = manifest([MUTEX, OWNED])
    verdicts = {MUTEX: verdict(MUTEX, UNSURE), OWNED: verdict(OWNED, HOLDS)}
    found = judged(verdicts, made, case(of=made, recording=failing))
    (problem,) = found.problems
    assert problem.startswith("every acquire failed with an error: 1 of 1 calls")
    assert "c3 at 0.000 s: refused 7" in problem
    assert [one.reason for one in found.verdicts] == [problem, ""]
    assert found.exit_code == 3
    assert judged(verdicts, made).problems == ()


def test_a_property_that_the_plan_requires_counts_like_a_promise() -> None:
    made = manifest([LOST, OWNED])
    made = replace(made, promises=replace(made.promises, keeps={OWNED: ("any",)}))
    under = {"kill": Under(verdict=UNSURE), CALM: Under(verdict=HOLDS)}
    verdicts = {LOST: verdict(LOST, HOLDS, under=under), OWNED: verdict(OWNED, HOLDS, under=under)}
    plain = {one.property: one for one in judged(verdicts, made).verdicts}
    required = replace(made, plan=replace(made.plan, require=(LOST,)))
    found = {one.property: one for one in judged(verdicts, required).verdicts}
    assert [plain[p].promised for p in (LOST, OWNED)] == [False, True]
    assert [found[p].promised for p in (LOST, OWNED)] == [True, True]
    assert [found[p].required for p in (LOST, OWNED)] == [True, False]
    assert {k: one.promised for k, one in plain[LOST].under.items()} == {"kill": False, CALM: False}
    assert {k: one.promised for k, one in found[LOST].under.items()} == {"kill": True, CALM: True}


def test_a_run_that_is_for_some_properties_passes_only_if_it_exercised_them() -> None:
    made = manifest([MUTEX, OWNED, LOST])
    made = replace(made, promises=replace(made.promises, keeps={MUTEX: ("any",)}))
    verdicts = {
        MUTEX: verdict(MUTEX, HOLDS),
        OWNED: verdict(OWNED, UNSURE),
        LOST: verdict(LOST, UNSURE),
    }
    assert judged(verdicts, made).exit_code == 0

    def of(**plan: Any) -> Judged:
        return judged(verdicts, replace(made, plan=replace(made.plan, **plan)))

    kept = of(must=(MUTEX,))
    assert (kept.exit_code, dict(kept.aside)) == (0, {OWNED: "idle", LOST: "idle"})
    assert [one.property for one in kept.verdicts] == [MUTEX]
    lacking = of(must=(MUTEX, OWNED))
    assert (lacking.verdict, lacking.exit_code, dict(lacking.aside)) == (UNSURE, 3, {LOST: "idle"})
    required = of(must=(MUTEX,), require=(LOST,))
    assert (required.exit_code, dict(required.aside)) == (3, {OWNED: "idle"})
    assert dict(of(require=(LOST,)).aside) == {}


@pytest.mark.parametrize(
    ("prop", "resource", "options", "promised"),
    [
        (LOST, "fenced", {}, True),
        (LOST, "unfenced", {}, False),
        (OWNED, "unfenced", {}, True),
        ("exactly-once-job", "fenced", {"mark": "0"}, True),
        ("exactly-once-job", "fenced", {}, True),
        ("exactly-once-job", "fenced", {"mark": "1"}, False),
        (LOST, "fenced", {"mark": "1"}, True),
    ],
)
def test_a_promise_needs_the_resource_and_the_workload_that_can_keep_it(
    prop: str, resource: str, options: dict[str, str], promised: bool
) -> None:
    made = manifest([prop])
    made = replace(
        made,
        plan=replace(made.plan, resource=resource),
        options=replace(made.options, workload=options),
        promises=replace(made.promises, keeps={prop: ("any",)}),
    )
    (found,) = judged({prop: verdict(prop, HOLDS)}, made).verdicts
    assert found.promised is promised


def test_a_checker_of_the_user_has_its_name_its_sentence_and_its_severity() -> None:
    own = RecordedChecker(name="mine.py:check", severity=Severity.LOW, says="no lock is red")
    made = manifest([MUTEX, "never-red"], {"never-red": own})
    verdicts = {MUTEX: verdict(MUTEX, HOLDS), "never-red": verdict("never-red", UNSURE)}
    ours, user = judged(verdicts, made).verdicts
    assert (ours.checker, ours.says, ours.severity) == ("", "", Severity.CRITICAL)
    assert (user.checker, user.says, user.severity) == (own.name, own.says, Severity.LOW)
    keeps = {MUTEX: ("any",), "never-red": ("any",)}
    made = replace(made, promises=replace(made.promises, keeps=keeps))
    must = replace(made, plan=replace(made.plan, must=(MUTEX,)))
    assert judged(verdicts, must).exit_code == 3, "the plan is also for its own checker"


def test_the_faults_of_a_run_and_what_took_effect_decide_what_was_promised() -> None:
    made = replace(manifest([OWNED]), traits={"kill": KILLS})
    made = replace(made, promises=replace(made.promises, keeps={OWNED: ("pause",)}))
    for effective in (True, False):
        given = case(INJECTED, replace(HEALED, effective=effective), of=made)
        found = judged({OWNED: verdict(OWNED, VIOLATED)}, made, given)
        assert found.verdicts[0].promised is not effective
        (shown,) = found.faults
        assert (shown.pattern, shown.nodes, shown.effective) == ("kill", ("n1",), effective)


def test_a_finding_is_shown_with_its_witnesses_and_the_places_of_its_spans() -> None:
    finding = Finding(kind="double-grant", sentence="two held", witnesses=(1, 0), lock="a", t_ns=9,
                      spans=((1, 2, "c3", 0), (3, 4, "lease", 7)), cause="stall")  # fmt: skip
    (found,) = judged({MUTEX: verdict(MUTEX, VIOLATED, findings=(finding,))}).verdicts
    (shown,) = found.findings
    assert [event.row for event in shown.witnesses] == [1, 0]
    assert shown.spans == ((1, 2, "c3", 1), (3, 4, "lease", -1))
    event = shown.witnesses[1]
    assert (event.op, event.node, event.process, event.lock) == ("acquire", "c3", 3, "lock-1")
    assert (event.t_inv_ns, event.t_ret_ns, event.status) == (12, 20, "ok")
    assert (shown.cause, shown.certificate) == ("stall", None)


@pytest.mark.parametrize(
    ("code", "rows", "outcome"),
    [
        (0, [row("a", HOLDS)], Outcome.HOLDS),
        (4, [row("a", HOLDS)], Outcome.FAILED),
        (4, [row("a", VIOLATED)], Outcome.FAILED),
        (1, [row("a", HOLDS)], Outcome.BROKEN),
        (0, [row("a", VIOLATED)], Outcome.BROKEN),
        (3, [row("a", HOLDS)], Outcome.UNKNOWN),
        (0, [row("a", UNSURE)], Outcome.UNKNOWN),
        (0, [], Outcome.UNKNOWN),
        (0, [row("a", HOLDS), row("b", VIOLATED, promised=False)], Outcome.LIMIT),
        (0, [row("a", HOLDS), row("b", UNSURE, promised=False)], Outcome.HOLDS),
        (0, [row("b", UNSURE, promised=False)], Outcome.UNKNOWN),
        (0, [row("b", HOLDS, promised=False)], Outcome.HOLDS),
        (0, [row("a", HOLDS, promised=False), row("b", UNSURE, promised=False)], Outcome.UNKNOWN),
    ],
)
def test_the_word_for_a_run_is_never_better_than_its_exit_code_and_its_promises(
    code: int, rows: list[Judgement], outcome: Outcome
) -> None:
    made = judged({MUTEX: verdict(MUTEX, HOLDS)})
    assert replace(made, exit_code=code, verdicts=tuple(rows)).outcome() is outcome


def test_names_and_times_of_a_judged_run() -> None:
    made = replace(
        judged({MUTEX: verdict(MUTEX, HOLDS)}), nodes={"3": "c3", "9": "probe"}, run="r1"
    )
    assert (made.client(3), made.client(4), made.clients()) == ("c3", "process 4", 1)
    assert (made.start_ns, made.at(10 + SECOND)) == (10, SECOND)
    assert made.report_path() == ".holdfast/runs/r1/report.html"
    assert replace(made, report="x.html").report_path() == "x.html"


@pytest.mark.parametrize(
    ("kept_under", "calm", "kill", "both"),
    [
        (("any",), True, True, True),
        (("kill",), True, True, False),
        (("kill", "pause"), True, True, True),
        ((), True, False, False),
    ],
)
def test_under_each_kind_of_fault_a_property_is_promised_as_the_system_says(
    kept_under: tuple[str, ...], calm: bool, kill: bool, both: bool
) -> None:
    made = manifest([MUTEX])
    made = replace(made, promises=replace(made.promises, keeps={MUTEX: kept_under}))
    made = replace(made, plan=replace(made.plan, nemeses=[("kill", {})]))
    exercised = {"grants": 3}
    under = {
        CALM: Under(verdict=HOLDS, exercised=exercised),
        "kill": Under(verdict=UNSURE, reason="none took effect"),
        "kill+pause": Under(verdict=VIOLATED, findings=(0,)),
    }
    (found,) = judged({MUTEX: verdict(MUTEX, HOLDS, under=under)}, made).verdicts
    assert {key: one.promised for key, one in found.under.items()} == {
        CALM: calm, "kill": kill, "kill+pause": both,
    }  # fmt: skip
    assert {key: one.asked for key, one in found.under.items()} == {
        CALM: False, "kill": True, "kill+pause": False,
    }  # fmt: skip
    assert found.under[CALM].exercised == exercised and found.under[CALM].reason == ""
    assert found.under["kill"].reason == "none took effect"
    assert found.under["kill+pause"].findings == (0,)
