"""Nothing passes by default: per property, histories in which it was not exercised.

Each row is a short history without a violation. HOLDS would be a claim without evidence.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from holdfast import catalogue
from holdfast.harness.core.case import Checker
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Mode, Op, Terms
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from holdfast.harness.properties import PROPERTIES
from tests.checkers.examples import Row, every
from tests.checkers.faults import RESTORED, disk_fault, window
from tests.checkers.shorthand import case, history, on

ALONE = "0a? 0a+1 0w? 0S+ 0w+ 0r? 0r+ 0a? 0a+2 0w? 0S+ 0w+ 0r? 0r+ 9p? 9p+3"
"""One client, twice."""
IN_TURN = "0a? 0a+1 0w? 0S+ 0w+ 0r? 0r+ 1a? 1a+2 1w? 1S+ 1w+ 1r? 1r+ 9p? 9p+3"
"""Two clients, of which the second asks when the first is done."""
CONTENDED = "0a? 0a+1 1a? 0w? 0S+ 0w+ 0r? 0r+ 1a+2 1w? 1S+ 1w+ 1r? 1r+ 9p? 9p+3"
"""Two clients that contend; all that they do is in time."""
NO_TOKENS = CONTENDED.replace("+1", "+").replace("+2", "+").replace("+3", "+")
OWN_REENTRY = "0a? 0a+1 0a? 0a+1 0r? 0r+ 0.1r? 0.1r+ 9p? 9p+3"
UNFENCED = {"options": {"resource": "unfenced"}}

ROWS: dict[str, dict[str, Row]] = {
    "mutual-exclusion": {
        "nobody asked": ("", {}, "no acquire waited"),
        "one client": (ALONE, {}, "no acquire waited"),
        "one client that re-enters": (
            OWN_REENTRY,
            {"terms": (Terms(reenter=True),)},
            "no acquire waited: 0 of 2",
        ),
        "in turn": (IN_TURN, {}, "no acquire waited"),
        "no hold is judged": (
            "0a?@0 1a?@0.5 0a+1@50 0r?@51 0r~@52 1a-@60",
            {},
            "no grant has a hold that can be judged",
        ),
        "releases without an answer": (
            CONTENDED.replace("0r+", "0r~").replace("1r+", "1r~"),
            {"promises": {"bound": "connection"}},
            "0 of 3, for no renewal or release returned ok (0 of 2)",
        ),
        "answers that prove nothing": (
            CONTENDED,
            {"promises": {"bound": "connection", "renew_proves": False, "release_proves": False}},
            "by its declaration no answer",
        ),
        "the judged hold is not contended": (
            "0a?@0 0a+1/1@5 1t?@7 1t-@8 1a?@20 1a+2@21 1r?@22 1r+@23",
            {"promises": {"renew_proves": False, "release_proves": False}},
            "no other client asked during a hold that can be judged",
        ),
        "paths, each for itself": (
            "0a?:/x 0a+1:/x 1a?:/x 0r?:/x 0r+:/x 1a+2:/x 1r?:/x 1r+:/x 0a?:/y 0a+3:/y",
            {"promises": {"subtrees": True}},
            "above or below",
        ),
    },
    "no-stale-write": {
        "one owner": (ALONE, {}, "no acquire waited"),
        "no request": (
            "0a? 0a+1 1a? 0r? 0r+ 1a+2 1r? 1r+",
            {},
            "the resource received requests of 0",
        ),
        "every owner in time": (CONTENDED, {}, "no stale request to refuse"),
        "unfenced, every owner in time": (CONTENDED, UNFENCED, "no older owner's write came after"),
        "no tokens, every owner in time": (NO_TOKENS, UNFENCED, "no older owner's write"),
    },
    "no-expired-write": {
        "one owner": (ALONE, {}, "no acquire waited"),
        "every owner in time": (CONTENDED, {}, "no write came from an owner whose hold had"),
        "unfenced, every owner in time": (CONTENDED, UNFENCED, "no write came from an owner"),
        "an end that is not certain": (
            "0a? 0a+1 1a? 0r? 0r~ 0w? 0S+ 0w+ 1a+2 1w? 1S+ 1w+",
            UNFENCED,
            "no write came from an owner whose hold had certainly ended",
        ),
    },
    "no-lost-update": {
        "blind writes": (CONTENDED, {}, "no update followed another owner's: 0 of 0"),
        "one owner": ("0a? 0a+1 0w?=0 0S+=1 0w+=1 0w?=1 0S+=2 0w+=2", {}, "no acquire waited"),
        "one owner's updates": (
            "0a? 0a+1 1a? 0w?=0 0S+=1 0w+=1 0r? 0r+ 1a+2 1d? 1D+ 1d+",
            {},
            "no update followed another owner's: 0 of 1",
        ),
    },
    "applied-once": {
        "nothing is sent again": (CONTENDED, {}, "no accepted write was sent twice"),
        "no request": (
            "0a? 0a+1 1a? 0r? 0r+ 1a+2",
            {},
            "the resource received requests of 0 attempts",
        ),
    },
    "exactly-once-job": {
        "no job": (CONTENDED, {}, "no client found a job that another had done"),
        "one owner": (ALONE, {}, "no acquire waited"),
    },
    "token-order": {
        "no tokens": (NO_TOKENS, {}, "no grant carried a token"),
        "a system without tokens": (CONTENDED, {"promises": {"tokens": "none"}}, "no fencing"),
        "one grant": ("0a? 0a+1 1a? 1a- 0r? 0r+", {}, "requested after another client's: 0 of 1"),
        "one client": (ALONE, {}, "no acquire waited"),
        "all asked before any grant": (
            "0a? 1a? 0a+1 0r? 0r+ 1a+2 1r? 1r+",
            {},
            "no grant with a token was requested after another client's: 0 of 2",
        ),
    },
    "ownership": {
        "holders only": (CONTENDED, {}, "no client but the holder released or renewed"),
        "nothing released": ("0a? 0a+1 1a? 1a-", {}, "no client but the holder"),
    },
    "loss-notice": {
        "nothing lost": (CONTENDED, {}, "no holder lost its lock"),
        "lost, and given up in time": (
            "0a? 0a+7 1a?@19 1a+8@20 0r?@22 0r!",
            {},
            "no holder was notified of a loss: 0 of 1",
        ),
        "lost, and out of reach": (
            "0a? 0a+7 1a?@19 1a+8@20 0r?@30 0r!",
            {"windows": (window("partition", "c0", 18, 29),)},
            "no holder was notified of a loss",
        ),
        "nothing to go by": (
            "0a? 0a+7 1a?@19 1a+8@20 0L@22",
            {"promises": {"notice_ns": 0}, "lease_ns": 0},
            "neither a time for the notice nor a lease",
        ),
    },
    "deadlock-freedom": {
        "nobody asked": ("", {}, "no acquire waited"),
        "one client": (ALONE, {}, "no acquire waited"),
        "never probed": (CONTENDED.replace(" 9p? 9p+3", ""), {}, "never probed"),
        "nobody after the holder": (
            "0a? 0a+1 1a? 1a- 0r? 0r+ 9p? 9p+3",
            {},
            "no lock passed from one client to another",
        ),
        "no answer": (CONTENDED.replace("9p+3", "9p~"), {}, "got no response"),
    },
    "orphan-freedom": {
        "one client": (ALONE, {}, "no acquire waited"),
        "never probed": (CONTENDED.replace(" 9p? 9p+3", ""), {}, "never probed"),
        "no answer": (CONTENDED.replace("9p+3", "9p~"), {}, "got no response"),
    },
    "no-hung-request": {
        "nobody waited": (IN_TURN, {}, "no acquire waited"),
        "waits without bound": (CONTENDED, {}, "no acquire had a bounded wait"),
    },
    "no-multi-lock-deadlock": {
        "one lock": (CONTENDED, {}, "no client waited for one lock while it held another"),
        "all in one order": (
            "0a?:x 0a+1:x 0a?:y 0a+2:y 1a?:x 1Q:x 0r?:x 0r+:x 1a+3:x 1a?:y 1Q:y 0.2r?:y 0.2r+:y"
            " 1a+4:y",
            {},
            "no clients waited for each other's locks at once",
        ),
        "opposite orders, one after the other": (
            "0a?:x 0a+1:x 2a?:y 2a+2:y 0a?:y 0Q:y 2r?:y 2r+:y 0a+3:y 0r?:y 0r+:y 0.1r?:x 0.1r+:x"
            " 1a?:y 1a+4:y 2a?:x 2a+5:x 1a?:x 1Q:x 2r?:x 2r+:x 1a+6:x",
            {},
            "no clients waited for each other's locks at once",
        ),
    },
    "no-false-rejection": {
        "nothing was refused, no holder asked": (
            "0a? 0a+1 1a? 0r? 0r+ 1a+2 1r? 1r+",
            {},
            "no certain holder sent the resource",
        ),
        "unfenced": (CONTENDED, UNFENCED, "no certain holder sent the resource"),
    },
    "starvation-freedom": {
        "tokens in no order": (
            "0a? 0a+1 1a? 1Q 2a? 2Q 0r? 0r+ 1a+2 1r? 1r+ 2a+3 2r? 2r+ 9p? 9p+4",
            {"promises": {"tokens": "unordered"}},
            "tokens do not show which of two clients was granted the lock first",
        ),
        "nobody was told to wait": (CONTENDED, {}, "no client that waited was granted"),
        "nobody came later": (
            "0a? 0a+1 1a? 1Q 0r? 0r+ 1a+2 1r? 1r+ 9p? 9p+3",
            {},
            "no other client asked for a lock while a client waited",
        ),
        "nobody was patient": (
            "0a? 0a+1 1a? 1Q 2a? 2Q 0r? 0r+ 1a+2 1r? 1r+ 2a+3 2r? 2r+ 9p? 9p+4",
            {},
            "no client waited, with another behind it, until each other had its turn: 0 of 1",
        ),
        "no tokens": (NO_TOKENS, {}, "no grant carried a token"),
    },
    "bounded-bypass": {
        "tokens in no order": (
            "0a? 0a+1 1a? 1Q 2a? 2Q 0r? 0r+ 1a+2 1r? 1r+ 2a+3 2r? 2r+ 9p? 9p+4",
            {"promises": {"tokens": "unordered"}},
            "tokens do not show which of two clients was granted the lock first",
        ),
        "nobody was told to wait": (CONTENDED, {}, "no client that waited was granted"),
        "nobody came later": (
            "0a? 0a+1 1a? 1Q 0r? 0r+ 1a+2 1r? 1r+",
            {},
            "no other client asked for a lock while a client waited",
        ),
        "nobody waited behind": (
            "0a? 0a+1 1a? 1Q 2a? 0r? 0r+ 1a+2 1r? 1r+ 2a+3",
            {},
            "no client waited behind another one: 0 of 1 waits",
        ),
        "no order": (
            "0a? 0a+1 1a? 1Q 2a? 0r? 0r+ 1a+2 1r? 1r+ 2a+3",
            {"promises": {"order": "racing"}},
            "declares no order",
        ),
    },
    "bounded-wait": {
        "tokens in no order": (
            "0a? 0a+1 1a? 1Q 2a? 2Q 0r? 0r+ 1a+2 1r? 1r+ 2a+3 2r? 2r+ 9p? 9p+4",
            {"promises": {"tokens": "unordered"}},
            "tokens do not show which of two clients was granted the lock first",
        ),
        "nobody was told to wait": (CONTENDED, {}, "no client that waited was granted"),
        "nobody came later": (
            "0a? 0a+1 1a? 1Q 0r? 0r+ 1a+2 1r? 1r+",
            {},
            "no other client asked for a lock while a client waited",
        ),
        "nobody waited behind": (
            "0a? 0a+1 1a? 1Q 2a? 0r? 0r+ 1a+2 1r? 1r+ 2a+3",
            {},
            "no client waited behind another one: 0 of 1 waits",
        ),
        "no order": (
            "0a? 0a+1 1a? 1Q 2a? 0r? 0r+ 1a+2 1r? 1r+ 2a+3",
            {"promises": {"order": "racing"}},
            "declares no order",
        ),
    },
    "durable-grants": {
        "no power loss": (CONTENDED, {}, "no majority of the servers lost power: 0 of 0"),
        "a minority": (
            CONTENDED,
            {"windows": (disk_fault(1.5, 1.6),), "options": {"servers": "3"}},
            "no majority of the servers lost power: 0 of 1",
        ),
        "an operation that changed nothing": (
            CONTENDED,
            {
                "windows": (disk_fault(1.5, 1.6, traits=RESTORED, effective=False),),
                "options": {"servers": "3"},
            },
            "no operation on the servers took effect: 0 of 1",
        ),
        "no lock was held across a restore": (
            CONTENDED,
            {
                "windows": (disk_fault(0.1, 0.2, traits=RESTORED),),
                "options": {"servers": "1"},
            },
            "no lock was certainly held across a backup-restore: 0 of 1",
        ),
        "no lock was held": (
            CONTENDED,
            {"windows": (disk_fault(0.1, 0.2),), "options": {"servers": "1"}},
            "no lock was certainly held across a power loss: 0 of 1",
        ),
        "a hold that was not asked for": (
            IN_TURN,
            {"windows": (disk_fault(1.5, 1.6),), "options": {"servers": "1"}},
            "no other client asked for a lock that was held",
        ),
    },
    "truthful-queries": {
        "nothing asked": (CONTENDED, {}, "no response named a holder: 0 of 0"),
        "nothing answered": (
            "0a? 0a+1 1q? 1q- 1k? 1k- 1l? 1l- 0r? 0r+",
            {},
            "no query was answered: 0 of 3",
        ),
        "nobody holds": ("0q? 0q+ " + CONTENDED, {}, "no response named a holder: 0 of 1"),
        "no place": (
            "0a? 0a+1 1a? 1q? 1q+1=0 0r? 0r+ 1a+2",
            {},
            "no response gave a queue position",
        ),
    },
    **{one.prop: dict(one.not_exercised) for one in every() if one.not_exercised},
}

IDLE: dict[str, Row] = {
    "the log lacks rows": (CONTENDED, {}, "the history may be incomplete"),
    "a fault without effect": (
        CONTENDED,
        {"windows": (window("pause", "n1", 3, 7, effective=False),), "kinds": ("pause",)},
        "no pause took effect: 0 of 1",
    ),
    "a fault that was never drawn": (CONTENDED, {"kinds": ("clock",)}, "no clock took place"),
}
"""What every property lacks."""


def judged(prop: str, text: str, changes: dict[str, Any], **told: Any) -> PropertyVerdict:
    checker: Checker = load(catalogue.CHECKERS[prop])
    terms = changes.get("terms", ())
    changes = {name: value for name, value in changes.items() if name != "terms"}
    return checker(case(on(history(text, **told), *terms), **changes))


def test_every_property_has_rows() -> None:
    assert set(ROWS) == set(PROPERTIES) == set(catalogue.CHECKERS)


@pytest.mark.parametrize(
    ("prop", "lack"), [(prop, lack) for prop, rows in ROWS.items() for lack in rows]
)
def test_a_property_that_was_not_exercised_is_unknown(prop: str, lack: str) -> None:
    text, changes, words = ROWS[prop][lack]
    verdict = judged(prop, text, changes)
    assert not verdict.findings
    assert verdict.verdict is Verdict.UNKNOWN, verdict
    assert words in verdict.reason
    assert all(at.verdict is Verdict.UNKNOWN and at.reason for at in verdict.under.values())


@pytest.mark.parametrize("prop", PROPERTIES)
@pytest.mark.parametrize("lack", IDLE)
def test_no_property_passes_an_incomplete_log_or_an_idle_fault(prop: str, lack: str) -> None:
    text, changes, words = IDLE[lack]
    problems = ["writer c0: rows 4 to 9 are missing"] if "log" in lack else []
    verdict = judged(prop, text, changes, problems=problems)
    assert verdict.verdict is Verdict.UNKNOWN
    assert words in verdict.reason


SHARED = Terms(mode=Mode.SHARED)


def test_one_client_that_shares_with_itself_shares_with_nobody() -> None:
    checker: Checker = load(catalogue.CHECKERS["mutual-exclusion"])
    told = on(history("0a? 0a+1 0a? 0a+2 1a? 1a- 0r? 0r+"), SHARED)
    assert "no two that share a lock held at once" in checker(case(told)).reason


HOLDS: dict[str, Row] = {
    "mutual-exclusion": (CONTENDED, {}, ""),
    "token-order": (CONTENDED + " 0a? 0a+4", {}, ""),
    "deadlock-freedom": (CONTENDED, {}, ""),
    "orphan-freedom": (CONTENDED, {}, ""),
    "no-multi-lock-deadlock": (
        "0a?:x/60 0a+1:x/60 1a?:y/60 1a+2:y/60 0a?:y 0Q:y 1a?:x 1Q:x 1a-:x@8.5 1.1r?:y@9"
        " 1.1r+:y@9.5 0a+3:y@21",
        {},
        "",
    ),
    "bounded-wait": ("0a? 0a+1 1a? 1Q 2a? 2Q 0r? 0r+ 1a+2 1r? 1r+ 2a+3", {}, ""),
    "bounded-bypass": ("0a? 0a+1 1a? 1Q 2a? 2Q 0r? 0r+ 1a+2 1r? 1r+ 2a+3", {}, ""),
    "no-hung-request": (CONTENDED.replace("1a?", "2t? 2t- 1a?"), {}, ""),
    **{one.prop: one.holds for one in every() if one.holds is not None},
}


@pytest.mark.parametrize("prop", HOLDS)
def test_what_was_exercised_holds(prop: str) -> None:
    text, changes, _ = HOLDS[prop]
    assert judged(prop, text, changes).verdict is Verdict.HOLDS, judged(prop, text, changes)


def test_who_met_whom_agrees_with_looking_at_every_pair() -> None:
    """`spans_met` beside brute force, with owners that re-enter and spans that end together."""
    from holdfast.checkers.holds.attempt_table import table
    from holdfast.checkers.opportunities.places.met_spans import spans_met

    rng = np.random.default_rng(7)
    for _ in range(300):
        n = int(rng.integers(1, 7))
        words = [f"{int(rng.integers(0, 3))}a?" for _ in range(n)]
        found = table(case(" ".join(words)))
        begun, by_ns, inv = (rng.integers(0, 6, n) for _ in range(3))
        over = begun + rng.integers(0, 5, n)
        found.inv[:] = inv
        every = np.arange(n)
        met = spans_met(found, every, by_ns, every, begun, over).tolist()
        other = found.process[:, None] != found.process[None, :]
        slow = other & (begun[None, :] < by_ns[:, None]) & (over[None, :] > inv[:, None])
        assert met == slow.any(axis=1).tolist()


def test_shorthand_tries_are_bounded_and_acquires_are_not() -> None:
    rows = history("0a? 0a+1 1t? 1t-").rows
    assert rows["aux"][rows["f"] == Op.TRY].tolist() == [0]
    assert rows["aux"][rows["f"] == Op.ACQUIRE].tolist() == [-1]
