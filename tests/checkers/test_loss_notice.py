"""Loss notice: who is told, how late, and what keeps a service from telling."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast import catalogue
from holdfast.checkers.properties import loss_notice
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import DELAY, PRESSURE, Starved
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from tests.checkers.examples import Examples, specimen
from tests.checkers.faults import window
from tests.checkers.shorthand import case

LOST = "0a? 0a+7 1a?@19 1a+8@20 "
"""c0 loses its lock to c1 by 20 s; the limit is 3 s."""


NOBODY = {"renew_proves": False, "release_proves": False, "release_once": False}
RENEWED = {"bound": "none", "lapse_ns": 0, **NOBODY}
"""A library renews by itself, and the service ends its holds by a lease."""
EXAMPLES = Examples(
    prop="loss-notice",
    specimens=(
        specimen(
            "silent-reacquire/time",
            "loss-notice",
            "0a?/1 0a+7/1 1a? 1a+8 1r? 1r+ 0n?@20 0n+ 0r?@30 0r+",
            **NOBODY,
        ),
        specimen(
            "silent-reacquire/tokens",
            "loss-notice",
            "0a?/1 1a? 0a+7/1 1a+8 1r? 1r+ 0c?@20 0c+ 0r?@30 0r+",
            **NOBODY,
        ),
        specimen(
            "silent-reacquire/time",
            "loss-notice",
            "0a?/1 0a+7/1 1a? 1a+8 1r? 1r+ 0n?@20 0n+ 0r?@40 0r+",
            **RENEWED,
        ),
        specimen(
            "lost-without-notice/time",
            "loss-notice",
            "0a?/1 0a+7/1 1a? 1a+8 0r?@40 0r+",
            **RENEWED,
        ),
    ),
)


def judged(text: str, **changes: Any) -> PropertyVerdict:
    """The verdict on a history."""
    return loss_notice.check(case(text, **changes))


def test_a_holder_that_is_told_in_time_holds() -> None:
    verdict = judged(LOST + "0L@22")
    assert verdict.verdict is Verdict.HOLDS
    assert verdict.exercised["holds lost to another"] == 1
    assert verdict.exercised["slowest notice ms"] == 2000


def test_a_renewal_that_is_turned_down_is_a_notice() -> None:
    assert judged(LOST + "0n? 0n!@22").verdict is Verdict.HOLDS


def test_a_holder_that_is_never_told_convicts() -> None:
    verdict = judged(LOST + "0r?@30 0r!")
    assert verdict.verdict is Verdict.VIOLATED
    (finding,) = verdict.findings
    assert (finding.kind, finding.witnesses) == ("lost-without-notice", (0, 1, 2))
    assert finding.sentence == (
        "c0 lost 'db' to c1 by 20.000 s and could be reached, but was not notified for 10.000 s"
        " after 20.000 s; the limit is 3.000 s"
    )


def test_holders_that_gave_up_by_themselves_show_nothing_of_notices() -> None:
    twice = LOST + "0r?@22 0r! 1r?@23 1r+ 0a?@24 0a+9@25 1a?@43.9 1a+10@44 0r?@45 0r!"
    verdict = judged(twice)
    assert verdict.exercised["holds lost to another"] == 2
    assert verdict.verdict is Verdict.UNKNOWN
    assert verdict.reason == "no holder was notified of a loss: 0 of 2 holds lost to another"


def test_a_notice_to_one_that_waits_is_no_notice_of_a_loss() -> None:
    assert judged("0a? 0a+7 1a? 1L 0r? 0r+").reason == "no holder lost its lock"


def test_where_nobody_lost_nothing_is_said() -> None:
    assert judged("0a? 0a+7 0r? 0r+").reason == "no holder lost its lock"


def test_a_paused_client_is_told_once_it_runs_again() -> None:
    paused = (window("pause", "c0", 10, 28),)
    assert judged(LOST + "0L@30", windows=paused).verdict is not Verdict.VIOLATED
    assert judged(LOST + "0L@32", windows=paused).verdict is Verdict.VIOLATED


def test_clocks_that_are_not_sure_excuse_by_twice_their_error() -> None:
    """A mutant survived that took the error off the moment of the loss."""
    late = LOST + "0r?@23.5 0r!"
    assert judged(late).verdict is Verdict.VIOLATED
    assert judged(late, error_ns=SECOND // 5).verdict is Verdict.VIOLATED
    assert judged(late, error_ns=SECOND // 2).verdict is not Verdict.VIOLATED


def test_a_client_without_a_processor_is_told_once_it_has_one_again() -> None:
    """Found among histories of correct services."""
    own = (Starved(node="c0", kind=DELAY, from_ns=10 * SECOND, to_ns=28 * SECOND),)
    assert judged(LOST + "0L@30", starved=own).verdict is not Verdict.VIOLATED
    assert judged(LOST + "0L@32", starved=own).verdict is Verdict.VIOLATED
    host = (replace(own[0], node="driver", kind=PRESSURE),)
    assert judged(LOST + "0L@30", starved=host).verdict is not Verdict.VIOLATED
    other = (replace(own[0], node="c1"),)
    assert judged(LOST + "0L@30", starved=other).verdict is Verdict.VIOLATED


def test_a_cut_off_client_has_the_recovery_time_besides() -> None:
    cut = (window("partition", "c0", 10, 28),)
    assert judged(LOST + "0L@35", windows=cut).verdict is not Verdict.VIOLATED
    assert judged(LOST + "0L@37", windows=cut).verdict is Verdict.VIOLATED


def test_a_fault_on_a_server_excuses_and_one_on_another_client_does_not() -> None:
    on_server = (window("kill", "n1", 18, 28),)
    assert judged(LOST + "0L@30", windows=on_server).verdict is not Verdict.VIOLATED
    on_other = (window("pause", "c1", 18, 28),)
    assert judged(LOST + "0L@30", windows=on_other).verdict is Verdict.VIOLATED


def test_a_silent_client_may_not_be_there_to_be_told() -> None:
    assert judged(LOST + "1n?@40 1n+").findings == ()


def test_who_still_holds_by_the_services_word_has_not_lost() -> None:
    assert judged(LOST + "0n?@29 0n+ 0r?@31 0r+").findings == ()


def test_without_a_promise_a_whole_lease_counts() -> None:
    never = {"notice_ns": 0}
    assert judged(LOST + "0r?@29 0r!", promises=never).findings == ()
    assert len(judged(LOST + "0r?@31 0r!", promises=never).findings) == 1


def test_without_any_time_to_go_by_nothing_is_said() -> None:
    verdict = judged(LOST + "0L@22", promises={"notice_ns": 0}, lease_ns=0)
    assert verdict.verdict is Verdict.UNKNOWN


def test_writes_after_the_notice_are_counted() -> None:
    verdict = judged(LOST + "0w?@21 0w~ 0L@22 0w? 0w~")
    assert verdict.exercised["writes after the notice"] == 1


WROTE_ON = LOST + "0L@22 0w?@23 0w~ 0w?@25 0w~"


def test_an_owner_that_writes_on_after_its_notice_convicts() -> None:
    verdict = judged(WROTE_ON)
    assert verdict.verdict is Verdict.VIOLATED
    (finding,) = verdict.findings
    assert (finding.kind, finding.witnesses) == ("write-after-notice", (0, 2, 3, 4))
    assert finding.sentence == (
        "c0 was notified at 22.000 s that it had lost 'db', and went on writing: at 23.000 s and"
        " again at 25.000 s"
    )


def test_one_write_may_have_been_decided_on_before_the_notice() -> None:
    assert not judged(LOST + "0w?@21 0w~ 0L@22 0w?@23 0w~").findings


def test_writes_between_a_false_notice_and_an_ok_renewal_are_not_judged() -> None:
    assert not judged("0a? 0a+7 0L 0n? 0n+ 0w? 0w~ 0w? 0w~").findings


def test_writes_after_the_notice_are_noted_where_owners_ignore_notices() -> None:
    verdict = judged(WROTE_ON, options={"resource": "fenced", "workload": "critical-section"})
    assert verdict.verdict is Verdict.HOLDS and not verdict.findings
    assert [note.kind for note in verdict.notes] == ["write-after-notice"]
    assert "owners of this workload ignore notices" in verdict.reason


def test_workloads_that_ignore_notices_are_those_that_never_ask_between_two_writes() -> None:
    """manual-recovery asks, and writes once more on purpose."""
    asks = set()
    for name in catalogue.WORKLOADS:
        module = load(f"{catalogue.WORKLOADS[name].entry}:client").__module__
        source = Path(sys.modules[module].__file__ or "").read_text()
        if "ctx.lost(" in source:
            asks.add(name)
    assert asks - {"manual-recovery"} == set(catalogue.WORKLOADS) - loss_notice.IGNORES_NOTICES


# A lost lock that a renewal took again.

WEAK = {"renew_proves": False}
AGAIN = "0a?/1 0a+7/1 1a?@19 1a+8@20 1r?@21 1r+@22 "
"""c0's lease is over by 2 s; c1 had the lock from 20 s to 22 s."""


