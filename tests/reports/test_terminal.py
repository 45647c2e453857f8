"""The verdict on a terminal: what is promised apart, UNKNOWN never a pass, plain when asked."""

from __future__ import annotations

import unicodedata

import pytest

from holdfast.reports.outputs.brief import both_ends, cut, few_names
from tests.reports import specimens
from tests.reports.rendered import terminal as render


def test_the_verdict_comes_first_and_the_way_back_last() -> None:
    lines = render(specimens.broken(), width=120, colour=False).splitlines()
    assert lines[0] == "20261120T121314Z-majority-7, seed 7"
    assert lines[1].startswith("VIOLATED: two clients held a lock at the same time")
    assert lines[-3] == "report  .holdfast/runs/20261120T121314Z-majority-7/report.html"
    assert lines[-2].startswith("again   holdfast run --system majority")
    assert lines[-1] == "seed    7"


def test_every_verdict_has_a_sign_and_a_word_of_its_own() -> None:
    text = render(specimens.broken(), width=120, colour=False)
    assert "x VIOLATED" in text
    assert "? UNKNOWN" in text
    assert "+ HOLDS" in text
    assert "! LIMIT" in render(specimens.limit(), width=120, colour=False)


def test_faults_show_whether_they_bit_and_what_was_measured() -> None:
    text = render(specimens.clean(), width=140, colour=False)
    assert "214 packets dropped" in text
    assert "c1 state T" in text
    assert "0 packets dropped (no packet met the cut)" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_without_colour_no_escape_sequence_and_no_line_too_wide(width: int) -> None:
    text = render(specimens.broken(), width=width, colour=False)
    assert "\x1b" not in text
    tables = [line for line in text.splitlines() if not line.startswith(("again", "report"))]
    assert max(map(len, tables)) <= width


def test_colour_is_used_where_it_is_wanted() -> None:
    assert "\x1b[1;31mVIOLATED" in render(specimens.broken(), width=80, colour=True)


def test_a_hostile_name_cannot_steer_the_terminal() -> None:
    text = render(specimens.hostile(), width=100, colour=False)
    bad = {char for char in text if unicodedata.category(char) in {"Cc", "Cf", "Cs"}}
    assert bad == {"\n"}
    assert len(text) < 30_000


def test_a_run_without_faults_or_properties_still_says_what_it_is() -> None:
    run = specimens.unknown() | {"verdicts": []}
    text = render(run, width=80, colour=False)
    assert "UNKNOWN: no property was judged." in text
    assert "Properties" not in text


def test_what_held_under_which_kind_of_fault_is_a_table() -> None:
    run = specimens.clean()
    under = {"pause": {"verdict": "HOLDS"}, "reset": {"verdict": "UNKNOWN"}}
    for row in run["verdicts"]:
        row["under"] = under
    text = render(run, width=120, colour=False)
    assert "By kind of fault" in text
    assert "+ HOLDS" in text and "? UNKNOWN" in text


def test_what_a_second_program_verified_is_told_and_nothing_where_it_did_not() -> None:
    verified = {"accepted": 2, "bare": 0, "why": "", "properties": ["token-order"]}
    told = render({**specimens.broken(), "verified": verified}, width=120, colour=False)
    assert "independently verified against the recorded rows: token order" in told
    assert "independently" not in render(specimens.broken(), width=120, colour=False)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("name", ["broken", "limit", "clean", "unknown"])
def test_no_column_is_lost_and_no_word_is_cut_on_a_narrow_terminal(name: str, width: int) -> None:
    run = getattr(specimens, name)()
    words = " ".join(render(run, width=width, colour=False).split())
    for one in run["verdicts"]:
        assert one["property"] in words and one["severity"] in words
        reason = one["reason"]
        assert not reason or all(word in words for word in reason.split() if len(word) < width - 30)
    for column in ("property" if width > 60 else "state:", "promised", "severity", "why"):
        assert column in words
    for fault in run["faults"]:
        assert fault["id"] in words and fault["do"] in words


def test_a_wide_terminal_has_tables() -> None:
    for width in (80, 100, 120):
        lines = render(specimens.broken(), width=width, colour=False).splitlines()
        assert any(
            line.split()[:4] == ["property", "state", "promised", "severity"] for line in lines
        )


def test_a_narrow_terminal_has_each_row_as_a_block() -> None:
    text = render(specimens.broken(), width=60, colour=False)
    assert "\nmutual-exclusion\n  state: x VIOLATED, promised: yes, severity: critical\n" in text


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize(("name", "most"), [("clean", 10), ("limit", 10), ("broken", 25)])
def test_without_v_a_pass_has_ten_lines_and_a_violation_25(
    name: str, most: int, width: int
) -> None:
    run = getattr(specimens, name)()
    text = render(run, width=width, colour=False, verbose=False)
    lines = text.splitlines()
    assert len(lines) <= most, text
    assert "Properties" not in text and "Faults" not in text
    assert lines[0].startswith(("HOLDS: ", "VIOLATED: ", "LIMIT: a late write was accepted. redis"))
    assert any(line.startswith("report  ") for line in lines)
    assert lines[-1].startswith("again   holdfast run ")
    whole = render(run, width=width, colour=False)
    assert len(whole.splitlines()) > 2 * len(lines) and "Properties" in whole


