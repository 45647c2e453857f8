"""No lateness counts the time in which the host was starved of CPU: by any checker or the verifier.

Each history is a violation of about the least length. With a span without CPU time that may account
for it, it is no violation, and the verdict says why; with one before it, it is one as before.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from holdfast import catalogue
from holdfast.checkers.facts.stalls import longest_silence
from holdfast.checkers.holds.attempt_table import table
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import DELAY, PRESSURE, Starved
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from tests.checkers.certified import told, verified
from tests.checkers.shorthand import case
from tests.checkers.test_livelock import START, storm


def bursts(apart_s: float) -> str:
    """Six times three refused tries, by two clients in turn."""
    words = [START]
    for n in range(18):
        at, who = 10 + n // 3 * apart_s + n % 3 / 50, 4 + n % 2
        words.append(f"{who}t?@{at:.3f} {who}t-@{at + 0.01:.3f}")
    return " ".join(words)


FREE = "9a?@0 9a+1/1@0.1 9r?@0.2 9r+@0.3 "
CYCLE = "0a?:x/60@0 0a+1:x/60@1 1a?:y/60@2 1a+2:y/60@3 0a?:y@4 0Q:y@5 1a?:x@6 1Q:x@7 1a-:x@{}"
LATE: dict[str, tuple[str, Case, tuple[int, int]]] = {
    # what: property, a violation, the span without CPU time that may account for it
    "a waiter that is not granted": ("deadlock-freedom", case(FREE + "1a?@1 1Q@1.1 1a-@5"), (2, 4)),
    "the same, as starvation": ("starvation-freedom", case(FREE + "1a?@1 1Q@1.1 1a-@5"), (2, 4)),
    "the same, as a bypass": ("bounded-bypass", case(FREE + "1a?@1 1Q@1.1 1a-@5"), (2, 4)),
    "a lock that a probe is refused": ("orphan-freedom", case(FREE + "9p?@1 9p-@5"), (2, 4)),
    "tries that all fail": ("starvation-freedom", case(bursts(0.7)), (3, 20)),
    "clients that wait for each other": ("no-multi-lock-deadlock", case(CYCLE.format(11)), (8, 10)),
    "a request that returns late": (
        "no-hung-request",
        case("0a? 0a+1 2t?@10 2t-@20"),
        (12, 14),
    ),
    "a loss that is notified late": (
        "loss-notice",
        case("0a? 0a+7 1a?@19 1a+8@20 0r?@24 0r!@25"),
        (20, 23),
    ),
    "a grant that is notified late": (
        "grant-notice",
        case("0a? 0a+7 1a? 1Q 0r? 0r+ 2q? 2q+8=0@7 1a+8@11"),
        (7, 11),
    ),
    "a try that is refused after a lease": (
        "no-false-rejection",
        case("0a?@0 0a+7/1@1 1t?@6 1t-@6.5"),
        (3, 6),
    ),
    "a write after a lease": (
        "no-expired-write",
        case("0a?@0 0a+7/1@1 0w?@6 0S@6.1 0w+@6.5"),
        (3, 6),
    ),
}
WAITS = [
    what
    for what in LATE
    if LATE[what][0]
    in (
        "deadlock-freedom",
        "orphan-freedom",
        "starvation-freedom",
        "no-multi-lock-deadlock",
    )
]
"""Those whose length is judged as a whole: of the others a single answer is let pass."""


def judged(prop: str, given: Case) -> PropertyVerdict:
    """The verdict of a property, verified."""
    verdict: PropertyVerdict = load(catalogue.CHECKERS[prop])(given)
    assert not verified(given, told(given, verdict)).refused
    return verdict


def starved(given: Case, kind: str, from_s: float, to_s: float) -> Case:
    """The case of a host on which somebody got no CPU time."""
    span = round(from_s * SECOND), round(to_s * SECOND)
    own = [Starved(node=node, kind=kind, from_ns=span[0], to_ns=span[1]) for node in HOST]
    return replace(given, starved=tuple(own), memo={})


HOST = ("c0", "c1", "c2", "driver")


@pytest.mark.parametrize("kind", [DELAY, PRESSURE])
@pytest.mark.parametrize("what", LATE)
def test_a_starved_host_is_late_and_not_its_service(what: str, kind: str) -> None:
    prop, given, (from_s, to_s) = LATE[what]
    found = judged(prop, given)
    assert found.verdict is Verdict.VIOLATED, found
    after = starved(given, kind, from_s, to_s)
    excused = judged(prop, after)
    assert not excused.findings
    assert excused.verdict is not Verdict.VIOLATED
    # The verifier refuses by itself what the checker no longer reports.
    assert verified(after, told(given, found)).refused
    end_s = given.end_ns / SECOND
    assert judged(prop, starved(given, kind, end_s + 50, end_s + 60)).findings


@pytest.mark.parametrize("what", WAITS)
def test_what_is_too_long_only_on_a_starved_host_is_unknown(what: str) -> None:
    prop, given, (from_s, to_s) = LATE[what]
    verdict = judged(prop, starved(given, PRESSURE, from_s, to_s))
    assert verdict.verdict is Verdict.UNKNOWN
    assert "no evidence against the service: for" in verdict.reason


def polls(prop: str, every_s: float, until_s: float) -> Case:
    """A free lock that is requested from 1 s on, and refused at each poll."""
    times = [1 + n * every_s for n in range(1, round((until_s - 1) / every_s))]
    if prop == "orphan-freedom":
        tries = (f"9t?@{at:.3f} 9t-@{at + 0.001:.3f}" for at in (1, *times))
        return case(FREE + " ".join(tries))
    waits = " ".join(f"1Q@{at:.3f}" for at in times)
    return case(FREE + f"1a?@1 {waits} 1a-@{until_s}")


@pytest.mark.parametrize("kind", [DELAY, PRESSURE])
@pytest.mark.parametrize("prop", ["deadlock-freedom", "orphan-freedom", "starvation-freedom"])
def test_answered_refusals_are_evidence_however_busy_the_host(prop: str, kind: str) -> None:
    """The longest gap between answers decides: what a service answered it had the time for."""
    if prop == "starvation-freedom":
        often, seldom = case(storm((30, 30, 30, 30))), case(bursts(0.7))
    else:
        often, seldom = (
            polls(prop, 0.1, 9),
            polls(prop, 0.9, 4.8 if prop == "deadlock-freedom" else 5.2),
        )
    busy = judged(prop, starved(often, kind, 0, 60))
    assert busy.verdict is Verdict.VIOLATED, busy
    assert judged(prop, seldom).verdict is Verdict.VIOLATED
    assert not judged(prop, starved(seldom, kind, 0, 60)).findings


def test_a_waiter_without_an_answer_may_be_the_next_in_the_queue() -> None:
    """Others are refused in time; the one whose turn it is got no processor time to ask again."""
    text = FREE + "2a?@1 2Q@1.05 2a-@8.9 1a?@1.1 "
    text += " ".join(f"1Q@{1.2 + n / 10:.1f}" for n in range(77)) + " 1a-@9"
    queued = case(text)
    assert judged("deadlock-freedom", queued).findings
    assert not judged("deadlock-freedom", starved(queued, PRESSURE, 0, 60)).findings


def plain_silence(asked: list[list[int]], to: int) -> int:
    """The longest silence from 0 to a time by trying every interval, in whole seconds."""
    pieces = [pair for times in asked for pair in pairwise(times)]
    inside = [pair for pair in pieces if pair[1] <= to]
    longest = max(min(b, to) - a for a, b in pieces)
    for a in range(to + 1):
        for b in range(a, to + 1):
            if not any(a < sent and heard < b for sent, heard in inside):
                longest = max(longest, b - a)
    return longest


@pytest.mark.parametrize("seed", range(60))
def test_the_longest_silence_in_one_pass_and_by_trying(seed: int) -> None:
    rng = random.Random(seed)
    words, asked = list[tuple[int, str]](), list[list[int]]()
    for client in range(rng.randint(1, 5)):
        at = rng.randint(0, 6)
        for _ in range(rng.randint(1, 3)):
            times = sorted(rng.sample(range(at, at + 12), rng.randint(2, 5)))
            words.append((times[0], f"{client}a?@{times[0]}"))
            words += [(t, f"{client}Q@{t}") for t in times[1:-1]]
            words.append((times[-1], f"{client}a-@{times[-1]}"))
            asked.append(times)
            at = times[-1] + 1
    made = case(" ".join(word for _, word in sorted(words)))
    entries = next(iter(table(made).by_lock().values()))
    assert longest_silence(made, entries, 0, 15 * SECOND) == plain_silence(asked, 15) * SECOND
