"""Answers about the length of a queue, held against who can and who must have waited."""

from __future__ import annotations

import random

import pytest

from holdfast.checkers.properties import truthful_queries
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, Verdict
from tests.checkers.certified import told, verified
from tests.checkers.shorthand import case, history
from tests.draws import Draws

WAITED = "0a? 0a+7 1a? 1Q 2a? 2Q "
STAYED = "1k? 1k+=0 2k? 2k+=1"


def findings(given: Case) -> list[Finding]:
    """Those about lengths, each of which the verifier has to accept."""
    verdict = truthful_queries.check(given)
    outcome = verified(given, told(given, verdict))
    assert not outcome.refused
    found = [finding for finding in verdict.findings if finding.kind == "false-length"]
    assert outcome.accepted >= len(found)
    return found


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_a_length_is_held_against_those_who_waited_before_and_after(length: int) -> None:
    given = case(f"{WAITED}0l? 0l+={length} {STAYED} 0r? 0r+ 1a+8 1r? 1r+ 2a+9")
    assert len(findings(given)) == (length != 2)


def test_the_sentence_says_what_was_told_and_why_it_cannot_be() -> None:
    (few,) = findings(case(f"{WAITED}0l? 0l+=1 {STAYED}"))
    assert few.sentence == (
        "c0's query of 'db', sent at 6.000 s, returned by 7.000 s that 1 wait; but 2 waited"
        " throughout, as responses before and after it show"
    )
    (many,) = findings(case("0a? 0a+7 1a? 1Q 0l? 0l+=2"))
    assert many.sentence.endswith("returned by 5.000 s that 2 wait; but at most 1 can have waited")


@pytest.mark.parametrize(
    "text",
    [
        "0a? 0a+7 0l? 0l+=0",
        "0a? 0a+7 0l? 1a? 1Q 0l+=1",
        "0a? 0a+7 1a? 1Q 0l? 0r? 1a+8 0r+ 0l+=0",
        "0a? 0a+7 1a? 1a~ 0l? 0l+=1",
        "0a? 0a+7 1a? 1Q 0l? 0l~",
        WAITED + "0l? 0l+=0",
        WAITED + "0l? 1k? 1k+=0 2k? 2k+=1 0l+=0",
        "0a? 0a+7 0l? 1a? 1Q 0l+=0 1k? 1k+=0",
        "0a?:/x 0a+7:/x 1a?:/x/y 1Q:/x/y 0l?:/x 0l+:/x=5",
    ],
)
def test_what_can_be_right_is_let_pass(text: str) -> None:
    changes = {"promises": {"subtrees": True}} if "/" in text else {}
    assert findings(case(text, **changes)) == []


def test_a_try_waits_for_nothing() -> None:
    assert findings(case("0a? 0a+7 1t? 0l? 0l+=1 1t-"))


def test_the_error_of_clocks_between_hosts_excuses() -> None:
    text = "0a? 0a+7 1a? 1Q 1k? 1k+=0 0r? 0r+ 1a+8@7.5 0l?@8 0l+=1@8.5"
    assert findings(case(text)) and not findings(case(text, error_ns=SECOND))
    late = f"{WAITED}0l? 0l+=1 {STAYED}"
    assert findings(case(late)) and not findings(case(late, error_ns=SECOND))


def test_lengths_that_were_asked_and_never_above_zero_show_nothing() -> None:
    text = "0a? 0a+7 1a? 1Q 1k? 1k+=0 2q? 2q+7=0 0l? 0l~ 0r? 0r+ 1a+8"
    verdict = truthful_queries.check(case(text))
    assert verdict.verdict is Verdict.UNKNOWN
    assert "no response gave a queue length" in verdict.reason
    asked = truthful_queries.check(case(text.replace("0l~", "0l+=1")))
    assert (asked.verdict, asked.exercised["lengths above 0"]) == (Verdict.HOLDS, 1)


def course(rng: random.Random) -> tuple[str, list[int]]:
    """A queue as it really was, asked about by somebody apart; and the true range of each answer.

    Waits are events at whole seconds; a question spans some of them and may be answered as of any.
    """
    words, queue, ranges = ["0a?@0", "0a+1@0.1"], list[int](), list[int]()
    length, asked = 0, None
    for now in range(1, 24):
        what = rng.choice("jjlkqq")
        if what == "j" and len(queue) < 6 and (new := 1 + length) < 8:
            length += 1
            queue.append(new)
            words += [f"{new}a?@{now}", f"{new}Q@{now}.1"]
        elif what == "l" and queue:
            gone = queue.pop(0)
            words.append(f"{gone}a-@{now}.2")
        elif what == "k" and queue:
            one = rng.choice(queue)
            words += [f"{one}k?@{now}.3", f"{one}k+={queue.index(one)}@{now}.4"]
        elif what == "q":
            if asked is None:
                asked = [len(queue)]
                words.append(f"9l?@{now}.5")
            else:
                said = rng.randrange(0, 8)
                words.append(f"9l+={said}@{now}.5")
                ranges.append(int(min(asked) <= said <= max(asked)))
                asked = None
        if asked is not None:
            asked.append(len(queue))
    return " ".join(words), ranges


def test_no_answer_that_was_true_at_some_instant_is_reported(draws: Draws) -> None:
    """Beside the queue as it was: true answers are let pass, and most wrong ones are not."""
    rng, wrong, found_n = random.Random(5), 0, 0
    for _ in range(draws(400)):
        text, true = course(rng)
        given = case(history(text))
        found = {finding.t_ns for finding in findings(given)}
        rows = given.history.rows
        asked = rows[(rows["f"] == Op.LENGTH) & (rows["status"] == Status.OK)]
        for row, right in zip(asked, true, strict=True):
            assert not (right and int(row["t_inv"]) in found), text
            wrong += not right
            found_n += int(row["t_inv"]) in found
    assert found_n > wrong * 0.4 > draws(100)
