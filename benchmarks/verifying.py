"""CPU time to verify the orders of a million operations: `python -m benchmarks.verifying`."""

from __future__ import annotations

import hashlib
import sys
import time
from dataclasses import asdict

import numpy as np

from holdfast import catalogue
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import ROW_FIELDS, Op, Status
from holdfast.harness.verification.recorded_rows import Rows, Writer
from holdfast.harness.verification.verify import run_of, verify
from holdfast.interpreter import build

PROMISES = asdict(load(catalogue.SYSTEMS["reference"].entry).promises({}))
CLIENTS, SECOND = 4, 10**9


GRANTS = ("mutual-exclusion", "token-order")
WRITES = ("no-stale-write", "no-expired-write", "no-lost-update", "applied-once")


def recorded(
    operations: int, last: tuple[Op, ...]
) -> tuple[list[Writer], bytes, dict[str, object]]:
    """Clients in turn that acquire, and then what `last` says; their orders; a verdict.

    A write is followed by its row in the resource's log.
    """
    writing = Op.WRITE in last
    each = 1 + len(last)
    grants = operations // (each + writing)
    rows = np.zeros(grants * each, np.dtype([*ROW_FIELDS]))
    n = np.arange(grants)
    owners, attempt = n % CLIENTS, (n % CLIENTS) << 32 | (n + 1)
    for step, op in enumerate((Op.ACQUIRE, *last)):
        mine = rows[step::each]
        mine["f"], mine["status"], mine["key"] = op, Status.OK, 1
        mine["t_inv"] = 1 + n * 40 + step * 10
        mine["t_ret"] = mine["t_inv"] + 5
        mine["process"], mine["token"], mine["attempt"] = owners, n, attempt
        mine["arg"] = mine["res"] = SECOND
    owner = np.repeat(owners, each)
    names = [f"c{c}" for c in range(CLIENTS)]
    strings = ["", "lock-1"]
    writers = [
        Writer(name, name, [c], rows[owner == c].tobytes(), strings) for c, name in enumerate(names)
    ]
    orders = dict.fromkeys(GRANTS, (owners, n // CLIENTS * each))
    if writing:
        served = np.zeros(grants, rows.dtype)
        served["f"], served["status"], served["key"] = Op.SERVED_WRITE, Status.OK, 1
        served["t_inv"] = 1 + n * 40 + 12
        served["t_ret"] = served["t_inv"] + 2
        served["token"], served["attempt"], served["op"] = n, attempt, n
        served["res"], served["arg"] = n + 1, n
        writers.append(Writer("resource", "resource", [], served.tobytes(), strings))
        orders |= {prop: (np.full(grants, CLIENTS), n) for prop in WRITES}
    data, told = b"", []
    for prop, columns in orders.items():
        block = np.concatenate(columns).astype("<u4").tobytes()
        certificate = {
            "rule": f"order/{prop}",
            "writers": [writer.name for writer in writers],
            "locks": [["lock-1", grants]],
            "at": len(data) // 4,
            "sha256": hashlib.sha256(block).hexdigest(),
        }
        counts = {"acquires": grants, "grants": grants}
        row = {"property": prop, "verdict": "HOLDS", "findings": [], "exercised": counts}
        told.append({**row, "certificate": certificate})
        data += block
    return writers, data, {"verdicts": told}


def measure(operations: int, *last: Op) -> tuple[int, float]:
    """How many orders there are, and seconds of CPU for all, from bytes to the answer."""
    writers, columns, told = recorded(operations, last)
    plan = {"lease_ns": SECOND, "resource": "fenced"}
    begun = time.process_time()
    end = {"mark": "end", "t_ns": 1 + operations * 40}
    marks = ({"mark": "start", "t_ns": 0}, {**end, "mark": "stop"}, end)
    run = run_of(Rows(writers), {"promises": PROMISES, "plan": plan}, (), marks)
    outcome = verify(run, told, columns)
    assert not outcome.refused and outcome.accepted, outcome
    return outcome.accepted, time.process_time() - begun


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
    for steps in ((Op.RENEW, Op.RELEASE), (Op.WRITE, Op.RELEASE)):
        orders, took = measure(1_000_000, *steps)
        names = ", ".join(("acquire", *(op.name.lower() for op in steps)))
        sys.stdout.write(f"1,000,000 operations ({names}), {orders} orders: {took:.2f} s of CPU\n")
