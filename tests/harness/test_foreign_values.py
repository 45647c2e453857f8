"""Foreign histories: keyed values, exported tables, fields of events, and their error messages."""

from __future__ import annotations

import csv
import io
import os
import random
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import pytest

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import NO_TOKEN, Status
from holdfast.harness.foreign import exported_table, read
from holdfast.harness.foreign.event_fields import KINDS, LARGEST, NOT_OWNER, event_of
from holdfast.harness.foreign.exported_table import csv_events
from holdfast.harness.foreign.operations import (
    LONGEST_SHOWN,
    OPEN,
    Event,
    ForeignOp,
    Malformed,
    Pairing,
    brief,
    distinct,
    keyed_apart,
)

OK, FAIL, INFO = Status.OK, Status.FAIL, Status.INFO


def op(
    value: Hashable, result: Hashable = None, *, f: str = "write", status: Status = OK,
    key: Hashable = None, told: bool = True,
) -> ForeignOp:  # fmt: skip
    return ForeignOp(process=1, f=f, key=key, value=value, result=result, begin=0, end=1,
                     status=status, told_value=told)  # fmt: skip


def test_values_are_equal_only_if_those_of_the_file_are() -> None:
    values: list[Hashable] = [True, 1, False, 0, None, "1", (True,), (1,), ((True,),), ((1,),),
                              frozenset({True}), frozenset({1}), ":true"]  # fmt: skip
    assert len({distinct(value) for value in values}) == len(values)
    assert distinct((1, ("a", True))) == distinct((1, ("a", True)))
    assert repr(distinct(True)) == "True"


@pytest.mark.parametrize(
    "ops",
    [
        [op((1, 5), (1, 5))],
        [op((1, None), (1, 5), f="read"), op((2, (3, 4)), (2, (3, 4)), f="cas")],
        [op((1, 5), None)],
        [op((1, 5), False)],
        [op((1, 5), 7, status=FAIL)],
        [op((1, 5), 7, status=INFO)],
        [op((True, 5), (True, 5))],
    ],
)
def test_values_that_are_pairs_are_unpacked_into_keys(ops: list[ForeignOp]) -> None:
    for packed, found in zip(ops, keyed_apart(ops), strict=True):
        assert isinstance(packed.value, tuple)
        assert (found.key, found.value) == packed.value
        answer = packed.result[1] if isinstance(packed.result, tuple) else packed.result
        assert found.result == answer and found.told_value == (answer is not None)
        assert replace(found, key=None, value=packed.value, result=packed.result,
                       told_value=packed.told_value) == packed  # fmt: skip


@pytest.mark.parametrize(
    "single",
    [
        op(None, 5, f="read"),
        op((1, 2, 3), None),
        op(7, 7),
        op((1, 5), 7),
        op((1, 5), (2, 5)),
        op((1, 5), (True, 5)),
        op((1, 5), (1, 5, 6)),
        op((3, 4), (3, 4), f="cas"),
        op((3, (4, 5, 6)), None, f="cas"),
        op((1, 5), (1, 5), key="db"),
    ],
)
def test_one_operation_that_is_no_pair_leaves_all_as_they_are(single: ForeignOp) -> None:
    pair = op((1, 5), (1, 5))
    for ops in ([single], [pair, single], [single, pair]):
        assert keyed_apart(ops) is ops
    assert keyed_apart([]) == []


def test_nothing_is_told_of_an_operation_without_a_result() -> None:
    (found,) = keyed_apart([op((1, 5), (1, 5), told=False)])
    assert not found.told_value and found.result == 5
    (found,) = keyed_apart([op((1, 5), (1, None))])
    assert not found.told_value and found.result is None


def test_a_value_in_a_message_is_one_short_line() -> None:
    assert brief("a" * LONGEST_SHOWN) == "a" * LONGEST_SHOWN
    assert brief("a" * (LONGEST_SHOWN + 1)) == "a" * (LONGEST_SHOWN - 3) + "..."
    assert brief("a\nb") == "'a\\nb'" and brief((1, "x")) == "(1, 'x')"


def told_of(**fields: Hashable) -> Event:
    event = event_of({"process": 3, "type": "invoke", "f": "read", **fields}, 7)
    assert event is not None
    return event


