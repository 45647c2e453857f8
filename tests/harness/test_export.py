"""Exported histories: every call as two events in order, each row as a line of a table."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from holdfast.harness.core.case import MERGED_DTYPE, History
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status
from holdfast.harness.foreign import write
from holdfast.harness.foreign.write import events

STRINGS = ("", "db", "no majority")
Row = tuple[Op, int, int, int, Status]


def history(*rows: Row) -> History:
    """Rows of (op, process, t_inv, t_ret, status), on one lock."""
    table = np.zeros(len(rows), MERGED_DTYPE)
    for n, (op, process, t_inv, t_ret, status) in enumerate(rows):
        one = table[n]
        one["f"], one["process"], one["t_inv"], one["t_ret"] = op, process, t_inv, t_ret
        one["status"], one["key"], one["token"], one["attempt"] = status, 1, NO_TOKEN, n + 1
        one["row"] = n
    return History(rows=table, strings=STRINGS, writers=("c1",))


def told(found: History) -> list[tuple[object, ...]]:
    return [(one["time"], one["process"], one["type"], one["f"]) for one in events(found)]


def test_calls_are_two_events_by_time_and_at_ties_invocations_come_first() -> None:
    found = history(
        (Op.ACQUIRE, 1, 0, 20, Status.OK),
        (Op.TRY, 2, 20, 30, Status.FAIL),
        (Op.RELEASE, 1, 25, 40, Status.NOT_OWNER),
    )
    assert told(found) == [
        (0, 1, "invoke", "acquire"),
        (20, 2, "invoke", "acquire"),
        (20, 1, "ok", "acquire"),
        (25, 1, "invoke", "release"),
        (30, 2, "fail", "acquire"),
        (40, 1, "fail", "release"),
    ]


def test_a_call_without_a_response_has_no_completion_and_keeps_its_process_busy() -> None:
    found = history(
        (Op.RENEW, 1, 0, 0, Status.INVOKED),
        (Op.RELEASE, 1, 5, 9, Status.INFO),
        (Op.ACQUIRE, 1, 9, 12, Status.OK),
        (Op.ACQUIRE, 1, 13, 14, Status.OK),
    )
    first, *others = told(found)
    assert first == (0, 1, "invoke", "renew")
    # Two processes of the run (0 and 1), so that each lane is two further on; one that returns at
    # the same time is not free yet.
    assert [(process, kind) for _, process, kind, _ in others] == [
        (3, "invoke"), (5, "invoke"), (3, "info"), (5, "ok"), (3, "invoke"), (3, "ok"),
    ]  # fmt: skip


def test_rows_of_other_operations_are_left_out() -> None:
    kept = (Op.ACQUIRE, Op.TRY, Op.PROBE, Op.RENEW, Op.RELEASE)
    found = history(*((op, 1, 10 * op, 10 * op + 1, Status.OK) for op in Op))
    assert len(told(found)) == 2 * len(kept)
    assert told(history()) == []


@pytest.mark.parametrize(
    ("op", "status", "err", "extra"),
    [
        (Op.ACQUIRE, Status.OK, 0, {"token": 7}),
        (Op.ACQUIRE, Status.FAIL, 2, {"error": "no majority"}),
        (Op.RELEASE, Status.OK, 0, {}),
        (Op.RELEASE, Status.NOT_OWNER, 2, {"error": "not-owner"}),
        (Op.RENEW, Status.INFO, 2, {"error": "no majority"}),
    ],
)
def test_a_completion_has_the_token_of_a_grant_and_the_error(
    op: Op, status: Status, err: int, extra: dict[str, object]
) -> None:
    found = history((op, 1, 1, 2, status))
    found.rows["token"], found.rows["err"], found.rows["mode"] = 7, err, Mode.SHARED
    begun, ended = events(found)
    assert begun["mode"] == "shared" and begun["key"] == "db" and begun["attempt"] == 1
    assert ended == {**begun, "type": write.KINDS[status], "time": 2, **extra}


def test_lines_of_json_and_edn_have_the_same_fields() -> None:
    found = history((Op.ACQUIRE, 1, 1, 2, Status.OK))
    begun, ended = map(json.loads, write.jsonl(found))
    assert [begun, ended] == list(events(found))
    assert next(iter(write.edn(found))) == (
        '{:process 1, :type :invoke, :f :acquire, :key "db", :time 1, :attempt 1}\n'
    )


def test_the_table_has_every_row_with_words_for_numbers() -> None:
    found = history((Op.ACQUIRE, 1, 1, 2, Status.FAIL), (Op.SERVED_WRITE, 0, 3, 4, Status.OK))
    found.rows["err"][0], found.rows["mode"][0] = 2, Mode.PERMITS
    first, second = csv.DictReader(write.table(found))
    assert (first["f"], first["status"], first["mode"]) == ("acquire", "fail", "permits")
    assert (first["key"], first["err"], first["writer"]) == ("db", "no majority", "c1")
    assert (second["f"], second["t_inv"], second["token"]) == ("served_write", "3", "-1")
