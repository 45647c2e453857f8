"""Random damage to all that others may have written: runs, plans, requests to `serve`.

Whatever it is, it is a verdict or one line and exit code 2, 3 or 4: no traceback, no exit code 1
without a violation, nothing that takes ten seconds, no file opened that is none of the run's.
"""

from __future__ import annotations

import io
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.harness.campaigns.run_index import RunIndex
from holdfast.harness.history.segment_packer import packed
from holdfast.serve.server import HttpHandler, Server
from tests.front.test_hostile_runs import code_of, sound

FEW = 60
MANY = {"runs": 10_000, "certificates": 20_000, "plans": 60_000, "requests": 10_000}
"""100,000 in all; a run directory takes the most time."""
LONGEST_S = 10
FILES = ("manifest.json", "times.jsonl", "faults.jsonl", "verdicts.json", "plan.toml",
         "history/c1.seg", "history/c1.strings", "history/resource.seg")  # fmt: skip
WORDS = (b"-1", b"1e999", b"NaN", b"null", b"9" * 40, b"\x00", b"\xff\xfe", b'"', b"{", b"[" * 500,
         b"../../outside", b"/etc/hostname", b"%2e%2e%2f", b"\n", b"\r\n\r\n", b"true")  # fmt: skip


def counts(kind: str) -> pytest.MarkDecorator:
    """The numbers of inputs of a kind: a few always, very many among the power tests."""
    many = pytest.param(MANY[kind], marks=pytest.mark.power)
    return pytest.mark.parametrize("number", [FEW, many], ids=["few", "very many"])


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where notes and tracebacks go."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


_watched: list[tuple[Path, list[str]]] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook stays for good: it looks only while somebody watches."""
    if event != "open" or not _watched or not isinstance(arguments[0], str | bytes):
        return
    root, strange = _watched[-1]
    path = os.path.realpath(os.fsdecode(arguments[0]))
    writes = (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    ours = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]), "/proc/", "/dev/null")
    # Whoever first uses a module or a template of ours keeps it compiled, beside it.
    compiled = path.startswith(ours) and f"{os.sep}__pycache__{os.sep}" in path
    if not path.startswith(str(root)) and (not path.startswith(ours) or (writes and not compiled)):
        strange.append(path)


sys.addaudithook(_hook)


@contextmanager
def watched(root: Path) -> Iterator[None]:
    """Nothing outside a folder is opened, our own program apart, and it is over in time."""
    strange = list[str]()

    def late(*_: object) -> None:
        raise TimeoutError(f"not over in {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST_S)
    _watched.append((root, strange))
    try:
        yield
    finally:
        _watched.pop()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert not strange, strange


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Some bytes changed, gone, doubled, moved, or other words in their place."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
        end = min(end, at + rng.choice((1, 8, 96, 10_000)))
        part = data[at:end]
        instead = rng.choice(
            (
                rng.randbytes(len(part)),
                bytes(byte ^ 1 << rng.randrange(8) for byte in part),
                b"",
                part + part,
                part[::-1],
                rng.choice(WORDS),
                part + rng.choice(WORDS),
            )
        )
        data = data[:at] + instead + (data[end:] if rng.random() < 0.9 else b"")
    return data


@counts("runs")
def test_a_damaged_run_is_judged_or_refused(
    tmp_path: Path, number: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # An audit hook sees names without the directory that they are opened in.
    monkeypatch.chdir(tmp_path)
    run, codes = sound(tmp_path / "runs"), Counter[int]()
    names = [name for name in FILES if (run / name).is_file()]
    assert len(names) >= 6
    # Of both kinds of segment one.
    segment = run / "history" / "resource.seg"
    segment.write_bytes(packed(segment.read_bytes()))
    verdicts = (run / "verdicts.json").read_bytes()
    for n in range(number):
        rng = random.Random(f"run {n}")
        name = rng.choice(names)
        whole = (run / name).read_bytes()
        (run / name).write_bytes(damaged(rng, whole))
        command = rng.choice((("check", "--json"), ("check", "--json"), ("report",)))
        capsys.readouterr()
        with watched(tmp_path):
            code = code_of(command[0], str(run), *command[1:])
        said = capsys.readouterr()
        where = (n, name, command, code, said.err)
        assert "Traceback" not in said.err, where
        assert code in (0, 1, 2, 3), where
        if code == 1:
            told = json.loads(said.out)["verdicts"]
            assert any(one["verdict"] == "VIOLATED" for one in told), where
        codes[code] += 1
        (run / name).write_bytes(whole)
        (run / "verdicts.json").write_bytes(verdicts)
    assert codes[2] > number // 10, codes


@counts("certificates")
def test_a_damaged_certificate_is_refused_or_unreadable(
    tmp_path: Path, number: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`verify` accepts what it accepted before, refuses (4) or cannot read (2), and says which."""
    monkeypatch.chdir(tmp_path)
    words = ("--backend", "sim", "--system", "majority", "--nemesis", "kill", "--seed", "1")
    code_of("run", *words, "--time", "4s", "--out", str(tmp_path / "runs"))
    run, codes = (tmp_path / "runs" / "latest").resolve(), Counter[int]()
    whole = (run / "verdicts.json").read_bytes()
    assert sum(len(row["findings"]) for row in json.loads(whole)["verdicts"]) > 2
    assert code_of("verify", str(run)) == 0
    for n in range(number):
        rng = random.Random(f"certificate {n}")
        (run / "verdicts.json").write_bytes(damaged(rng, whole))
        capsys.readouterr()
        with watched(tmp_path):
            code = code_of("verify", str(run))
        said = capsys.readouterr()
        assert "Traceback" not in said.err, (n, said.err)
        assert code in (0, 2, 4), (n, code, said.err)
        assert code != 4 or "refused" in said.out, (n, said)
        codes[code] += 1
    assert codes[2] > number // 10, codes


