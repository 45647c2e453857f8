"""Verifies what a checker said of a case, by its rows written as segments in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from holdfast.checkers.facts.legal_orders import ORDERS, Order
from holdfast.harness.core.case import Case
from holdfast.harness.core.fault_traits import to_table
from holdfast.harness.core.operations import ROW_FIELDS, Op
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from holdfast.harness.judging.certificates import certificate, order_certificate
from holdfast.harness.verification.derived import Run
from holdfast.harness.verification.recorded_rows import Rows, Starved, Writer
from holdfast.harness.verification.verify import Outcome, run_of, verify

ROW_DTYPE = np.dtype([*ROW_FIELDS])


def named(case: Case) -> Case:
    """The same case; writers that share a name have one of their own each."""
    names = case.history.writers
    if len(set(names)) == len(names):
        return case
    numbered = tuple(f"w{n:03}" for n in range(len(names)))
    return replace(case, history=replace(case.history, writers=numbered))


def writers(case: Case) -> list[Writer]:
    """The rows of a case as each of its writers has them; rows between are empty."""
    found, rows, strings = [], case.history.rows, case.history.strings
    for number, name in enumerate(case.history.writers):
        mine = rows[rows["writer"] == number]
        packed = np.zeros(int(mine["row"].max(initial=0)) + 1, ROW_DTYPE)
        for column, _ in ROW_FIELDS:
            packed[column][mine["row"]] = mine[column]
        # A client of which no row is left is a client still.
        seen = set(mine["process"].tolist())
        processes = [p for p, node in case.nodes.items() if p in seen or node == name]
        served = bool(np.isin(mine["f"], (Op.SERVED_READ, Op.SERVED_WRITE)).any())
        node = "resource" if served or not processes else case.nodes[processes[0]]
        found.append(Writer(name, node, [] if served else processes, packed.tobytes(), strings))
    return found


def faults(case: Case) -> list[dict[str, Any]]:
    """The windows of a case as rows of faults.jsonl."""
    rows: list[dict[str, Any]] = []
    for n, w in enumerate(case.windows):
        row = {"id": f"{w.id} {n}", "do": w.do, "nodes": list(w.nodes)}
        rows.append({**row, "event": "injected", "t_ns": w.from_ns, "before_ns": w.from_ns})
        told = {"evidence": dict(w.evidence), "effective": w.effective}
        rows.append({**row, "event": "healed", "t_ns": w.to_ns, **told})
    return rows


def ordering(case: Case, prop: str) -> Callable[[Case], Order] | None:
    """What derives the order that proves an exact property, None where it has none to prove."""
    without = prop == "token-order" and case.promises.tokens == "none"
    return None if without else ORDERS.get(prop)


def told(case: Case, verdict: PropertyVerdict, order: Order = None) -> dict[str, Any]:
    """A verdict as verdicts.json has it, as far as it is verified.

    order   that is said to prove it; None: the one that the judge would derive, if it holds
    """
    by = ordering(case, verdict.property) if verdict.verdict is Verdict.HOLDS else None
    if order is None and by is not None:
        order = by(case)
    findings = [
        {"kind": f.kind, "lock": f.lock, "t_ns": f.t_ns, "certificate": certificate(case, f)}
        for f in verdict.findings
    ]
    row: dict[str, Any] = {
        "property": verdict.property,
        "verdict": str(verdict.verdict),
        "findings": findings,
    }
    orders = bytearray()
    held = order_certificate(case, verdict.property, order, orders)
    row |= {"exercised": dict(verdict.exercised), "certificate": held}
    return {"verdicts": [row], "orders": bytes(orders)}


def recorded(case: Case) -> Run:
    """A case as the verifier reads it."""
    plan = {
        "lease_ns": case.lease_ns,
        "resource": case.options.get("resource", ""),
        "nodes": int(case.options.get("servers", "0")),
    }
    return run_of(
        Rows(writers(case)),
        {
            "promises": asdict(case.promises),
            "plan": plan,
            "traits": {w.do: to_table(w.traits) for w in case.windows},
        },
        faults(case),
        [
            {"mark": "start", "t_ns": case.start_ns},
            {"mark": "stop", "t_ns": case.stop_ns},
            {"mark": "end", "t_ns": case.end_ns},
        ],
        case.error_ns,
        [Starved(one.node, one.kind, one.from_ns, one.to_ns) for one in case.starved],
    )


def verified(case: Case, verdicts: Mapping[str, Any]) -> Outcome:
    """What the verifier says of verdicts of a case."""
    return verify(recorded(case), verdicts, verdicts["orders"])