def test_the_fields_of_an_event_are_read_with_and_without_colons() -> None:
    full = told_of(process=":c1", type=":ok", f=":acquire", lock="db", value=5, time=9, token=4,
                   attempt="x", mode=":shared", error=":held", other=1)  # fmt: skip
    assert full == Event(line=7, process="c1", kind="ok", f="acquire", key="db", keyed=True,
                         value=5, time=9, token=4, attempt="x", shared=True)  # fmt: skip
    plain = told_of()
    assert (plain.keyed, plain.key, plain.time, plain.token) == (False, None, None, NO_TOKEN)
    assert (plain.attempt, plain.shared, plain.not_owner) == (None, False, False)
    assert told_of(key=1, lock=2).key == 1 and told_of(key=None).keyed
    assert told_of(token=0).token == 0 and told_of(token=-1).token == NO_TOKEN
    assert not told_of(mode="exclusive").shared
    assert all(told_of(error=word).not_owner for word in NOT_OWNER)
    assert event_of({"process": ":nemesis", "type": 5}, 1) is None
    assert told_of(process="nemesis2").process == "nemesis2"
    assert [told_of(type=kind).kind for kind in KINDS] == list(KINDS)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("process", None, "missing process in this event"),
        ("type", None, "missing type in this event"),
        ("f", None, "missing f in this event"),
        ("process", -1, f"invalid process -1: expected a whole number from 0 to {LARGEST}"),
        ("process", True, f"invalid process True: expected a whole number from 0 to {LARGEST}"),
        ("process", ":", "invalid process ':': expected a word"),
        ("type", "start", "invalid type 'start': expected one of invoke, ok, fail, info"),
        ("type", 3, "invalid type 3: expected a word"),
        ("f", (1,), "invalid f (1,): expected a word"),
        ("time", -1, f"invalid time -1: expected a whole number from 0 to {LARGEST}"),
        ("time", 1.5, f"invalid time 1.5: expected a whole number from 0 to {LARGEST}"),
        ("token", -2, f"invalid token -2: expected a whole number from -1 to {LARGEST}"),
        ("token", LARGEST + 1,
         f"invalid token a number of 64 bits: expected a whole number from -1 to {LARGEST}"),
        ("attempt", -1, f"invalid attempt -1: expected a whole number from 0 to {LARGEST}"),
        ("mode", "both", "invalid mode 'both': expected shared or exclusive"),
        ("mode", 0, "invalid mode 0: expected a word"),
        ("type", "x" * 38, f"invalid type '{'x' * 38}': expected one of invoke, ok, fail, info"),
        ("type", "x" * 39, f"invalid type '{'x' * 36}...: expected one of invoke, ok, fail, info"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_told_with_what_is_expected(
    field: str, value: Hashable, reason: str
) -> None:
    with pytest.raises(Malformed) as told:
        told_of(**{field: value})
    assert (told.value.line, told.value.reason) == (7, reason)


ROW = {"f": "acquire", "status": "ok", "process": "3", "key": "db", "t_inv": "5", "t_ret": "9",
       "attempt": "7", "token": "4", "mode": "exclusive", "err": "", "other": "x"}  # fmt: skip


def table(rows: Sequence[Mapping[str, str]]) -> io.BytesIO:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return io.BytesIO(text.getvalue().encode())


def refused(*rows: Mapping[str, str]) -> tuple[int, str]:
    with pytest.raises(Malformed) as told:
        list(csv_events(table(rows)))
    return told.value.line, told.value.reason


def test_a_row_of_a_table_is_an_invocation_and_a_completion() -> None:
    rows = [ROW, {**ROW, "f": "release", "status": "not_owner", "t_inv": "6", "t_ret": "8"},
            {**ROW, "f": "try", "status": "fail", "mode": "shared", "process": "4"},
            {**ROW, "f": "write"},
            {**ROW, "status": "invoked", "t_ret": "0", "t_inv": "7"}]  # fmt: skip
    found = [(e.line, e.process, e.kind, e.f, e.time, e.token) for e in csv_events(table(rows))]
    assert found == [
        (2, 3, "invoke", "acquire", 5, NO_TOKEN),
        (4, 4, "invoke", "acquire", 5, NO_TOKEN),
        (3, 8, "invoke", "release", 6, NO_TOKEN),
        (6, 13, "invoke", "acquire", 7, NO_TOKEN),
        (3, 8, "fail", "release", 8, NO_TOKEN),
        (2, 3, "ok", "acquire", 9, 4),
        (4, 4, "fail", "acquire", 9, NO_TOKEN),
    ]
    events = list(csv_events(table(rows)))
    assert [event.shared for event in events] == [event.line == 4 for event in events]
    assert [event.not_owner for event in events] == [
        event.line == 3 and event.kind == "fail" for event in events
    ]
    assert {(event.key, event.keyed, event.attempt) for event in events} == {("db", True, 7)}


def test_no_call_of_a_process_overlaps_another_and_all_rows_are_there() -> None:
    rng = random.Random(5)
    for _ in range(40):
        rows = []
        for n in range(rng.randrange(1, 14)):
            begun, status = rng.randrange(20), rng.choice(["ok", "fail", "info", "invoked"])
            over = 0 if status == "invoked" else begun + rng.randrange(6)
            times = {"t_inv": f"{begun}", "t_ret": f"{over}", "attempt": f"{n + 1}"}
            rows.append({**ROW, **times, "status": status, "process": f"{rng.randrange(3)}"})
        rows.sort(key=lambda row: int(row["t_inv"]))
        clients = 1 + max(int(row["process"]) for row in rows)
        pairing = Pairing()
        for event in csv_events(table(rows)):
            pairing.add(event)
        found = pairing.close("table").ops
        assert sorted(int(one.attempt or 0) for one in found) == list(range(1, len(rows) + 1))
        for one in found:
            row = rows[one.line - 2]
            unknown = row["status"] in ("info", "invoked")
            assert (one.end == OPEN) == unknown and isinstance(one.process, int)
            assert one.process % clients == int(row["process"])
            assert one.status is {"ok": OK, "fail": FAIL}.get(row["status"], INFO)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"f": "lock"}, "invalid f 'lock': expected one of acquire, try, renew, "),
        ({"status": "done"}, "invalid status 'done': expected one of invoked, ok, "),
        ({"t_inv": "-1"}, "time goes backwards: from -1 to 9"),
        ({"t_ret": "4"}, "time goes backwards: from 5 to 4"),
        ({"t_ret": "soon"}, "invalid t_ret 'soon': expected a whole number"),
        ({"token": str(LARGEST + 1)}, f"invalid token {LARGEST + 1}: expected a whole number"),
        ({"attempt": "1" * 20}, f"invalid attempt '{'1' * 20}': expected a whole number"),
        ({"process": ""}, "invalid process '': expected a whole number"),
    ],
)
def test_a_wrong_value_of_a_table_is_told_with_its_line(
    change: dict[str, str], reason: str
) -> None:
    line, said = refused(ROW, {**ROW, "key": "two\nlines", "process": "9"}, {**ROW, **change})
    assert (line, said.replace(f"'{LARGEST + 1}'", f"{LARGEST + 1}")[: len(reason)]) == (5, reason)


