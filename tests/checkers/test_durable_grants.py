"""What a service acknowledged survives the power loss of a majority of its servers."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from holdfast.checkers.properties import durable_grants
from holdfast.harness.core.case import Case, History, Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import FORCE
from holdfast.harness.core.operations import PLAIN, Mode, Terms
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from holdfast.harness.verification.conditions import Conditions, Row
from holdfast.harness.verification.rule import OPS
from tests.checkers.certified import named, recorded
from tests.checkers.faults import HANG, POWER, RESTORED, disk_fault
from tests.checkers.shorthand import case, history, on

ONE = {"resource": "fenced", "servers": "1"}
THREE = {"resource": "fenced", "servers": "3"}


def judged(text: History | str, *windows: Window, **changes: Any) -> PropertyVerdict:
    """The verdict on a history; by default the only server lost power from 4.4 s to 4.6 s."""
    changes = {"windows": windows or (disk_fault(4.4, 4.6),), "options": ONE, **changes}
    return durable_grants.check(case(text, **changes))


def kinds(verdict: PropertyVerdict) -> list[str]:
    return [finding.kind for finding in verdict.findings]


BROKEN = "0a?@1 0a+7@2 1a?@5 1a+8@6"
"""c0 holds for 10 s from 1 s on; c1 is granted the lock after the power loss."""


def test_a_grant_after_the_power_loss_within_a_hold_from_before_convicts() -> None:
    verdict = judged(BROKEN)
    assert verdict.verdict is Verdict.VIOLATED and kinds(verdict) == ["lost-grant"]
    assert verdict.findings[0].sentence == (
        "c0 had been granted 'db' by 2.000 s and its hold could not end before 11.000 s; after the"
        " power loss at 4.400 s c1 (token 8) requested it and was granted it by 6.000 s"
    )


def test_a_hold_that_its_owner_proves_afterwards_convicts_without_its_lease() -> None:
    verdict = judged("0a?@1 0a+7@2 1a?@5 1a+8@6 0n?@7 0n+@8 1n?@7.5 1n+@8.5")
    proof = verdict.findings[0].proof
    assert kinds(verdict) == ["lost-grant"] and proof and proof.rule == "lost-grant/proved"


def test_of_several_lost_holds_the_one_that_lasts_longest_is_named() -> None:
    first, second = "0a?@1 0a+7/{}@2", "2a?@1.5 2a+8/{}@2.5"
    for leases in ((9, 20), (20, 9)):
        text = " ".join((first.format(leases[0]), second.format(leases[1]), "1a?@5 1a+9@6"))
        readers = on(history(text), *(Terms(mode=Mode.SHARED), Terms(), Terms(mode=Mode.SHARED)))
        given = case(readers, windows=(disk_fault(4.4, 4.6),), options=ONE)
        (finding,) = durable_grants.check(given).findings
        assert finding.sentence.startswith("c2" if leases[1] == 20 else "c0")


@pytest.mark.parametrize(
    "text",
    [
        "0a?@1 0a+7@2 1a?@4 1a+8@6",  # requested before the loss: it may have been granted before
        "0a?@1 0a+7@5 1a?@6 1a+8@7",  # c0 was not yet told of its grant when the power was lost
        "0a?@1 0a+7@2 0r?@3 0r+@4 1a?@5 1a+8@6",  # released
        "0a?@1 0a+7@2 0r?@3 1a?@5 1a+8@6",  # perhaps released
        "0a?@1 0a+7@2 1a?@12 1a+8@13",  # the lease is over
        "0a?@1 0a~@2 1a?@5 1a+8@6",  # never acknowledged
        "0a?@1 0a+7@2 1a?@5 1a~@6",  # the later grant is unknown
    ],
)
def test_what_need_not_have_been_lost_does_not(text: str) -> None:
    assert kinds(judged(text)) == []


NOT_KNOWN = "whether it undid that hold is not known: 1"


@pytest.mark.parametrize(
    ("text", "open_"),
    [
        ("0a?@1 0a+7@2 1a?@4 1a+8@6", True),  # c1 asked before the loss and was told after it
        ("0a?@1 0a+7@2 1a?@4.5 1a+8@6", True),  # it asked during the loss
        ("0a?@1 0a+7@2 1a?@4 1a+8@4.5", True),  # it was told during the loss
        ("0a?@1 0a+7@2 1a?@3 1a+8@4", False),  # two holders, both before the loss
        ("0a?@1 0a+7@2 1a?@5 1a+8@6", False),  # a lost grant
        ("0a?@1 0a+7@2 1a?@4 1a+8@11.5", False),  # the lease was over by then
        ("0a?@1 0a+7@2 0r?@3 0r+@4 1a?@4.3 1a+8@6", False),  # released
        ("0a?@1 0a+7@4.5 1a?@4 1a+8@6", False),  # c0 was told during the loss as well
        ("0a?@1 0a+7@2 1a?@4 1a-@6", False),
    ],
)
def test_a_conflicting_grant_whose_call_spans_the_loss_leaves_it_open(
    text: str, open_: bool
) -> None:
    verdict = judged(text)
    assert (NOT_KNOWN in verdict.reason) == open_
    assert verdict.verdict is not Verdict.HOLDS
    if open_:
        assert verdict.verdict is Verdict.UNKNOWN and not verdict.findings


def test_an_open_grant_keeps_a_run_from_holding_that_would_hold_without_it() -> None:
    asked = "0a?@1 0a+7@2 2a?@5 2a-@6 0r?@9 0r+@9.5 2a?@10 2a+9@11 2r?@11.5 2r+@12"
    assert judged(asked).verdict is Verdict.HOLDS
    assert judged(f"1a?@4 1a+8@4.5 {asked}").verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    "window",
    [
        disk_fault(4.4, 4.6, effective=False),
        disk_fault(4.4, 5.1),  # it ended after the request of the second grant
        disk_fault(1.5, 1.6),  # it began before the first grant was acknowledged
        disk_fault(4.4, 4.6, "c1"),
    ],
)
def test_without_a_power_loss_between_them_two_holders_are_no_lost_grant(window: Window) -> None:
    assert kinds(judged(BROKEN, window)) == []


def test_a_minority_takes_nothing_back() -> None:
    assert kinds(judged(BROKEN, disk_fault(4.4, 4.6, "n2"), options=THREE)) == []
    assert kinds(judged(BROKEN, disk_fault(4.4, 4.6, "n2+n3"), options=THREE)) == ["lost-grant"]
    four = {**THREE, "servers": "4"}
    assert kinds(judged(BROKEN, disk_fault(4.4, 4.6, "n2+n3"), options=four)) == []


def test_a_token_that_is_issued_again_after_the_power_loss_convicts() -> None:
    text = "0a?@1 0a+7@2 0r?@3 0r+@4 1a?@5 1a+{}@6"
    assert kinds(judged(text.format(7))) == ["token-after-power-loss"]
    assert kinds(judged(text.format(6))) == ["token-after-power-loss"]
    assert kinds(judged(text.format(8))) == []
    assert kinds(judged(text.format(7), promises={"tokens": "unordered"})) == []


def test_a_token_is_compared_with_the_largest_of_another_client() -> None:
    """c1's own 9 is no evidence, the 8 of c0 before it is."""
    text = "0a?@1 0a+8@1.5 0r?@2 0r+@2.5 1a?@3 1a+9@3.5 1r?@3.6 1r+@4 1a?@5 1a+8@6"
    assert kinds(judged(text)) == ["token-after-power-loss"]


