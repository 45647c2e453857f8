"""Damaged histories end in one sentence for a person, never in a traceback."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from holdfast import catalogue
from holdfast.checkers.models.verdicts import Judgement
from holdfast.harness.entry import load
from holdfast.harness.errors import UsageError
from holdfast.harness.foreign.read import FORMATS, read_history
from holdfast.harness.seeds import stream
from holdfast.harness.verdict import Verdict

SUITE, POWER = 4000, 100_000
BUDGET = 500

BASES: dict[str, tuple[str, bytes]] = {
    "mutex": (
        "edn",
        b"""[{:process 0, :type :invoke, :f :acquire, :value nil, :time 10, :index 0}
 {:process 1, :type :invoke, :f :acquire, :value nil, :time 11, :index 1}
 {:process 0, :type :ok, :f :acquire, :value 4, :time 12, :token 4}
 {:process 0, :type :invoke, :f :release, :value nil, :time 14}
 {:process 0, :type :fail, :f :release, :time 15, :error :not-held}
 {:process 1, :type :ok, :f :acquire, :value 5, :time 16, :attempt 3, :mode :shared}]""",
    ),
    "kv": (
        "edn",
        b"""{:process 0, :type :invoke, :f :put, :key "0", :value "x 0 0 y"}
{:process 0, :type :ok, :f :put, :key "0", :value "x 0 0 y"}
{:process 1, :type :invoke, :f :get, :key "0", :value nil}
{:process 1, :type :ok, :f :get, :key "0", :value "x 0 0 y"}
""",
    ),
    "cas-register": (
        "porcupine",
        b"""INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - 1\t:invoke\t:cas\t[1 2]
INFO  jepsen.util - 0\t:ok\t:read\tnil
INFO  jepsen.util - 1\t:fail\t:cas\t[1 2]
INFO  jepsen.util - 2\t:invoke\t:write\t3
INFO  jepsen.util - 2\t:info\t:write\t:timed-out
""",
    ),
    "fenced": (
        "jsonl",
        b"""{"process": 1, "type": "invoke", "f": "acquire", "key": "db", "time": 1, "attempt": 8}
{"process": 1, "type": "ok", "f": "acquire", "key": "db", "time": 2, "token": 33}
{"process": 1, "type": "invoke", "f": "release", "key": "db", "time": 3, "attempt": 8}
{"process": 1, "type": "ok", "f": "release", "key": "db", "time": 4, "error": ["\\u00e9", {}]}
""",
    ),
}
PIECES = (
    b"[", b"]", b"{", b"}", b"(", b")", b'"', b"\\", b"#{", b"#_", b"#tag ", b";", b"##Inf",
    b"\x00", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\n", b"\r", b"\t", b",", b":", b"nil", b"true",
    b"NaN", b"1e9", b"1e999", b"-1", b"9" * 25, b"9" * 5000, b"[" * 300, b'{"a":' * 300, b"null",
    b":nemesis", b":info", b":ok", b'"ok"', b"1/2", b"0x10", b"2.5", b"\xf0\x9f\x94\x92",
)  # fmt: skip


def damaged(rng: random.Random, text: bytes) -> bytes:
    """The text with one to four injuries: cut, flipped, doubled, moved or filled."""
    data = bytearray(text)
    for _ in range(rng.randint(1, 4)):
        if not data:
            break
        at, to = sorted((rng.randrange(len(data)), rng.randrange(len(data))))
        kind = rng.randrange(7)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind == 2:
            del data[at : min(to, at + 30)]
        elif kind == 3:
            data[at:at] = data[at:to]
        elif kind == 4:
            data[at : at + rng.randrange(3)] = rng.choice(PIECES)
        elif kind == 5:
            lines = data.split(b"\n")
            rng.shuffle(lines)
            data = bytearray(b"\n".join(lines))
        else:
            words = bytes(data).split(b" ")
            words[rng.randrange(len(words))] = rng.choice(PIECES)
            data = bytearray(b" ".join(words))
    return bytes(data)


def outcome(path: Path, form: str, model: str) -> Verdict | UsageError:
    """What becomes of a file: a verdict, or the refusal that the user sees."""
    try:
        history = read_history(path, form)
        found = load(catalogue.MODELS[model].entry)(history.ops, BUDGET)
        assert isinstance(found, Judgement)
        return found.verdict
    except UsageError as refusal:
        return refusal


def survive(folder: Path, count: int) -> None:
    """Read and judge `count` damaged histories; both outcomes must occur."""
    said: Counter[str] = Counter()
    path = folder / "history"
    names = list(BASES)
    models = [name for name in catalogue.MODELS if ":" not in name]
    for n in range(count):
        rng = stream(9, "fuzz", n)
        name = names[n % len(names)]
        form, text = BASES[name]
        data = damaged(rng, text)
        path.write_bytes(data)
        chosen = "auto" if rng.random() < 0.5 else rng.choice([form, form, *FORMATS])
        model = name if rng.random() < 0.8 else rng.choice(models)
        came = outcome(path, chosen, model)
        if isinstance(came, UsageError):
            assert len(came.problems) == 1 and "\n" not in str(came), data
            assert "line " in str(came) or "--model" in str(came), data
            said["refused"] += 1
        else:
            said[came] += 1
    assert said["refused"] > 0.3 * count
    assert said[Verdict.HOLDS] + said[Verdict.VIOLATED] > 0.1 * count, said


def test_no_damaged_file_ends_in_a_traceback(tmp_path: Path) -> None:
    survive(tmp_path, SUITE)


@pytest.mark.power
def test_no_damaged_file_of_many_ends_in_a_traceback(tmp_path: Path) -> None:
    survive(tmp_path, POWER)
