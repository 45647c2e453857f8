"""Bad input gets one clear message, the right exit code and no traceback, and nothing is lost."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.harness.core.operations import Op, Status
from holdfast.harness.plans.manifest import to_table
from holdfast.harness.recording import segments
from holdfast.harness.runs import directory
from tests.front.said import Said, holdfast
from tests.manifests import manifest

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in a folder of its own, without settings of the person who runs it."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("HOLDFAST_") and name != "HOLDFAST_REQUIRE":
            monkeypatch.delenv(name)
    return tmp_path


def refused(said: Said, code: int, *parts: str) -> None:
    assert said.code == code
    assert "Traceback" not in said.err
    for part in parts:
        assert part in said.err


def test_an_unknown_system_is_told_with_its_neighbour(capsys: Capture) -> None:
    said = holdfast(capsys, "run", "--system", "refrence")
    refused(said, 2, "unknown system 'refrence'", "did you mean 'reference'?")


def test_a_workload_that_the_system_cannot_do_says_what_is_missing(capsys: Capture) -> None:
    said = holdfast(capsys, "run", "--system", "single", "--workload", "read-write", "--dry-run")
    refused(
        said, 2, "workload read-write needs abilities that single lacks", "readers hold together"
    )
    said = holdfast(capsys, "run", "--workload", "priority-flood", "--dry-run")
    refused(said, 2, "needs abilities that reference lacks (--set queue=priority)")
    words = ("run", "--workload", "priority-flood", "--set", "queue=priority", "--dry-run")
    assert holdfast(capsys, *words).code == 0


def test_an_unknown_nemesis_is_told_with_its_neighbour(capsys: Capture) -> None:
    refused(holdfast(capsys, "run", "--nemesis", "clokc"), 2, "did you mean 'clock'?")


def test_an_unknown_option_of_a_nemesis_is_told(capsys: Capture) -> None:
    refused(holdfast(capsys, "run", "--nemesis", "pause:fro=3s"), 2, "fro", "for")


def test_an_unknown_command_is_told_with_its_neighbour(capsys: Capture) -> None:
    refused(holdfast(capsys, "rnu"), 2, "did you mean 'run'?")


def test_an_unknown_flag_is_a_usage_error(capsys: Capture) -> None:
    refused(holdfast(capsys, "run", "--sytem", "x"), 2, "--sytem")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--system", "redis", "--resource", "fenced"), "issues no fencing tokens"),
        (("--system", "redis", "--nodes", "3"), "at most 1 nodes"),
        (("--system", "redis", "--set", "persistance=stock"), "did you mean 'persistence'?"),
        (
            ("--system", "redis", "--set", "persistence=rdb"),
            "invalid persistence=rdb: expected one of stock",
        ),
        (("--set", "writes"), "expected NAME=VALUE"),
        (("--set", "writes=many"), "invalid option writes=many: expected a whole number"),
        (("--lease", "2"), "invalid duration '"),
        (("--clients", "0"), "0 is not in the range"),
    ],
)
def test_what_does_not_fit_together_is_told_before_anything_starts(
    capsys: Capture, elsewhere: Path, words: tuple[str, ...], part: str
) -> None:
    refused(holdfast(capsys, "run", *words), 2, part)
    assert not list(elsewhere.iterdir())


def test_a_plan_with_three_mistakes_has_all_three_told(capsys: Capture, elsewhere: Path) -> None:
    plan = elsewhere / "plan.toml"
    plan.write_text(
        'system = "refrence"\nlease = "2"\n[[nemesis]]\nname = "clokc"\n[[nemesis]]\nname="pause"\n'
    )
    said = holdfast(capsys, "run", plan)
    refused(said, 2, "'refrence'", "invalid duration '2'", "'clokc'", str(plan))
    assert len(said.err.splitlines()) == 3


def test_a_plan_that_is_no_toml_is_told(capsys: Capture, elsewhere: Path) -> None:
    (elsewhere / "plan.toml").write_text("system = ")
    refused(holdfast(capsys, "run", "plan.toml"), 2, "plan.toml: not TOML")
    refused(holdfast(capsys, "run", "nowhere.toml"), 2, "nowhere.toml: cannot be read")


def test_settings_nobody_knows_are_all_told(capsys: Capture, elsewhere: Path) -> None:
    (elsewhere / "holdfast.toml").write_text('sistem = "redis"\nclients = "many"\n')
    said = holdfast(capsys, "config", "show")
    refused(said, 2, "did you mean 'system'?")


def test_a_setting_is_shown_with_its_source(
    capsys: Capture, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / "pyproject.toml").write_text("[tool.holdfast]\nclients = 9\nlocks = 2\n")
    monkeypatch.setenv("HOLDFAST_CLIENTS", "11")
    lines = holdfast(capsys, "config", "show").out.splitlines()
    found = {line.split()[0]: line.split(maxsplit=2)[1:] for line in lines}
    assert found["clients"] == ["11", "environment HOLDFAST_CLIENTS"]
    assert found["locks"] == ["2", "pyproject.toml"]
    assert found["system"] == ["reference", "default"]


def recorded_run(folder: Path) -> directory.RunDir:
    """A run directory with a history of one row."""
    run = directory.create(folder, "run")
    directory.write_json(run.manifest, to_table(manifest()))
    meta = {"node": "c1", "processes": [1]}
    with segments.Recorder(run.history, "c1", meta) as recorder:
        recorder.complete(recorder.invoke(Op.TRY, 1, 0), Status.OK)
    return run


def test_a_folder_that_is_no_run_is_told(capsys: Capture, elsewhere: Path) -> None:
    refused(holdfast(capsys, "check", elsewhere), 2, "manifest.json: no such file")


def test_a_history_that_is_not_there_is_told(capsys: Capture, elsewhere: Path) -> None:
    away = elsewhere / "away.jsonl"
    refused(holdfast(capsys, "check", away, "--model", "mutex"), 2, f"{away}: no such file or run")


def test_a_run_of_a_newer_schema_is_told(capsys: Capture, elsewhere: Path) -> None:
    run = recorded_run(elsewhere)
    run.manifest.write_text(json.dumps({"schema": "holdfast-run/9"}))
    refused(
        holdfast(capsys, "check", run.path),
        2,
        "'holdfast-run/9'",
        "the file is from a newer version",
    )


def test_a_damaged_manifest_is_told(capsys: Capture, elsewhere: Path) -> None:
    run = recorded_run(elsewhere)
    run.manifest.write_text('{"schema": ')
    refused(holdfast(capsys, "check", run.path), 2, "manifest.json: cannot be read")


@pytest.mark.parametrize("keep", [0, 2000, segments.HEADER_BYTES + 10])
def test_a_truncated_segment_is_told_and_left_as_it_is(
    capsys: Capture, elsewhere: Path, keep: int
) -> None:
    run = recorded_run(elsewhere)
    segment = run.history / "c1.seg"
    os.truncate(segment, keep)
    refused(holdfast(capsys, "check", run.path), 2, str(segment), "copy the run directory again")
    assert segment.stat().st_size == keep


def test_a_corrupt_segment_is_told_with_its_row(capsys: Capture, elsewhere: Path) -> None:
    run = recorded_run(elsewhere)
    segment = run.history / "c1.seg"
    data = bytearray(segment.read_bytes())
    data[segments.HEADER_BYTES + 91] = 99
    segment.write_bytes(data)
    refused(holdfast(capsys, "check", run.path), 2, "row 0 (byte 4096) is damaged")


def test_no_engine_is_an_environment_that_failed(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    said = holdfast(capsys, "run", "--backend", "docker", "--time", "1s")
    refused(said, 4, "docker", "/nowhere/docker.sock")


def test_a_folder_that_cannot_be_written_is_told(capsys: Capture, elsewhere: Path) -> None:
    (elsewhere / "file").write_text("")
    refused(
        holdfast(capsys, "run", "--out", "file/runs"), 2, "cannot create a run directory", "--out"
    )


def test_a_target_that_no_plan_knows_is_refused_before_the_run(capsys: Capture) -> None:
    words = ("run", "--system", "single", "--backend", "sim", "--time", "5s", "--dry-run")
    said = holdfast(capsys, *words, "--nemesis", "pause:target=hodler,every=2s,for=1s")
    refused(said, 2, "nemesis pause: unknown target 'hodler'", "did you mean 'holder'")
    assert said.err.count("hodler") == 1
    for target in ("holder|one", "leader+c2", "n1", "probe", "resource"):
        said = holdfast(capsys, *words, "--nemesis", f"pause:target={target},every=2s,for=1s")
        assert said.code == 0, said.err


FAULT = """
schema = "holdfast-plan/1"
system = "reference"
backend = "sim"
time = "4s"
[[fault]]
id = "f1"
do = "{do}"
target = "n1"
at = "1s"
for = "1s"
{param}
"""


@pytest.mark.parametrize(
    ("do", "param", "why"),
    [
        ("clock", 'stepp = "5s"', "unknown option 'stepp'; did you mean 'step'?"),
        ("syscall", 'call = "sned"', "unknown call 'sned'; did you mean 'send'?"),
        ("syscall", 'first = "0"', "expected a number from 1"),
        ("partition", 'way = "up"', "unknown value 'up'"),
    ],
)
def test_a_wrong_parameter_of_a_planned_fault_is_refused_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], do: str, param: str, why: str
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(FAULT.format(do=do, param=param))
    said = holdfast(capsys, "run", str(plan))
    refused(said, 2, f"fault f1: nemesis {do}: ", why)


def test_a_class_that_a_file_lacks_is_told_with_its_neighbour(
    capsys: Capture, elsewhere: Path
) -> None:
    Path("mylock.py").write_text("class Lock:\n    pass\n")
    said = holdfast(capsys, "run", "--system", "mylock.py:Lok")
    assert said.code == 2
    assert "mylock.py has no 'Lok'; did you mean 'Lock'? (it defines Lock)" in said.err


def test_a_dotted_name_is_told_how_a_class_of_ones_own_is_named(capsys: Capture) -> None:
    said = holdfast(capsys, "run", "--system", "a.b:C")
    assert said.code == 2 and "your own system is FILE.py:NAME" in said.err


def test_sixty_names_are_not_a_message(capsys: Capture) -> None:
    said = holdfast(capsys, "sim", "--mutant", "nope")
    assert said.code == 2 and "holdfast list mutants has all" in said.err
    assert len(said.err) < 200
    assert "did you mean 'late-word'?" in holdfast(capsys, "sim", "--mutant", "late-wrd").err


def test_a_failpoint_is_refused_in_the_simulator(capsys: Capture) -> None:
    said = holdfast(capsys, "run", "--backend", "sim", "--nemesis", "failpoint:function=main.main")
    refused(said, 2, "nemesis failpoint does not run in the simulator: use --backend local")


def test_a_workload_with_too_few_locks_is_noted_before_the_run(
    capsys: Capture, elsewhere: Path
) -> None:
    words = ("run", "--backend", "sim", "--workload", "many-locks", "--time", "1s", "--seed", "3")
    note = "note: many-locks with 1 lock cannot exercise no-multi-lock-deadlock, which needs 2"
    assert f"{note}: add --locks 2\n" in holdfast(capsys, *words).err
    assert "note:" not in holdfast(capsys, *words, "--locks", "2").err
