"""What specimens of judged runs are made of: events, holds, distributions, faults, promises."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from holdfast.harness.core.seeds import stream

START = 7_205_113_000_000_000
SECOND = 1_000_000_000
MS = 1_000_000

PLAN = """schema = "holdfast-plan/1"
system = "redis"
backend = "docker"
workload = "critical-section"
resource = "unfenced"
seed = 7
time = "30s"
[options]
persistence = "stock"
[[nemesis]]
name = "pause"
target = "holder"
every = "5s"
for = "3s"
"""

MANIFEST = {
    "schema": "holdfast-manifest/1",
    "started": "2026-11-20T12:13:14Z",
    "versions": {"holdfast": "0.1.0", "python": "3.11.2", "kernel": "6.1.0"},
    "drawn": {"c1": {"think_ms": 12}, "c2": {"think_ms": 31}},
}


def at(seconds: float) -> int:
    """Seconds into the run as ns of its clock."""
    return START + round(seconds * SECOND)


def event(op: str, process: int, inv: float, ret: float | None, **more: Any) -> dict[str, Any]:
    """One EVENT; times in seconds into the run, `ret` None where it never returned."""
    n = more.pop("attempt", 1)
    return {
        "row": more.pop("row", int(inv * 1000)),
        "op": op,
        "process": process,
        "node": more.pop("node", f"c{process}"),
        "attempt": process << 32 | n,
        "t_inv_ns": at(inv),
        "t_ret_ns": 0 if ret is None else at(ret),
        "status": "ok",
        "token": -1,
        "lock": "db",
        "arg": 0,
        "res": 0,
        "error": "",
        **more,
    }


def hold(start: float, end: float, label: str, witness: int) -> list[Any]:
    """One span of a finding; seconds into the run."""
    return [at(start), at(end), label, witness]


def dist(name: str, median: float, spread: float, n: int = 400) -> dict[str, Any]:
    """A log-normal distribution of spans in ns, binned as the judge bins them."""
    rng = stream(1, "specimen", name)
    values = sorted(median * math.exp(rng.gauss(0, spread)) for _ in range(n))
    low, high, bins = values[0], values[-1] * 1.0001, 28
    edges = [low * (high / low) ** (i / bins) for i in range(bins + 1)]
    counts = [sum(a <= value < b for value in values) for a, b in pairwise(edges)]
    return {
        "n": n,
        "min": values[0],
        "p50": values[n // 2],
        "p90": values[int(n * 0.9)],
        "p99": values[int(n * 0.99)],
        "max": values[-1],
        "mean": sum(values) / n,
        "histogram": {"edges_ns": edges, "counts": counts},
    }


def token_log(n: int = 180, span: float = 28.0, *, down_at: int = -1) -> list[list[Any]]:
    """Grants evenly over the run, with gaps; the token falls back once at `down_at`."""
    rng = stream(2, "tokens", n)
    log, token = [], 30
    for i in range(n):
        token = token - 7 if i == down_at else token + 1
        gap = 1.6 if i >= 60 else 0
        log.append([at(0.3 + gap + (span - 2) * (i + rng.random()) / n), "db", token, 1 + i % 5])
    return log


SERVICE: dict[str, Any] = {
    "failovers": [
        {
            "fault": "f2",
            "kind": "kill",
            "nodes": ["n1"],
            "t_ns": at(11.0),
            "gap_ns": 1_240 * MS,
        },
    ],
    "lease_margin": {
        "lease_ns": 2 * SECOND,
        "renewal_interval_ns": 667 * MS,
        "clock_uncertainty_ns": 0,
        "network_ns": 12 * MS,
        "pause_ns": 3_001 * MS,
        "margin_ns": 2 * SECOND - (667 + 12 + 3001) * MS,
        "note": "the longest pause of a client was longer than the lease",
    },
    "utilisation": {"arrivals_per_s": 18.7, "hold_mean_ns": 44 * MS, "rho": 0.82},
    "stale_beliefs": {"count": 3, "longest_ns": 1_020 * MS},
}
"""Evidence about the service that is alike in all specimens."""


def evidence(*, tokens: bool = True, down_at: int = -1, granted: int = 512) -> dict[str, Any]:
    """The numbers of a run of 30 s with five clients and a lease of 2 s."""
    log = token_log(down_at=down_at) if tokens else []
    return {
        "acquire": {"asked": granted + 49, "granted": granted, "refused": 41, "unknown": 8},
        "acquire_split": {
            "said": granted,
            "queued": 300,
            "whole_ns": dist("whole", 71 * MS, 0.8),
            "way_ns": dist("way", 3 * MS, 0.5),
            "coordination_ns": dist("coordination", MS, 0.2),
            "commit_ns": dist("commit", 5 * MS, 0.4),
            "wait_ns": dist("wait", 62 * MS, 0.8),
            "sentence": "one number",
        },
        "latency_ns": {
            "acquire": dist("acquire", 9 * MS, 0.9),
            "renew": dist("renew", 4 * MS, 0.5),
            "release": dist("release", 5 * MS, 0.6),
        },
        "wait_ns": dist("wait", 62 * MS, 0.8),
        "hold_ns": dist("hold", 41 * MS, 0.4),
        "renewal_margin_ns": dist("margin", 1_310 * MS, 0.08),
        "queue_depth": {"mean": 2.31, "max": 4},
        "timeouts": 8,
        "retry_rate": 1.09,
        "tokens": {
            "grants": granted if tokens else 0,
            "first": log[0][2] if log else None,
            "last": log[-1][2] if log else None,
            "steps_down": int(down_at >= 0),
            "log": log,
        },
        "rejected": {
            "total": 6 if tokens else 0,
            "stale": 6 if tokens else 0,
            "log": [
                {
                    "t_ns": at(9.2 + i),
                    "lock": "db",
                    "process": 2,
                    "token": 70 + i,
                    "highest": 74 + i,
                }
                for i in range(6 if tokens else 0)
            ],
        },
        "expired_owner": {
            "sent": 6,
            "refused": 6 if tokens else 3,
            "accepted": 0 if tokens else 3,
            "sentence": "6 writes were sent after their owner's hold had ended; the resource"
            " refused every one."
            if tokens
            else "6 writes were sent after their owner's hold had ended; the resource accepted"
            " 3 of them.",
        },
        **SERVICE,
    }


PROMISES: dict[str, Any] = {
    "purpose": "correctness",
    "bound": "lease",
    "renew_proves": True,
    "release_proves": True,
    "release_once": False,
    "slip_ns": 0,
    "drift_ppm": 500,
    "tokens": "ordered",
    "tokens_unique": True,
    "order": "fifo",
    "notice_ns": SECOND,
    "recovery_ns": 5 * SECOND,
    "keeps": {"mutual-exclusion": ["any"], "token-order": ["any"], "no-stale-write": ["any"]},
    "sheet": {
        "owner identity": "client and attempt",
        "acquisition": "a log entry agreed by a majority",
        "lease": "counted by the leader on its monotonic clock",
        "renewal": "by attempt and token, at a third of the lease",
        "clock assumptions": "bounded drift between leader and holder",
        "consequence": "corrupted data behind the lock",
    },
}


def judged(prop: str, verdict: str, severity: str = "critical", **more: Any) -> dict[str, Any]:
    """One row of the property table."""
    return {
        "property": prop,
        "verdict": verdict,
        "promised": True,
        "severity": severity,
        "reason": "no contradiction in 512 judged grants" if verdict == "HOLDS" else "",
        "exercised": {"contended acquires": 214, "judged grants": 512},
        "findings": [],
        "notes": [],
        **more,
    }


FAULTS: list[dict[str, Any]] = [
    {
        "id": "f1",
        "do": "pause",
        "target": "holder",
        "nodes": ["c1"],
        "from_ns": at(4.02),
        "to_ns": at(7.02),
        "effective": True,
        "evidence": {"effective": True, "states": {"c1": "T"}},
        "holder": "c1",
        "reason": "",
    },
    {
        "id": "f2",
        "do": "kill",
        "target": "leader",
        "nodes": ["n1"],
        "from_ns": at(11.0),
        "to_ns": at(13.5),
        "effective": True,
        "evidence": {"effective": True, "killed": {"n1": {"4711": "gone"}}, "restart": ["n1"]},
        "holder": "",
        "reason": "",
    },
    {
        "id": "f3",
        "do": "partition",
        "target": "minority",
        "nodes": ["n2"],
        "from_ns": at(16.0),
        "to_ns": at(20.0),
        "effective": True,
        "evidence": {"effective": True, "dropped": 214, "links": {"n2<-10.0.0.3": 214}},
        "holder": "",
        "reason": "",
    },
    {
        "id": "f4",
        "do": "clock",
        "target": "one",
        "nodes": ["n3"],
        "from_ns": at(19.0),
        "to_ns": at(23.0),
        "effective": True,
        "evidence": {"effective": True, "offset_ns": {"n3": {"4713": -5 * SECOND}}},
        "holder": "",
        "reason": "",
    },
    {
        "id": "f5",
        "do": "partition",
        "target": "leader",
        "nodes": ["n1"],
        "from_ns": at(22.5),
        "to_ns": at(24.5),
        "effective": False,
        "evidence": {"dropped": 0},
        "holder": "",
        "reason": "no packet met the cut",
    },
]