RESTORE = disk_fault(4.4, 4.6, traits=RESTORED)


def test_a_restore_undoes_what_a_power_loss_would() -> None:
    released = "0a?@1 0a+7@2 0r?@3 0r+@4 {}"
    assert kinds(judged(BROKEN, RESTORE)) == ["lost-grant"]
    assert kinds(judged(released.format("0n?@5 0n+@6"), RESTORE)) == ["revived-hold"]
    found = judged(released.format("1a?@5 1a+4@6"), RESTORE)
    assert kinds(found) == ["token-after-operation"]
    assert found.findings[0].sentence == (
        "'db' was granted with token 7 to c0 by 2.000 s; after the backup-restore at 4.400 s c1"
        " requested it and was granted it with token 4; the counter had to be at least 4 higher"
        " when the service opened again"
    )
    assert kinds(judged(released.format("1a?@5 1a+8@6"), RESTORE)) == []
    # c0's own 7 conflicts with none of its tokens, but the counter had issued it.
    own = "0a?@1 0a+6@1.5 0r?@2 0r+@2.5 1a?@3 1a+7@3.5 1r?@3.6 1r+@4 1a?@5 1a+3@6"
    again = on(history(own), PLAIN, Terms(reenter=True))
    (finding,) = judged(again, RESTORE).findings
    assert "token 6 to c0" in finding.sentence and "at least 5 higher" in finding.sentence


