"""However a run directory was damaged: no exit code 1, no traceback, no page taken down."""

from __future__ import annotations

import copy
import functools
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.run_directory import Shape, write

from holdfast.commands import main
from holdfast.harness.campaigns.run_index import RunIndex
from holdfast.harness.core.seeds import stream
from holdfast.serve.server import _list, _run
from tests.draws import Draws

SHAPE = Shape(ops=200, clients=3, writes=1, lapse=20)
WRONG: tuple[Any, ...] = (None, -1, 10**18, 10**30, 1.5, "", "x", [], ["x"], {}, {"x": 1}, True)
FILES = ("manifest.json", "verdicts.json", "times.jsonl", "faults.jsonl")
SUITE, POWER = 60, 1500
FAULTS = [
    {"id": "f1", "event": "planned", "do": "pause", "target": "n1", "at_ns": 1, "for_ns": 2,
     "params": {}},
    {"id": "f1", "event": "injected", "do": "pause", "target": "n1", "t_ns": 10**9,
     "before_ns": 10**9, "nodes": ["n1"], "holder": "", "leader": "n1", "term": 3,
     "evidence": {"effective": True}},
    {"id": "f1", "event": "healed", "do": "pause", "target": "n1", "t_ns": 2 * 10**9,
     "evidence": {"states": {"n1": "T"}}, "effective": True},
]  # fmt: skip


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where notes and tracebacks go."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def code_of(*words: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(words))
    assert isinstance(left.value.code, int)
    return left.value.code


@functools.cache
def _sound() -> dict[str, bytes]:
    """The files of a run that holds, judged, with a fault in it, by path below its folder."""
    with tempfile.TemporaryDirectory() as folder:
        run = write(SHAPE, Path(folder)).path
        (run / "faults.jsonl").write_text("".join(json.dumps(row) + "\n" for row in FAULTS))
        assert code_of("check", str(run), "--json") in (0, 3)
        files = [path for path in run.parent.rglob("*") if path.is_file()]
        return {str(path.relative_to(run.parent)): path.read_bytes() for path in files}


def sound(folder: Path) -> Path:
    """Such a run in a folder; it is made and judged once for all tests of a process."""
    for name, data in _sound().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder / next(iter(_sound())).partition("/")[0]


def rows(path: Path) -> list[Any]:
    text = path.read_text()
    if path.suffix == ".json":
        return [json.loads(text)]
    return [json.loads(line) for line in text.splitlines()]