def test_a_renewal_that_takes_a_lost_lock_again_convicts() -> None:
    verdict = judged(AGAIN + "0n?@23 0n+@24 0r?@30 0r+", promises=WEAK)
    (finding,) = verdict.findings
    assert (finding.kind, finding.witnesses) == ("silent-reacquire", (0, 1, 3))
    assert finding.sentence == (
        "c0 lost 'db' to c1, which had been granted it by 20.000 s; c0's renewal, sent at 23.000 s,"
        " returned ok as if it had held the lock all along, and no notice followed within 3.000 s"
    )


def test_a_check_that_confirms_a_lost_hold_convicts() -> None:
    verdict = judged(AGAIN + "0c?@23 0c+@24 0r?@30 0r+", promises=WEAK)
    assert [finding.kind for finding in verdict.findings] == ["silent-reacquire"]


def test_a_lock_taken_again_while_another_is_not_known_to_have_had_it_is_no_loss() -> None:
    """A renewal takes a lock anew that nobody asked for since; or whose other acquire is unknown,
    or began before the first was granted and has no later token."""
    for text in (
        "0a?/1 0a+7/1 0n?@23 0n+@24 0r?@30 0r+",
        "0a?/1 0a+7/1 1a?@19 1a~@20 0n?@23 0n+@24 0r?@30 0r+",
        "1a?/1 0a?/1 0a+7/1 1a+6/1 1r? 1r+ 0n?@23 0n+@24 0r?@30 0r+",
    ):
        assert not judged(text, promises=WEAK).findings, text


