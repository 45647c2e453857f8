"""The rows of an exported table as columns, and the operations that they are.

As in `event_columns.py`, whatever looks odd raises Odd, and the table is read row by row instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from holdfast.harness.foreign.event_columns import (
    FAIL,
    INFO,
    INVOKE,
    OK,
    Block,
    Codes,
    Named,
    Odd,
    paired,
)
from holdfast.harness.foreign.event_fields import LARGEST
from holdfast.harness.foreign.op_columns import Bools, Ints, OpColumns, Rows
from holdfast.harness.foreign.write import FS, KINDS, LEASED

KIND_OF = {"ok": OK, "fail": FAIL, "info": INFO}
OPS = {op.name.lower(): op for op in Op}
STATUSES = {status.name.lower(): status for status in Status if status is not Status.EMPTY}


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRows:
    """Rows of a table; a column for each field, of one length.

    line        where each row begins
    texts       f, status, key and, if the table has it, mode: codes and the texts that they mean
    numbers     process, t_inv, t_ret, attempt, token and, if the table has it, arg
    """

    line: Rows
    texts: Mapping[str, tuple[Rows, Sequence[str]]]
    numbers: Mapping[str, Ints]


def operations(rows: TableRows) -> OpColumns:
    """The operations of a table, as if its rows had been events. Odd."""
    f, status = _meant(rows.texts["f"], OPS), _meant(rows.texts["status"], STATUSES)
    clients = 1 + int(rows.numbers["process"].max(initial=0))
    kept = np.flatnonzero(np.isin(f, np.array(list(FS), np.int32)))
    f, status, line = f.take(kept), status.take(kept), rows.line.take(kept)
    number = {name: column.take(kept) for name, column in rows.numbers.items()}
    begun, over, answered = number["t_inv"], number["t_ret"], status != Status.INVOKED
    granted = (status == Status.OK) & np.isin(f, [op for op in FS if FS[op] == "acquire"])
    token = np.where(granted, number["token"], NO_TOKEN)
    wrong = (begun < 0) | (answered & (over < begun)) | (number["attempt"] < 0) | (token < NO_TOKEN)
    if wrong.any():
        raise Odd("a number that no row may have")
    process, processes = _processes(number["process"], begun, over, answered, clients)
    names = Codes(str)
    words = np.array([names[FS[Op(op)]] if op in FS else -1 for op in range(max(Op) + 1)], np.int32)
    leased = np.isin(f, [op for op in FS if FS[op] in LEASED])
    kinds = np.full(max(Status) + 1, INFO, np.uint8)
    for outcome, word in KINDS.items():
        kinds[outcome] = KIND_OF[word]
    # Two events of each answered row: its invocation, and its completion. Ties: invocations first.
    row = np.concatenate((np.arange(len(f)), np.flatnonzero(answered)))
    ends = np.arange(len(row)) >= len(f)
    time = np.where(ends, over.take(row), begun.take(row))
    order = np.lexsort((line.take(row), ends, time))
    row, ends, time = row.take(order), ends.take(order), time.take(order)
    key, keys = rows.texts["key"]
    events = Block(
        line=line.take(row),
        number=np.zeros(len(row), np.int32),
        kind=np.where(ends, kinds.take(status.take(row)), INVOKE).astype(np.uint8),
        process=process.take(row),
        f=words.take(f.take(row)),
        key=key.take(kept).take(row),
        time=time,
        token=np.where(ends, token.take(row), NO_TOKEN),
        attempt=number["attempt"].take(row),
        shared=_shared(rows, kept).take(row),
        not_owner=ends & (status.take(row) == Status.NOT_OWNER),
        lease_ns=np.where(leased, np.maximum(_lease(number, len(f)), 0), 0).take(row),
    )
    return paired(events, None, Named(processes, names.numbered(), keys, ()))


def _meant(column: tuple[Rows, Sequence[str]], words: Mapping[str, int]) -> Rows:
    codes, texts = column
    meant = np.array([words.get(text, -1) for text in texts], np.int32).take(codes)
    if (meant < 0).any():
        raise Odd("a word that the column does not have")
    return meant


def _shared(rows: TableRows, kept: npt.NDArray[np.intp]) -> Bools:
    if "mode" not in rows.texts:
        return np.zeros(len(kept), bool)
    codes, texts = rows.texts["mode"]
    return np.array([text == "shared" for text in texts], bool).take(codes.take(kept))


def _lease(number: Mapping[str, Ints], length: int) -> Ints:
    return number["arg"] if "arg" in number else np.zeros(length, np.int64)


def _processes(
    client: Ints, begun: Ints, over: Ints, answered: Bools, clients: int
) -> tuple[Rows, list[int | str]]:
    """Codes of processes and what they mean: a client, or a lane of one whose calls overlap.

    As in the other exports, a call that begins before the last one of its lane has ended gets the
    next lane that is free, with the number client + lane * clients.
    """
    order = np.argsort(client, kind="stable")
    same = client[order[1:]] == client[order[:-1]]
    waits = answered[order[:-1]] & (over[order[:-1]] < begun[order[1:]])
    process = client.copy()
    for one in np.unique(client[order[1:]][same & ~waits]).tolist():
        free = list[int | None]()
        mine = order[np.searchsorted(client[order], one) :]
        mine = mine[client[mine] == one]
        for row, at, end, has in zip(
            *(column[mine].tolist() for column in (np.arange(len(client)), begun, over, answered)),
            strict=True,
        ):
            lane = next((n for n, t in enumerate(free) if t is not None and t < at), len(free))
            free[lane : lane + 1] = [end if has else None]
            process[row] = one + lane * clients
    numbers, codes = np.unique(process, return_inverse=True)
    return codes.astype(np.int32), numbers.tolist()


def whole(texts: Sequence[str]) -> Ints:
    """Whole numbers from texts that were checked. Odd if one has more than 64 bits."""
    try:
        numbers = np.array(list(map(int, texts)), np.int64)
    except (OverflowError, ValueError) as error:
        raise Odd("no whole number of 64 bits") from error
    return in_range(numbers)


def in_range(numbers: Ints) -> Ints:
    """The same numbers. Odd if one is outside of what a table may have."""
    if (numbers < -LARGEST).any():
        raise Odd("a number of more than 64 bits")
    return numbers