def put(path: Path, found: list[Any]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in found))


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside a value."""
    inner: Any = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for key, one in inner:
        yield (*at, key)
        yield from places(one, (*at, key))


def altered(value: Any, way: tuple[Any, ...], instead: Any, gone: bool) -> Any:
    found = copy.deepcopy(value)
    inside = found
    for key in way[:-1]:
        inside = inside[key]
    if gone:
        del inside[way[-1]]
    else:
        inside[way[-1]] = instead
    return found


def fields(tmp_path: Path, count: int, capsys: pytest.CaptureFixture[str]) -> Counter[int]:
    """Exit codes of so many runs with a wrong field each; none may be an error of ours."""
    run = sound(tmp_path / "runs")
    ways = [(name, way) for name in FILES for way in places(rows(run / name)) if len(way) > 1]
    codes: Counter[int] = Counter()
    shelf = RunIndex(tmp_path / "runs", ["true"])
    for n in range(count):
        rng = stream(11, "fields", n)
        # The same number of tries for each file, however much there is in it.
        name = rng.choice(FILES)
        way = rng.choice([way for of, way in ways if of == name])
        whole = (run / name).read_bytes()
        instead, gone = rng.choice(WRONG), rng.randrange(8) == 0
        put(run / name, altered(rows(run / name), way, instead, gone))
        kept = (run / "verdicts.json").read_bytes()
        assert _list(shelf, {}).status == 200
        for entry in shelf.entries():
            _run(shelf, {"still": ["1"]}, entry)
        for words in (("report", str(run)), ("check", str(run), "--json")):
            capsys.readouterr()
            code = code_of(*words)
            said = capsys.readouterr().err
            where = (n, words[0], name, way, instead, gone, said)
            assert code in (0, 2, 3), where
            assert "Traceback" not in said, where
            codes[code] += 1
        (run / "verdicts.json").write_bytes(kept)
        (run / name).write_bytes(whole)
    return codes


def test_a_field_of_a_wrong_kind_is_never_a_broken_promise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], draws: Draws
) -> None:
    codes = fields(tmp_path, draws(SUITE), capsys)
    assert codes[2] > draws(SUITE) // 4


@pytest.mark.power
def test_a_field_of_a_wrong_kind_is_never_a_broken_promise_at_full_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = fields(tmp_path, POWER, capsys)
    assert codes[2] > POWER // 4


def deep(path: Path) -> None:
    path.write_text("[" * 50_000 + "]" * 50_000 + "\n")


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def sparse(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(1 << 40)


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def gone(path: Path) -> None:
    path.unlink()


INJURIES: tuple[Callable[[Path], None], ...] = (deep, fifo, sparse, link, folder, empty, gone)
EVERY = ("manifest.json", "times.jsonl", "faults.jsonl", "history/c1.seg", "history/c1.strings",
         "plan.toml", "verdicts.json")  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("injury", INJURIES, ids=lambda injury: injury.__name__)
def test_a_damaged_file_is_told_in_one_line(
    tmp_path: Path, injury: Callable[[Path], None], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = sound(tmp_path / "runs")
    shutil.copytree(run, tmp_path / "runs" / "sound")
    injury(run / name)
    shelf = RunIndex(tmp_path / "runs", ["true"])
    listing = _list(shelf, {})
    assert listing.status == 200
    assert any(entry.id == "sound" and entry.state == "judged" for entry in shelf.entries())
    for words in (("check", str(run), "--json"), ("check", str(run)), ("report", str(run))):
        capsys.readouterr()
        code = code_of(*words)
        said = capsys.readouterr().err
        assert code in (0, 2, 3), said
        assert "Traceback" not in said
        assert len(said.splitlines()) <= 2


def test_a_run_of_ten_to_the_thirtieth_servers_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = sound(tmp_path)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["plan"]["nodes"] = 10**30
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert code_of("check", str(run)) == 2
    assert "nodes" in capsys.readouterr().err


def test_a_mistake_of_ours_is_one_line_and_a_private_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    run = sound(tmp_path)

    def broken(*args: Any) -> None:
        raise ZeroDivisionError("a mistake\nof two lines")

    monkeypatch.setattr("holdfast.engine.judging.judge", broken)
    capsys.readouterr()
    assert code_of("check", str(run)) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "ZeroDivisionError: a mistake;" in line
    (kept,) = (state / "holdfast" / "crashes").iterdir()
    assert str(kept) in line
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "Traceback" in kept.read_text()


def test_where_the_verdict_cannot_be_stored_it_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk; a directory that may only be read is none to root."""
    run = sound(tmp_path)

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("holdfast.harness.runs.files.write", full)
    capsys.readouterr()
    code = code_of("check", str(run))
    shown = capsys.readouterr()
    assert code in (0, 3)
    assert shown.err.count("No space left on device") == 2
    assert ("HOLDS" if code == 0 else "UNKNOWN") in shown.out
    assert code_of("check", str(run), "--json") == code
    assert json.loads(capsys.readouterr().out)["exit_code"] == code


def test_a_dry_run_does_not_execute_the_file_that_a_plan_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lock.py").write_text("open('executed', 'w').close()\n")
    plan = tmp_path / "plan.toml"
    plan.write_text('schema = "holdfast-plan/1"\nsystem = "lock.py:Lock"\nseed = 1\n')
    assert code_of("run", str(plan), "--dry-run") == 2
    assert "read lock.py" in capsys.readouterr().err
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("field", ["backend", "seed", "nodes", "faults", "lease_ns"])
def test_a_plan_that_lacks_a_field_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str
) -> None:
    run = sound(tmp_path)
    (found,) = rows(run / "manifest.json")
    del found["plan"][field]
    put(run / "manifest.json", [found])
    capsys.readouterr()
    assert code_of("check", str(run)) == 2
    assert f"'{field}' is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "row", "field", "value"),
    [
        ("times.jsonl", "stop", "t_ns", 0),
        ("times.jsonl", "end", "t_ns", 10**18),
        ("manifest.json", "promises", "drift_ppm", 10**18),
        ("manifest.json", "plan", "locks", 10**12),
    ],
)
def test_numbers_of_the_right_kind_that_no_run_has_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, row: str, field: str, value: int
) -> None:
    run = sound(tmp_path)
    found = rows(run / name)
    for each in found:
        if each.get("mark") == row:
            each[field] = value
        elif row in each:
            each[row][field] = value
    put(run / name, found)
    capsys.readouterr()
    assert code_of("check", str(run)) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_run_that_died_while_it_was_deployed_is_told_as_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = sound(tmp_path)
    marks = [line for line in (run / "times.jsonl").read_text().splitlines() if "deployed" in line]
    (run / "times.jsonl").write_text("".join(f"{line}\n" for line in marks))
    capsys.readouterr()
    assert code_of("check", str(run)) == 3
    shown = " ".join(capsys.readouterr().out.split())
    assert "the history may be incomplete: the run ended during deployment" in shown
    assert code_of("check", str(run), "-v") == 3
    shown = " ".join(capsys.readouterr().out.split())
    assert "the run ended during deployment, before its workload began" in shown