def test_an_operation_on_one_of_three_servers_counts_too() -> None:
    assert kinds(judged(BROKEN, RESTORE, options=THREE)) == ["lost-grant"]
    off = disk_fault(4.4, 4.6, traits=RESTORED, effective=False)
    found = judged(BROKEN, off, options=THREE)
    assert kinds(found) == []
    assert found.reason.startswith("no operation on the servers took effect: 0 of 1")


def test_a_released_hold_that_goes_on_after_the_power_loss_convicts() -> None:
    text = "0a?@1 0a+7@2 0r?@3 0r+@4 {}"
    assert kinds(judged(text.format("0n?@5 0n+@6"))) == ["revived-hold"]
    assert kinds(judged(text.format("0r?@5 0r+@6"))) == ["revived-hold"]
    assert kinds(judged(text.format("0n?@5 0n!@6"))) == []
    assert kinds(judged(text.format("0n?@4.5 0n+@6"))) == [], "sent before the loss was over"
    weak = {"renew_proves": False, "release_proves": False, "release_once": False}
    assert kinds(judged(text.format("0n?@5 0n+@6"), promises=weak)) == []


def test_a_renewal_of_unknown_outcome_may_have_taken_the_lock_again() -> None:
    text = "0a?@1 0a+7@2 0n?@2.2 0n+@2.3 0n?@2.4 0n{}@2.5 0r?@3 0r+@4 0r?@5 0r+@6"
    weak = {"renew_proves": False}
    assert kinds(judged(text.format("+"), promises=weak)) == ["revived-hold"]
    assert kinds(judged(text.format("~"), promises=weak)) == []
    assert kinds(judged(text.format("~"))) == ["revived-hold"]


def test_a_grant_while_no_disk_took_a_write_convicts() -> None:
    hang = disk_fault(2, 9, traits=HANG)
    assert kinds(judged("0a?@3 0a+7@4", hang)) == ["grant-before-sync"]
    assert kinds(judged("0a?@1 0a+7@4", hang)) == [], "it may have been synced before"
    assert kinds(judged("0a?@3 0a+7@10", hang)) == [], "it may have been synced after"
    assert kinds(judged("0a?@3 0a~@4", hang)) == []
    assert kinds(judged("0a?@3 0a+7@4", disk_fault(2, 9, "n1", HANG), options=THREE)) == []
    assert kinds(judged("0a?@3 0a+7@4", disk_fault(2, 9, traits=HANG, effective=False))) == []


def test_clock_error_between_writers_excuses() -> None:
    assert kinds(judged(BROKEN, error_ns=SECOND)) == []


def test_it_holds_only_if_a_hold_across_the_loss_was_asked_for() -> None:
    held = "0a?@1 0a+7@2 1a?@{} 1a-@{} 0r?@9 0r+@9.5 1a?@10 1a+8@11"
    reason = judged(held.format(5, 6)).reason
    assert "no lock was certainly held" not in reason and "asked for a lock" not in reason
    assert judged(held.format(5, 6)).exercised["acquires during such a hold, after it"] == 1
    assert "no other client asked for a lock that was held" in judged(held.format(2.5, 3)).reason
    assert "no lock was certainly held across" in judged("1a?@6 1a+8@7").reason
    reason = judged(BROKEN, disk_fault(4.4, 4.6, effective=False)).reason
    assert reason.startswith("no majority of the servers lost power: 0 of 1 power losses")


