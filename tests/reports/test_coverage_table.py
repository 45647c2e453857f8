"""How often each failure could have been seen, and which questions a run left open."""

from __future__ import annotations

import re
from typing import Any

from holdfast.reports.run import coverage_table
from holdfast.reports.run.story import not_tried
from tests.reports import rendered as html
from tests.reports import specimens
from tests.reports.pieces import MANIFEST, PLAN


def seen(count: int, what: str, *, staged: bool = True) -> dict[str, Any]:
    """One row of opportunities."""
    return {"row": what, "count": count, "sentence": what, "staged": staged}


def under(word: str, *rows: dict[str, Any], asked: bool = True) -> dict[str, Any]:
    """The verdict under one kind of fault."""
    return {"verdict": word, "asked": asked, "promised": True, "opportunities": rows}


def run() -> dict[str, Any]:
    """Four properties that hold, two of them with rows of opportunities."""
    made = specimens.clean()
    rows = {row["property"]: row for row in made["verdicts"]}
    rows["mutual-exclusion"]["under"] = {
        "pause": under("HOLDS", seen(40, "a pause"), seen(0, "not staged", staged=False)),
        "kill": under("HOLDS", seen(3, "a kill"), seen(12, "another kill")),
        "partition": under("HOLDS", seen(1, "not asked for"), asked=False),
    }
    rows["no-stale-write"]["under"] = {"pause": under("HOLDS", seen(17, "a late write"))}
    rows["token-order"] |= {"exercised": {"grants after another client's": 200}, "under": {}}
    made["verdicts"] = [rows[p] for p in ("mutual-exclusion", "no-stale-write", "token-order")]
    return made


def test_a_property_that_held_shows_the_fewest_opportunities_that_it_needed() -> None:
    tried = coverage_table.tried(html.read(run()))
    assert [(row.prop, row.count, row.under, row.what) for row in tried] == [
        ("token-order", 200, "", "grants after another client's"),
        ("no-stale-write", 17, "pause", "a late write"),
        ("mutual-exclusion", 3, "kill", "a kill"),
    ]
    assert [row.few for row in tried] == [False, False, True]
    assert [row.share for row in tried] == sorted((row.share for row in tried), reverse=True)
    text = re.sub(r"<[^>]+>|\s+", " ", html.render(run(), MANIFEST, PLAN))
    assert "under kill: a kill" in re.sub(" +", " ", text)


def test_what_a_run_did_not_contain_is_named_beside_what_held() -> None:
    """A row that requires nothing of the run: that its property held says nothing about it."""
    made = run()
    made["verdicts"][0]["under"]["pause"]["opportunities"][1]["nearest"] = "no pause of a leader"
    missed = "Not tried under pause (mutual exclusion): no pause of a leader."
    assert not_tried(html.read(made)) == [missed]
    assert missed in html.render(made, MANIFEST, PLAN)
    made["verdicts"][0]["under"]["pause"]["verdict"] = "UNKNOWN"
    assert not_tried(html.read(made)) == []


def test_a_question_is_a_property_under_a_planned_kind_of_fault() -> None:
    made = run()
    made["verdicts"][0]["under"]["kill"]["verdict"] = "UNKNOWN"
    made["verdicts"][0]["verdict"] = "UNKNOWN"
    made |= {"verdict": "UNKNOWN", "exit_code": 3, "remedy": "holdfast run --time 60s"}
    judged = html.read(made)
    assert coverage_table.kinds(judged) == ["pause", "kill"]
    assert coverage_table.questions(judged) == (1, 3)
    assert [states(row) for row in coverage_table.asked(judged)] == [
        ("holds", "unknown"),
        ("holds", "none"),
        ("none", "none"),
    ]
    text = html.render(made, MANIFEST, PLAN)
    assert "No answer: 1 of 3 questions not tested in this run." in text
    assert text.count(">holdfast</span>") == 2  # the run's own command, and the one that answers


def test_a_column_says_that_no_fault_of_its_kind_took_place_or_had_an_effect() -> None:
    made = run() | {"verdict": "UNKNOWN", "exit_code": 3}
    assert coverage_table.absent(html.read(made)) == {}
    made["faults"] = [fault for fault in made["faults"] if fault["do"] == "kill"]
    assert coverage_table.absent(html.read(made)) == {"pause": "none took place"}
    made["faults"] = [fault | {"effective": False} for fault in made["faults"]]
    assert coverage_table.absent(html.read(made))["kill"] == "without effect"
    page = re.sub("</?bdi>", "", html.render(made, MANIFEST, PLAN))
    assert "Under pause <small>none took place</small>" in page


def test_properties_that_a_run_left_open_alike_share_a_row() -> None:
    made = run()
    made |= {"verdict": "UNKNOWN", "exit_code": 3}
    rows = coverage_table.asked(html.read(made))
    assert [(len(row.props), states(row)) for row in rows] == [
        (1, ("holds", "holds")),
        (1, ("holds", "none")),
        (1, ("none", "none")),
    ]
    made["verdicts"][1]["under"] = made["verdicts"][0]["under"]
    first, _ = coverage_table.asked(html.read(made))
    assert first.props == tuple(one["property"] for one in made["verdicts"][:2])
    plain = coverage_table.asked(html.read(specimens.unknown()))
    assert sorted(row.state for row in plain) == sorted({row.state for row in plain})


def test_each_cell_of_what_was_not_tested_has_its_reason_in_view() -> None:
    """Neighbours with one reason are one cell; what held has none."""
    made = run()
    for kind, why in (("pause", "no late write: 0 of 79; none near a pause"), ("kill", "no kill")):
        made["verdicts"][0]["under"][kind] |= {"verdict": "UNKNOWN", "reason": why}
        made["verdicts"][1]["under"][kind] = under("UNKNOWN") | {"reason": "no stale write"}
    made |= {"verdict": "UNKNOWN", "exit_code": 3, "remedy": "holdfast run --time 60s"}
    first, second, _ = coverage_table.asked(html.read(made))
    assert [cell.why for cell in first.cells] == ["no late write: 0 of 79.", "no kill."]
    (both,) = second.cells
    assert (both.kinds, both.state, both.why) == (("pause", "kill"), "unknown", "no stale write.")
    page = re.sub("</?bdi>", "", html.render(made, MANIFEST, PLAN))
    table = page[page.index('id="asked"') :].partition("</table>")[0]
    assert "<details" not in table and 'colspan="2"' in table
    for shown in ("No late write: 0 of 79.", "No kill.", "No stale write.", "under all"):
        assert shown in table
    made["verdicts"][0]["under"] = {}
    made["verdicts"][0] |= {"verdict": "UNKNOWN", "reason": ""}
    alone = made | {"verdicts": made["verdicts"][:1]}
    (row,) = coverage_table.asked(html.read(alone))
    assert (row.state, row.why, row.cells) == ("unknown", "not tested.", ())


def states(row: coverage_table.Asked) -> tuple[str, ...]:
    """The state under each kind of fault."""
    return tuple(cell.state for cell in row.cells for _ in cell.kinds)


def test_without_a_fault_each_property_is_one_question() -> None:
    assert coverage_table.questions(html.read(specimens.unknown())) == (2, 3)
