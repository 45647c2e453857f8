"""What to do about an UNKNOWN is said beside it, and it is about its reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import holdfast
from holdfast.reports.run.coverage_advice import ADVICE, FALLBACK, OS_ERRORS, advice, advices
from tests.reports import rendered, specimens
from tests.reports.pieces import MANIFEST, PLAN


@pytest.mark.parametrize(
    ("reason", "part"),
    [
        ("no acquire waited: 0 of 214", "more clients"),
        ("the resource had no stale request to refuse: 0 of 40", "outlive their lease"),
        ("no pause took effect: 0 of 3", "table of faults"),
        ("no pause took place", "more occasions"),
        ("no acquire was in flight during a kill: 0 in 2 windows", "more occasions"),
        ("driven at 40% of the planned rate, 4 of 10 acquires: the clients", "--rate"),
        ("this system has no fencing tokens", "choose a system that issues tokens"),
        (
            "tokens do not show which of two clients was granted the lock first",
            "tokens keep the order of its grants",
        ),
        ("no client that waited with another behind it was granted: 0 of 3", "clients"),
        ("something that nobody foresaw", FALLBACK),
    ],
)
def test_advice_is_about_the_reason(reason: str, part: str) -> None:
    assert part in advice(reason)


def test_a_lock_that_cannot_reach_localhost_is_told_why() -> None:
    reason = (
        "every acquire failed with an error: 9 of 9 calls, 3 clients; the first, of c4 at 0.007 s:"
        " ConnectionRefusedError: [Errno 111] Connection refused"
    )
    told = " ".join(advices([reason]))
    assert "holdfast doctor --system" in told and "--backend local-proxy" in told
    assert "a network of its own" in told


def test_more_runs_are_not_advised_where_the_system_is_the_reason() -> None:
    reason = "this system declares no order that bounds it (racing); no acquire waited: 0 of 3"
    assert advices([reason]) == ["Nothing in this run: this system does not promise it."]


def test_every_part_of_a_reason_is_still_written_by_a_checker() -> None:
    """A reason that is worded anew would silently lose its advice."""
    folders = ("checkers", "harness/judging", "harness/core", "harness/history")
    root = Path(holdfast.__file__).parent
    sources = "".join(
        path.read_text() for folder in folders for path in (root / folder).rglob("*.py")
    )
    written = re.sub(r'"\s*f?"', "", sources)
    ours = [part for parts, _ in ADVICE for part in parts if part not in OS_ERRORS]
    assert [part for part in ours if part not in written] == []


def test_the_report_and_the_story_say_it_beside_unknown() -> None:
    told = [one for one in rendered.story(specimens.unknown()) if ": not tested. " in one]
    assert told and all("What to do: " in one for one in told)
    text = rendered.render(specimens.unknown(), MANIFEST, PLAN)
    assert text.count("<small>What to do: ") == text.count('<tr class="unknown">') > 0
    assert "What to do: " not in "".join(rendered.story(specimens.clean()))
