"""Damaged histories end in one sentence for a person, never in a traceback."""

from __future__ import annotations

import random
import re
from collections import Counter
from io import BytesIO

import pytest

from holdfast import catalogue
from holdfast.checkers.linearizability.judgement import Budget, ModelJudgement
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.seeds import stream
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.foreign.read import FORMATS, read_from
from tests.draws import Draws

SUITE, POWER = 6000, 100_000
BUDGET = Budget(configurations=500)

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
    "register": (
        "json",
        b"""{"name": "x", "history": [
 {"process": 1, "type": "invoke", "f": "write", "value": 3, "time": 1},
 {"process": 2, "type": "invoke", "f": "read", "time": 2},
 {"process": 1, "type": "ok", "f": "write", "value": 3, "time": 4, "error": [{"a": []}]},
 {"process": 2, "type": "ok", "f": "read", "value": 3, "time": 5}], "valid": true}""",
    ),
    "lease-mutex": (
        "edn",
        b"""^{:line 1} {:name "x" :history
[{:process 0, :type :invoke, :f :acquire, :value nil}
 ^:sure {:process 0, :type :ok, :f :acquire, :value nil}
 {:process 1, :type :invoke, :f :acquire}
 {:process 0, :type :invoke, :f :release}
 {:process 0, :type :ok, :f :release}] :valid? true}""",
    ),
    "owner-mutex": (
        "csv",
        b"""f,mode,status,process,key,t_inv,t_ret,attempt,token,err
acquire,exclusive,ok,1,"db ""1"" x",10,20,65537,7,
renew,exclusive,invoked,1,"db ""1"" x",21,0,65537,-1,
release,exclusive,not_owner,1,"db ""1"" x",30,31,65537,-1,lost
acquire,shared,info,2,db,12,40,131073,-1,timeout
""",
    ),
}
PIECES = (
    b"[", b"]", b"{", b"}", b"(", b")", b'"', b"\\", b"#{", b"#_", b"#tag ", b";", b"##Inf",
    b"\x00", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\n", b"\r", b"\t", b",", b":", b"nil", b"true",
    b"NaN", b"1e9", b"1e999", b"-1", b"9" * 25, b"9" * 5000, b"[" * 300, b'{"a":' * 300, b"null",
    b"^", b"^{}", b"'", b":history", b'"history"',
    b":nemesis", b":info", b":ok", b'"ok"', b"1/2", b"0x10", b"2.5", b"\xf0\x9f\x94\x92",
)  # fmt: skip


def damaged(rng: random.Random, text: bytes) -> bytes:
    """The text with one to three injuries: cut, flipped, doubled, moved or filled."""
    data = bytearray(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        if not data:
            break
        at, to = sorted((rng.randrange(len(data)), rng.randrange(len(data))))
        kind = rng.randrange(9)
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
            n = rng.randrange(len(lines))
            lines.insert(rng.randrange(len(lines)), lines.pop(n))
            data = bytearray(b"\n".join(lines))
        elif kind == 6:
            digits = [n for n, byte in enumerate(data) if 48 <= byte < 58]
            for n in digits[:1] and rng.sample(digits, min(2, len(digits))):
                data[n] = rng.randrange(48, 58)
        elif kind == 7:
            data = bytearray(re.sub(rb"ok", rng.choice((b"info", b"fail")), bytes(data), count=1))
        else:
            words = bytes(data).split(b" ")
            words[rng.randrange(len(words))] = rng.choice(PIECES)
            data = bytearray(b" ".join(words))
    return bytes(data)


def outcome(data: bytes, form: str, model: str) -> Verdict | UsageError:
    """What becomes of a file: a verdict, or the refusal that the user sees."""
    try:
        history = read_from(BytesIO(data), "history", form)
        found = load(catalogue.MODELS[model].entry)(history.ops, BUDGET)
        assert isinstance(found, ModelJudgement)
        return found.verdict
    except UsageError as refusal:
        return refusal


def survive(count: int) -> None:
    """Read and judge `count` damaged histories; both outcomes must occur."""
    said: Counter[str] = Counter()
    names = list(BASES)
    models = [name for name in catalogue.MODELS if ":" not in name]
    for n in range(count):
        rng = stream(9, "fuzz", n)
        name = names[n % len(names)]
        form, text = BASES[name]
        data = damaged(rng, text)
        chosen = "auto" if rng.random() < 0.5 else form
        if rng.random() < 0.1:
            chosen = rng.choice(list(FORMATS))
        model = name if rng.random() < 0.8 else rng.choice(models)
        came = outcome(data, chosen, model)
        if isinstance(came, UsageError):
            assert len(came.problems) == 1 and "\n" not in str(came), data
            assert any(word in str(came) for word in ("line ", "event ", "--model")), data
            said["refused"] += 1
        else:
            said[came] += 1
    assert said["refused"] > 0.3 * count
    assert said[Verdict.HOLDS] + said[Verdict.VIOLATED] > 0.05 * count, said


@pytest.mark.parametrize("model", BASES)
def test_what_is_damaged_below_is_sound_before(model: str) -> None:
    form, data = BASES[model]
    assert isinstance(outcome(data, form, model), Verdict)
    assert isinstance(outcome(data, "auto", model), Verdict)


def test_no_damaged_file_ends_in_a_traceback(draws: Draws) -> None:
    survive(draws(SUITE))


@pytest.mark.power
def test_no_damaged_file_of_many_ends_in_a_traceback() -> None:
    survive(POWER)
