"""Judged runs as a report gets them: one that holds, a limit, a broken one, an unknown one."""

from __future__ import annotations

from typing import Any

from tests.reports.pieces import (
    FAULTS,
    MS,
    PROMISES,
    SECOND,
    at,
    dist,
    event,
    evidence,
    hold,
    judged,
)


def clean() -> dict[str, Any]:
    """The reference service under five faults: everything promised holds."""
    properties = ["mutual-exclusion", "no-stale-write", "no-lost-update", "token-order"]
    liveness = ["deadlock-freedom", "orphan-freedom", "no-hung-request"]
    return {
        "schema": "holdfast-verdict/1",
        "run": "20261120T121314Z-reference-7",
        "system": "reference",
        "backend": "docker",
        "workload": "critical-section",
        "resource": "fenced",
        "seed": 7,
        "verdict": "HOLDS",
        "exit_code": 0,
        "command": "holdfast run --system reference --backend docker --workload critical-section"
        " --nemesis pause,kill,partition,clock --time 30s --lease 2s --seed 7",
        "start_ns": at(0),
        "stop_ns": at(25),
        "end_ns": at(30),
        "nodes": {str(n): f"c{n}" for n in range(1, 6)},
        "servers": ["n1", "n2", "n3"],
        "verdicts": [judged(prop, "HOLDS") for prop in properties]
        + [judged(prop, "HOLDS", "high") for prop in liveness],
        "faults": FAULTS,
        "promises": PROMISES,
        "evidence": evidence(),
    }


def stale_write_finding() -> dict[str, Any]:
    """A paused owner wakes up and its write is accepted after the next owner's."""
    return {
        "kind": "stale-accepted-write",
        "sentence": "the resource accepted c1's write on 'db' at 7.031 s although it had served"
        " c2, granted 'db' at 6.004 s, since 6.420 s.",
        "lock": "db",
        "t_ns": at(7.031),
        "witnesses": [
            event("acquire", 1, 3.981, 3.988, res=2 * SECOND),
            event("acquire", 2, 5.112, 6.004, res=2 * SECOND),
            event("served-write", 2, 6.420, 6.420, node="resource"),
            event("served-write", 1, 7.031, 7.031, node="resource"),
        ],
        "spans": [
            hold(3.988, 7.034, "c1 believes", 0),
            hold(6.004, 7.6, "c2 holds", 1),
        ],
    }


def stale_belief_note() -> dict[str, Any]:
    """The same pause as the lock service saw it: a belief that outlived its lease."""
    return {
        "kind": "stale-belief",
        "sentence": "c1 went on believing that it held 'db' for 1.030 s after c2 was granted it.",
        "lock": "db",
        "t_ns": at(6.004),
        "witnesses": [
            event("acquire", 1, 3.981, 3.988),
            event("acquire", 2, 5.112, 6.004),
            event("release", 1, 7.034, 7.038, status="not-owner", error="value differs"),
        ],
        "spans": [hold(3.988, 7.034, "c1 believes", 0), hold(6.004, 7.6, "c2 holds", 1)],
    }


def limit() -> dict[str, Any]:
    """Redis without fencing, its holder paused: exclusion holds, a stale write gets through."""
    run = clean()
    run |= {
        "run": "20261120T121314Z-redis-7",
        "system": "redis",
        "resource": "unfenced",
        "verdict": "VIOLATED",
        "command": run["command"].replace("reference", "redis"),
        "servers": ["n1"],
        "faults": FAULTS[:1],
        "evidence": evidence(tokens=False),
        "promises": PROMISES | {"tokens": "none", "keeps": {"mutual-exclusion": ["pause"]}},
        "verdicts": [
            judged("mutual-exclusion", "HOLDS", notes=[stale_belief_note()]),
            judged(
                "no-stale-write",
                "VIOLATED",
                promised=False,
                reason="3 stale writes accepted of 1,204 served",
                findings=[stale_write_finding()],
            ),
            judged("no-lost-update", "HOLDS", promised=False),
            judged("deadlock-freedom", "HOLDS", "high"),
        ],
    }
    return run


def token_finding() -> dict[str, Any]:
    """A majority of independent counters hands out a smaller token later."""
    return {
        "kind": "token-inversion",
        "sentence": "c4 was granted 'db' with token 31 at 13.902 s, after c2 had been granted it"
        " with token 38 at 12.871 s.",
        "lock": "db",
        "t_ns": at(13.902),
        "witnesses": [
            event("acquire", 2, 12.804, 12.871, token=38),
            event("release", 2, 13.214, 13.220, token=38),
            event("acquire", 4, 13.3, 13.902, token=31),
        ],
        "spans": [
            hold(12.871, 13.214, "token 38", 0),
            hold(13.902, 14.21, "token 31", 2),
        ],
    }


