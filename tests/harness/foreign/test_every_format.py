"""One history in every format: the same operations, and the same refusals with their lines."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast.foreign import judge_foreign
from holdfast.harness.core.case import MERGED_DTYPE, History
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status
from holdfast.harness.core.verdict import Verdict
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
    return [replace(one, line=0, end_line=0, event=0, end_event=0) for one in found]


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
        assert list(ops(text)) == list(ops("\n".join(map(edn_event, plain))))


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


@pytest.mark.parametrize("name", PRINTED)
def test_a_process_has_a_clock_of_its_own_in_every_format(name: str) -> None:
    """Events that two threads timestamp are written in an order that their times may not have."""
    made: list[Fields] = [
        {"process": 0, "type": "invoke", "f": "read", "time": 5},
        {**NEMESIS, "time": 1},
        {"process": 1, "type": "invoke", "f": "read", "time": 4},
        {"process": 1, "type": "ok", "f": "read", "time": 4},
    ]
    assert [one.begin for one in ops(PRINTED[name](made))] == [0, 1]
    made[3]["time"] = 3
    assert "time goes backwards: process 1 is at 3, and was at 4" in refused(
        PRINTED[name](made), "auto"
    )


@pytest.mark.parametrize(
    ("name", "where", "first"),
    [
        ("jsonl", "line 3", "line 1"),
        ("jsonl with blank lines", "line 5", "line 1"),
        ("json array", "event 3, line 1", "event 1"),
        ("json of a test", "event 3, line 20", "event 1"),
        ("json over lines", "event 3, line 17", "event 1"),
        ("edn", "line 3", "line 1"),
        ("edn vector", "event 3, line 1", "event 1"),
    ],
)
def test_an_impossible_event_is_named_by_its_number_where_its_line_does_not_tell_it(
    name: str, where: str, first: str
) -> None:
    """Number 2 is the nemesis's: the events of the document are counted, not those of clients."""
    made: list[Fields] = [{"process": 0, "type": "invoke", "f": "read"}, NEMESIS]
    again = PRINTED[name]([*made, made[0]])
    assert refused(again, "auto") == (
        f"x, {where}: process 0 invokes read while its read of {first} is still open:"
        " two concurrent invocations"
    )
    wrong = PRINTED[name]([*made, {**made[0], "type": "begin"}])
    assert refused(wrong, "auto").startswith(f"x, {where}: invalid type 'begin'")
    done = ops(PRINTED[name]([*made, {**made[0], "type": "ok"}]))[0]
    assert done.where == first
    assert done.end_place == int(where.split()[1].rstrip(","))


LOCKS = ("mutex", "owner-mutex", "lease-mutex", "reentrant", "semaphore:2", "rw")


def of_threads(rng: random.Random) -> list[Fields]:
    """A history of up to four threads, each with a clock that is some steps off the others'."""
    off, busy = [rng.randrange(9) for _ in range(4)], dict[int, Fields]()
    found, holds, attempts = list[Fields](), dict[int, int](), 0
    named = rng.random() < 0.5
    for n in range(rng.randrange(6, 40)):
        process = rng.randrange(4)
        fields: Fields = {"process": process, "time": 4 * n + off[process], "key": "db"}
        if process in busy:
            begun = busy.pop(process)
            kind = rng.choice(["ok", "ok", "ok", "fail"])
            if kind == "ok" and begun["f"] == "acquire":
                holds[process] = begun.get("attempt", 0)
            elif kind == "ok":
                holds.pop(process)
            fields = begun | fields | {"type": kind}
        else:
            fields |= {"type": "invoke", "f": "release" if process in holds else "acquire"}
            attempts += 1
            if named:
                fields["attempt"] = holds.get(process, attempts)
            busy[process] = fields
        found.append(fields)
    return found


def as_table(made: Sequence[Fields]) -> str:
    """The same operations as a table, which has only times for an order: those of the events."""
    rows, opened = list[list[object]](), dict[int, list[object]]()
    for at, one in enumerate(made):
        if one["type"] == "invoke":
            row: list[object] = [one["f"], "invoked", one["process"], one["key"], at, 0]
            opened[one["process"]] = row = [*row, one.get("attempt", -1), -1]
            rows.append(row)
        else:
            opened[one["process"]][1:6:4] = [one["type"], at]
    head = "f,status,process,key,t_inv,t_ret,attempt,token\n"
    return head + "".join(f"{','.join(map(str, row))}\n" for row in rows)


def judged(found: Sequence[ForeignOp], model: str) -> tuple[object, ...]:
    """What a model says of a history, with places as the numbers of its operations."""
    number = {op.place: n for n, op in enumerate(found)} | {
        op.end_place: n for n, op in enumerate(found) if op.end_place
    }
    said = judge_foreign.model_of(model)(found)
    told = [(one.kind, [number[at] for at in one.witnesses]) for one in said.findings]
    return said.verdict, told, dict(said.exercised)


def test_the_same_threads_are_judged_alike_in_every_format() -> None:
    verdicts = Counter[object]()
    for seed in range(150):
        made = of_threads(random.Random(seed))
        model = LOCKS[seed % len(LOCKS)]
        wanted = judged(ops(PRINTED["edn"](made)), model)
        verdicts[wanted[0]] += 1
        for name, text in PRINTED.items():
            assert judged(ops(text(made)), model) == wanted, (seed, name)
        if "attempt" in made[0]:
            assert judged(ops(as_table(made)), model) == wanted, seed
    assert verdicts[Verdict.HOLDS] > 20 and verdicts[Verdict.VIOLATED] > 20


def test_an_overlapping_call_has_the_same_process_in_a_table_as_in_the_other_exports() -> None:
    for seed in range(15):
        made = recorded(random.Random(seed))
        found = [[one.process for one in ops("".join(w(made, {})))] for w in write.FORMATS.values()]
        assert found[0] == found[1] == found[2]


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
    where = "event 1, line 1" if text == "[7]" else "line 1"
    assert refused(text, form) == f"x, {where}: {said}"


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
        found = ops("".join(text(made, {})))
        assert [one.attempt for one in found] == [*range(1, len(made.rows) + 1)], form
        for one, row in zip(found, made.rows, strict=True):
            status = Status(int(row["status"]))
            granted = status is Status.OK and one.f == "acquire"
            assert one.status is (Status.INFO if status is Status.INVOKED else status)
            assert (one.f, one.key) == (write.FS[Op(int(row["f"]))], 'a "b"\né')
            assert one.token == (row["token"] if granted else NO_TOKEN)
            assert one.shared == (row["mode"] == Mode.SHARED)
    assert read.FORMATS.keys() >= write.FORMATS.keys()
