"""The reason of a notice: which ones the rows of a run rule out, against all that can have been."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from holdfast.checkers.properties.loss_notice import check
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Terms
from holdfast.harness.core.seeds import stream
from tests.checkers.shorthand import case, history, on
from tests.draws import Draws

LEASE = 10
REASONS = ("expired", "revoked", "released")


def told(text: str, reason: str, reenter: bool = False, **promises: Any) -> Case:
    """A history whose notices all carry one reason, of a service that promises true ones."""
    made = on(history(text), *(Terms(reenter=True),) * reenter)
    made = replace(made, strings=[*made.strings, reason])
    made.rows["res"][made.rows["f"] == Op.LOST] = len(made.strings) - 1
    return case(made, promises={"reasons": True, **promises})


def kinds(text: str, reason: str, reenter: bool = False, **promises: Any) -> list[str]:
    return [finding.kind for finding in check(told(text, reason, reenter, **promises)).findings]


HELD = "0a? 0a+7 "
FORCED = "9f? 9f+7 "


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HELD + "0L@20", "expired"),
        (HELD + FORCED + "0L", "revoked"),
        (HELD + "9f? 0L 9f+7", "revoked"),
        (HELD + "9f? 9f~ 0L", "revoked"),
        (HELD + "9f? 9f~ 0L@20", "expired"),
        (HELD + "9f? 9f+9 0L", "revoked"),
        (HELD + "9f? 9f- 0L@20", "expired"),
        (HELD + "0L@20 9f? 9f+7", "expired"),
        (HELD + "0r? 0L 0r~", "released"),
        (HELD + "0L", "unknown"),
        (HELD + "0L", "the cat stepped on it"),
    ],
)
def test_a_reason_that_can_be_true_is_let_pass(text: str, reason: str) -> None:
    assert kinds(text, reason) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HELD + FORCED + "0L", "expired"),
        (HELD + FORCED + "0L@20", "expired"),
        (HELD + "0L@20", "revoked"),
        (HELD + "9f? 9f- 0L@20", "revoked"),
        (HELD + "0L@20 9f? 9f~", "revoked"),
        (HELD + "9f? 9f+5 0L@20", "revoked"),
        (HELD + "0L@20", "released"),
        (HELD + "0L@5", "expired"),
        (HELD + "0n?@8 0n+ 0L@15", "expired"),
        (HELD + "0L@20", "session"),
    ],
)
def test_a_reason_that_cannot_be_true_is_wrong(text: str, reason: str) -> None:
    assert kinds(text, reason) == ["wrong-reason"]
    assert kinds(text, reason, reasons=False) == [], "it never said that its reasons are true"


def test_the_sentence_says_what_was_told_and_what_it_was() -> None:
    (finding,) = check(told(HELD + FORCED + "0L", "expired")).findings
    assert finding.sentence == (
        "c0 was notified at 4.000 s that its hold of 'db' (token 7) had ended as 'expired'; but an"
        " operator had ended it"
    )
    assert finding.witnesses == (0, 1, 2)


def test_holds_that_share_a_token_may_have_ended_apart() -> None:
    shared = "1a? 1a+7 " + HELD + FORCED + "0L@20"
    assert kinds(shared, "expired") == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("0t? 0t~ " + HELD + FORCED + "0L@20", False),
        ("0t? " + HELD + FORCED + "0L@20", False),
        ("0t? 0t- " + HELD + FORCED + "0L@20", True),
        ("1t? 1t~ " + HELD + FORCED + "0L@20", True),
        (HELD + FORCED + "0L@20 0t? 0t~", True),
    ],
)
def test_an_owner_may_have_entered_twice_and_the_operator_have_ended_the_other_entry(
    text: str, wrong: bool
) -> None:
    """Both entries have one token, also where the answer of one was lost."""
    assert kinds(text, "expired", reenter=True) == (["wrong-reason"] if wrong else [])
    assert kinds(text, "expired") == ["wrong-reason"], "no owner enters a plain lock twice"


@pytest.mark.parametrize(
    ("text", "renewed_again"),
    [
        (HELD + "9f? 0n? 9f+7 0n+ 0L@30", True),
        (HELD + "9f? 9f+7 0n? 0n~ 0L@30", True),
        (HELD + "0n? 0n~ 9f? 9f+7 0L@30", True),
        (HELD + "9f? 9f+7 0n? 0n! 0L@30", False),
        (HELD + "0n? 0n+ 9f? 9f+7 0L@30", False),
        (HELD + "9f? 9f+7 0L@20 0n? 0n+", False),
    ],
)
def test_a_renewal_that_takes_a_free_lock_may_follow_an_operator(
    text: str, renewed_again: bool
) -> None:
    """And that hold expires; the renewal may have been before the unlock as well."""
    wrong = ["wrong-reason"]
    assert kinds(text, "expired", renew_proves=False) == ([] if renewed_again else wrong)
    assert kinds(text, "expired", renew_proves=True) == wrong


def test_sessions_end_and_leases_run_out() -> None:
    held = "0h?@0 0h+ 0a? 0a+7 0L@20"
    assert kinds(held, "session", bound="session") == []
    assert kinds(held, "expired", bound="session") == ["wrong-reason"]


def drawn(rng: random.Random) -> tuple[str, str, bool, bool, bool]:
    """(words, reason told, whether the owner may have entered before, whether the reason can be
    true, whether the claim ended by the notice): one hold from 1 to 2, perhaps renewed, which an
    operator and its owner may have ended."""
    asked_at = 1
    words: list[tuple[float, str]] = [(1, "0a?"), (2, "0a+7")]
    # Its owner may have entered once more, with the same token: the operator ended the other entry.
    entered = rng.random() < 0.2
    words += [(0.2, "0t?"), (0.4, "0t~")] if entered else []
    if rng.random() < 0.4:
        asked_at = rng.randint(3, 9)
        words += [(asked_at, "0n?"), (asked_at + 0.5, "0n+")]
    t = rng.randint(asked_at + 1, 30)
    can, alone = {"expired"} if t >= asked_at + LEASE else set(), True
    if rng.random() < 0.5:
        inv, edge = rng.randint(3, 32) + 0.2, rng.choice("+-~")
        late = inv + 0.2 + rng.randint(0, 3)
        # An ok that had to come after the notice would end what had ended: no service says so.
        edge = "~" if edge == "+" and not asked_at + 1 < inv < t else edge
        words += [(inv, "9f?"), (late, f"9f{edge}{7 if edge == '+' else ''}")]
        can |= {"revoked"} if edge != "-" and inv < t else set()
        can &= {"revoked"} if edge == "+" and not entered else can
        alone = edge == "-" or inv > t
    if rng.random() < 0.3:
        inv = rng.randint(3, 32) + 0.4
        words += [(inv, "0r?"), (inv + 0.3, "0r~")]
        forced = any(word == "9f+7" for _, word in words) and not entered
        can |= {"released"} if inv < t and not forced else set()
        alone = alone and inv > t
    words.append((t + 0.1, "0L"))
    reason = rng.choice(REASONS)
    text = " ".join(f"{word}@{at:.1f}" for at, word in sorted(words))
    return text, reason, entered, reason in can, alone


def compare(seed: int, n: int) -> Counter[str]:
    rng = stream(seed, "reasons")
    seen: Counter[str] = Counter()
    for _ in range(n):
        text, reason, reenter, possible, alone = drawn(rng)
        accused = "wrong-reason" in kinds(text, reason, reenter)
        early = reason == "expired" and not alone and not possible and not accused
        # Whose claim had ended before the notice is given the benefit of the doubt about time.
        assert early or accused != possible, (text, reason)
        seen["accused" if accused else "let pass"] += 1
        seen["doubtful"] += early
    return seen


def test_a_reason_is_wrong_if_and_only_if_nothing_of_that_kind_can_have_ended_it(
    draws: Draws,
) -> None:
    seen = compare(1, draws(800))
    assert min(seen["accused"], seen["let pass"]) >= draws(160), seen
    assert seen["doubtful"] <= draws(80), seen


@pytest.mark.power
def test_a_reason_is_wrong_if_and_only_if_in_very_many_histories() -> None:
    seen = compare(2, 20_000)
    assert min(seen["accused"], seen["let pass"]) >= 4_000, seen