def double_grant_finding() -> dict[str, Any]:
    """Two majorities that share no living memory grant the same lock."""
    return {
        "kind": "double-grant",
        "sentence": "c5 was granted 'db' (token 45) at 18.660 s while c3 still held it"
        " (token 44): c3's renewal of 19.171 s returned ok.",
        "lock": "db",
        "t_ns": at(18.660),
        "witnesses": [
            event("acquire", 3, 17.902, 17.934, token=44),
            event("renew", 3, 18.551, 18.556, token=44),
            event("acquire", 5, 18.612, 18.660, token=45),
            event("renew", 3, 19.171, 19.176, token=44),
            event("release", 5, 19.402, 19.408, token=45),
        ],
        "spans": [
            hold(17.934, 19.171, "proved hold of c3", 0),
            hold(18.660, 19.402, "proved hold of c5", 2),
        ],
    }


def broken() -> dict[str, Any]:
    """The majority vote, which claims everything: a double grant and tokens that fall back."""
    run = clean()
    run |= {
        "run": "20261120T121314Z-majority-7",
        "system": "majority",
        "verdict": "VIOLATED",
        "exit_code": 1,
        "command": run["command"].replace("reference", "majority"),
        "evidence": evidence(down_at=82),
        "verdicts": [
            judged(
                "mutual-exclusion",
                "VIOLATED",
                reason="1 double grant in 512 judged grants",
                findings=[double_grant_finding()],
            ),
            judged(
                "token-order",
                "VIOLATED",
                reason="1 grant with a smaller token than an earlier one",
                findings=[token_finding()],
            ),
            judged("no-stale-write", "HOLDS"),
            judged(
                "no-hung-request",
                "UNKNOWN",
                "high",
                reason="2 of 561 requests were still open when their client was killed",
            ),
            judged("deadlock-freedom", "HOLDS", "high"),
        ],
    }
    return run


def unknown() -> dict[str, Any]:
    """A run in which nobody ever waited: it proves nothing."""
    run = clean()
    run |= {
        "run": "20261120T121314Z-single-7",
        "system": "single",
        "verdict": "UNKNOWN",
        "exit_code": 3,
        "faults": [],
        "evidence": {"acquire": {"asked": 0, "granted": 0}, "wait_ns": {"n": 0}},
        "verdicts": [
            judged(
                "mutual-exclusion",
                "UNKNOWN",
                reason="no acquire waited: 0 of 214",
                exercised={"contended acquires": 0, "judged grants": 214},
            ),
            judged("token-order", "UNKNOWN", reason="no acquire waited: 0 of 214"),
            judged("deadlock-freedom", "HOLDS", "high"),
        ],
    }
    return run


HOSTILE = (
    '<script>alert("x")</script>\'"><img src=x onerror=alert(1)>'
    "\x00\x1b[31m\u202egnikcatta\u2066 ]]> &lt; \ud800 {{ 7*7 }} https://evil.example/"
)


def hostile() -> dict[str, Any]:
    """A broken run in which every string that a service or user can choose is an attack."""
    run = broken()
    long = HOSTILE + "A" * (1 << 20)
    finding = double_grant_finding()
    finding["sentence"] = f"c1 {long}"
    finding["lock"] = long
    finding["kind"] = HOSTILE
    for witness in finding["witnesses"]:
        witness |= {"lock": long, "error": long, "node": HOSTILE, "op": HOSTILE, "status": HOSTILE}
    for drawn in finding["spans"]:
        drawn[2] = long
    run["verdicts"][0]["findings"] = [finding, double_grant_finding() | {"lock": HOSTILE}]
    run["verdicts"][0] |= {"reason": long, "exercised": {HOSTILE: 3}, "property": HOSTILE}
    run["nodes"] = {str(n): f"{HOSTILE}{n}" for n in range(1, 6)}
    run |= {"command": long, "system": HOSTILE, "run": HOSTILE, "workload": HOSTILE}
    run["faults"] = [
        FAULTS[2] | {"do": HOSTILE, "id": HOSTILE, "nodes": [HOSTILE], "reason": long},
        FAULTS[3] | {"evidence": {HOSTILE: long, "nested": {HOSTILE: [long, {HOSTILE: 1}]}}},
    ]
    run["evidence"]["tokens"]["log"][3][1] = HOSTILE
    run["evidence"]["expired_owner"]["sentence"] = long
    run["evidence"]["latency_ns"][HOSTILE] = dist("hostile", 9 * MS, 0.9)
    run["server_record"] = {
        "source": long,
        "total": 1,
        "differences": [{"kind": HOSTILE, "sentence": long, "lock": HOSTILE, "t_ns": at(1)}],
        "gaps": [{"from_ns": at(1), "to_ns": at(2), "reason": long}],
    }
    run["promises"] = PROMISES | {"sheet": {HOSTILE: long}, "keeps": {HOSTILE: [HOSTILE]}}
    return run
