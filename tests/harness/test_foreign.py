"""Foreign histories are read as they stand; what is wrong with one is told with its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Status
from holdfast.harness.foreign.edn import CHUNK, forms
from holdfast.harness.foreign.operations import OPEN, ForeignOp
from holdfast.harness.foreign.read import read_history

EDN = """[{:process 0, :type :invoke, :f :acquire, :value nil, :time 10}
 ; a word between
 {:process 1, :type :invoke, :f :acquire, :value nil, :time 11}
 {:process 0, :type :ok, :f :acquire, :value nil, :time 12, :token 7}
 #_ {:process 9}
 {:process :nemesis, :type :info, :f :start, :value #inst "2020-01-01"}
 {:process 1, :type :fail, :f :acquire, :value nil, :time 13, :error #{:held [1 2.5 "a\\"\\u00e9"]}}
 {:process 0, :type :invoke, :f :release, :value nil, :time 14}]
"""


def written(folder: Path, text: str | bytes, name: str = "history") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def ops_of(folder: Path, text: str | bytes, form: str = "auto") -> list[ForeignOp]:
    return list(read_history(written(folder, text), form).ops)


def test_an_edn_history_is_read_with_tokens_and_unknown_outcomes(tmp_path: Path) -> None:
    granted, refused, released = ops_of(tmp_path, EDN)
    assert (granted.process, granted.status, granted.token) == (0, Status.OK, 7)
    assert (granted.begin, granted.end, granted.line, granted.end_line) == (0, 2, 1, 4)
    assert refused.status is Status.FAIL
    assert (released.status, released.end, released.end_line) == (Status.INFO, OPEN, 0)


@pytest.mark.parametrize(
    ("before", "after"),
    [("[", ""), ("[", "("), ("\n {", ",{"), ("{:process", "#jepsen.history.Op{:process")],
)
def test_one_history_may_be_printed_in_many_ways(tmp_path: Path, before: str, after: str) -> None:
    plain = EDN.replace(" ; a word between\n", "")
    text = plain.replace(before, after, 1 if before == "[" else -1)
    if before == "[":
        text = text.rstrip()[:-1] + (")" if after else "")
    kept = [(op.process, op.f, op.begin, op.end, op.status) for op in ops_of(tmp_path, text)]
    first = [(op.process, op.f, op.begin, op.end, op.status) for op in ops_of(tmp_path, EDN)]
    assert kept == first


ODD: dict[str, Callable[[str], str]] = {
    "a byte order mark and lines of Windows": lambda text: "\ufeff" + text.replace("\n", "\r\n"),
    "maps with a namespace": lambda text: text.replace("{:process", "#:op{:process"),
    "records of Knossos": lambda text: text.replace("{:process", "#knossos.op.Op {:process"),
    "a comment at the end": lambda text: text + "; no more",
    "fields that nobody knows": lambda text: text.replace(
        ":time", ":index 3, :x/y {:a #{##Inf}}, :time"
    ),
    "a discarded value": lambda text: text.replace(":type", '#_ #inst "2020" #_ [1 {}] :type'),
    "a nemesis without words": lambda text: "{:process :nemesis, :type :sleep, :f nil}" + text,
    "one list": lambda text: f"({text})",
    "a map around all": lambda text: f'{{:name "a" :history [{text}] :valid? true}}',
    "a map around all, with a tag": lambda text: f"#t/Test{{:opts [1 [2]] :history #t/H ({text})}}",
    "metadata before all": lambda text: f'^{{:line 7, :history [1]}} ^:x #^"T" [{text}]',
    "metadata before each": lambda text: text.replace("{:process", "^{:line [3]} {:process"),
    "metadata of values": lambda text: text.replace("nil,", "^:private nil,"),
    "a quote": lambda text: f"'({text})",
    "a discarded history before": lambda text: f"#_[{{:a 1}} 2] #_{{:history [3]}} [{text}]",
    "a nemesis with a history": lambda text: text + "{:process :nemesis, :history [{:a 1}]}",
}


@pytest.mark.parametrize("oddity", ODD)
def test_oddities_of_edn_change_nothing(tmp_path: Path, oddity: str) -> None:
    plain = EDN.strip()[1:-1]
    kept = [(op.process, op.f, op.status, op.token) for op in ops_of(tmp_path, ODD[oddity](plain))]
    assert kept == [(op.process, op.f, op.status, op.token) for op in ops_of(tmp_path, plain)]


@pytest.mark.parametrize(
    "text",
    [
        '{"process": 0, "type": "invoke", "f": "read"}\n{"process": "nemesis"}\n',
        "INFO  jepsen.util - 0 :invoke :read nil\nINFO  jepsen.util - :nemesis :info nil nil\n",
    ],
)
def test_lines_may_begin_with_a_byte_order_mark(tmp_path: Path, text: str) -> None:
    (op,) = ops_of(tmp_path, "\ufeff" + text.replace("\n", "\r\n"))
    assert (op.process, op.f) == (0, "read")


def test_values_keep_their_shape(tmp_path: Path) -> None:
    text = "".join(
        f"{{:process {n} :type :invoke :f :write :value {value}}}\n"
        for n, value in enumerate(["nil", "-3", "2.5e1", '"a b"', ":x", "[1 (2)]", "#{1}", "true"])
    )
    values = [op.value for op in ops_of(tmp_path, text)]
    assert values == [None, -3, 25.0, "a b", ":x", (1, (2,)), frozenset({1}), True]


def test_json_lines_say_the_same(tmp_path: Path) -> None:
    rows = [
        {"process": "c1", "type": "invoke", "f": "acquire", "key": "db", "attempt": 5, "time": 1},
        {"process": "c1", "type": "ok", "f": "acquire", "key": "db", "token": 3, "time": 2},
    ]
    wrapped = {"name": "x", "opts": {"history": 1}, "history": rows, "valid": True}
    printed = [json.dumps(row, indent=2) for row in rows]
    for text in (
        "\n".join(map(json.dumps, rows)),
        json.dumps(rows),
        "\ufeff" + json.dumps(rows, indent=2).replace("\n", "\r\n"),
        json.dumps(wrapped),
        json.dumps(wrapped, indent=1),
        json.dumps({"history": rows}),
        "\n".join(printed),
        "[ ]" + json.dumps({"history": []}) + "".join(printed) + "[]",
    ):
        (op,) = ops_of(tmp_path, text, "json" if text[0] == "[" else "auto")
        assert (op.process, op.key, op.attempt, op.token) == ("c1", "db", 5, 3), text
        assert op.status is Status.OK


def test_lines_are_counted_in_json_of_many_lines(tmp_path: Path) -> None:
    rows = [{"process": 0, "type": kind, "f": "read"} for kind in ("invoke", "ok")]
    (op,) = ops_of(tmp_path, json.dumps({"history": rows}, indent=1))
    assert (op.line, op.end_line) == (3, 8)


WHOLE = '[\n {"process": 0, "type": "invoke", "f": "read"},\n'
BAD_JSON: dict[str, tuple[str | bytes, int]] = {
    "truncated?": (WHOLE, 1),
    "not JSON: ": (WHOLE + ' {"process": 0, "type": "ok"', 3),
    "expected , or ]": (WHOLE + ' {"process": "nemesis"} 7]', 3),
    "expected :": ('{"history", []}', 1),
    "expected a string as field name": ("{\n 7: []}", 2),
    "an object per event": (WHOLE + " [1]]", 3),
    "an array of objects": (WHOLE[:-2] + "]\n7", 3),
    "invalid JSON number NaN": (WHOLE + ' {"time": NaN}]', 3),
    "invalid type 'begin'": (WHOLE + '\n{"process": 0, "type": "begin", "f": "read"}]', 4),
    "not UTF-8": (WHOLE.encode() + b'"\xff"]', 3),
    "unreadable JSON": (WHOLE + '{"value": ' + "[" * 100_000, 3),
    "nested too deeply": (
        WHOLE
        + '{"process": 1, "type": "invoke", "f": "read", "value": '
        + '{"a":' * 800
        + "1"
        + "}" * 800
        + "}]",
        3,
    ),
}


@pytest.mark.parametrize("reason", BAD_JSON)
def test_malformed_json_is_told_with_its_line(tmp_path: Path, reason: str) -> None:
    text, line = BAD_JSON[reason]
    with pytest.raises(UsageError) as told:
        ops_of(tmp_path, text, "json")
    assert f"line {line}: " in str(told.value)
    assert reason in str(told.value)


def test_a_comparison_that_failed_is_an_answer_in_an_etcd_log(tmp_path: Path) -> None:
    lines = (
        "INFO  jepsen.util - 3\t:invoke\t:cas\t[1 2]",
        "INFO  jepsen.util - 3\t:fail\t:cas\t[1 2]",
        "INFO  jepsen.util - 4   :invoke :cas  [1 2]",
        "INFO  jepsen.util - 4   :info   :cas  :timed-out",
    )
    refused, unknown = ops_of(tmp_path, "\n".join(lines))
    assert (refused.value, refused.result, refused.status) == ((1, 2), False, Status.OK)
    assert (unknown.status, unknown.end) == (Status.INFO, OPEN)


INVOKE = '{"process": 0, "type": "invoke", "f": "read", "time": 5}\n'
BAD = {
    "completion without invocation": ('{"process": 0, "type": "ok", "f": "read"}', 1),
    "two concurrent invocations": (INVOKE + INVOKE, 2),
    "time goes backwards": (INVOKE + INVOKE.replace("invoke", "ok").replace("5", "4"), 2),
    "expected a whole number from ": (INVOKE.replace("5", "1e9"), 1),
    "invalid token 1000000000.0: expected a whole number": (
        INVOKE.replace('"time": 5', '"token": 1e9'),
        1,
    ),
    "a number of": (INVOKE.replace("5", "9" * 30), 1),
    "not a JSON object: Integer": (INVOKE.replace("5", "9" * 100_000), 1),
    "invalid process -4: expected a whole number": (INVOKE.replace(": 0", ": -4"), 1),
    "invalid f 7: expected a word": (INVOKE.replace('"read"', "7"), 1),
    "invalid type 'begin'": (INVOKE.replace("invoke", "begin"), 1),
    "missing process": (INVOKE.replace("process", "proces"), 1),
    "not a JSON object": (INVOKE + INVOKE[:30], 2),
    "but line 1 invoked read": (INVOKE + INVOKE.replace("invoke", "ok").replace("read", "cas"), 2),
    "no operation of a client": ('{"process": "nemesis", "type": "info", "f": "start"}\n', 1),
    "a JSON object per line": (INVOKE + "[1, 2]\n", 2),
}


@pytest.mark.parametrize("reason", BAD)
def test_a_malformed_line_of_json_is_told_with_its_number(tmp_path: Path, reason: str) -> None:
    text, line = BAD[reason]
    with pytest.raises(UsageError, match=f"history, line {line}: .*{reason}"):
        ops_of(tmp_path, text, "jsonl")


EVENT = "{:process 0, :type :invoke, :f :read}\n"
BAD_EDN: dict[str, tuple[str | bytes, int]] = {
    "ends inside its outermost bracket": ("[" + EVENT, 1),
    "ends inside the {": (EVENT + EVENT[:20], 2),
    "invoked 'a\\nb' of": (
        '{:process "x\\ny" :type :invoke :f "a\\nb" :key 3}{:process "x\\ny" :type :ok :f "c"}',
        1,
    ),
    "does not match the (": ("(" + EVENT + "]", 2),
    "nothing follows ^": (EVENT + "^", 1),
    "does not match the {": (EVENT + "{:process 1]", 2),
    "unmatched }": (EVENT + "}", 2),
    "unterminated string": (EVENT + '{:f "abc\n\n', 2),
    "a key without a value": ("{:process 0 :type}", 1),
    "a key twice": ("{:f :a :f :b}", 1),
    "a map per event": (EVENT + "17", 2),
    "nested more than 64 levels": ("{:value " + "[" * 1_000_000, 1),
    "nothing follows ": (EVENT + "{:process #tag}", 2),
    "a number of 5001 digits": ("{:value 1" + "0" * 5000 + "}", 1),
    "the number 1e999 is too large": ("{:value 1e999}", 1),
    "not UTF-8": (EVENT.encode() + b"{:f \xff}", 2),
    "a token of more than": ('{:f "' + "a" * 3_000_000 + '"}', 1),
}


@pytest.mark.parametrize("reason", BAD_EDN)
def test_malformed_edn_is_told_with_its_line(tmp_path: Path, reason: str) -> None:
    text, line = BAD_EDN[reason]
    with pytest.raises(UsageError) as told:
        ops_of(tmp_path, text, "edn")
    assert f"line {line}: " in str(told.value)
    assert reason in str(told.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("INFO jepsen.util - 3 :invoke", "2 fields: expected process, type, f, value"),
        ("INFO jepsen.util", "truncated?"),
        ("WARN jepsen.util - 3 :invoke :read nil", "expected INFO"),
        ("INFO jepsen.util - 3 :invoke :cas [1", "ends inside"),
        (b"INFO jepsen.util - 3 :invoke :read \xff\xfe", "not UTF-8"),
    ],
)
def test_a_malformed_etcd_log_is_told_with_its_line(
    tmp_path: Path, text: str | bytes, reason: str
) -> None:
    good = b"INFO jepsen.util - 1 :invoke :read nil\n"
    raw = text.encode() if isinstance(text, str) else text
    with pytest.raises(UsageError, match=f"line 2: .*{reason}"):
        ops_of(tmp_path, good + raw, "porcupine")


@pytest.mark.parametrize("text", ["", "hello", "\x00\x01", "<html>", "7"])
def test_what_is_no_history_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="line 1: unknown format of history"):
        ops_of(tmp_path, text)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_history(tmp_path / "nowhere.edn")


def test_a_long_edn_history_is_read_piece_by_piece(tmp_path: Path) -> None:
    path = written(tmp_path, "[" + EVENT * 20_000 + "]")
    with path.open("rb") as file:
        line, _ = next(forms(file))
        assert line == 1
        assert file.tell() == CHUNK < path.stat().st_size
