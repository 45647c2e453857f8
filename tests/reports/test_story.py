"""The story of a run: the verdict first, the mechanism, what stays open, how far it reaches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.checkers.facts import foreign_release
from holdfast.harness.core.errors import UsageError
from holdfast.harness.properties import CAUSES, KINDS, kind
from holdfast.harness.verdicts.judged import Outcome, to_table
from holdfast.reports.run.story import answers, entries, notices
from tests.reports import specimens
from tests.reports.pieces import judged
from tests.reports.rendered import read, render, story, terminal


def test_the_first_sentence_is_the_verdict() -> None:
    assert story(specimens.clean())[0].startswith("HOLDS: reference kept the 7 properties")
    assert story(specimens.broken())[0] == (
        "VIOLATED: two clients held a lock at the same time and fencing tokens were out of order."
        " majority broke its promise of mutual exclusion and token order."
    )
    assert story(specimens.unknown())[0].startswith(
        "UNKNOWN: 2 of 3 properties were not tested: mutual "
    )
    assert story(specimens.limit())[0] == (
        "LIMIT: a late write was accepted."
        " redis kept its promises and never promised to prevent it."
    )


def test_one_of_two_is_the_first_sentence_and_called_undecided() -> None:
    """A property of which the run proves that it or another was violated was tested."""
    run = specimens.unknown()
    either = "the tokens of 'db' are out of order, or two held it at once: token 18"
    run["verdicts"][0] |= {"reason": f"{either}; no fault", "either": [either]}
    told = story(run)
    assert told[0] == (
        "UNKNOWN: the tokens of 'db' are out of order, or two held it at once: token 18."
        " 1 of 3 properties was not tested: token order."
    )
    (line,) = [one for one in told if "not decided" in one]
    assert line.startswith("Mutual exclusion: not decided. The tokens of 'db' are out of order, or")
    table = to_table(read(run))["verdicts"]
    assert isinstance(table, list)
    assert [one.get("either") for one in table] == [[either], None, None]


def test_a_violation_is_told_as_cause_extent_meaning_and_remedy() -> None:
    told = story(specimens.broken())
    at = next(i for i, one in enumerate(told) if one.startswith("Cause: "))
    assert "c5 was granted 'db' (token 45) at 18.660 s while c3 still held it" in told[at]
    assert told[at + 1].startswith("Extent: once, after ")
    assert "1 finding of mutual exclusion" in told[at + 1]
    assert "its own responses prove" in told[at + 2]
    assert told[at + 3].startswith("What to do: ")


NOTICES = {"holds lost to another": 3, "of them notified": 2, "slowest notice ms": 2024}


def noticed(**counts: int) -> dict[str, Any]:
    """A run that holds, with these counts of loss notices."""
    run = specimens.clean()
    exercised = NOTICES | {name.replace("_", " "): n for name, n in counts.items()}
    run["verdicts"] = [*run["verdicts"], judged("loss-notice", "HOLDS", exercised=exercised)]
    return run


def test_how_late_holders_were_notified_of_a_loss_is_one_sentence() -> None:
    limit = "; limit without a fault: 1.00 s"
    told = "2 of 3 holders that lost the lock to another were notified, at most 2.02 s after the"
    (said,) = notices(read(noticed()))
    assert said == f"{told} loss (faults included{limit})."
    run = noticed()
    assert said in story(run)
    assert said in " ".join(terminal(run, width=200, colour=False).split())
    assert said not in terminal(run, width=200, colour=False, verbose=False)
    assert f"<bdi>{said}</bdi>" in render(run, {}, "")
    run["promises"] = run["promises"] | {"notice_ns": 0}
    assert notices(read(run)) == [f"{told} loss (faults included)."]


def test_no_time_is_named_where_no_holder_was_notified_of_its_loss() -> None:
    told = "0 of 1 holder that lost the lock to another was notified."
    assert notices(read(noticed(holds_lost_to_another=1, of_them_notified=0))) == [told]
    assert notices(read(noticed(holds_lost_to_another=0, of_them_notified=0))) == []
    assert notices(read(specimens.clean())) == []


def test_one_reason_of_both_answers_is_told_once() -> None:
    """A run that could not be executed has one reason for all that it leaves open."""
    run = specimens.unknown()
    wanted = ("mutual-exclusion", "no-stale-write")
    reason = "the run ended during deployment: c1 exited unexpectedly"
    run["verdicts"] = [
        {**run["verdicts"][0], "property": prop, "reason": reason} for prop in wanted
    ]
    exclusion, late, _ = answers(read(run))
    assert exclusion[1] == f"Unknown: {reason}." and late[1] == "Unknown, for the same reason."
    run["verdicts"][1]["reason"] = "no late write"
    assert answers(read(run))[1][1] == "Unknown: no late write."


def test_many_findings_of_a_cause_are_one_entry_with_their_number_and_the_first() -> None:
    run = specimens.limit()
    first = specimens.stale_write_finding()
    later = [
        first
        | {
            "t_ns": first["t_ns"] + n * 10**9,
            "witnesses": [one | {"row": 900 + n} for one in first["witnesses"]],
        }
        for n in range(1, 40)
    ]
    run["verdicts"][1]["findings"] = [*later, first]
    (entry,) = entries(read(run))
    assert entry.extent.startswith("40 times, ")
    assert "40 findings of no stale write" in entry.extent
    assert entry.cause.t_ns == first["t_ns"]
    assert sum(one.startswith("Extent: 40 times") for one in story(run)) == 1


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
    assert ("kept its promises and never" in first) == (outcome is Outcome.LIMIT)


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


def test_a_release_that_caused_a_finding_names_the_entry_and_its_remedy() -> None:
    run = specimens.broken()
    grants = next(one for one in run["verdicts"] if one["property"] == "mutual-exclusion")
    grant = grants["findings"][0]
    for cause, means in (
        (foreign_release.FOREIGN, "released it, which freed another client's hold"),
        (foreign_release.LATE, "a release returned ok after its lease may have expired; either"),
    ):
        grants["findings"] = [grant | {"cause": cause}]
        entry = entries(read(run))[0]
        assert entry.title == "Foreign release"
        assert means in entry.means
        assert entry.remedy == KINDS["foreign-release"].remedy
    assert set(CAUSES) == {foreign_release.FOREIGN, foreign_release.LATE}


def test_a_second_cause_of_the_same_violation_counts_what_is_more() -> None:
    run = read(specimens.broken())
    first = run.causes[0]
    alone, several = (replace(first, sentence="another", times=n) for n in (1, 4))
    listed = entries(replace(run, causes=(first, alone, several)))
    assert [one.times for one in listed[1:]] == ["once more", "4 more times"]
    assert "more" not in listed[0].times
