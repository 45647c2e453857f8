"""The ops around a finding, as rows of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from holdfast.harness.core.operations import Op, Status
from holdfast.harness.verdicts.judged import Shown
from holdfast.reports.pictures.timeline import Recorded

BESIDE = 12
"""Number of ops on the same lock shown before a finding, and after it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """One op near a finding; `proof`: it is a witness. t_ret_ns 0: no response."""

    t_inv_ns: int
    t_ret_ns: int
    node: str
    op: str
    status: str
    lock: str
    token: int
    proof: bool


def around(recorded: Recorded) -> Callable[[Shown], list[Beside]]:
    """Returns a function: finding -> the nearest ops and its witnesses, by time."""
    rows, strings = recorded.history.rows, recorded.history.strings
    t_inv = np.ascontiguousarray(rows["t_inv"])
    number = {text: n for n, text in enumerate(strings)}

    def near(finding: Shown) -> list[Beside]:
        key = number.get(finding.lock, -1)
        middle = int(np.searchsorted(t_inv, finding.t_ns))
        low, high = max(middle - BESIDE * 50, 0), middle + BESIDE * 50
        mine = low + np.flatnonzero(rows["key"][low:high] == key)
        split = int(np.searchsorted(mine, middle))
        chosen = mine[max(split - BESIDE, 0) : split + BESIDE].tolist()
        proof = {w.row for w in finding.witnesses if 0 <= w.row < len(rows)}
        return [_beside(n, n in proof) for n in sorted({*chosen, *proof})]

    def _beside(n: int, proof: bool) -> Beside:
        row = rows[n]
        served = row["f"] in (Op.SERVED_READ, Op.SERVED_WRITE)
        process = int(row["process"])
        return Beside(
            t_inv_ns=int(row["t_inv"]),
            t_ret_ns=int(row["t_ret"]),
            node="resource" if served else recorded.nodes.get(process, f"process {process}"),
            op=Op(int(row["f"])).name.lower().replace("_", "-"),
            status=Status(int(row["status"])).name.lower().replace("_", "-"),
            lock=strings[int(row["key"])],
            token=int(row["token"]),
            proof=proof,
        )

    return near


def ends_of_leases(recorded: Recorded) -> dict[int, int]:
    """Row of an acquire -> end of its lease as renewed, by its contract; without those without."""
    drawn = recorded.drawn
    # A recording of an older version, from a Parquet file, does not have them.
    if "lease" not in drawn:
        return {}
    pairs = zip(drawn["row"].tolist(), drawn["lease"].tolist(), strict=True)
    return {row: end for row, end in pairs if end >= 0}