def test_who_may_have_asked_for_the_lock_again_was_not_deceived() -> None:
    """Its own later acquire, granted or of unknown outcome, is not over when the answer comes."""
    for own in ("0a?@22.1 0a+9@22.5", "0a?@22.1 0a~@22.5", "0a?@22.1"):
        told = AGAIN + own + " 0.1n?@23 0.1n+@24 0.1r?@25 0.1r+@26 0.1d?@31 0.1d+"
        assert not judged(told, promises=WEAK).findings, own
    # Refused: it holds nothing by it. Sent after the answer: that comes too late to excuse it.
    for own in ("0a?@22.1 0a-@22.5", "0a?@24.1 0a+9@24.5"):
        told = AGAIN + own + " 0.1n?@23 0.1n+@24 0.1r?@25 0.1r+@26 0.1d?@31 0.1d+"
        assert [f.kind for f in judged(told, promises=WEAK).findings] == ["silent-reacquire"], own


def test_two_locks_are_two() -> None:
    """Another's grant, or an own acquire, of a second lock says nothing about the first."""
    other = "0a?:a/1 0a+7:a/1 1a?:b@19 1a+8:b@20 1r?:b@21 1r+:b@22 0n?:a@23 0n+:a@24 0r?:a@30 0r+:a"
    assert not judged(other, promises=WEAK).findings
    own = (
        "0a?:a/1 0a+7:a/1 1a?:a@19 1a+8:a@20 1r?:a@21 1r+:a@22 0a?:b@22.1 0a+9:b@22.5"
        " 0.1n?:a@23 0.1n+:a@24 0.1r?:a@30 0.1r+:a"
    )
    assert "silent-reacquire" in [f.kind for f in judged(own, promises=WEAK).findings]


def test_an_answer_that_clocks_may_have_put_before_the_loss_is_none() -> None:
    """c1's grant is known by 20 s, by a clock that may be off by so much."""
    for error, convicted in ((1.4, True), (1.6, False)):
        told = judged(
            AGAIN + "0n?@23 0n+@24 0r?@30 0r+", promises=WEAK, error_ns=int(error * SECOND)
        )
        kinds = [finding.kind for finding in told.findings]
        assert ("silent-reacquire" in kinds) == convicted, error


def test_a_renewal_inside_the_lease_is_a_matter_of_exclusion() -> None:
    inside = "0a?/30 0a+7/30 1a?@19 1a+8@20 1r?@21 1r+@22 0n?@23 0n+@24 0r?@30 0r+"
    assert "silent-reacquire" not in [f.kind for f in judged(inside, promises=WEAK).findings]


@pytest.mark.parametrize(("edge", "convicted"), [("+", False), ("~", False), ("-", True)])
def test_a_renewal_before_extends_the_lease_unless_it_was_refused(
    edge: str, convicted: bool
) -> None:
    """One without an answer may have taken effect: the other's grant is then what is wrong."""
    told = judged(
        f"0a?/1 0a+7/1 0n?/30@1.5 0n{edge}/30@1.7 1a?@19 1a+8@20 1r?@21 1r+@22 0n?@23 0n+@24"
        " 0r?@30 0r+",
        promises=WEAK,
    )
    assert ("silent-reacquire" in [f.kind for f in told.findings]) == convicted


