"""The story of a run: the verdict first, the mechanism, what stays open, how far it reaches."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.checkers.facts import foreign_release
from holdfast.harness.core.errors import UsageError
from holdfast.harness.verdicts.judged import Outcome, read
from holdfast.reports.run.finding_kinds import CAUSES, KINDS, kind
from holdfast.reports.run.story import mechanisms, violated
from tests.reports import specimens
from tests.reports.pieces import judged
from tests.reports.rendered import story


def test_the_first_sentence_is_the_verdict() -> None:
    assert story(specimens.clean())[0].startswith("HOLDS: reference kept the 7 properties")
    assert story(specimens.broken())[0] == (
        "VIOLATED: majority broke its promise of mutual exclusion and token order."
    )
    assert story(specimens.unknown())[0].startswith(
        "Inconclusive: 2 of 3 properties were not tested: mutual "
    )
    assert story(specimens.limit())[0] == (
        "redis kept its promises. But a late write was accepted;"
        " redis never promised to prevent it."
    )


def test_a_violation_is_told_as_mechanism_instance_and_remedy() -> None:
    told = story(specimens.broken())
    at = next(i for i, one in enumerate(told) if one.startswith("Double grant, once, at 18.660 s"))
    assert "its own responses prove" in told[at]
    assert told[at + 1].startswith("Example: c5 was granted 'db'")
    assert told[at + 2].startswith("What to do: ")


def test_many_findings_of_a_kind_are_told_once_with_their_number_and_the_first() -> None:
    run = specimens.limit()
    first = specimens.stale_write_finding()
    later = [first | {"t_ns": first["t_ns"] + n * 10**9} for n in range(1, 40)]
    run["verdicts"][1]["findings"] = [*later, first]
    told = [one for one in story(run) if one.startswith("Stale accepted write")]
    assert told == [one for one in told if "40 times, first at 7.031 s" in one]
    assert len(told) == 1


def test_a_clean_result_states_how_far_it_reaches() -> None:
    last = story(specimens.clean())[-1]
    assert "One run of 30.0 s, seed 7: 512 grants, 4 effective faults (" in last
    assert "1 fault without effect" in last
    assert "One passing run is not a proof." in last


def test_what_was_not_exercised_is_named_with_its_reason() -> None:
    told = story(specimens.unknown())
    wanted = "Mutual exclusion and token order: not tested. No acquire waited: 0 of"
    assert sum(one.startswith(wanted) for one in told) == 1
    assert not any(one.startswith("Held") and "mutual exclusion" in one for one in told)


@pytest.mark.parametrize(
    ("exit_code", "verdicts", "outcome"),
    [
        (0, [("HOLDS", True)], Outcome.HOLDS),
        (0, [("HOLDS", True), ("VIOLATED", False)], Outcome.LIMIT),
        (1, [("HOLDS", True), ("VIOLATED", True)], Outcome.BROKEN),
        (0, [("VIOLATED", True), ("UNKNOWN", True)], Outcome.BROKEN),
        (3, [("HOLDS", True), ("UNKNOWN", True)], Outcome.UNKNOWN),
        (0, [("HOLDS", True), ("UNKNOWN", True)], Outcome.UNKNOWN),
        (3, [("HOLDS", True)], Outcome.UNKNOWN),
        (0, [], Outcome.UNKNOWN),
        (0, [("UNKNOWN", False)], Outcome.UNKNOWN),
        (4, [("HOLDS", True)], Outcome.FAILED),
    ],
)
def test_a_run_never_looks_better_than_its_exit_code_or_its_worst_promise(
    exit_code: int, verdicts: list[tuple[str, bool]], outcome: Outcome
) -> None:
    run = specimens.clean() | {
        "exit_code": exit_code,
        "verdicts": [
            judged("mutual-exclusion", verdict, promised=promised) for verdict, promised in verdicts
        ],
    }
    assert read(run).outcome() is outcome
    first = story(run)[0]
    assert first.startswith("HOLDS") == (outcome is Outcome.HOLDS)
    assert ("kept its promises. But" in first) == (outcome is Outcome.LIMIT)


def test_an_unknown_kind_of_finding_still_gets_words() -> None:
    assert kind("new-trouble").name == "New trouble"
    assert all(words.means and words.remedy.endswith(".") for words in KINDS.values())


def test_what_is_not_a_verdict_is_refused_with_the_place_that_does_not_fit() -> None:
    run: dict[str, Any] = specimens.clean()
    run["faults"] = [{"id": "f1", "do": "pause", "from_ns": "soon", "to_ns": 2, "effective": True}]
    with pytest.raises(UsageError, match=r"faults\[0\].from_ns"):
        story(run)


def test_keys_of_a_later_version_are_ignored_and_missing_evidence_is_no_evidence() -> None:
    run = specimens.clean() | {"new": {"key": 1}, "evidence": {"of": "the future"}}
    assert "0 grants" in story(run)[-1]


def test_what_brought_a_finding_about_is_told_first_with_its_remedy() -> None:
    run = specimens.broken()
    grants = next(one for one in run["verdicts"] if one["property"] == "mutual-exclusion")
    grant = grants["findings"][0]
    release = {**grant, "kind": "foreign-release", "sentence": "c1's release freed it"}
    grants["findings"] = [
        grant | {"cause": "foreign-release"},
        grant | {"cause": "late-release"},
        release,
    ]
    told = [one.means for one in mechanisms(read(run), violated(read(run)))]
    assert told[0].startswith("Foreign release, once")
    assert (
        "a client that did not hold the lock released it, which freed another client's hold"
        in told[1]
    )
    assert "a release returned ok after its lease may have expired; either" in told[2]
    remedies = {one.remedy for one in mechanisms(read(run), violated(read(run)))[:3]}
    assert remedies == {KINDS["foreign-release"].remedy}
    assert set(CAUSES) == {foreign_release.FOREIGN, foreign_release.LATE}
