"""Histories that are read to columns are the same as those read event by event: operations,
verdicts and refusals, for sound files and damaged ones.
"""

from __future__ import annotations

import io
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.registers import history

from holdfast import catalogue
from holdfast.checkers.linearizability.judgement import Budget, ModelJudgement
from holdfast.checkers.linearizability.unjudged import unjudged
from holdfast.harness.core import extras
from holdfast.harness.core.case import History
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.seeds import stream
from holdfast.harness.foreign import event_lines, parquet, read, write
from holdfast.harness.foreign.op_columns import OpColumns
from holdfast.harness.foreign.operations import ForeignOp, Malformed, keyed_apart
from tests.draws import Draws
from tests.harness.foreign.test_every_format import edn_event, of_threads, recorded
from tests.harness.foreign.test_every_format import events as any_events
from tests.harness.test_foreign_fuzz import BASES, damaged

MODELS = [name for name in catalogue.MODELS if ":" not in name]
Fields = dict[str, Any]


@pytest.fixture(params=[event_lines.BLOCK, 200], ids=["one block", "many blocks"])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are read at once."""
    monkeypatch.setattr(event_lines, "BLOCK", request.param)


def one_by_one(text: bytes, form: str) -> Sequence[ForeignOp] | str:
    """The operations event by event, or why the file is refused."""
    try:
        return read.one_by_one(io.BytesIO(text), "x", form).ops
    except Malformed as error:
        return f"x, {error.where}: {error.reason}"


def in_columns(text: bytes, form: str) -> Sequence[ForeignOp] | str:
    """The same as a user gets it."""
    try:
        return read.read_from(io.BytesIO(text), "x", form).ops
    except UsageError as error:
        return str(error)


def compared(text: bytes, form: str) -> str:
    """Asserts that both ways give the same; "refused", or by which way it was read."""
    wanted, got = one_by_one(text, form), in_columns(text, form)
    if isinstance(wanted, str) or isinstance(got, str):
        assert got == wanted, text
        return "refused"
    assert len(got) == len(wanted), text
    assert [got[at] for at in range(len(got))] == list(wanted), text
    assert repr(list(got)) == repr(list(wanted)), text  # True == 1, but they are not alike
    return "columns" if isinstance(got, OpColumns) else "one by one"


def registers(rng: random.Random) -> list[Fields]:
    """Reads and writes of one or two registers, mostly right, with values of all kinds."""
    made, busy, values = list[Fields](), dict[int, Fields](), dict[object, object]()
    keys: list[Mapping[str, object]] = rng.choice([[{}], [{"key": 0}, {"key": "x"}]])
    kinds: list[Callable[[int], object]] = [
        lambda n: n, lambda n: f"v{n}", lambda n: rng.randrange(3), lambda n: None
    ]  # fmt: skip
    value = rng.choice(kinds)
    for n in range(rng.randrange(4, 40)):
        process = rng.randrange(4)
        if process not in busy:
            fields: Fields = {"process": process, "type": "invoke", **rng.choice(keys)}
            fields |= {"f": rng.choice(["read", "write"]), "value": None}
            name = fields.get("key")
            if fields["f"] == "write":
                fields["value"] = value(n)
                if rng.random() < 0.7:
                    values[name] = fields["value"]
            busy[process] = fields
        else:
            begun = busy.pop(process)
            fields = begun | {"type": rng.choice(["ok", "ok", "ok", "ok", "info", "fail"])}
            if begun["f"] == "read":
                fields["value"] = values.get(begun.get("key"))
            else:
                values[begun.get("key")] = begun["value"]
        made.append(fields)
    return made


HISTORIES = {"any": any_events, "locks": of_threads, "registers": registers}
LINES = {"jsonl": lambda one: json.dumps(one, ensure_ascii=False), "edn": edn_event}


def vector(made: Sequence[Fields], brackets: str = "[]") -> str:
    """As Knossos writes a history: one vector, a map per line."""
    return brackets[0] + "\n ".join(map(edn_event, made)) + brackets[1] + "\n"


def document(rng: random.Random, made: Sequence[Fields]) -> bytes:
    """A JSON document: over one line or many, alone or in the field of an object."""
    fields: Fields = {"name": "x", "nodes": [1, {"a": []}]}
    whole: object = rng.choice([list(made), {"history": list(made)} | fields])
    whole = rng.choice([whole, fields | {"history": list(made)}])
    style: dict[str, Any] = rng.choice(
        [{}, {"indent": 1}, {"indent": 0}, {"separators": (",", ":")}, {"separators": (" ,", " :")}]
    )
    text = json.dumps(whole, ensure_ascii=False, **style)
    if rng.random() < 0.2:
        text = "[" + ",\n ".join(json.dumps(one, ensure_ascii=False) for one in made) + "]"
    return (text + rng.choice(["", "\n", "\r\n "])).encode()


@pytest.mark.usefixtures("block")
def test_documents_have_the_same_operations(draws: Draws) -> None:
    ways = Counter[tuple[str, str]]()
    for n in range(draws(3000)):
        rng = stream(13, "document", n)
        text = document(rng, HISTORIES[rng.choice(list(HISTORIES))](rng))
        ways["sound", compared(text, "json")] += 1
        ways["damaged", compared(damaged(rng, text), "json")] += 1
    assert ways["sound", "columns"] > 2 * ways["sound", "one by one"] > 0, ways
    assert min(ways["damaged", way] for way in ("refused", "columns")) > draws(50), ways


def logged(rng: random.Random) -> bytes:
    """A log as porcupine keeps those of Jepsen, of registers with compare-and-set."""
    lines = list(history(rng.randrange(3, 40), rng.choice((0, 0.3)), distinct=rng.random() < 0.5,
                         seed=rng.randrange(10**9)))  # fmt: skip
    text = "".join(lines).replace("  jepsen", rng.choice(["  jepsen", " jepsen", "\tx.y"]))
    return text.replace("\t", rng.choice(["\t", "\t", " ", "  "])).encode()


@pytest.mark.usefixtures("block")
def test_logs_have_the_same_operations(draws: Draws) -> None:
    ways = Counter[tuple[str, str]]()
    for n in range(draws(3000)):
        rng = stream(14, "log", n)
        text = logged(rng)
        ways["sound", compared(text, "porcupine")] += 1
        ways["damaged", compared(damaged(rng, text), "porcupine")] += 1
    assert ways.keys() >= {("sound", "columns")} and not ways["sound", "refused"], ways
    assert min(ways["damaged", way] for way in ("refused", "columns")) > draws(50), ways


@pytest.mark.parametrize(
    "value",
    ["nil", "-3", "00", "1.0", "[1 2]", "[1 nil]", "[1 2 3]", "[[1 2] 3]", ":timed-out", "true",
     "x", '"a"', "false", "123456789012345678901234567890", "[1 2]}", ":a}", "#{1}", "", "1 ; no"],
)  # fmt: skip
@pytest.mark.parametrize("f", [":read", ":cas", "cas", ":Cas"])
@pytest.mark.parametrize("kind", [":ok", ":fail", ":info", "ok"])
def test_lines_of_logs_that_are_unlike_others(value: str, f: str, kind: str) -> None:
    first = f"INFO  jepsen.util - 3\t:invoke\t{f}\t[1 2]\n"
    compared(f"{first}INFO  jepsen.util - 3\t{kind}\t{f}\t{value}\n".encode(), "porcupine")


EVENT = '{"process": 0, "type": "invoke", "f": "read"}'


@pytest.mark.parametrize(
    "text",
    [
        "[EVENT,]", "[,EVENT]", "[EVENT,,EVENT]", "[EVENT EVENT]", "[EVENT, 3]", "[3, EVENT]",
        "[EVENT, [EVENT]]", "[[EVENT]]", "[EVENT]]", "[EVENT", "[EVENT}", "[]", "[EVENT] [EVENT]",
        "[EVENT] EVENT", "EVENT [EVENT]", '{"history": [EVENT]', '{"history": [EVENT]}}',
        '{"a": {"history": [EVENT]}}', '{"a": 1 "history": [EVENT]}', '{"a": NaN, "history": []}',
        '{"history": [EVENT], "history": [EVENT]}', '{"history": [EVENT], "a": "\\u00e9"}',
        '[{"process": 0, "type": "invoke", "f": "a,b}{][\\"", "key": "]"}]',
        '[{"process": 0, "type": "invoke", "f": "a,b}{][", "key": ",{"}, EVENT]',
        '[EVENT, {"process": 0, "type": "ok", "f": "read", "value": [{"a": "}"}, [1]]}]',
    ],
)  # fmt: skip
@pytest.mark.parametrize("block", [30, 60, 1 << 18])
def test_documents_of_unusual_form(text: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_lines, "BLOCK", block)
    for event in (EVENT, EVENT.replace(": ", ":\n")):
        compared(text.replace("EVENT", event).encode(), "json")
        compared(b"\xef\xbb\xbf \n" + text.replace("EVENT", event).encode(), "json")


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.usefixtures("block")
def test_operations_are_the_same(name: str, draws: Draws) -> None:
    ways = Counter[tuple[str, str]]()
    for seed in range(draws(600)):
        made = HISTORIES[name](random.Random(seed))
        for form, line in LINES.items():
            text = "".join(f"{line(one)}\n" for one in made)
            ways[form, compared(text.encode(), form)] += 1
        ways["vector", compared(vector(made).encode(), "edn")] += 1
    assert min(ways[one, "columns"] for one in ("jsonl", "edn", "vector")) > 50, ways


@pytest.mark.usefixtures("block")
def test_damaged_files_are_refused_alike(draws: Draws) -> None:
    ways = Counter[str]()
    for n in range(draws(6000)):
        rng = stream(11, "columns", n)
        form, line = rng.choice(list(LINES.items()))
        if rng.random() < 0.3:
            form, text = rng.choice([base for base in BASES.values() if base[0] in LINES])
        else:
            made = HISTORIES[rng.choice(list(HISTORIES))](rng)
            text = "".join(f"{line(one)}\n" for one in made).encode()
            if form == "edn" and rng.random() < 0.5:
                text = vector(made, rng.choice(["[]", "()", "[)"])).encode()
        ways[compared(damaged(rng, text), form)] += 1
    assert min(ways["refused"], ways["columns"], ways["one by one"]) > draws(20), ways


def judged(ops: Sequence[ForeignOp], model: str) -> ModelJudgement | str:
    """What a model says, or why it does not judge them."""
    try:
        judge = load(catalogue.MODELS[model].entry)
        judgement = judge(keyed_apart(ops), Budget(configurations=2000))
        assert isinstance(judgement, ModelJudgement)
    except UsageError as error:
        return str(error)
    return judgement


@pytest.mark.parametrize("name", HISTORIES)
def test_verdicts_are_the_same(name: str, draws: Draws) -> None:
    verdicts = Counter[str]()
    for seed in range(draws(1500)):
        rng = random.Random(seed)
        made = HISTORIES[name](rng)
        text = "".join(f"{json.dumps(one)}\n" for one in made).encode()
        ops, each = in_columns(text, "jsonl"), one_by_one(text, "jsonl")
        if isinstance(ops, str) or isinstance(each, str):
            continue
        for model in ("register", "mutex", "lease-mutex", rng.choice(MODELS)):
            wanted = judged(each, model)
            assert judged(ops, model) == wanted, (seed, model)
            assert unjudged(ops, model) == unjudged(each, model)
            if isinstance(wanted, ModelJudgement):
                verdicts[str(wanted.verdict)] += 1
    if name == "any":
        return
    assert min(verdicts["HOLDS"], verdicts["VIOLATED"]) > 20, verdicts


@pytest.mark.parametrize(
    "line",
    [
        "{:process 0, :type :invoke, :f :read, :value nil, :value nil}",
        "{:process 0, :type :invoke, :f :read, :x 1, :x 2}",
        "{:process 0, :type :invoke, :f :read, :value null}",
        '{"process": 0, "type": "invoke", "f": "read"}',
        '{:process 0, :type :invoke, :f :read, :value "a :key 7, :f :x}"}',
        '{:process 0, :type :invoke, :f :read, :key "nil", :value " nil"}',
        "{:process 0, :type :invoke, :f :read, :value [1 [2 nil]]}",
        "{:process 0, :type :invoke, :f :read, :value [[1 2] [3 4]]}",
        "{:process 0, :type :invoke, :f :read, :value :a/b, :key :nil}",
        "{:process 0, :type :invoke, :f :read, :value 007}",
        "{:process 0, :type :invoke, :f :read, :value 1N, :error :not-held}",
        "{:process :3, :type :invoke, :f ::read, :key 1.0}",
        "{:process 0 :type :invoke :f :read :value 1e5}",
        "{:process 0, :type :invoke, :f :read} ; a remark",
        "{:process 0, :type :invoke, :f :read}, {:process 1, :type :invoke, :f :read}",
        "{:process 0, :type :invoke,\n:f :read}",
        "#_ {:process 0, :type :invoke, :f :read}\n{:process 1, :type :invoke, :f :read}",
        '{:process 0, :type :invoke, :f :read, :value "a\n{b}\n{c"}',
    ],
)
def test_maps_of_edn_that_are_unlike_json_objects(line: str) -> None:
    end = "{:process 9, :type :invoke, :f :read}\n"
    compared(f"{line}\n".encode(), "edn")
    compared(f"{end}{line}\n{end}".encode(), "edn")
    compared(f"{line}\n{end}".encode(), "edn")


@pytest.mark.parametrize(
    "fields",
    [
        '"x": 1e999', '"x": "\\ud800"', '"x": [[1], {"a": {}}]', '"value": 1e999',
        '"time": 1.0', '"time": true', '"time": -1', '"time": 9223372036854775808',
        '"process": 0, "process": 1', '"process": true', '"process": "nemesis"',
        '"key": null, "lock": 3', '"key": true', '"key": [1]', '"key": 1.0', '"attempt": false',
        '"attempt": "7"', '"token": -2', '"token": null', '"mode": ":shared"', '"mode": "x"',
        '"lease_ns": null', '"error": [1]', '"value": ' + "[" * 400 + "]" * 400,
        '"value": ' + "[" * 3000 + "]" * 3000, '"value": 123456789012345678901234567890',
        '"value": ' + '{"a": ' * 480 + "1" + "}" * 480,
    ],
)  # fmt: skip
def test_fields_of_json_that_are_not_plain(fields: str) -> None:
    line = '{"process": 0, "type": "invoke", "f": "read", %s}\n' % fields  # noqa: UP031
    answer = '{"process": 0, "type": "ok", "f": "read"}\n'
    compared(line.encode(), "jsonl")
    compared((line + answer).encode(), "jsonl")
    other = '{"process": 8, "type": "invoke", "f": "read", "key": 1, "attempt": 7}\n'
    compared((other + line).encode(), "jsonl")
    compared(line.encode().replace(b"}\n", b"}{}\n"), "jsonl")
    compared(f"[{line.rstrip()},{answer.rstrip()}]".encode(), "json")


def test_bytes_that_are_no_text_are_refused_alike() -> None:
    line = b'{"process": 0, "type": "invoke", "f": "read", "x": "\xff"}\n'
    assert compared(line, "jsonl") == "refused"
    assert compared(line.replace(b'"x": ', b":x "), "edn") == "refused"
    assert compared(b"\xef\xbb\xbf" + line.replace(b"\xff", b"y"), "jsonl") == "columns"
    assert compared(line.replace(b"\xff", b"y") + b"\xef\xbb\xbf" + line, "jsonl") == "refused"


def test_a_million_lines_make_no_object_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation is made an object only for a finding: counted, for a thousand operations."""
    made = list[int]()
    real = OpColumns._made

    def counting(self: OpColumns, rows: Any) -> Iterator[ForeignOp]:
        made.append(len(rows))
        return real(self, rows)

    monkeypatch.setattr(OpColumns, "_made", counting)
    fields: Fields = {"process": 3, "key": "db"}
    text = "".join(
        json.dumps(fields | {"type": kind, "f": f, "attempt": n, "token": n}) + "\n"
        for n in range(500)
        for f in ("acquire", "release")
        for kind in ("invoke", "ok")
    )
    for model in ("owner-mutex", "fenced", "lease-mutex", "semaphore:2"):
        ops = in_columns(text.encode(), "jsonl")
        assert not isinstance(ops, str)
        judge = (
            load(catalogue.MODELS["semaphore:N"].entry)("2")
            if ":" in model
            else load(catalogue.MODELS[model].entry)
        )
        assert len(keyed_apart(ops)) == 1000
        assert judge(ops).verdict == "HOLDS"
        assert not unjudged(ops, model)
    assert sum(made) <= 4, made  # the first alone, to see whether values are pairs


def test_tables_have_the_same_operations(draws: Draws) -> None:
    ways = Counter[tuple[str, str]]()
    for seed in range(draws(600)):
        rng = random.Random(seed)
        made = recorded(rng)
        text = "".join(write.FORMATS["csv"](made, {})).encode()
        ways["sound", compared(text, "csv")] += 1
        ways["damaged", compared(damaged(rng, text), "csv")] += 1
        if extras.problem("pyarrow") is None:
            ways["sound", compared(as_parquet(made), "parquet")] += 1
            ways["damaged", compared(damaged(rng, as_parquet(made)), "parquet")] += 1
    assert ways["sound", "columns"] > 50 and ways["damaged", "refused"] > 5, ways
    assert not ways["sound", "refused"] and not ways["sound", "one by one"], ways


def as_parquet(made: History) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.parquet"
        parquet.write_parquet(made, path)
        return path.read_bytes()


def test_a_status_that_no_row_has_is_refused() -> None:
    text = "f,status,process,key,t_inv,t_ret,attempt,token\nacquire,empty,1,db,1,2,3,4\n"
    assert compared(text.encode(), "csv") == "refused"