def test_a_call_of_no_duration_and_the_largest_number_are_read() -> None:
    edge = {**ROW, "t_ret": "5", "token": str(LARGEST)}
    assert [event.time for event in csv_events(table([edge]))] == [5, 5]


def test_tables_that_are_none_are_told() -> None:
    short = {name: value for name, value in ROW.items() if name not in ("token", "key")}
    assert refused(short) == (
        1, "missing column key, token: expected a table of holdfast export"
    )  # fmt: skip
    head = ",".join(ROW)
    for text, line, said in (
        (f"{head}\nacquire,ok\n".encode(), 2, "wrong number of values: truncated?"),
        (f"{head}\n{',1' * 20}\n".encode(), 2, "wrong number of values: truncated?"),
        (f'{head}\n"a"b,c\n'.encode(), 2, "invalid CSV: "),
        (f"{head}\n".encode() + b"\xff,1\n", 1, "not UTF-8: "),
    ):
        with pytest.raises(Malformed) as told:
            list(csv_events(io.BytesIO(text)))
        assert told.value.reason.startswith(said) and told.value.line == line


def test_the_first_bytes_of_a_file_tell_its_format() -> None:
    for text, form in (
        ("INFO  jepsen.util - 0 :invoke :read nil", "porcupine"),
        ("PAR1....", "parquet"),
        ("f,status,t_inv\n", "csv"),
        ('[ {"process"', "json"), ('{\n "process"', "json"), ('{"history": [', "json"),
        ('{"name": 1, "history" : [', "json"), ('{"a": [\n', "json"),
        ('{"process": 0}', "jsonl"), ('{ "process": 0}\n', "jsonl"),
        ("{:process 0}", "edn"), ("[{:process 0}]", "edn"), ("({:p 1})", "edn"),
        ("; comment", "edn"), ("#jepsen.Op{", "edn"), ("^{:a 1} [", "edn"), ("'(", "edn"),
    ):  # fmt: skip
        for before in ("", "\ufeff", " \n"):
            assert read._look((before + text).encode()) == form, text
    for text in ("", "7", "hello", "t_inv2,f"):
        with pytest.raises(Malformed, match=re.escape(f"begins with {text[:20]!r}")):
            read._look(text.encode())


def test_a_line_has_a_longest_length(monkeypatch: pytest.MonkeyPatch) -> None:
    line = '{"process": 0, "type": "invoke", "f": "read"}'
    longest = len(line) + 1
    monkeypatch.setattr(read, "LONGEST_LINE", longest)
    (found,) = read.read_from(io.BytesIO(f"\n{line}\n".encode()), "x", "jsonl").ops
    assert found.process == 0
    with pytest.raises(UsageError, match=f"x, line 2: a line of more than {longest} bytes"):
        read.read_from(io.BytesIO(f"{line}\n {line}\n".encode()), "x", "jsonl")


def test_a_table_larger_than_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Group:
        total_byte_size, num_rows = 1000, 5

    class Told:
        num_row_groups, num_rows = 2, 10

        def row_group(self, n: int) -> Group:
            return Group()

    pages = {"SC_PHYS_PAGES": 8000, "SC_PAGE_SIZE": 1}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    monkeypatch.setattr(exported_table, "ROW_BYTES", 800)
    fits = exported_table.__dict__["_fits"]
    fits(Told())
    pages["SC_PHYS_PAGES"] = 7999
    with pytest.raises(Malformed, match="10 rows, 0 MiB uncompressed: more than this machine's"):
        fits(Told())
    monkeypatch.setattr(exported_table, "ROW_BYTES", 1)
    with pytest.raises(Malformed, match="10 rows, 0 MiB uncompressed: more than this machine's"):
        fits(Told())
    pages["SC_PHYS_PAGES"] = 8000
    fits(Told())
    monkeypatch.setattr(Group, "num_rows", 4001)
    with pytest.raises(Malformed, match="8002 rows"):
        fits(Told())
