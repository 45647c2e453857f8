"""Exports a run's lock operations for other tools: JSON lines, EDN, or a table of all rows.

The first two are histories of events that `read_history` reads back. A client may have two calls in
flight at once and continues after one that never returned; a process of such a history may not. So
a call that would overlap gets its own process number, offset by the number of clients; `attempt`
identifies the owner of a lock, and `name` says it in words.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import numpy as np

from holdfast.harness.core.case import History
from holdfast.harness.core.operations import (
    NO_TOKEN,
    Mode,
    Op,
    Status,
    attempt_name,
    client_names,
)

FS = {
    Op.ACQUIRE: "acquire",
    Op.TRY: "acquire",
    Op.PROBE: "acquire",
    Op.RENEW: "renew",
    Op.RELEASE: "release",
}
KINDS = {Status.OK: "ok", Status.FAIL: "fail", Status.NOT_OWNER: "fail", Status.INFO: "info"}
LEASED = ("acquire", "renew")
"""Operations whose argument is the lease asked for."""
WORDS = ("type", "f", "mode")
"""Fields whose values are keywords in EDN."""

Fields = dict[str, int | str]
Nodes = Mapping[int, str]
"""Process number -> name of the node of the logical client."""
ATTEMPT_NAME = "attempt_name"
"""Column of tables: "c4.1/12", the 12th attempt of c4 after its first restart."""


def events(history: History, nodes: Nodes = MappingProxyType({})) -> Iterator[Fields]:
    """Invocations and completions of all lock operations by time; at ties invocations first."""
    edges = []
    names = client_names(nodes)
    for number, row, process in _lanes(history):
        begun = _invocation(history, row, process)
        if names:
            begun["name"] = attempt_name(names, int(row["attempt"]))
        edges.append((int(begun["time"]), 0, number, begun))
        status = Status(int(row["status"]))
        if status is not Status.INVOKED:
            completion = _completion(history, row, begun, status)
            edges.append((int(completion["time"]), 1, number, completion))
    edges.sort(key=lambda edge: edge[:3])
    for _, _, _, fields in edges:
        yield fields


def _lanes(history: History) -> Iterator[tuple[int, np.void, int]]:
    """Row number, row and process number of each lock operation."""
    chosen = history.of(*FS).tolist()
    clients = int(history.rows["process"].max()) + 1 if len(history.rows) else 1
    free_at: dict[int, list[int | None]] = {}
    for number in chosen:
        row = history.rows[number]
        lanes = free_at.setdefault(int(row["process"]), [])
        begun = int(row["t_inv"])
        lane = next((n for n, at in enumerate(lanes) if at is not None and at < begun), len(lanes))
        if lane == len(lanes):
            lanes.append(None)
        lanes[lane] = None if row["status"] == Status.INVOKED else int(row["t_ret"])
        yield number, row, int(row["process"]) + lane * clients


def _invocation(history: History, row: np.void, process: int) -> Fields:
    fields: Fields = {
        "process": process,
        "type": "invoke",
        "f": FS[Op(int(row["f"]))],
        "key": history.strings[int(row["key"])],
        "time": int(row["t_inv"]),
        "attempt": int(row["attempt"]),
    }
    if row["mode"] == Mode.SHARED:
        fields["mode"] = "shared"
    if fields["f"] in LEASED and row["arg"] > 0:
        fields["lease_ns"] = int(row["arg"])
    return fields


def _completion(history: History, row: np.void, begun: Fields, status: Status) -> Fields:
    fields = {**begun, "type": KINDS[status], "time": int(row["t_ret"])}
    if row["token"] != NO_TOKEN and begun["f"] == "acquire" and status is Status.OK:
        fields["token"] = int(row["token"])
    error = history.strings[int(row["err"])]
    if status is Status.NOT_OWNER:
        fields["error"] = "not-owner"
    elif error:
        fields["error"] = error
    return fields


def jsonl(history: History, nodes: Nodes = MappingProxyType({})) -> Iterator[str]:
    """One JSON object per event."""
    for fields in events(history, nodes):
        yield json.dumps(fields, ensure_ascii=False) + "\n"


def edn(history: History, nodes: Nodes = MappingProxyType({})) -> Iterator[str]:
    """One EDN map per event, with Jepsen's keywords."""
    for fields in events(history, nodes):
        yield (
            "{" + ", ".join(f":{name} {_edn(name, each)}" for name, each in fields.items()) + "}\n"
        )


def _edn(name: str, value: int | str) -> str:
    if name in WORDS:
        return f":{value}"
    return json.dumps(value, ensure_ascii=False)


def table(history: History, nodes: Nodes = MappingProxyType({})) -> Iterator[str]:
    """Every row of the run as CSV, with the column names in the first line."""
    names = list(history.rows.dtype.names or ())
    clients = client_names(nodes)
    yield _line([*names, ATTEMPT_NAME])
    for index in range(len(history.rows)):
        row = history.rows[index]
        values: Mapping[str, int] = {name: row[name].item() for name in names}
        words = {
            "f": Op(values["f"]).name.lower(),
            "status": Status(values["status"]).name.lower(),
            "mode": Mode(values["mode"]).name.lower(),
            "key": history.strings[values["key"]],
            "err": history.strings[values["err"]],
            "writer": history.writers[values["writer"]],
            ATTEMPT_NAME: attempt_name(clients, values["attempt"]) if values["attempt"] else "",
        }
        yield _line({**values, **words}.values())


def _line(values: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(values)
    return out.getvalue()


FORMATS: dict[str, Callable[[History, Nodes], Iterator[str]]] = {
    "jsonl": jsonl,
    "edn": edn,
    "csv": table,
}
