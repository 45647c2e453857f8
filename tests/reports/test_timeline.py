"""What the page carries for its timeline: small, whole, exact to the microsecond."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast.harness.core.operations import Op, Status
from holdfast.harness.verdicts.proof import OVERLAPS
from holdfast.reports.pictures import timeline
from holdfast.reports.pictures.packed_columns import packed, ranked, signed, sparse_steps, steps
from holdfast.reports.run import page
from holdfast.reports.text import templates
from tests.reports import rendered as html
from tests.reports import specimens
from tests.reports.pieces import MANIFEST, PLAN
from tests.reports.recorded import recorded


def unpacked(layout: list[Any], text: str) -> dict[str, np.ndarray[Any, Any]]:
    """The columns as the script reads them."""
    whole = gzip.decompress(base64.b64decode(text))
    found, at = {}, 0
    for name, width, n in layout:
        planes = np.frombuffer(whole, np.uint8, width * n, at).reshape(width, n).astype(np.int64)
        found[name] = sum((planes[k] << (8 * k) for k in range(width)), np.zeros(n, np.int64))
        at += width * n
    assert at == len(whole)
    return found


def unsigned(codes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.where(codes % 2 == 1, -(codes + 1) // 2, codes // 2)


@pytest.mark.parametrize("top", [0, 255, 256, 65_535, 65_536, (1 << 32) - 1])
def test_a_column_comes_back_as_it_went_in(top: int) -> None:
    column = np.array([0, top, top // 2, top])
    layout, text = packed({"a": column, "b": np.arange(3)})
    found = unpacked(layout, text)
    assert found["a"].tolist() == column.tolist()
    assert found["b"].tolist() == [0, 1, 2]


def test_steps_are_counted_within_a_lane_and_come_back() -> None:
    rng = np.random.default_rng(5)
    values, lanes = rng.integers(-50, 1 << 30, 400), rng.integers(0, 6, 400)
    codes = signed(steps(values, lanes))
    assert codes.min() >= 0
    last = dict.fromkeys(range(6), 0)
    for value, lane, step in zip(values, lanes, unsigned(codes), strict=True):
        last[int(lane)] += int(step)
        assert last[int(lane)] == value


def test_a_row_without_a_token_does_not_disturb_the_next_one() -> None:
    tokens, lanes = np.array([5, -1, 6, -1, 4]), np.zeros(5, np.int64)
    codes = sparse_steps(tokens, tokens >= 0, lanes)
    assert codes[[1, 3]].tolist() == [0, 0]
    assert np.cumsum(unsigned(codes[[0, 2, 4]] - 1)).tolist() == [5, 6, 4]


def test_tokens_too_large_for_a_script_are_told_by_their_rank_and_name() -> None:
    tokens = np.array([1 << 60, (1 << 60) + 1, -1, 7])
    places, names = ranked(tokens, tokens >= 0)
    assert places.tolist() == [1, 2, -1, 0]
    assert names == ["7", str(1 << 60), str((1 << 60) + 1)]


def test_every_op_and_hold_of_the_history_is_in_the_data() -> None:
    run = html.read(specimens.clean())
    made = recorded()
    shown = timeline.timeline(made, run, [])
    assert shown is not None
    about = json.loads(shown.about)
    found = unpacked(about["layout"], shown.columns)
    rows = made.history.rows
    inv = about["first"] + np.cumsum(found["wait"])
    assert inv.tolist() == ((rows["t_inv"] - run.start_ns) // 1000).tolist()
    assert (found["kind"] & 31).tolist() == rows["f"].tolist()
    assert (found["kind"] >> 5).tolist() == rows["status"].tolist()
    assert np.cumsum(found["skipped"] + 1).tolist() == list(range(1, len(rows) + 1))
    sender = found["lane"] + unsigned(found["sender"])
    assert (sender + 1).tolist() == (rows["attempt"] >> 32).tolist()
    begun = np.cumsum(found["holdOp"])
    asked = (rows["f"] == Op.ACQUIRE) & (rows["status"] == Status.OK)
    assert begun.tolist() == np.flatnonzero(asked).tolist()
    assert [lane["name"] for lane in about["lanes"]] == [
        *(f"c{n}" for n in range(1, 6)), "resource", "n1", "n2", "n3",
    ]  # fmt: skip


def test_a_hold_that_outlasts_its_lease_is_told_apart_from_one_within_it() -> None:
    run, made = html.read(specimens.clean()), recorded()
    start, sure = made.history.rows["t_ret"][made.drawn["row"]], made.drawn["sure"]
    # Of every third hold a later response shows 50 ms more than its lease.
    lease = np.where(np.arange(len(sure)) % 3 == 0, sure - 50_000_000, sure)
    lease[1], lease[2] = -1, start[2]
    shown = timeline.timeline(replace(made, drawn={**made.drawn, "lease": lease}), run, [])
    assert shown is not None
    past = unpacked(json.loads(shown.about)["layout"], shown.columns)["holdPast"]
    assert past.tolist() == [50_000 if n % 3 == 0 else 0 for n in range(len(sure))]
    older = {name: column for name, column in made.drawn.items() if name != "lease"}
    shown = timeline.timeline(replace(made, drawn=older), run, [])
    assert shown is not None
    assert not unpacked(json.loads(shown.about)["layout"], shown.columns)["holdPast"].any()


def test_beyond_the_limit_quiet_stretches_are_sampled_and_the_rest_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeline, "MOST_OPS", 300)
    monkeypatch.setattr(timeline, "AROUND_NS", 300_000_000)
    made, run = recorded(turns=140), html.read(specimens.clean() | {"faults": []})
    rows = made.history.rows
    moment = int(rows["t_inv"][200])
    shown = timeline.timeline(made, run, [_mark(moment)])
    assert shown is not None
    assert 200 < shown.kept < 350 < shown.ops
    about = json.loads(shown.about)
    inv = about["first"] + np.cumsum(unpacked(about["layout"], shown.columns)["wait"])
    kept = np.cumsum(unpacked(about["layout"], shown.columns)["skipped"] + 1) - 1
    assert ((rows["t_inv"][kept] - run.start_ns) // 1000).tolist() == inv.tolist()
    near = rows["t_inv"][np.abs(rows["t_inv"] - moment) < 290_000_000]
    assert set(((near - run.start_ns) // 1000).tolist()) <= set(inv.tolist())
    text = html.render(specimens.clean(), MANIFEST, PLAN, made)
    assert "of them are kept here</b>" in text


def _mark(moment: int) -> dict[str, Any]:
    return {"n": 1, "t": moment, "from": moment, "to": moment, "name": "", "tone": "broken",
            "lock": "db", "lanes": [], "clashes": [], "others": []}  # fmt: skip


def test_a_mark_names_the_owners_and_the_request_of_a_violation() -> None:
    for specimen, kinds in ((specimens.broken(), {"double-grant"}), (specimens.limit(), set())):
        run = html.read(specimen)
        cards = [card for group in page.groups(run) for card in group.cards]
        marks: Any = page.marks(run, cards)
        for card, mark in zip(cards, marks, strict=True):
            rows = [event.row for event in card.finding.witnesses]
            assert mark["rows"] == rows
            clients = {f"c{event.process}" for event in card.finding.witnesses}
            assert set(mark["owners"]) <= clients | {f"c{n}" for n in range(1, 6)}
            if card.finding.kind in kinds:
                assert len(mark["owners"]) == 2 and mark["arrow"] is None
            if card.finding.kind == "stale-accepted-write":
                write = card.finding.witnesses[-1]
                assert mark["owners"] == [f"c{write.attempt >> 32}"]
                arrow = mark["arrow"]
                assert (arrow["from"], arrow["to"]) == (mark["owners"][0], "resource")
                assert arrow["sent"] <= arrow["t"] == write.t_inv_ns


def test_every_overlap_of_a_cause_is_drawn_not_only_that_of_its_first_finding() -> None:
    """Of an owner that kept the lock while others were granted it one after another."""
    run = html.read(specimens.broken())
    row = next(one for one in run.verdicts if one.property == "mutual-exclusion")
    place = next(n for n, one in enumerate(row.findings) if one.kind in OVERLAPS)
    more = (*row.findings, row.findings[place], row.findings[place])
    causes = tuple(
        replace(one, findings={**one.findings, row.property: (*mine, len(more) - 2, len(more) - 1)})
        if place in (mine := one.findings.get(row.property, ()))
        else one
        for one in run.causes
    )
    verdicts = tuple(replace(one, findings=more) if one is row else one for one in run.verdicts)
    run = replace(run, verdicts=verdicts, causes=causes)
    cards = [card for group in page.groups(run) for card in group.cards]
    marks: Any = page.marks(run, cards)
    (mark,) = [mark for mark in marks if mark["others"]]
    assert [one["clashes"] for one in mark["others"]] == [mark["clashes"]] * 2
    assert all(set(one["lanes"]) == set(mark["owners"]) for one in mark["others"])


def test_the_policy_knows_one_script_and_it_is_ours() -> None:
    text = html.render(specimens.broken(), MANIFEST, PLAN, recorded())
    assert f"script-src 'sha256-{templates.DIGEST}'" in text
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert scripts == [templates.SCRIPT]
    assert "script-src" not in html.render(specimens.broken(), MANIFEST, PLAN)


def test_the_script_sets_text_only_as_text() -> None:
    for bad in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "eval(",
        "document.write",
        "fetch(",
    ):
        assert bad not in templates.SCRIPT


def test_hostile_strings_cannot_leave_the_data() -> None:
    names = ("", "</script><script>alert(1)</script>", "<!--", "\u202eevil", "x" * 10_000_000)
    made = recorded(strings=names)
    text = html.render(specimens.hostile(), MANIFEST, PLAN, made)
    data = text.split('id="timeline-about">')[1].split("</script>")[0]
    assert "<" not in data
    said = json.loads(data)["strings"]
    assert said[1].startswith("</script>")
    assert "<U+202E>" in said[3]
    assert all(len(one) < 300 for one in said)


def test_the_ops_around_a_finding_stand_in_a_table_without_a_script() -> None:
    text = html.render(specimens.broken(), MANIFEST, PLAN, recorded())
    card = text.split('id="finding-1"')[1].split("</article>")[0]
    table = card.split('class="around"')[1]
    assert 20 <= table.count("<tr>") <= 40
    assert "served-write" in table


def test_a_recording_that_cannot_be_read_is_told_on_the_page() -> None:
    text = html.render(specimens.clean(), MANIFEST, PLAN, None, "history: <b>damaged</b>")
    assert "No interactive timeline: <bdi>history: &lt;b&gt;damaged" in text
