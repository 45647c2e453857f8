"""Bad input gets one clear message, the right exit code and no traceback, and nothing is lost."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.api import plan_options
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.plans.manifest import to_table
from holdfast.harness.recording import segments
from holdfast.harness.runs import directory
from holdfast.planning import prepare
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
        (("--lease", "2"), "--lease: invalid duration '2': expected a number with a unit"),
        (("--clients", "0"), "'--clients': '0': expected a whole number >= 1"),
        (("--nodes", "many"), "'--nodes': 'many': expected a whole number >= 1"),
        (("--seed", "-4"), "'--seed': '-4': expected a whole number >= 0"),
        (("--nemesis", "pause,"), "expected NAME, NAME,NAME or NAME:OPTION=VALUE"),
        (("--nemesis", "pause:for=0s"), "option for: invalid duration '0s': expected > 0"),
        (("--nemesis", "pause:for=-1s"), "option for: invalid duration '-1s': expected > 0"),
        (("--client", "./x", "--system", "redis"), "program@redis: no such file: x"),
        (("--client", "./x", "--system", "flock"), "unknown system with servers 'flock'"),
        (("--system", "mylock.py"), "is FILE.py:CLASS or FILE.toml, like mylock.py:MyLock"),
        (
            ("--system", "a.b:C"),
            "unknown system 'a.b:C': your own system is FILE.py:CLASS",
        ),
        (("--workload", "mine.py"), "is FILE.py:NAME, like mine.py:Mine"),
        (("--checker", "mine.py"), "is FILE.py:NAME, like mine.py:check"),
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
    refused(holdfast(capsys, "run", "--out", "file/runs"), 2, "cannot be created", "--out")


def test_a_target_that_no_plan_knows_is_refused_before_the_run(capsys: Capture) -> None:
    words = ("run", "--system", "single", "--backend", "sim", "--time", "5s", "--dry-run")
    said = holdfast(capsys, *words, "--nemesis", "pause:target=hodler,every=2s,for=1s")
    refused(said, 2, "nemesis pause: unknown target 'hodler'", "did you mean 'holder'")
    assert said.err.count("hodler") == 1
    for target in ("holder|one", "leader+c2", "n1", "probe", "resource"):
        said = holdfast(capsys, *words, "--nemesis", f"pause:target={target},every=2s,for=1s")
        assert said.code == 0, said.err


AIMED = [
    ("hodler", "unknown target 'hodler'; did you mean 'holder'"),
    ("leader|hodler", "unknown target 'hodler'"),
    ("n9", "target 'n9': no such server; this run has n1 to n3"),
    ("one|n4", "target 'n4': no such server"),
    ("c1+c7", "target 'c7': no such client; this run has c1 to c5"),
]
"""A target that no node of three servers and five clients has, and why."""


@pytest.mark.parametrize(("target", "why"), AIMED)
@pytest.mark.parametrize("do", ["pause", "kill", "clock", "delay", "partition"])
def test_a_target_is_checked_even_if_no_fault_falls_into_the_run(
    capsys: Capture, do: str, target: str, why: str
) -> None:
    words = ("run", "--system", "reference", "--backend", "sim", "--time", "1s", "--dry-run")
    said = holdfast(capsys, *words, "--nemesis", f"{do}:target={target}")
    refused(said, 2, f"nemesis {do}: {why}")


@pytest.mark.parametrize(("target", "why"), AIMED)
def test_the_targets_of_plans_and_campaigns_are_checked(
    tmp_path: Path, capsys: Capture, target: str, why: str
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(FAULT.format(do="pause", param="").replace("n1", target))
    refused(holdfast(capsys, "run", plan), 2, f"nemesis pause: {why}")
    campaign = tmp_path / "campaign.toml"
    campaign.write_text(CAMPAIGN.format(target=target))
    refused(holdfast(capsys, "campaign", campaign), 2, f"nemesis pause: {why}")


CAMPAIGN = """
schema = "holdfast-campaign/1"
systems = ["reference"]
backend = "sim"
workloads = ["critical-section"]
nemeses = ["none", "pause:target={target}"]
seeds = 1
time = "1s"
"""
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


def test_sixty_names_are_not_a_message(capsys: Capture) -> None:
    said = holdfast(capsys, "sim", "--mutant", "nope")
    assert said.code == 2 and "holdfast list mutants has all" in said.err
    assert len(said.err) < 200
    assert "did you mean 'late-word'?" in holdfast(capsys, "sim", "--mutant", "late-wrd").err


def test_a_failpoint_is_refused_in_the_simulator(capsys: Capture) -> None:
    said = holdfast(capsys, "run", "--backend", "sim", "--nemesis", "failpoint:function=main.main")
    refused(said, 2, "nemesis failpoint does not run in the simulator: use --backend local")


def test_a_class_that_imports_installed_packages_is_noted_where_clients_lack_them(
    capsys: Capture, elsewhere: Path
) -> None:
    lock = LOCK.replace("FOLDER", str(elsewhere))
    Path("own.py").write_text(f"import msgspec\n{lock}")
    words = ("--system", "own.py:Lock", "--time", "1s", "--seed", "3")
    plan = plan_options.from_options({"system": "own.py:Lock", "backend": "docker"}, ())
    (note,) = prepare.notes(prepare.prepared(plan))
    assert note.startswith("own.py:Lock imports msgspec: clients on docker have the standard")
    said = holdfast(capsys, "run", "--backend", "local-proxy", *words)
    assert "note:" not in said.err and said.code in (0, 3), said.err
    assert len(json.loads(Path(".holdfast/runs/latest/manifest.json").read_text())["site"]) >= 1
    Path("own.py").write_text(lock)
    assert holdfast(capsys, "run", "--backend", "local-proxy", *words).code in (0, 3)
    assert "site" not in json.loads(Path(".holdfast/runs/latest/manifest.json").read_text())


LOCK = """
import fcntl

