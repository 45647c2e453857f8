"""At least one small history per rule: what a property comes to in it is proved by that rule."""

from __future__ import annotations

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import CHANGED, Mode, Terms, spent
from tests.checkers.examples import every
from tests.checkers.examples import specimen as _of
from tests.checkers.faults import HANG, RESTORED, disk_fault, window
from tests.checkers.test_livelock import storm

NOBODY = {"renew_proves": False, "release_proves": False, "release_once": False}
PLAIN, READER = Terms(), Terms(mode=Mode.SHARED)
TWO, ONE = (Terms(mode=Mode.PERMITS, permits=n, limit=3) for n in (2, 1))
TURNS = "0a? 0a+1 1a? 1Q {one} 0r? 0r+ 1a+2 {other} 1r? 1r+"
DONE = "0d?:db#0 0D 0d+=0 0w?:db#0=0 0S 0w+=1"
DIED = "0h?@0 0h+/5@0.1 0a?@0.2 {}0a+1@0.3 1h?@0.4 1h+/5@0.5 {}1a+2@8.8 1r?@20 1r+@20.1"
DELAYED = {"bound": "session", "delay_ns": 4 * SECOND}
AFTER_LEASE = {"delay_ns": 4 * SECOND}
FREED = "0a?@0 0a+1@1 1a?@1.5 0r?@2 0r+@3 1a+2@4 1r?@5 1r+@6 "
CIRCLE = (
    "0a?:x/60 0a+1:x/60 1a?:y/60 1a+2:y/60 0a?:y 0Q:y 1a?:x 1Q:x 1a-:x@20 1.1r?:y@20.2"
    " 1.1r+:y@20.4 0a+3:y@21"
)
PASSED = " ".join("2a? 2a+1 2r? 2r+" for _ in range(4))
HELD = "0a? 0a+7 0n? 0n+ "

