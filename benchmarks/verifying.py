"""CPU time to verify the orders of a million operations: `python -m benchmarks.verifying`."""

from __future__ import annotations

import hashlib
import sys
import time

import numpy as np

from holdfast.harness.core.operations import ROW_FIELDS, Op, Status
from holdfast.harness.verification.recorded import Rows, Writer
from holdfast.harness.verification.verify import run_of, verify

PROMISES = {
    "bound": "lease", "renew_proves": True, "release_proves": True, "release_once": True,
    "slip_ns": 0, "drift_ppm": 0, "tokens": "ordered", "tokens_unique": True, "order": "fifo",
    "keeps": {"token-order": ["any"]}, "delay_ns": 0, "recovery_ns": 0,
}  # fmt: skip
CLIENTS, SECOND = 4, 10**9


def recorded(operations: int) -> tuple[list[Writer], bytes, dict[str, object]]:
    """Clients in turn that acquire, renew and release; the order of their grants; a verdict."""
    grants = operations // 3
    rows = np.zeros(grants * 3, np.dtype([*ROW_FIELDS]))
    n = np.arange(grants)
    for step, op in enumerate((Op.ACQUIRE, Op.RENEW, Op.RELEASE)):
        mine = rows[step::3]
        mine["f"], mine["status"], mine["key"] = op, Status.OK, 1
        mine["t_inv"] = 1 + n * 40 + step * 10
        mine["t_ret"] = mine["t_inv"] + 5
        mine["process"], mine["token"] = n % CLIENTS, n
        mine["attempt"] = (n % CLIENTS) << 32 | (n + 1)
        mine["arg"] = mine["res"] = SECOND
    owner = np.repeat(n % CLIENTS, 3)
    writers = [
        Writer(f"c{c}", f"c{c}", [c], memoryview(rows[owner == c].tobytes()), ["", "lock-1"])
        for c in range(CLIENTS)
    ]
    columns = np.concatenate((n % CLIENTS, n // CLIENTS * 3)).astype("<u4").tobytes()
    certificate = {
        "writers": [f"c{c}" for c in range(CLIENTS)],
        "locks": [["lock-1", grants]],
        "at": 0,
        "sha256": hashlib.sha256(columns).hexdigest(),
    }
    counts = {"acquires": grants, "grants": grants}
    told = [
        {
            "property": prop, "verdict": "HOLDS", "findings": [], "exercised": counts,
            "certificate": {"rule": f"order/{prop}", **certificate},
        }
        for prop in ("mutual-exclusion", "token-order")
    ]  # fmt: skip
    return writers, columns, {"verdicts": told}


def measure(operations: int) -> float:
    """Seconds of CPU for both orders, from bytes to the answer."""
    writers, columns, told = recorded(operations)
    plan = {"lease_ns": SECOND, "resource": "fenced"}
    begun = time.process_time()
    end = {"mark": "end", "t_ns": 1 + operations * 40}
    marks = ({"mark": "start", "t_ns": 0}, {**end, "mark": "stop"}, end)
    run = run_of(Rows(writers), {"promises": PROMISES, "plan": plan}, (), marks)
    outcome = verify(run, told, columns)
    assert outcome.accepted == 2, outcome
    return time.process_time() - begun


if __name__ == "__main__":
    took = f"1,000,000 operations: {measure(1_000_000):.2f} s of CPU"
    sys.stdout.write(f"{sys.version}\n{took}\n")
