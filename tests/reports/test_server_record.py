"""The servers' own record in the report and on the terminal."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.harness.verdicts.judged import read
from tests.reports import rendered, specimens
from tests.reports.pieces import MANIFEST, PLAN, at

COUNTS = {
    "source": "etcd: a watch",
    "events": 24,
    "holds": 12,
    "granted": 11,
    "matched": 11,
    "whole": True,
}
LOST = {
    "kind": "lost",
    "sentence": "c2, acquire 1, lost db in the record",
    "lock": "db",
    "t_ns": at(4),
    "process": 2,
    "at": 9,
}


def told(**changes: Any) -> str:
    """The section on the terminal, as one line."""
    run = specimens.clean() | {"server_record": COUNTS | changes}
    text = rendered.terminal(run, width=200, colour=False)
    return " ".join(text.partition("Servers' own record\n")[2].partition("report  ")[0].split())


def page(**changes: Any) -> str:
    run = specimens.clean() | {"server_record": COUNTS | changes}
    return rendered.render(run, MANIFEST, PLAN)


def test_a_run_without_a_record_has_no_section() -> None:
    run = specimens.clean()
    assert "own record" not in rendered.terminal(run, width=120, colour=False)
    assert "server-record" not in rendered.render(run, MANIFEST, PLAN)


def test_what_was_compared_is_said() -> None:
    assert told() == (
        "The servers' record and the responses agree on 11 grants. Source: etcd: a watch: 24"
        " events, 12 holds. Of 11 granted acquires 11 have their hold in the record."
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"granted": 13, "uncovered": 2}, "11 have their hold in the record; 2 could not be"),
        ({"matched": 0}, "No grant could be compared with the servers' record."),
        (
            {"unknown": 3, "took_effect": 1, "no_effect": 2},
            "1 took effect by the record, 2 did not.",
        ),
        ({"unknown": 3, "took_effect": 1}, "0 did not, 2 remain unknown."),
        ({"undone": 1}, "1 refused acquire held the lock for a moment before the response"),
        ({"strangers": 4}, "4 holds of the record name no acquire of a client"),
        ({"whole": False}, "The record ends before the run"),
        (
            {"problem": "line 2: damaged"},
            "The servers' record cannot be compared: line 2: damaged.",
        ),
    ],
)
def test_what_could_not_be_compared_is_said(changes: dict[str, Any], words: str) -> None:
    assert words in told(**changes)
    shown = page(**changes)
    assert words in shown.replace("&#39;", "'")


def test_a_damaged_record_agrees_on_nothing() -> None:
    assert "agree" not in told(problem="line 2: damaged")


def test_differences_and_gaps_are_listed() -> None:
    gap = {"from_ns": at(2), "to_ns": at(3), "reason": "the connection broke"}
    changes = {"total": 5, "differences": [LOST] * 5, "gaps": [gap] * 5}
    text = told(**changes)
    assert text.startswith("The servers' record and the responses differ in 5 places. No verdict")
    assert text.count("lost: c2, acquire 1, lost db in the record.") == 3
    assert "and 2 more of lost in the report" in text
    assert text.count("Gap from 2.000 s to 3.000 s: the connection broke.") == 3
    assert "2 more gaps." in text
    shown = page(**changes)
    assert shown.count("c2, acquire 1, lost db in the record") == 5
    assert "ended in the record before its lease, without a release" in shown
    assert '<a href="#server-record">' in shown


def test_it_changes_no_verdict() -> None:
    calm = read(specimens.clean())
    differs = read(specimens.clean() | {"server_record": COUNTS | {"differences": [LOST]}})
    assert (calm.verdict, calm.exit_code, calm.outcome()) == (
        differs.verdict, differs.exit_code, differs.outcome(),
    )  # fmt: skip