KILLED = {"windows": (window("kill", "c0", 3, 4, target="holder"),)}
ONE_SERVER = {"resource": "fenced", "servers": "1"}
NO_POWER = {"windows": (disk_fault(4.4, 4.6),), "options": ONE_SERVER}
RESTORE = {"windows": (disk_fault(4.4, 4.6, traits=RESTORED),), "options": ONE_SERVER}
NO_WRITE = {"windows": (disk_fault(1, 6, "n1", HANG),), "options": ONE_SERVER}
DURABLE, LOST = "durable-grants", "0a?@1 0a+7@2 1a?@5 "
QUERIES, EXCLUSION, NOTICE = "truthful-queries", "mutual-exclusion", "loss-notice"
EXPIRED, JOBS = "no-expired-write", "exactly-once-job"
TIMES = {"reasons": True}
WAITED = "0a? 0a+7 1a? 1Q 2a? 2Q "
STAYED = "1k? 1k+=0 2k? 2k+=1"
TWICE = "0a? 0a+7 0a? 0a+7 "
DRAWN_FROM = (
    _of("double-grant", EXCLUSION, "0a? 0a+7 1a? 1a+8 0n? 0n+"),
    _of("broken-lease", EXCLUSION, "0a? 0a+7 1a? 1a+8"),
    _of("double-grant", EXCLUSION, "0a? 0a+7 0a? 0a+8 0.1n? 0.1n+"),
    _of("broken-lease", EXCLUSION, "0a? 0a+7 0r? 0r- 1a? 1a+8"),
    _of("double-holder", EXCLUSION, "0a? 0a+7 1a? 1a+8 0r? 0r+", bound="none", **NOBODY),
    _of("double-holder", EXCLUSION, "0a? 0a+7 0r? 0r- 1a? 1a+8", bound="none", **NOBODY),
    _of("double-grant", EXCLUSION, "0a? 1a? 1a+8 0n? 0n+7 1n? 1n+ 0n? 0n+7"),
    _of("dead-grant", EXCLUSION, "0a? 0L 1a?@5 1a+7 1r? 1r+ 0a+8"),
    _of("early-grant/time", EXCLUSION, DIED.format("", "1a?@6 "), **DELAYED),
    _of("early-grant/time", EXCLUSION, "0a? 0a+7 0C@3 1a?@11 1a+8@11.5", **AFTER_LEASE),
    _of("early-grant/time", EXCLUSION, "0a? 0a+7 0r?@2 0r-@3 1a?@11 1a+8@11.5", **AFTER_LEASE),
    _of("early-grant/tokens", EXCLUSION, DIED.format("1a?@0.25 ", ""), **DELAYED),
    _of("over-admission", EXCLUSION, "0a? 0a+7 1a? 1a+8 0n? 0n+ 1n? 1n+", TWO, TWO),
    _of("broken-lease/permits", EXCLUSION, "0a? 0a+7 1a? 1a+8 2a? 2a+9", TWO, ONE, ONE),
    _of("lost-grant/promised", DURABLE, LOST + "1a+8@6", changes=NO_POWER),
    _of("lost-grant/proved", DURABLE, LOST + "1a+8@6 0n?@7 0n+@8", changes=NO_POWER),
    _of("token-after-power-loss", DURABLE, LOST + "1a+7@14", changes=NO_POWER),
    _of("token-after-operation", DURABLE, LOST + "1a+7@14", changes=RESTORE),
    _of("lost-grant/promised", DURABLE, LOST + "1a+8@6", changes=RESTORE),
    _of("revived-hold", DURABLE, "0a?@1 0a+7@2 0r?@3 0r+@4 0n?@5 0n+@6", changes=NO_POWER),
    _of("grant-before-sync", DURABLE, "0a?@2 0a+7@3", changes=NO_WRITE),
    _of("token-inversion", "token-order", "0a? 0a+7 0r? 0r+ 1a? 1a+5"),
    _of("token-inversion", "token-order", "0a? 1a? 1a+8 1r? 1r+ 0a+7 0n? 0n+"),
    _of(
        "token-inversion/lease",
        "token-order",
        "0a?@0 1a?/1@0.5 1a+8/1@1 0a+7@3",
        keeps={"token-order": ("any",), EXCLUSION: ("any",)},
    ),
    _of("token-repeated/unique", "token-order", "0a? 0a+7 0r? 0r+ 1a? 1a+7"),
    _of("token-repeated/order", "token-order", "0a? 0a+7 0r? 0r+ 1a? 1a+7", tokens_unique=False),
    _of("token-repeated/unique", "token-order", "0a? 0a+7 0r? 0r+ 0a? 0a+7"),
    _of("token-repeated/anew", "token-order", "0a? 0a+7 0r? 0r+ 0a? 0a+7", Terms(reenter=True)),
    _of(
        "stale-accepted-write/time",
        "no-stale-write",
        "0a? 0a+1 0w? 1a? 1a+2 1w? 1S+ 1w+ 0S+ 0w+",
    ),
    _of(
        "stale-accepted-write/tokens",
        "no-stale-write",
        "0a? 1a? 0a+1 1a+2 0w? 1w? 1S+ 1w+ 0S+ 0w+",
    ),
    _of("foreign/refused", "ownership", "0a? 0a- 0r? 0r+"),
    _of("foreign/given-back", "ownership", "0a? 0a+1 0r? 0r+ 0n? 0n+"),
    _of("foreign/after/time", "ownership", "0a? 0a+1 1a? 1a+2 0r? 0r+"),
    _of("foreign/after/tokens", "ownership", "0a? 1a? 0a+1 1a+2 0r? 0r+"),
    _of("foreign/held/time", "ownership", "0a?/1 0a+1/1 1a?@9 1a+2 0n? 0n+", **NOBODY),
    _of("foreign/held/tokens", "ownership", "0a?/1 1a? 0a+1/1 1a+2@5 0n?@6 0n+", **NOBODY),
    _of(
        "foreign/proved/time",
        "ownership",
        "0a?/1 0a+1/1 1a?@9 1a+2 0n? 0n+ 1r? 1r+",
        **NOBODY | {"release_proves": True},
    ),
    _of(
        "foreign/proved/tokens",
        "ownership",
        "0a?/1 1a? 0a+1/1 1a+2@5 0n? 0n+ 1r? 1r+",
        **NOBODY | {"release_proves": True},
    ),
    _of("expired-owner-write/released", EXPIRED, "0a? 0a+1 0r? 0r+ 0w? 0S+ 0w+"),
    _of("expired-owner-write/answered", EXPIRED, "0a? 0a+1 0w? 0r? 0r! 0S+ 0w+"),
    _of("expired-owner-write/told", EXPIRED, "0a? 0a+1 0w? 0L 0S+ 0w+"),
    _of("expired-owner-write/unlocked", EXPIRED, "0a? 0a+1 9f?:db 9f+ 0w? 0S+ 0w+"),
    _of("expired-owner-write/lease", EXPIRED, "0a?@0 0a+1@1 0w?@14 0S+@15 0w+@16"),
    _of(
        "expired-owner-write/passed",
        EXPIRED,
        "0a?@0 0a+1/1@1 1a?@1.5 1a+2@3 0w?@4 0S+@5 0w+@6",
    ),
    _of(
        "lost-update/passed",
        "no-lost-update",
        "0a? 0a+1 0w?=0 0S+=1 0w+=1 1a? 1a+2 1w?=0 1S+=2 1w+=2",
    ),
    _of(
        "lost-update/again",
        "no-lost-update",
        "0a? 0a+1 1a? 0w?=0 0S+ 0w+=1 0r? 0r+ 1a+2 1w?=1 1S+ 1w+=2 1r? 1r+ 0a? 0a+3 0w?=0 0S+=1"
        " 0w+ 0r? 0r+",
    ),
    _of("applied-twice", "applied-once", "0a? 0a+1 0w? 0S+=1 0S+=2 0w+"),
    _of(
        "job-done-twice",
        JOBS,
        TURNS.format(one=DONE, other="1d?:db#0 1D 1d+=0 1w?:db#0=0 1S+=2 1w+=2"),
    ),
    _of("job-never-done/told", JOBS, TURNS.format(one="", other="1d?:db#0 1D+=1 1d+=1")),
    _of(
        "job-never-done/later",
        JOBS,
        TURNS.format(one="0d?:db#0 0D 0d+=0 0w?:db#0=0 0w~ 0w?:db#1=0 0S+=1 0w+=1", other=""),
    ),
    _of("false-rejection", "no-false-rejection", "0a? 0a+1 0w? 0S-1 0w- 0n? 0n+"),
    _of(
        "spurious-refusal",
        "no-false-rejection",
        "0a?@0 0a+1@1 1t?@2 1t-@3 0r?@4 0r+@5 1t?@6 1t-@7",
    ),
    _of(
        "overtaken",
        "bounded-bypass",
        "0a? 0a+1 1a? 1Q 2a? 2Q 0r? 0r+ 2a+2 2r? 2r+ 1a+3 1r? 1r+",
    ),
    _of(
        "starved",
        "starvation-freedom",
        f"0a? 0a+1 1a? 1Q {PASSED} 0r? 0r+ 1a+2 1r? 1r+",
        READER,
        PLAIN,
        READER,
    ),
    _of(
        "beyond-queue/counted",
        "bounded-wait",
        "0a? 0a+1 1a? 1Q 2a? 2Q 0r? 0r+ 2a+2 2r? 2r+ 1a+3 1r? 1r+",
    ),
    _of(
        "beyond-queue/tokens",
        "bounded-wait",
        "0a? 0a+1 3a? 3Q 1a? 1Q 2a? 0r? 0r+ 2a+2 2r? 2r+ 3a+3 3r? 3r+ 1a+4 1r? 1r+",
    ),
    _of("write-after-notice", NOTICE, "0a? 0a+1 0L 0w? 0w+ 0w? 0w+"),
    _of("lost-without-notice/time", NOTICE, "0a? 0a+7 1a?@19 1a+8@20 0r?@30 0r!"),
    _of("lost-without-notice/tokens", NOTICE, "0a? 1a? 0a+7/1 1a+8@20 0r?@40 0r!"),
    _of("wrong-reason/revoked", NOTICE, "0a? 0a+7 0L@20", reason="revoked", **TIMES),
    _of("wrong-reason/unlocked", NOTICE, "0a? 0a+7 9f? 9f+7 0L", reason="expired", **TIMES),
    _of("wrong-reason/released", NOTICE, "0a? 0a+7 0L@20", reason="released", **TIMES),
    _of("wrong-reason/kind", NOTICE, "0a? 0a+7 0L@20", reason="session", **TIMES),
    _of("wrong-reason/early", NOTICE, "0a? 0a+7 0L@5", reason="expired", **TIMES),
    _of("deadlock", "deadlock-freedom", FREED + "9p?@20 9p-@30"),
    _of(
        "deadlock",
        "deadlock-freedom",
        "0a?@0 0a+1@1 1a?@2 1a-@4 0C@5 9p?@20 9p-@30",
        bound="none",
        tokens="none",
    ),
    _of(
        "deadlock/part",
        "deadlock-freedom",
        "0a?@0 0a+1@1 1a?@2 1Q@2.5 1a-@40",
        changes=KILLED,
    ),
    _of("orphan", "orphan-freedom", FREED + "9p?@20 9p-@30"),
    _of("orphan/part", "orphan-freedom", "0a?@0 0a+1@1 9p?@14 9p-@40", changes=KILLED),
    _of("livelock", "starvation-freedom", storm((6, 6, 6))),
    _of("hung-request/answered", "no-hung-request", FREED + "2a?@10 2a-@25", wait_s=5),
    _of(
        "hung-request/unanswered",
        "no-hung-request",
        FREED + "2a?@10 0a?@30 0a-@31",
        wait_s=5,
    ),
    _of("multi-lock-deadlock", "no-multi-lock-deadlock", CIRCLE),
    _of("false-answer/nobody", QUERIES, HELD + "1q? 1q+ 0n? 0n+"),
    _of("false-answer/passed", QUERIES, HELD + "0r? 0r+ 2a? 2a+8 1q? 1q+7=1 2r? 2r+"),
    _of(
        "false-answer/passed-beside",
        QUERIES,
        "0a? 0a+7 0r? 1a? 1a+8 2q? 2q+7=0 0r+",
        PLAIN,
        READER,
    ),
    _of("false-answer/not-yet", QUERIES, "0a? 0a+7 1a? 2q? 2q+8=0 0n? 0n+ 0r? 0r+ 1a+8"),
    _of(
        "false-answer/beside",
        QUERIES,
        "0a? 0a+7 1a? 1a~ 2q? 2q+8=0 0n? 0n+ 0r? 0r+",
        tokens="unordered",
        keeps={"mutual-exclusion": ("any",)},
    ),
    _of("false-answer/text", QUERIES, HELD + "1q? 1q+7=1", err="the office cat"),
    _of("false-answer/no-hold", QUERIES, HELD + "1q? 1q+9=0 0r? 0r+"),
    _of("false-answer/no-hold", QUERIES, HELD + "0r? 0r+ 1q? 1q+7=1"),
    _of("false-answer/renewed-more", QUERIES, HELD + "1q? 1q+7=0 0r? 0r+"),
    _of("false-answer/renewed-less", QUERIES, HELD + "1q? 1q+7=4 0r? 0r+"),
    _of(
        "false-answer/too-old",
        QUERIES,
        "0a? 0a+7 1q?@2 1q+7=0@4",
        spent=spent(4_100_000_000, None),
    ),
    _of(
        "false-answer/too-young",
        QUERIES,
        "0a? 0a+7 1q?@2 1q+7=0@4",
        spent=spent(900_000_000, None),
    ),
    _of(
        "false-answer/lease-left",
        QUERIES,
        "0a? 0a+7 1q?@2 1q+7=0@4",
        spent=spent(None, 10_100_000_000),
    ),
    _of("false-answer/waits/tokens", QUERIES, "0a? 0a+1 1a? 1Q 1k? 1k+=-1 0n? 0n+ 0r? 0r+ 1a+2"),
    _of(
        "false-answer/waits/proved",
        QUERIES,
        "1a? 1a+ 0a? 0Q 0k? 0k+=-1 1n? 1n+ 1r? 1r+ 0a+ 0n? 0n+",
        tokens="none",
    ),
    _of("false-answer/answered", QUERIES, "0a? 0a+1 0.1k? 0.1k+=0"),
    _of("false-answer/place", QUERIES, "0a? 0a+1 1a? 1Q 2a? 2Q 1k? 1k+=1"),
    _of("false-answer/growing", QUERIES, "0a? 0a+1 3a? 3Q 1a? 1Q 1k? 1k+=0 1k? 1k+=1"),
    _of("false-answer/in-force", QUERIES, HELD + "0r? 0r+ 0c? 0c+"),
    _of("false-answer/not-in-force", QUERIES, HELD + "0c? 0c- 0n? 0n+"),
    _of(
        "false-condition/granted",
        QUERIES,
        "0a? 0a+1 0r? 0r+ 2a? 2a+2 2r? 2r+ 1a? 1a+3",
        PLAIN,
        Terms(newest=1),
    ),
    _of(
        "false-condition/refused",
        QUERIES,
        "0a? 0a+1 0r? 0r+ 1a? 1a-",
        PLAIN,
        Terms(newest=1),
        err=f"{CHANGED}: 2",
    ),
    _of("false-length/more", QUERIES, "0a? 0a+7 1a? 1Q 0l? 0l+=2"),
    _of("false-length/fewer", QUERIES, f"{WAITED}0l? 0l+=1 {STAYED}"),
    _of("false-entries/more", QUERIES, "0a? 0a+7 0r? 0r+=1"),
    _of("false-entries/fewer", QUERIES, f"{TWICE}0r? 0r+=0 0.1n? 0.1n+"),
    _of("late-grant-notice", "grant-notice", "0a? 0a+7 1a? 1Q 0r? 0r+ 2q? 2q+8=0@7 1a+8@10.5"),
)
"""Those that histories of `tests.checkers.chosen_histories` are made of: one more would change
all of them."""
MORE = tuple(added for one in every() for added in one.specimens)
"""Those that test files of properties bring."""
SPECIMENS = (*DRAWN_FROM, *MORE)