@counts("plans")
def test_a_damaged_plan_is_run_dry_or_refused(
    tmp_path: Path, number: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = (sound(tmp_path / "runs") / "plan.toml").read_bytes()
    plan, codes = tmp_path / "plan.toml", Counter[int]()
    for n in range(number):
        plan.write_bytes(damaged(random.Random(f"plan {n}"), whole))
        capsys.readouterr()
        with watched(tmp_path):
            code = code_of("run", str(plan), "--dry-run")
        said = capsys.readouterr().err
        assert code in (0, 2), (n, code, said)
        assert "Traceback" not in said, (n, said)
        codes[code] += 1
    assert codes[2] > number // 10, codes


@pytest.mark.parametrize("depth", [80, 5_000])
def test_a_plan_nested_too_deeply_is_refused_in_one_line(
    tmp_path: Path, depth: int, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(f'schema = "holdfast-plan/1"\nseed = {"[" * depth}{"]" * depth}\n')
    assert code_of("run", str(plan), "--dry-run") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "nested too deeply" in line


class Wire:
    """As much of a socket as a handler asks of it."""

    def __init__(self, data: bytes) -> None:
        self._data, self.sent = data, b""

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._data)

    def sendall(self, data: bytes) -> None:
        self.sent += bytes(data)

    def settimeout(self, _: object) -> None:
        """In memory nothing waits."""


@counts("requests")
def test_a_damaged_request_has_an_answer_or_none(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A zip is made in a file without a name.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run = sound(tmp_path / "runs").name
    paths = ("/", "/run", "/report", "/zip", "/log", "/compare", "/style.css", "/nothing")
    server = Server(("127.0.0.1", 0), RunIndex(tmp_path / "runs", ["true"]))
    status = Counter[bytes]()
    try:
        host = server.place.encode()
        for n in range(number):
            rng = random.Random(f"request {n}")
            path = f"{rng.choice(paths)}?id={run}&file=manifest.json&with={run}&still=1".encode()
            data = b"GET " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
            wire: Any = Wire(damaged(rng, data) if n % 4 else data)
            with watched(tmp_path):
                HttpHandler(wire, ("127.0.0.1", 1), server)
            assert b"Traceback" not in wire.sent, n
            # Version 0.9 of the protocol, which nothing but damage asks for, has no status line.
            status[wire.sent[9:12] if wire.sent.startswith(b"HTTP/1.") else b""] += 1
    finally:
        server.server_close()
    assert status[b"200"] > number // 10, status
    assert not status[b"500"], status
