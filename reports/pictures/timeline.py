"""The recorded history of a run as data for the interactive timeline."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.case import History
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from holdfast.harness.verdicts.judged import Judged
from holdfast.reports.pictures.packed_columns import (
    Bools,
    Ints,
    packed,
    ranked,
    signed,
    sparse_steps,
    steps,
)
from holdfast.reports.text.formatting import evidence, plain

MOST_OPS = 1_000_000
MOST_STRINGS, STRING_LIMIT = 4000, 160
AROUND_NS = 2_000_000_000
"""Distance from a finding or a fault's edge within which every op is kept."""
TOP = (1 << 32) - 1
UNIT_NS = 1000
SERVED = (Op.SERVED_READ, Op.SERVED_WRITE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """A history and further data to draw: the columns of `checkers.evidence.plot_data`.

    nodes  process number -> node of the logical client
    """

    history: History
    nodes: Mapping[int, str]
    drawn: Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """Data of the page for its script: `about` as JSON, `columns` as compressed text."""

    about: str
    columns: str
    kept: int
    ops: int


def timeline(
    recorded: Recorded, run: Judged, marks: Sequence[Mapping[str, Any]]
) -> Timeline | None:
    """The data of the timeline, None if nothing was recorded.

    `marks` are the numbered findings, as `reports.run.page.marks` describes them; times in ns.
    Times are whole microseconds since the start of the run. O(n log n).
    """
    rows = recorded.history.rows
    if not len(rows):
        return None
    keep = _kept(recorded, run, [int(mark["t"]) for mark in marks])
    of_op, sender, names = _lanes(recorded, run)
    columns, more = _columns(recorded, run, keep, of_op, sender)
    layout, text = packed(columns)
    about = {
        "layout": layout,
        "lanes": names,
        "ops": [op.name.lower().replace("_", "-") for op in sorted(Op)],
        "opIds": [int(op) for op in sorted(Op)],
        "statuses": [status.name.lower().replace("_", " ") for status in sorted(Status)],
        "strings": [plain(text, STRING_LIMIT) for text in recorded.history.strings[:MOST_STRINGS]],
        "start": 0,
        "end": (run.end_ns - run.start_ns) / UNIT_NS,
        "stop": (run.stop_ns - run.start_ns) / UNIT_NS,
        "faults": _faults(run),
        "failovers": [
            {
                "t": (one.t_ns - run.start_ns) / UNIT_NS,
                "gap": None if one.gap_ns is None else one.gap_ns / UNIT_NS,
                "name": plain(f"{one.fault} {one.kind}", 40),
            }
            for one in run.evidence.failovers[:200]
        ],
        "findings": [_mark(mark, run) for mark in marks],
        "tokensOrdered": run.promises is not None and str(run.promises.tokens) == "ordered",
        "kept": len(keep),
        "of": len(rows),
        **more,
    }
    about_json = json.dumps(about, separators=(",", ":")).replace("<", "\\u003c")
    return Timeline(about=about_json, columns=text, kept=len(keep), ops=len(rows))


def _mark(mark: Mapping[str, Any], run: Judged) -> dict[str, object]:
    moved: dict[str, object] = {
        key: (mark[key] - run.start_ns) / UNIT_NS for key in ("t", "from", "to")
    }
    moved["proof"] = [
        {**half, "t": (half["t"] - run.start_ns) / UNIT_NS} for half in mark.get("proof", ())
    ]
    arrow = mark.get("arrow")
    if arrow:
        moved["arrow"] = {
            **arrow,
            **{key: (arrow[key] - run.start_ns) / UNIT_NS for key in ("sent", "t")},
        }
    return {**mark, **moved}


def _faults(run: Judged) -> list[dict[str, Json]]:
    return [
        {
            "id": plain(fault.id, 16),
            "do": plain(fault.do, 24),
            "nodes": [plain(node, 24) for node in fault.nodes[:64]],
            "from": (fault.from_ns - run.start_ns) / UNIT_NS,
            "to": (fault.to_ns - run.start_ns) / UNIT_NS,
            "effective": fault.effective,
            "said": plain(fault.reason or evidence(fault.evidence), 160),
            "offsets": _offsets(fault.evidence),
        }
        for fault in run.faults[:2000]
    ]


def _offsets(found: Mapping[str, Json]) -> dict[str, float]:
    """Observed clock offset of each node, in ns, from one of its processes."""
    offsets = found.get("offset_ns")
    if not isinstance(offsets, Mapping):
        return {}
    offset_of = {}
    for node, value in offsets.items():
        one = next(iter(value.values()), None) if isinstance(value, Mapping) else value
        if isinstance(one, int | float) and math.isfinite(one):
            offset_of[plain(node, 24)] = float(one)
    return offset_of


def _kept(recorded: Recorded, run: Judged, near: Sequence[int]) -> npt.NDArray[np.intp]:
    """Rows of the page: all, or beyond MOST_OPS a sample of attempts far from findings and faults.

    Rows near a finding or the edge of a fault, and rows that are not ok, are kept first.
    """
    rows = recorded.history.rows
    n = len(rows)
    if n <= MOST_OPS:
        return np.arange(n)
    t = rows["t_inv"]
    busy = (rows["status"] != Status.OK) & (rows["status"] != Status.FAIL)
    for moment in [*near, *(t for f in run.faults for t in (f.from_ns, f.to_ns))]:
        low, high = np.searchsorted(t, [moment - AROUND_NS, moment + AROUND_NS])
        busy[low:high] = True
    if busy.sum() > MOST_OPS // 2:
        busy[:] = False
    share = (MOST_OPS - int(busy.sum())) / (n - int(busy.sum()))
    mixed = rows["attempt"].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    drawn = (mixed >> np.uint64(33)) < np.uint64(share * (1 << 31))
    return np.flatnonzero(busy | drawn)[:MOST_OPS]


def _lanes(recorded: Recorded, run: Judged) -> tuple[Ints, Ints, list[dict[str, str]]]:
    """The lane of every row, the lane of its attempt's client, and all lanes: clients, then the
    resource, then servers."""
    rows = recorded.history.rows
    served = np.isin(rows["f"], [int(op) for op in SERVED])
    processes = np.unique(rows["process"][~served])
    lane = np.searchsorted(processes, rows["process"]).astype(np.int64)
    # The resource's rows carry the attempt of the client that sent the request.
    owner = (rows["attempt"] >> 32).astype(np.int64)
    known_owner = served & np.isin(owner, processes)
    sender = np.where(known_owner, np.searchsorted(processes, owner), lane)
    hosts = [recorded.nodes.get(int(p), f"process {p}") for p in processes]
    lanes = [
        {
            "name": plain(host if hosts.count(host) == 1 else f"{host} #{process}", 24),
            "node": plain(host, 24),
            "kind": "probe" if host.startswith("probe") else "client",
        }
        for host, process in zip(hosts, processes.tolist(), strict=True)
    ]
    if served.any():
        lane[served] = len(lanes)
        sender[served & ~known_owner] = len(lanes)
        lanes.append({"name": "resource", "node": "resource", "kind": "resource"})
    known = {one["node"] for one in lanes}
    lanes += [
        {"name": plain(node, 24), "node": plain(node, 24), "kind": "server"}
        for node in run.servers[:64]
        if node not in known
    ]
    return lane, sender, lanes


def _columns(
    recorded: Recorded, run: Judged, keep: npt.NDArray[np.intp], of_op: Ints, sender: Ints
) -> tuple[dict[str, npt.NDArray[np.generic]], dict[str, Json]]:
    rows = recorded.history.rows[keep]
    lane = of_op[keep]
    inv = (rows["t_inv"] - run.start_ns) // UNIT_NS
    took = (rows["t_ret"] - rows["t_inv"]) // UNIT_NS
    there: Bools = rows["token"] > NO_TOKEN
    tokens, names = ranked(rows["token"], there)
    first = int(inv[0])
    columns = {
        "skipped": np.diff(keep, prepend=-1) - 1,
        "sender": signed(sender[keep] - lane),
        "wait": np.diff(inv, prepend=first),
        "took": np.where(rows["t_ret"] > 0, took + 1, 0),
        "lane": lane,
        "kind": rows["f"] | rows["status"].astype(np.uint8) << 5,
        "token": sparse_steps(tokens, there, lane),
        "attempt": signed(steps(rows["attempt"] & 0xFFFFFFFF, lane)),
        "key": signed(steps(np.minimum(rows["key"].astype(np.int64), MOST_STRINGS), lane)),
        "err": np.minimum(rows["err"], MOST_STRINGS),
        **_holds(recorded, run, keep),
    }
    columns = {name: column.astype(np.int64).clip(0, TOP) for name, column in columns.items()}
    return columns, {"first": first, "tokenNames": names}


def _past(lease: Ints | None, start: Ints, sure_length: Ints) -> Ints:
    """How long each hold was in force after its lease, as a later ok response shows; 0 for none.

    A recording of an older version, from a Parquet file, does not have the ends of leases.
    """
    if lease is None:
        return np.zeros(len(start), np.int64)
    left = lease // UNIT_NS - start
    return np.where((lease >= 0) & (left > 0), np.maximum(sure_length - left, 0), 0)


def _holds(
    recorded: Recorded, run: Judged, keep: npt.NDArray[np.intp]
) -> dict[str, npt.NDArray[np.generic]]:
    """Holds by the row of their acquire, and the margins of renewals."""
    rows, drawn = recorded.history.rows, recorded.drawn
    place = np.full(len(rows), -1)
    place[keep] = np.arange(len(keep))
    order = np.argsort(drawn["row"], kind="stable")
    order = order[place[drawn["row"][order]] >= 0]
    row, end, sure = (drawn[name][order] for name in ("row", "end", "sure"))
    start = rows["t_ret"][row] // UNIT_NS
    length = np.where(end >= 0, end // UNIT_NS - start, run.end_ns // UNIT_NS - start)
    sure_length = np.where(sure >= 0, sure // UNIT_NS - start, 0)
    lease = drawn["lease"][order] if "lease" in drawn else None
    renewal = place[drawn["renewal"]]
    there = np.flatnonzero(renewal >= 0)
    there = there[np.argsort(renewal[there], kind="stable")]
    return {
        "holdOp": np.diff(place[row], prepend=0),
        "holdLength": np.maximum(length, 0),
        "holdLoose": np.maximum(length - sure_length, 0),
        "holdPast": _past(lease, start, sure_length),
        "holdTail": drawn["lapses"][order].astype(np.uint8) | (end < 0).astype(np.uint8) << 1,
        "renewOp": np.diff(renewal[there], prepend=0),
        "margin": signed(drawn["margin"][there] // UNIT_NS),
    }