class Lock:
    nodes = 0

    def __init__(self, servers, options):
        self.held = None

    def acquire(self, lock, owner, ttl_s):
        file = open("FOLDER/" + lock, "w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self.held = file
        return True

    def release(self, lock, owner):
        self.held.close()
        return True
"""


def test_a_workload_with_too_few_locks_is_noted_before_the_run(
    capsys: Capture, elsewhere: Path
) -> None:
    words = ("run", "--backend", "sim", "--workload", "many-locks", "--time", "1s", "--seed", "3")
    note = "note: many-locks with 1 lock cannot exercise no-multi-lock-deadlock, which needs 2"
    assert f"{note}: add --locks 2\n" in holdfast(capsys, *words).err
    assert "note:" not in holdfast(capsys, *words, "--locks", "2").err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("sim", "--budget", "5"), "--budget: invalid duration '5'"),
        (
            ("sim", "--system", "redis"),
            "redis has no simulated servers to search; these have: reference",
        ),
        (("shrink", "gone", "--budget", "0s"), "--budget: invalid duration '0s': expected > 0"),
        (("campaign", "gone.toml", "--time", "5"), "--time: invalid duration '5'"),
        (("gate", "gone"), "gone: no such campaign, run directory or folder of either"),
        (("list",), "missing KIND: one of systems, workloads"),
        (("list", "functions"), "missing PROGRAM: holdfast list functions PROGRAM"),
        (("list", "systems", "x"), "list systems takes no PROGRAM, x"),
        (("serve", "--port", "99999"), "expected a whole number >= 0 and <= 65535"),
        (("scenario", "finding:redis-py-4280"), "'redis-py-4279'? (holdfast list findings has all"),
        (("run", "--backend", "sim", "--out", "file"), "file: a run directory cannot be created"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_mistake_in_a_command_names_the_option_and_what_it_accepts(
    capsys: Capture, words: tuple[str, ...], part: str
) -> None:
    Path("file").touch()
    refused(holdfast(capsys, *words), 2, part)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("time = 5\n", ["invalid time = 5: expected a duration in quotes, like"]),
        ('[[fault]]\ndo = "pause"\nat = "1s"\n', ['fault 1 (f1): missing for = "3s"']),
        ('[[fault]]\nid = "x"\n', ['(x): missing do = "partition", at = "4s", for = "3s"']),
        ("[[nemesis]]\n", ['nemesis 1: missing name, as in name = "partition"']),
    ],
)
def test_a_mistake_in_a_plan_names_the_key_and_shows_one_that_is_right(
    capsys: Capture, text: str, parts: list[str]
) -> None:
    Path("plan.toml").write_text(f'system = "reference"\nbackend = "sim"\n{text}')
    refused(holdfast(capsys, "run", "plan.toml", "--dry-run"), 2, "plan.toml: ", *parts)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("seeds = 'three'\n", "invalid seeds = 'three': expected a number >= 1 or a list of seeds"),
        ("seeds = 2\nfirst_seed = -1\n", "invalid first_seed = -1"),
        ("nemeses = 'pause'\n", 'as in nemeses = ["partition"]'),
    ],
)
def test_a_mistake_in_a_campaign_names_the_key_that_is_wrong(
    capsys: Capture, text: str, part: str
) -> None:
    Path("c.toml").write_text(f'systems = ["reference"]\nbackend = "sim"\n{text}')
    refused(holdfast(capsys, "campaign", "c.toml", "--dry-run"), 2, part)


def test_a_wrong_setting_names_its_source(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("holdfast.toml").write_text("time = 5\n")
    refused(holdfast(capsys, "run"), 2, "holdfast.toml: time: invalid duration '5'")
    monkeypatch.setenv("HOLDFAST_BACKEND", "dokcer")
    words = ("run", "--time", "5s")
    refused(holdfast(capsys, *words), 2, "environment HOLDFAST_BACKEND: backend: unknown backend")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("x = 1\nraise RuntimeError('boom')\n", ["own.py, line 2: ", "RuntimeError: boom"]),
        (
            "import nosuchmodule\n",
            ["line 1: ", "'nosuchmodule'", "not installed beside Holdfast"],
        ),
        ("def (:\n", ["own.py: execution failed: SyntaxError", "line 1"]),
    ],
)
def test_a_file_of_ones_own_that_fails_is_told_with_its_line(
    capsys: Capture, text: str, parts: list[str]
) -> None:
    Path("own.py").write_text(text)
    refused(holdfast(capsys, "run", "--system", "own.py:Lock"), 2, *parts)
