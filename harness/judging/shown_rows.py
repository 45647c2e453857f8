"""Rows of a history as reports and verdicts.json show them."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.core.case import History
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.verdicts.judged import Event


def event(history: History, index: int, nodes: Mapping[int, str]) -> Event:
    """One row of a history as texts and integers, for reports and JSON."""
    row = history.rows[index]
    process = int(row["process"])
    return Event(
        row=int(index),
        op=Op(int(row["f"])).name.lower().replace("_", "-"),
        process=process,
        node=nodes.get(process, history.writers[int(row["writer"])]),
        attempt=int(row["attempt"]),
        t_inv_ns=int(row["t_inv"]),
        t_ret_ns=int(row["t_ret"]),
        status=Status(int(row["status"])).name.lower().replace("_", "-"),
        token=int(row["token"]),
        lock=history.strings[int(row["key"])],
        arg=int(row["arg"]),
        res=int(row["res"]),
        error=history.strings[int(row["err"])],
    )