def forced(promoted: tuple[float, float], rejoined: tuple[float, float]) -> Window:
    """A forced failover, with a second leader from the promotion to the rejoin, in seconds."""
    (begun, moved), back = promoted, [round(t * SECOND) for t in rejoined]
    window = disk_fault(begun, moved, traits=replace(RESTORED, operates=FORCE))
    return replace(window, evidence={**window.evidence, "rejoined_ns": back}, to_ns=back[1])


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("0a?@1 0a+7@2 1a?@4.7 1a+8@5", ["lost-grant"]),  # undone by the promotion
        ("0a?@4.7 0a+7@5 1a?@7 1a+8@8", ["lost-grant"]),  # the second leader's, undone at its end
        ("0a?@4.7 0a+7@5 1a?@5.2 1a+8@6.5", []),  # requested before the second leader ended
        ("0a?@1 0a+7@2 0r?@3 0r+@4 1a?@7 1a+8@8", []),
    ],
)
def test_a_forced_failover_undoes_grants_twice(text: str, lost: list[str]) -> None:
    verdict = judged(text, forced((4.4, 4.6), (6, 6.4)), options=THREE)
    assert kinds(verdict) == lost
    assert verdict.exercised["operations on servers"] == 1


def brute(told: Case) -> set[tuple[str, int]]:
    """(kind, when its later grant was requested) by pairs, as the verifier reads the rows."""
    run = recorded(named(told))
    conditions, rows = Conditions(run), run.rows
    grants = [at for at in rows.of_kinds(OPS["acquire"]) if run.known(at) >= 0]
    found = set()
    for window in run.windows:
        what = "operation" if window.operated else "power-loss"
        cut = window.operated or window.cut
        for a in grants:
            for b in grants:
                before = cut and rows.t_ret[run.known(a)] < cut[0]
                if not before or rows.t_inv[b] <= cut[1]:
                    continue
                if not conditions.conflict(Row(rows, a), Row(rows, b)):
                    continue
                if run.reach(a) > rows.t_ret[run.known(b)]:
                    found.add(("lost-grant", rows.t_inv[b]))
                if -1 < rows.token[run.known(b)] <= rows.token[run.known(a)]:
                    found.add((f"token-after-{what}", rows.t_inv[b]))
    return found


@pytest.mark.parametrize("block", range(10))
def test_it_finds_what_pairs_show_on_random_histories(block: int) -> None:
    seen = 0
    for seed in range(60):
        rng = random.Random(f"durable {block} {seed}")
        words, free_s = [], [0.0] * 3
        for _ in range(rng.randint(2, 6)):
            client = rng.randrange(3)
            at = free_s[client] + rng.uniform(0.1, 3)
            words.append((at, f"{client}a?@{at:.3f}"))
            at += rng.uniform(0.1, 1)
            answer = rng.choice([f"+{rng.randint(1, 6)}"] * 3 + ["~"])
            words.append((at, f"{client}a{answer}@{at:.3f}"))
            if rng.random() < 0.7:
                at += rng.uniform(0.1, 3)
                words.append((at, f"{client}r?@{at:.3f}"))
                at += rng.uniform(0.1, 1)
                words.append((at, f"{client}r+@{at:.3f}"))
            free_s[client] = at
        text = " ".join(word for _, word in sorted(words))
        cut = rng.uniform(0.5, 8)
        traits = RESTORED if seed % 3 == 0 else POWER
        told = case(text, windows=(disk_fault(cut, cut + 0.1, traits=traits),), options=ONE)
        found = {
            (finding.kind, int(told.history.rows["t_inv"][later(finding)]))
            for finding in durable_grants.check(told).findings
        }
        assert found == brute(told), text
        seen += len(found)
    assert seen, "nothing was there to be found"


def later(finding: Any) -> int:
    """The row of the later grant."""
    roles = finding.proof.roles
    return int(roles.get("newer", roles.get("second", -1)))