def test_the_cause_stands_right_below_the_verdict_with_its_extent_and_remedy() -> None:
    lines = render(specimens.broken(), width=100, colour=False, verbose=False).splitlines()
    at = lines.index("VIOLATED  Double grant")
    assert at <= 7, "after the headline and three answers"
    rows = lines[at + 1 : at + 11]
    labels = [line.split()[0] for line in rows if line.startswith("  ") and line[2] != " "]
    assert labels[:3] == ["cause", "extent", "do"]


def test_what_every_reader_asks_is_answered_before_the_causes() -> None:
    for run, exclusion, late in (
        (specimens.broken(), "Yes, 1 time (a broken promise).", "Not seen: 0 of "),
        (specimens.limit(), "Not seen: 0 in ", "Yes, "),
        (specimens.clean(), "Not seen: 0 in ", "Not seen: 0 of "),
        (specimens.unknown(), "Unknown: ", ""),
    ):
        lines = render(run, width=200, colour=False, verbose=False).splitlines()
        asked = {line[2:24].strip(): line[24:].strip() for line in lines[1:4]}
        assert asked["Two holders at once?"].startswith(exclusion)
        assert asked.get("Late write accepted?", "").startswith(late)
        assert any(one.startswith("One run of ") for one in asked.values())


def test_many_causes_are_counted_and_printed_with_v() -> None:
    run = specimens.broken()
    first = specimens.double_grant_finding()
    kinds = ("false-answer", "hung-request", "false-length", "applied-twice", "late-grant-notice")
    run["verdicts"][0]["findings"] = [first | {"kind": kind} for kind in kinds]
    brief = render(run, width=100, colour=False, verbose=False)
    assert "more causes: -v, or the report" in brief
    assert len(brief.splitlines()) <= 25
    whole = render(run, width=100, colour=False)
    assert sum(line.startswith("  cause ") for line in whole.splitlines()) >= len(kinds)


@pytest.mark.parametrize("width", [80, 100])
def test_what_is_too_long_is_shortened_where_it_is_missed_least(width: int) -> None:
    """A limit with many consequences, a question left open for many reasons: ten lines and 16,
    and a command, the path of the report and the claim are whole."""
    limit = specimens.limit()
    limit["system"] = "tests/locks/mylock.py:TheLockOfTheUser"
    rows = ("mutual-exclusion", "token-order", "no-expired-write", "ownership")
    limit["verdicts"] = [
        row | {"property": prop, "verdict": "VIOLATED", "promised": False}
        for row, prop in zip(limit["verdicts"] * 4, rows, strict=False)
    ]
    limit["verdicts"][0]["findings"] = specimens.limit()["verdicts"][1]["findings"] * 3
    unknown = specimens.unknown() | {"remedy": "holdfast run --system redis " + 60 * "--clients 5 "}
    for row in unknown["verdicts"]:
        row["reason"] = "; ".join(f"no {row['property']} under fault {n}: 0 of 7" for n in range(9))
    for run in (limit, unknown):
        whole = render(run, width=width, colour=False)
        lines = render(run, width=width, colour=False, verbose=False).splitlines()
        assert len(lines) <= (16 if lines[0].startswith("UNKNOWN") else 10), "\n".join(lines)
        (report,) = (line for line in lines if line.startswith("report  "))
        assert report in whole
        headline = "\n".join(lines[: next(n for n, x in enumerate(lines) if x.startswith("  "))])
        claim = headline.removesuffix(": never promised.")
        assert claim in whole and (claim == headline or width == 80)
    command = next(line for line in lines if "holdfast run" in line)
    assert command.removeprefix("  run   ").strip() == unknown["remedy"].strip()


def test_of_a_cause_its_beginning_and_what_was_wrong_stay_longest() -> None:
    text = (
        "c2 was stopped at 1.0 s; c5 was granted at 3.0 s; c5 wrote; c2's late write was accepted."
    )
    short = "c2 was stopped at 1.0 s; … c2's late write was accepted."
    assert both_ends(text, len(short)) == both_ends(text, len(text)) == short
    assert both_ends(text, len(short) - 1).startswith("c2 was stopped at 1.0 s")
    for whole in ("one clause.", "a first one; a last one."):
        assert both_ends(whole, 80) == whole


def test_the_command_that_repeats_a_violation_stays_whatever_was_not_tested() -> None:
    run = specimens.broken() | {"remedy": "holdfast run --time 60s"}
    lines = render(run, width=80, colour=False, verbose=False).splitlines()
    assert lines[-1].startswith("again   holdfast run ") and len(lines) <= 25


@pytest.mark.parametrize("room", [24, 40, 60, 100])
def test_a_text_is_cut_after_a_clause_or_a_word(room: int) -> None:
    text = (
        "The resource had no stale request to refuse: 0 of 79; no older owner's request came. More"
    )
    short = cut(text, room)
    assert len(short) <= room
    assert short == text or short.endswith((".", "…"))
    stem = short.rstrip(".…")
    assert text.startswith(stem) and not text[len(stem) : len(stem) + 1].isalnum()


def test_a_reason_of_many_properties_keeps_its_reason_and_not_their_names() -> None:
    names = "Ownership, loss notice and token order"
    assert few_names(f"{names}: no grant after the last kill") == (
        "3 properties: no grant after the last kill"
    )
    assert few_names(f"{names}: not tested. The history may be incomplete: x.") == (
        "The history may be incomplete: x."
    )
    assert few_names("Ownership: no grant") == "Ownership: no grant"
    assert few_names("No colon, and no reason") == "No colon, and no reason"