def test_a_notice_may_follow_the_answer() -> None:
    """Within 3 s from the answer; and who cannot be reached is not notified."""
    taken = AGAIN + "0n?@23 0n+@24 "
    for text in (taken + "0L@26 0d?@40 0d+", taken + "0n?@25 0n!@26 0d?@40 0d+"):
        told = judged(text, promises=WEAK)
        assert [f.kind for f in told.findings] == ["lost-without-notice"], text
    # Nothing is known of the client after this.
    silent = judged(taken + "0r?@26 0r+@26.5", promises=WEAK)
    assert "silent-reacquire" not in [f.kind for f in silent.findings]
    away = judged(taken + "0r?@30 0r+", promises=WEAK, windows=(window("pause", "c0", 24, 29),))
    assert "silent-reacquire" not in [f.kind for f in away.findings]
    late = judged(taken + "0L@28 0d?@40 0d+", promises=WEAK)
    assert [f.kind for f in late.findings] == ["silent-reacquire"]


# The same where a library renews by itself, and the service ends its holds by a lease.

RENEWED = {"bound": "none", "lapse_ns": 0, "renew_proves": False, "release_proves": False}


def of_a_library(text: str, **promises: object) -> PropertyVerdict:
    """The verdict, where leases are of 2 s."""
    return judged(text, promises=RENEWED | promises, lease_ns=2 * SECOND)


def test_a_library_that_confirms_a_lost_hold_convicts() -> None:
    for answer in ("n", "c"):
        verdict = of_a_library(AGAIN + f"0{answer}?@23 0{answer}+@24 0r?@30 0r+")
        (finding,) = verdict.findings
        assert (finding.kind, finding.witnesses) == ("silent-reacquire", (0, 1, 3))


def test_a_library_that_says_nothing_of_a_loss_convicts() -> None:
    verdict = of_a_library(AGAIN + "0r?@30 0r+")
    assert [finding.kind for finding in verdict.findings] == ["lost-without-notice"]
    assert verdict.exercised["holds lost to another"] == 1


def test_without_the_declaration_a_hold_that_only_a_release_ends_was_not_lost() -> None:
    verdict = of_a_library(AGAIN + "0n?@23 0n+@24 0r?@30 0r+", lapse_ns=-1)
    assert not verdict.findings and verdict.exercised["holds lost to another"] == 0


def test_a_library_confirms_a_hold_until_its_next_renewal_and_none_that_it_gave_back() -> None:
    """Its ok is its own word: a notice may take up to a lease, and a release ends its renewals."""
    taken = AGAIN + "0n?@23 0n+@24 "
    for after in ("0L@26.9 0d?@40 0d+", "0r?@26.9 0r!@40", "0n?@25 0n!@26 0d?@40 0d+"):
        kinds = [finding.kind for finding in of_a_library(taken + after).findings]
        assert "silent-reacquire" not in kinds, after
    for told_at, convicted in ((33.9, False), (34.5, True)):
        verdict = of_a_library(f"{taken}0L@{told_at} 0d?@40 0d+", lapse_ns=10 * SECOND)
        kinds = [finding.kind for finding in verdict.findings]
        assert ("silent-reacquire" in kinds) == convicted, told_at


def test_within_the_first_lease_it_is_the_other_grant_that_is_wrong() -> None:
    inside = "0a?/30 0a+7/30 1a?@19 1a+8@20 1r?@21 1r+@22 0n?@23 0n+@24 0r?@29 0r+"
    assert not of_a_library(inside).findings
    shorter = inside.replace("/30", "/1")
    assert not of_a_library(shorter, lapse_ns=30 * SECOND).findings
    assert of_a_library(shorter).findings


def test_an_ok_of_a_library_extends_no_lease() -> None:
    told = "0a?/3 0a+7/3@1 0n?@2 0n+@3 1a?@5 1a+8@5.5 0n?@5.8 0n+@5.9 0r?@20 0r+"
    kinds = [finding.kind for finding in of_a_library(told).findings]
    assert kinds == ["silent-reacquire"]


def test_where_an_ok_renewal_proves_the_hold_it_is_a_matter_of_ownership() -> None:
    told = judged(AGAIN + "0n?@23 0n+@24 0r?@30 0r+")
    assert "silent-reacquire" not in [f.kind for f in told.findings]
