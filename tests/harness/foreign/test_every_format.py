"""One history in every format: the same operations, and the same refusals with their lines."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast.harness.core.case import MERGED_DTYPE, History
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status
from holdfast.harness.foreign import read, write
from holdfast.harness.foreign.operations import ForeignOp
from holdfast.harness.foreign.read import read_from

Fields = dict[str, Any]
NEMESIS: Fields = {"process": "nemesis", "type": "info", "f": "kill", "value": [1, {"a": None}]}


def ops(text: str, form: str = "auto") -> Sequence[ForeignOp]:
    return read_from(io.BytesIO(text.encode()), "x", form).ops


def refused(text: str, form: str) -> str:
    with pytest.raises(UsageError) as told:
        ops(text, form)
    return str(told.value)


def events(rng: random.Random) -> list[Fields]:
    """A possible history of up to three processes, with events of the nemesis in between."""
    busy, found = dict[int, str](), list[Fields]()
    for n in range(rng.randrange(2, 25)):
        process = rng.randrange(3)
        if rng.random() < 0.2:
            found.append(NEMESIS)
        fields: Fields = {"process": process, "time": 3 * n}
        if process not in busy:
            busy[process] = f = rng.choice(["acquire", "release", "read"])
            fields |= {"type": "invoke", "f": f, "value": rng.choice([None, n, [n, 'a"b']])}
            fields |= rng.choice([{}, {"key": "db"}, {"lock": "é"}, {"mode": "shared"}])
        else:
            fields |= {"type": rng.choice(["ok", "fail", "info"]), "f": busy.pop(process)}
            fields |= rng.choice([{}, {"token": n}, {"attempt": n}, {"error": "not-owner"}])
            fields |= rng.choice([{}, {"value": True}, {"value": {"a": [1, False]}}])
        found.append(fields)
    return found if any(one["process"] != "nemesis" for one in found) else events(rng)


def edn_value(value: object) -> str:
    if isinstance(value, list):
        return f"[{' '.join(map(edn_value, value))}]"
    if isinstance(value, dict):
        return f"{{{' '.join(f'{json.dumps(k)} {edn_value(v)}' for k, v in value.items())}}}"
    if value is None:
        return "nil"
    return json.dumps(value, ensure_ascii=False)


def edn_event(fields: Mapping[str, Any]) -> str:
    parts = []
    for name, value in fields.items():
        word = name in ("type", "f", "mode") or value == "nemesis"
        parts.append(f":{name} {f':{value}' if word else edn_value(value)}")
    return f"{{{', '.join(parts)}}}"


PRINTED: dict[str, Callable[[list[Fields]], str]] = {
    "jsonl": lambda every: "".join(f"{json.dumps(one)}\n" for one in every),
    "jsonl with blank lines": lambda every: "\ufeff" + "".join(
        f"{json.dumps(one)}\r\n \n" for one in every
    ),
    "json array": json.dumps,
    "json of a test": lambda every: json.dumps({"name": "x", "history": every}, indent=1),
    "json over lines": lambda every: "\n".join(json.dumps(one, indent=2) for one in every),
    "edn": lambda every: "\n".join(map(edn_event, every)),
    "edn vector": lambda every: f"[{' '.join(map(edn_event, every))}]",
    "edn of a test": lambda every: f"{{:name 1 :history ({', '.join(map(edn_event, every))})}}",
}  # fmt: skip


def without_lines(found: Sequence[ForeignOp]) -> list[ForeignOp]:
    return [replace(one, line=0, end_line=0) for one in found]


@pytest.mark.parametrize("seed", range(25))
def test_a_random_history_is_the_same_in_every_format(seed: int) -> None:
    made = events(random.Random(seed))
    lines = "".join(f"{json.dumps(one)}\n" for one in made)
    wanted = without_lines(ops(lines, "jsonl"))
    asked = [one for one in made if one["type"] == "invoke"]
    assert [(one.process, one.f) for one in wanted] == [(one["process"], one["f"]) for one in asked]
    assert [one.key for one in wanted] == [one.get("key", one.get("lock")) for one in asked]
    assert [one.shared for one in wanted] == ["mode" in one for one in asked]
    for name, text in PRINTED.items():
        assert without_lines(ops(text(made))) == wanted, name


def test_the_line_of_an_operation_is_that_of_its_event_in_every_format() -> None:
    made: list[Fields] = [
        {"process": 0, "type": "invoke", "f": "read"}, NEMESIS,
        {"process": 0, "type": "ok", "f": "read"},
    ]  # fmt: skip
    lines = {"jsonl": (1, 3), "jsonl with blank lines": (1, 5), "json array": (1, 1),
             "json of a test": (4, 20), "json over lines": (1, 17), "edn": (1, 3),
             "edn vector": (1, 1)}  # fmt: skip
    found = {name: ops(PRINTED[name](made)) for name in lines}
    assert {name: (one[0].line, one[0].end_line) for name, one in found.items()} == lines


def test_an_etcd_log_has_the_same_operations_as_its_events_in_edn() -> None:
    for seed in range(20):
        made = [one for one in events(random.Random(seed)) if one is not NEMESIS]
        plain = [{k: one.get(k) for k in ("process", "type", "f", "value")} for one in made]
        text = "\n".join(
            f"INFO  jepsen.util - {one['process']}\t:{one['type']} :{one['f']}\t"
            f" {edn_value(one['value'])}"
            for one in plain
        )
        assert ops(text) == ops("\n".join(map(edn_event, plain)))


@pytest.mark.parametrize(
    ("value", "kind", "status", "result"),
    [
        ("[1 2]", "fail", Status.OK, False),
        ("[1 2]", "ok", Status.OK, (1, 2)),
        ("[1 2]", "info", Status.INFO, (1, 2)),
        (":timed-out", "fail", Status.FAIL, ":timed-out"),
    ],
)
def test_a_cas_of_an_etcd_log_that_failed_by_its_comparison_has_that_as_its_result(
    value: str, kind: str, status: Status, result: Hashable
) -> None:
    log = f"INFO jepsen.util - 0 :invoke :cas [1 2]\nINFO jepsen.util - 0 :{kind} :cas {value}\n"
    (found,) = ops(log)
    assert (found.status, found.result) == (status, result)
    (found,) = ops(log.replace(":cas", ":write"))
    assert found.status is {"ok": Status.OK, "fail": Status.FAIL}.get(kind, Status.INFO)


@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_events_of_json_have_one_clock_and_those_of_edn_one_per_process(form: str) -> None:
    made: list[Fields] = [
        {"process": 0, "type": "invoke", "f": "read", "time": 5},
        {**NEMESIS, "time": 1},
        {"process": 1, "type": "invoke", "f": "read", "time": 4},
    ]
    assert refused(PRINTED["jsonl"](made), form) == "x, line 3: time goes backwards: 4 after 5"
    assert len(ops(PRINTED["edn"](made))) == 2
    made[2]["time"] = 5
    assert len(ops(PRINTED["jsonl"](made), form)) == 2


@pytest.mark.parametrize(
    ("text", "form", "said"),
    [
        ("[1 2]", "edn", "expected a map per event"),
        ("7", "jsonl", "expected a JSON object per line"),
        ("[7]", "json", "expected an object per event"),
        ('{"a": 1', "jsonl", "not a JSON object: Input data was truncated"),
        ('{"process": "nemesis"}\n{"process": "nemesis"}', "jsonl", "no operation of a client"),
        ('{"process": 1}', "jsonl", "missing type in this event"),
        ("{:process 1 :type :ok}", "edn", "missing f in this event"),
        ("INFO jepsen.util + 3 :invoke :read nil", "porcupine",
         "expected `INFO jepsen.util - process type f value`: truncated?"),
        ("DEBUG", "porcupine", "unexpected 'DEBUG': expected INFO"),
        ("INFO jepsen.util - 3 :invoke :read nil 7", "porcupine",
         "5 fields: expected process, type, f, value"),
        ("", "csv", "missing column f, status, process, key, t_inv, t_ret, attempt, token:"
         " expected a table of holdfast export"),
        ("", "json", "no operation of a client"),
    ],
)  # fmt: skip
def test_what_is_no_event_is_told_with_the_file_and_the_line(
    text: str, form: str, said: str
) -> None:
    assert refused(text, form) == f"x, line 1: {said}"


def test_a_byte_order_mark_is_one_at_the_beginning_only() -> None:
    line = '{"process": 0, "type": "invoke", "f": "read"}\n'
    assert len(ops(f"\ufeff{line}", "jsonl")) == 1
    said = refused(f"{line}\ufeff{line}", "jsonl")
    assert said.startswith("x, line 2: not a JSON object: ")


def recorded(rng: random.Random) -> History:
    """Random lock operations of three clients; calls of one client may overlap."""
    count = rng.randrange(1, 25)
    rows = np.zeros(count, MERGED_DTYPE)
    for n, row in enumerate(rows):
        row["f"], row["process"], row["key"] = rng.choice([*write.FS]), rng.randrange(3), 1
        row["status"] = rng.choice([*write.KINDS, Status.INVOKED])
        row["t_inv"], row["attempt"], row["token"] = 10 * n, n + 1, rng.choice([NO_TOKEN, n])
        row["mode"] = rng.choice([Mode.EXCLUSIVE, Mode.SHARED])
        row["t_ret"] = 0 if row["status"] == Status.INVOKED else 10 * n + rng.randrange(1, 60, 3)
    return History(rows=rows, strings=("", 'a "b"\né'), writers=("c1",))


@pytest.mark.parametrize("seed", range(15))
def test_an_export_is_read_back_as_the_operations_of_the_run(seed: int) -> None:
    made = recorded(random.Random(seed))
    for form, text in write.FORMATS.items():
        found = ops("".join(text(made)))
        assert [one.attempt for one in found] == [*range(1, len(made.rows) + 1)], form
        for one, row in zip(found, made.rows, strict=True):
            status = Status(int(row["status"]))
            granted = status is Status.OK and one.f == "acquire"
            assert one.status is (Status.INFO if status is Status.INVOKED else status)
            assert (one.f, one.key) == (write.FS[Op(int(row["f"]))], 'a "b"\né')
            assert one.token == (row["token"] if granted else NO_TOKEN)
            assert one.shared == (row["mode"] == Mode.SHARED)
    assert read.FORMATS.keys() >= write.FORMATS.keys()
