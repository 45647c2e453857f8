"""JSON of many lines: random documents beside json.loads, with the line of each value."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pytest

from holdfast.harness.foreign.json_document import values
from holdfast.harness.foreign.operations import Malformed

TEXTS = ("", "history", 'a"]}', "é\n", "\\", "{[,:")


def read(text: str | bytes) -> list[tuple[int, object]]:
    return list(values(io.BytesIO(text.encode() if isinstance(text, str) else text)))


def value(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(7 if depth else 5)
    if kind < 5:
        return [None, True, rng.randrange(-9, 9), 1.5, rng.choice(TEXTS)][kind]
    inner = [value(rng, depth - 1) for _ in range(rng.randrange(3))]
    return inner if kind == 5 else {f"k{n}": one for n, one in enumerate(inner)}


def event(rng: random.Random) -> dict[str, Any]:
    return {f"{rng.choice(TEXTS)}{n}": value(rng, 2) for n in range(rng.randrange(4))}


def printed(rng: random.Random, one: object) -> str:
    indent = rng.choice([None, 0, 2])
    return json.dumps(one, indent=indent, ensure_ascii=rng.random() < 0.5)


@pytest.mark.parametrize("seed", range(40))
def test_a_random_document_has_the_values_that_json_reads(seed: int) -> None:
    rng, wanted, text = random.Random(seed), list[object](), ""
    for _ in range(rng.randrange(4)):
        events = [event(rng) for _ in range(rng.randrange(4))]
        kind = rng.randrange(3)
        if kind == 0:
            wanted += events
            text += "".join(printed(rng, one) + rng.choice(["", "\n", " \r\n\t"]) for one in events)
        elif kind == 1:
            wanted += events
            text += printed(rng, events) + "\n"
        else:
            wanted += events
            around = {"name": value(rng, 2), "history": events, "valid": value(rng, 2)}
            text += printed(rng, around)
    assert [one for _, one in read(text)] == wanted, text


@pytest.mark.parametrize("indent", [None, 1, 3])
def test_the_line_of_each_event_is_that_of_its_bracket(indent: int | None) -> None:
    events = [{"n": n, "text": "a\nb", "deep": [{"x": [n]}]} for n in range(5)]
    text = "\n\n" + json.dumps({"name": ["x"], "history": events}, indent=indent)
    lines = text.split("\n")
    for n, (line, found) in enumerate(read(text)):
        assert found == events[n]
        # The event's own number is on its line, or on the next one where each field has a line.
        assert f'"n": {n}' in lines[line - 1 + (indent is not None)]


def test_a_history_that_is_no_array_is_a_field_like_others() -> None:
    for inner in ({"a": 1}, "x", 7, None):
        assert read(json.dumps({"history": inner})) == [(1, {"history": inner})]
    assert read('{"history": [], "a": 1}{}') == [(1, {})]
    assert read('{"a": {"history": [1]}}') == [(1, {"a": {"history": [1]}})]
    assert read(" \n\ufeff"[:2]) == [] == read("\ufeff")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("[", 1, "the file ends inside the bracket of this line: truncated?"),
        ("\n[{},", 2, "the file ends inside the bracket of this line: truncated?"),
        ('[\n{"history":\n[{}', 3, "not JSON: Expecting ',' delimiter"),
        ('{"a": 1,\n"history":\n[{}', 3, "the file ends inside the bracket of this line"),
        ('{"a"', 1, "the file ends inside the bracket of this line: truncated?"),
        ("{}\n[{}\n{}]", 3, "unexpected '{': expected , or ]"),
        ('{"a": 1 ]', 1, "unexpected ']': expected , or }"),
        ('{"a" 1}', 1, "unexpected '1': expected :"),
        ("[1,\n]", 2, "not JSON: Expecting value"),
        ("{}\n]", 2, "expected an object or an array of objects"),
        ('"a"', 1, "expected an object or an array of objects"),
        ("[\n{}, NaN]", 2, "unreadable JSON: invalid JSON number NaN"),
        ("[\n-Infinity]", 2, "unreadable JSON: invalid JSON number -Infinity"),
        (f"[\n{'9' * 5000}]", 2, "unreadable JSON: "),
        (b"{}\n\n{\xff", 3, "not UTF-8: invalid start byte"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_the_line_of_it(
    text: str | bytes, line: int, reason: str
) -> None:
    with pytest.raises(Malformed) as told:
        read(text)
    assert (told.value.line, told.value.reason[: len(reason)]) == (line, reason)
