"""No lateness counts the time in which the host was starved of CPU: by any checker or the verifier.

Each history is a violation of about the least length. With a span without CPU time that may account
for it, it is no violation, and the verdict says why; with one before it, it is one as before.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast import catalogue
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load
from holdfast.harness.core.starved import DELAY, PRESSURE, Starved
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from tests.checkers.certified import told, verified
from tests.checkers.shorthand import case
from tests.checkers.test_livelock import storm

FREE = "9a?@0 9a+1/1@0.1 9r?@0.2 9r+@0.3 "
CYCLE = "0a?:x/60@0 0a+1:x/60@1 1a?:y/60@2 1a+2:y/60@3 0a?:y@4 0Q:y@5 1a?:x@6 1Q:x@7 1a-:x@{}"
LATE: dict[str, tuple[str, Case, tuple[int, int]]] = {
    # what: property, a violation, the span without CPU time that may account for it
    "a waiter that is not granted": ("deadlock-freedom", case(FREE + "1a?@1 1Q@1.1 1a-@5"), (2, 4)),
    "the same, as starvation": ("starvation-freedom", case(FREE + "1a?@1 1Q@1.1 1a-@5"), (2, 4)),
    "the same, as a bypass": ("bounded-bypass", case(FREE + "1a?@1 1Q@1.1 1a-@5"), (2, 4)),
    "a lock that a probe is refused": ("orphan-freedom", case(FREE + "9p?@1 9p-@5"), (2, 4)),
    "tries that all fail": ("starvation-freedom", case(storm((6, 6))), (3, 20)),
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
