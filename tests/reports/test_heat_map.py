"""The heat map: a cell is as bad as its worst property, says so in words, and worst rows lead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from holdfast.harness.campaigns.results import Outcome, Result
from holdfast.harness.core.verdict import CALM, Verdict
from holdfast.reports.many import heat_map, worst_first
from holdfast.reports.many.heat_map import FaultMap, MapCell
from holdfast.reports.many.matrix import matrix
from holdfast.reports.many.matrix_pages import markdown
from holdfast.reports.text.templates import template_environment
from tests.reports.specimens import HOSTILE
from tests.reports.test_matrix import WORDS, run

HOLDS, VIOLATED = Verdict.HOLDS, Verdict.VIOLATED


def several(fault: str, system: str = "redis", **verdicts: str) -> Result:
    """A run under one fault: property -> "+", "x" (promised), "!" (never promised), "?"."""
    outcomes = {
        prop.replace("_", "-"): Outcome(verdict=WORDS["x" if sign == "!" else sign],
                                        promised=sign != "!")
        for prop, sign in verdicts.items()
    }  # fmt: skip
    return replace(run("+", fault, system=system, path="runs/a"), properties=outcomes)


def mapped(results: Sequence[Result], view: int = 0) -> FaultMap:
    return heat_map.views(matrix(results, {"sim"}), lambda result: result.run)[view]


def cell(*results: Result) -> MapCell:
    (row,) = mapped(results).rows.values()
    (one,) = row.values()
    return one


def test_a_cell_is_as_bad_as_its_worst_property() -> None:
    signs = {"ownership": "?", "token_order": "+", "no_stale_write": "!", "mutual_exclusion": "x"}
    told = []
    while signs:
        one = cell(several("pause", **signs))
        told.append(f"{one.word} {one.says} ({one.note})")
        signs.popitem()
    assert told == [
        "VIOLATED mutual exclusion (1 of 1 run)",
        "LIMIT no stale write (1 of 1 run)",
        "UNKNOWN 1 of 2 (not exercised; 1 held so far)",
        "UNKNOWN  (not exercised)",
    ]
    assert cell(several("pause", token_order="+")).word == "OPEN"
    assert cell(several("pause", token_order="x", ownership="x")).says == "token order and 1 more"
    enough = cell(*[several("pause", token_order="+")] * 299)
    assert (enough.word, enough.note) == ("HOLDS", "rate below 1%")


def test_two_holders_come_before_what_more_runs_show() -> None:
    often = [several("pause", token_order="x") for _ in range(3)]
    late = several("pause", no_stale_write="x")
    holders = several("pause", mutual_exclusion="x")
    listed = worst_first.failures([*often, late, holders])
    assert [one.prop for one in listed] == ["mutual-exclusion", "no-stale-write", "token-order"]


@pytest.mark.parametrize(
    ("under", "extent"),
    [
        ([{CALM: VIOLATED}] * 2, "2 of 2 runs, before their first fault."),
        ([{CALM: VIOLATED, "pause": VIOLATED}] * 2, "2 of 2 runs under pause."),
        (
            [{CALM: VIOLATED, "pause": HOLDS}, {"pause": VIOLATED}],
            "2 of 2 runs under pause, 1 of them before the first fault.",
        ),
    ],
)
def test_what_was_violated_before_the_first_fault_is_not_said_to_be_seen_under_it(
    under: list[dict[str, Verdict]], extent: str
) -> None:
    runs = [replace(several("pause", token_order="x"), nemesis="pause") for _ in under]
    rows = [run.properties["token-order"] for run in runs]
    shown = [
        replace(run, properties={"token-order": replace(row, under=verdicts)})
        for run, row, verdicts in zip(runs, rows, under, strict=True)
    ]
    (one,) = worst_first.failures(shown)
    assert one.extent == extent


def test_a_map_says_that_no_cell_had_the_runs_of_holds() -> None:
    few = matrix([several("pause", mutual_exclusion="+")] * 3, {"sim"})
    assert "HOLDS takes 299 runs" in heat_map.counted(few)
    assert "no cell here has more than 3 of these" in heat_map.counted(few)
    enough = matrix([several("pause", mutual_exclusion="+")] * 299, {"sim"})
    assert heat_map.counted(enough) == heat_map.COUNTED
    assert heat_map.counted(matrix([], {"sim"})) == heat_map.COUNTED


def test_a_cell_counts_runs_of_its_lock_and_its_fault_not_those_that_judged_a_property() -> None:
    """Two runs break one promise each, a third one did not exercise either: 2 of 3 runs, as in the
    list below the map."""
    results = [
        several("pause", mutual_exclusion="x", token_order="?"),
        several("pause", mutual_exclusion="?", token_order="x"),
        several("pause", mutual_exclusion="?", token_order="?"),
    ]
    assert cell(*results).note == "2 of 3 runs"
    found = worst_first.failures(results)
    assert [(len(one.runs), one.of) for one in found] == [(1, 3), (1, 3)]
    (row,) = mapped(results, 1).rows.values()
    (one,) = row.values()
    assert one.note == "1 of 3 runs"


def test_each_failure_says_whose_promise_it_was() -> None:
    both = several("pause", token_order="x", ownership="x", no_stale_write="!")
    texts = {one.prop: one.blame for one in worst_first.failures([both])}
    assert texts["token-order"] == "the lock's: redis broke its promise of token order."
    assert texts["no-stale-write"] == "not the lock's: redis never promised no stale write."


def test_what_followed_from_a_failure_in_one_of_its_runs_is_blamed_too() -> None:
    """The first run of a cause broke one promise, a later one another besides."""
    more = several("pause", mutual_exclusion="x", ownership="x")
    runs = [several("pause", mutual_exclusion="x"), more]
    caused = [
        replace(run, properties={p: replace(one, cause="c2 was paused") for p, one in rows.items()})
        for run in runs
        for rows in [run.properties]
    ]
    (one,) = worst_first.failures(caused)
    assert one.blame == "the lock's: redis broke its promise of mutual exclusion and ownership."


def test_the_worst_systems_come_first_and_only_a_violation_leads_to_a_report() -> None:
    view = mapped(
        [
            several("kill", "held", token_order="+"),
            several("kill", "limit", token_order="!"),
            several("pause", "limit", token_order="!"),
            several("kill", "broken", token_order="x"),
            several("kill", "unknown", token_order="?"),
        ]
    )
    assert list(view.rows) == ["broken", "limit", "unknown", "held"]
    links = {system: {one.link for one in row.values()} for system, row in view.rows.items()}
    assert links == {"broken": {"runs/a"}, "limit": {"runs/a"}, "unknown": {""}, "held": {""}}


def test_a_view_of_one_property_knows_no_other() -> None:
    one = several("pause", token_order="x", ownership="+")
    tokens, owners = mapped([one], 1), mapped([one], 2)
    assert (tokens.name, owners.name) == ("token-order", "ownership")
    assert tokens.rows["redis"]["pause"].word == "VIOLATED"
    assert owners.rows["redis"]["pause"].word == "OPEN"


def test_a_map_of_many_faults_is_of_numbers_of_what_was_exercised() -> None:
    faults = [f"fault{n}" for n in range(heat_map.MOST_WORDED + 1)]
    few, many = mapped([several(faults[0], token_order="+", ownership="?")]), mapped(
        [several(fault, token_order="+", ownership="?") for fault in faults]
    )  # fmt: skip
    assert (few.dense, few.rows["redis"]["fault0"].word) == (False, "UNKNOWN")
    dense = many.rows["redis"]["fault0"]
    assert (many.dense, dense.word, dense.number) == (True, "OPEN", "1/2")
    nothing = mapped([several(fault, ownership="?") for fault in faults]).rows["redis"]["fault0"]
    assert (nothing.word, nothing.number) == ("UNKNOWN", "0/1")


def test_in_markdown_a_cell_has_its_class_and_a_sign_and_nothing_hostile_is_in_it() -> None:
    text = markdown(matrix([several("pause", HOSTILE, token_order="x"), several(HOSTILE)]))
    line = next(line for line in text.splitlines() if line.startswith('<div class="heat-map">'))
    assert '<td class="broken"><span title="VIOLATED">✕</span> 1</td>' in line
    assert set(re.findall(r"<(\w+)", line)) <= {"div", "table", "thead", "tbody", "tr", "th", "td",
                                                "span"}  # fmt: skip
    assert "\x1b" not in line and "`" not in line and "*" not in line


def test_a_long_name_of_a_lock_is_broken_between_its_parts() -> None:
    shown = template_environment().filters["name"]("app.locks.py:RenewedLock@redis <b>")
    assert shown == ("<bdi>app.<wbr>locks.py:<wbr>Renewed<wbr>Lock@<wbr>redis &lt;b&gt;</bdi>")
