"""Plug-ins: files of the user, and a third-party package in a fresh environment."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.catalogue import plug_ins
from holdfast.catalogue.plug_ins import PlugIn
from holdfast.engine.checkers import with_named
from holdfast.harness.core.verdict import Severity
from holdfast.harness.plans.manifest import RecordedChecker
from holdfast.harness.plans.plan import Plan
from holdfast.planning import fingerprints
from tests import needs
from tests.checkers.shorthand import case
from tests.front.said import holdfast
from tests.front.test_howto import steps
from tests.manifests import manifest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tests" / "third_party"
STARTERS = ROOT / "src" / "holdfast" / "starters" / "program"
ORIGIN = "holdfast-example 1.2.0"
WITHIN_S = 900
KINDS = ("lock", "workload", "nemesis", "checker")
QUICK = ("run", "--backend", "sim", "--time", "12s", "--lease", "1s", "--seed", "7", "--json")
Capture = pytest.CaptureFixture[str]
SLOW = pytest.mark.real_server
"""A fresh environment takes its time: with the real servers, not in `make test`."""


class Environment:
    """A virtual environment with a folder to work in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._bin = folder / "venv" / "bin"
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A program of the environment, in its folder, with nothing of ours on the path."""
        # Where processes share the tests, COLUMNS is set in each, and lines would be wrapped.
        hidden = ("PYTHONPATH", "PYTEST_ADDOPTS", "VIRTUAL_ENV", "COLUMNS")
        return subprocess.run(
            [self._bin / words[0], *words[1:]],
            cwd=self.folder,
            env={name: text for name, text in os.environ.items() if name not in hidden},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
        )

    def install(self, *words: str) -> None:
        """Install packages with pip; a folder is built as a wheel first."""
        done = self.run("pip", "install", "--quiet", *words)
        for line in done.stderr.splitlines():
            if "Could not find a version that satisfies" in line:
                needs.unless(f"needs a package index: {line.strip()}")
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Holdfast and the third-party package, both from wheels built by hatchling, and pytest."""
    folder = tmp_path_factory.mktemp("fresh")
    copy = shutil.copytree(
        PACKAGE, folder / "package", ignore=shutil.ignore_patterns("__pycache__")
    )
    made = Environment(folder)
    made.install("--constraint", str(ROOT / "constraints.txt"), str(ROOT), str(copy), "pytest")
    return made


@pytest.fixture
def fresh(installed: Environment, tmp_path: Path) -> Environment:
    """That environment, with an empty folder to work in."""
    installed.folder = tmp_path
    return installed


@SLOW
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("systems", "in-memory"),
        ("systems", "modest"),
        ("workloads", "greedy"),
        ("nemeses", "crowd-pause"),
        ("nemeses", "one-cpu"),
        ("checkers", "served"),
        ("backends", "nearby"),
    ],
)
def test_an_installed_plug_in_is_listed_with_its_origin(
    fresh: Environment, kind: str, name: str
) -> None:
    rows = json.loads(fresh.run("holdfast", "list", kind, "--json").stdout)
    assert rows[name]["origin"] == ORIGIN
    assert rows["reference" if kind == "systems" else next(iter(rows))]["origin"] == "built in"
    assert f"[{ORIGIN}]" in fresh.run("holdfast", "list", kind).stdout


@SLOW
def test_a_broken_plug_in_is_one_line_and_silences_nothing(fresh: Environment) -> None:
    listed = fresh.run("holdfast", "list", "systems")
    assert listed.returncode == 0 and "in-memory" in listed.stdout and "redis" in listed.stdout
    (line,) = listed.stderr.splitlines()
    assert f"plug-in broken of {ORIGIN}: cannot be loaded: ModuleNotFoundError" in line
    used = fresh.run("holdfast", "run", "--system", "broken", "--backend", "sim")
    assert used.returncode == 2 and "cannot be loaded" in used.stderr


@SLOW
@pytest.mark.parametrize(
    ("backend", "system"), [("sim", "in-memory"), ("sim", "modest"), ("nearby", "modest")]
)
def test_a_run_of_all_plug_ins_is_judged_and_kept(
    fresh: Environment, backend: str, system: str
) -> None:
    """On processes too, whose clients import the copy of the package in the run directory."""
    words = ("--system", system, "--workload", "greedy", "--nemesis", "crowd-pause:for=2s,every=5s")
    told = fresh.run(
        "holdfast", *QUICK, "--backend", backend, *words, "--checker", "served", "--clients", "4"
    )
    verdict = json.loads(told.stdout)
    rows = {row["property"]: row for row in verdict["verdicts"]}
    assert rows["mutual-exclusion"]["verdict"] == "HOLDS", told.stderr
    assert rows["everybody-served"]["verdict"] == "HOLDS" and rows["everybody-served"]["promised"]
    assert rows["everybody-served"]["checker"] == "served"
    assert {fault["do"] for fault in verdict["faults"] if fault["effective"]} == {"crowd-pause"}
    assert verdict["verified"]["unverifiable"] == ["everybody-served"]
    run = fresh.folder / ".holdfast" / "runs" / "latest"
    assert (run / "own" / "holdfast_example" / "workload.py").is_file()
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["plug_ins"]["workloads greedy"] == ORIGIN
    assert manifest["traits"]["crowd-pause"]["stops"] is True
    assert rows["no-hung-request"]["promised"] == (system == "in-memory")
    again = fresh.run("holdfast", "check", str(run), "--json")
    assert json.loads(again.stdout)["verdicts"] == verdict["verdicts"]
    if backend == "sim":
        told = fresh.run("holdfast", "replay", str(run), "--times", "3")
        assert "the same history each time" in told.stdout


@SLOW
def test_an_installed_kind_of_fault_brings_its_half_to_the_agent(fresh: Environment) -> None:
    words = ("--system", "single", "--nemesis", "one-cpu:for=2s,every=4s")
    told = fresh.run("holdfast", *QUICK, "--backend", "local-proxy", *words)
    faults = json.loads(told.stdout)["faults"]
    assert faults and all(one["effective"] for one in faults), told.stderr


@SLOW
def test_an_installed_lens_adds_to_verdict_and_report_and_a_broken_one_is_named_once(
    fresh: Environment,
) -> None:
    told = fresh.run("holdfast", *QUICK, "--system", "single")
    verdict = json.loads(told.stdout)
    counts = verdict["seen"]["busiest"]
    assert sum(counts.values()) == verdict["evidence"]["acquire"]["granted"], told.stderr
    assert told.stderr.count(f"plug-in unlike of {ORIGIN}: expected a holdfast") == 1
    page = (fresh.folder / ".holdfast" / "runs" / "latest" / "report.html").read_text()
    assert 'id="busiest"' in page and f"was granted {max(counts.values())} of" in page


@SLOW
@pytest.mark.parametrize("kind", KINDS)
def test_a_starter_passes_its_own_test_in_a_fresh_environment(
    fresh: Environment, kind: str
) -> None:
    written = fresh.run("holdfast", "new", kind)
    assert written.returncode == 0, written.stderr
    command = written.stdout.splitlines()[1].split()
    assert fresh.run(*command).returncode in (0, 3), command
    passed = fresh.run("pytest", "-q", "-p", "no:cacheprovider", f"test_my_{kind}.py")
    assert passed.returncode == 0, passed.stdout
    before = (fresh.folder / f"my_{kind}.py").read_text()
    refused = fresh.run("holdfast", "new", kind)
    assert refused.returncode == 2 and f"my_{kind}.py: exists" in refused.stderr
    assert (fresh.folder / f"my_{kind}.py").read_text() == before


@SLOW
@pytest.mark.parametrize(
    ("kind", "files"),
    [
        ("program", {"server.js", "client.c", "mylock.toml"}),
        ("image", {"server.c", "client.c", "Dockerfile", "image.toml"}),
    ],
)
def test_a_starter_in_other_languages_comes_with_a_wheel(
    fresh: Environment, kind: str, files: set[str]
) -> None:
    written = fresh.run("holdfast", "new", kind)
    assert written.returncode == 0, written.stderr
    for name in files:
        path = fresh.folder / name
        assert path.read_text() == (STARTERS / name).read_text()
        path.write_text("mine")
    refused = fresh.run("holdfast", "new", kind)
    assert refused.returncode == 2 and all(f"{name}: exists" in refused.stderr for name in files)
    assert {(fresh.folder / name).read_text() for name in files} == {"mine"}


@SLOW
@pytest.mark.parametrize("page", ["own-workload", "own-nemesis", "own-checker"])
def test_a_tutorial_can_be_followed_from_a_wheel(
    fresh: Environment, tmp_path: Path, page: str
) -> None:
    for kind, text in steps(ROOT / "docs" / "tutorial" / f"{page}.md"):
        if kind != "console":
            head, _, rest = text.partition("\n")
            (tmp_path / head.removeprefix("# ")).write_text(rest if kind == "json" else text)
            continue
        for line in text.splitlines():
            command, _, comment = line.removeprefix("$ ").partition("  #")
            wanted = re.search(r"exit code (\d+)", comment)
            done = fresh.run(*shlex.split(command))
            assert done.returncode == (int(wanted[1]) if wanted else 0), done.stdout + done.stderr


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the modules of the package as files of a user."""
    for path in (PACKAGE / "holdfast_example").glob("*.py"):
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


OWN = (*QUICK, "--workload", "workload.py:Greedy", "--nemesis",
       "nemesis.py:CROWD_PAUSE:for=2s,every=5s", "--checker", "checker.py:served")  # fmt: skip


@pytest.mark.slow
def test_files_of_a_user_are_named_by_their_paths_and_kept_in_the_run(
    capsys: Capture, mine: Path
) -> None:
    told = json.loads(holdfast(capsys, *OWN, "--system", "lock.py:InMemory").out)
    rows = {row["property"]: row["verdict"] for row in told["verdicts"]}
    assert rows["mutual-exclusion"] == rows["everybody-served"] == "HOLDS"
    assert [fault["do"] for fault in told["faults"]] == ["nemesis.py:CROWD_PAUSE"] * 2
    for path in mine.glob("*.py"):
        path.unlink()
    again = holdfast(capsys, "replay", ".holdfast/runs/latest", "--times", "2")
    assert again.code == 0 and "the same history each time" in again.out


@pytest.mark.slow
def test_a_users_kind_of_fault_has_its_half_in_the_same_file(capsys: Capture, mine: Path) -> None:
    words = ("--system", "single", "--nemesis", "one_cpu.py:ONE_CPU:for=2s,every=4s")
    told = json.loads(holdfast(capsys, *QUICK, "--backend", "local-proxy", *words).out)
    assert told["faults"] and all(one["effective"] for one in told["faults"])
    for path in mine.glob("*.py"):
        path.unlink()
    again = holdfast(capsys, "replay", ".holdfast/runs/latest", "--json")
    assert again.code == 3 and "no finding" in again.err
    latest = json.loads(Path(".holdfast/runs/latest/verdicts.json").read_text())
    assert len(latest["faults"]) == len(told["faults"])
    assert all(one["effective"] for one in latest["faults"])


def test_judging_executes_a_users_checker_only_if_it_is_named(capsys: Capture, mine: Path) -> None:
    first = json.loads(holdfast(capsys, *OWN).out)
    (mine / "checker.py").write_text("raise SystemExit('executed')")
    run = ".holdfast/runs/latest"
    silent = json.loads(holdfast(capsys, "check", run, "--json").out)
    (row,) = [row for row in silent["verdicts"] if row["property"] == "everybody-served"]
    assert row["verdict"] == "UNKNOWN" and "judge with --checker" in row["reason"]
    assert silent["exit_code"] == 3
    copy = row["reason"].partition("--checker ")[2]
    named = json.loads(holdfast(capsys, "check", run, "--checker", copy, "--json").out)
    assert named["verdicts"] == first["verdicts"]


BAD = """
from holdfast.checkers.user_checker import checker
from holdfast.harness.core.verdict import Finding, PropertyVerdict, Verdict

@checker("never-good", says="nothing is ever good")
def accusing(case):
    found = Finding(kind="bad", sentence="it is bad", witnesses=(0,), lock="lock-1", t_ns=0)
    return PropertyVerdict(property="x", verdict=Verdict.VIOLATED, reason="", findings=(found,))

@checker("never-good", says="nothing is ever good")
def crashing(case):
    raise ValueError("no idea")

@checker("never-good", says="nothing is ever good")
def empty(case):
    return PropertyVerdict(property="x", verdict=Verdict.HOLDS, reason="")

@checker("never-good", says="nothing is ever good")
def silent(case):
    return PropertyVerdict(property="x", verdict=Verdict.VIOLATED, reason="")

@checker("never-good", says="nothing is ever good")
def wrong(case):
    return "VIOLATED"

@checker("never-good", says="nothing is ever good")
def beyond(case):
    found = Finding(kind="bad", sentence="it is bad", witnesses=(10**9,), lock="", t_ns=0)
    return PropertyVerdict(property="x", verdict=Verdict.VIOLATED, reason="", findings=(found,))
"""


def test_a_violation_counts_only_if_the_plan_asked_for_the_checker(
    capsys: Capture, mine: Path
) -> None:
    (mine / "bad.py").write_text(BAD)
    told = json.loads(holdfast(capsys, *QUICK, "--checker", "bad.py:accusing").out)
    assert told["exit_code"] == 1
    assert holdfast(capsys, "verify", ".holdfast/runs/latest").code == 0
    holdfast(capsys, *QUICK)
    later = holdfast(
        capsys, "check", ".holdfast/runs/latest", "--checker", "bad.py:accusing", "--json"
    )
    (row,) = [r for r in json.loads(later.out)["verdicts"] if r["property"] == "never-good"]
    assert (row["verdict"], row["promised"]) == ("VIOLATED", False) and later.code != 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("crashing", "the checker crashed: ValueError: no idea"),
        ("empty", "the checker counted nothing that it judged"),
        ("silent", "the checker's verdict contradicts its findings"),
        ("wrong", "the checker returned a str"),
        ("beyond", "a witness of the checker is no row of the history"),
    ],
)
def test_a_checker_that_does_not_judge_is_unknown(
    capsys: Capture, mine: Path, name: str, reason: str
) -> None:
    (mine / "bad.py").write_text(BAD)
    told = json.loads(holdfast(capsys, *QUICK, "--checker", f"bad.py:{name}").out)
    (row,) = [row for row in told["verdicts"] if row["property"] == "never-good"]
    assert (row["verdict"], row["reason"], told["exit_code"]) == ("UNKNOWN", reason, 3)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("stops=True, passes=True", "passes=True", "its traits do not say stops=True"),
        ("stops=True", "stops=True, leaves_running=True", "its traits say leaves_running=True"),
    ],
)
def test_a_fault_that_does_what_its_traits_do_not_say_is_skipped(
    capsys: Capture, mine: Path, old: str, new: str, reason: str
) -> None:
    file = mine / "nemesis.py"
    file.write_text(file.read_text().replace(old, new))
    told = json.loads(holdfast(capsys, *QUICK, "--nemesis", "nemesis.py:CROWD_PAUSE").out)
    assert told["faults"] and not any(fault["effective"] for fault in told["faults"])
    assert all(reason in fault["reason"] for fault in told["faults"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workload", "workload.py:Gredy"), "has no 'Gredy'"),
        (("--workload", "nowhere.py:Greedy"), "nowhere.py: no such file"),
        (("--workload", "nemesis.py:CROWD_PAUSE"), "missing `client`"),
        (("--nemesis", "workload.py:Greedy"), "missing `draw`"),
        (("--nemesis", "workload.py:Greedy"), "missing `traits`"),
        (("--checker", "workload.py:Greedy"), "not a checker: decorate the function"),
        (("--checker", "mutual-exclusion"), "built in"),
        (("--checker", "mutual-exclusio"), "did you mean 'mutual-exclusion'"),
        (("--system", "slow.py:Slow"), "it calls time.monotonic() by slow.py line 5"),
    ],
)
def test_what_is_no_plug_in_is_refused_with_the_reason(
    capsys: Capture, mine: Path, words: tuple[str, ...], said: str
) -> None:
    slow = "import time\nclass Slow:\n    def __init__(self, servers, options): pass\n"
    slow += "    def acquire(self, lock, owner, lease):\n        return time.monotonic() > 0\n"
    (mine / "slow.py").write_text(slow + "    def release(self, lock, owner): return True\n")
    told = holdfast(capsys, *QUICK, *words)
    assert told.code == 2 and said in told.err, told.err


def test_a_certificate_is_not_skipped_because_a_verdict_claims_a_checker_of_the_user(
    capsys: Capture, mine: Path
) -> None:
    words = ("--system", "majority", "--nemesis", "kill", "--time", "8s", "--seed", "1")
    holdfast(capsys, "run", "--backend", "sim", *words, "--checker", "checker.py:served")
    run = Path(".holdfast/runs/latest")
    verdicts = json.loads((run / "verdicts.json").read_text())
    for row in verdicts["verdicts"]:
        row["checker"] = "mine.py:check"
        for finding in row["findings"]:
            finding["certificate"] and finding["certificate"].update(rule="double-grant")
    (run / "verdicts.json").write_text(json.dumps(verdicts))
    told = holdfast(capsys, "verify", str(run))
    assert told.code == 4 and "refused: token-order, finding 1" in told.out
    assert "checker of the user: everybody-served" in told.out


def test_a_manifest_cannot_replace_a_built_in_checker(capsys: Capture, mine: Path) -> None:
    first = json.loads(holdfast(capsys, *QUICK).out)
    manifest = Path(".holdfast/runs/latest/manifest.json")
    table = json.loads(manifest.read_text())
    table["checkers"] = {"mutual-exclusion": {"name": "x.py:y", "severity": "low", "says": "none"}}
    manifest.write_text(json.dumps(table))
    again = json.loads(holdfast(capsys, "check", ".holdfast/runs/latest", "--json").out)
    assert again["verdicts"] == first["verdicts"]
    table["checkers"] = {"my-own": {"name": "x.py:y", "severity": "odd", "says": "none"}}
    manifest.write_text(json.dumps(table))
    told = holdfast(capsys, "check", ".holdfast/runs/latest")
    assert told.code == 2 and "checkers.my-own" in told.err


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ('workload = "odd.py:W"', "add --workload odd.py:W"),
        ('checkers = ["odd.py:C"]', "add --checker odd.py:C"),
        ('[[nemesis]]\nname = "odd.py:N"', "run it without --dry-run"),
    ],
)
def test_a_dry_run_executes_nothing_that_only_a_plan_names(
    capsys: Capture, mine: Path, line: str, option: str
) -> None:
    (mine / "odd.py").write_text("raise SystemExit('executed')")
    (mine / "plan.toml").write_text(f'system = "reference"\nbackend = "sim"\n{line}\n')
    told = holdfast(capsys, "run", "plan.toml", "--dry-run")
    assert told.code == 2 and option in told.err


def test_two_files_of_one_name_are_refused(capsys: Capture, mine: Path) -> None:
    (mine / "other").mkdir()
    shutil.copy("checker.py", "other/workload.py")
    told = holdfast(
        capsys, *QUICK, "--workload", "workload.py:Greedy", "--checker", "other/workload.py:served"
    )
    assert told.code == 2 and "have the same name" in told.err


@pytest.mark.parametrize(
    ("method", "code", "said"),
    [("draw", 2, "draw failed: ZeroDivisionError"), ("requests", 3, "requests failed: ZeroDiv")],
)
def test_a_nemesis_that_raises_is_named(
    capsys: Capture, mine: Path, method: str, code: int, said: str
) -> None:
    file = mine / "nemesis.py"
    text = file.read_text()
    body = text.index('"""\n', text.index(f"def {method}")) + 4
    file.write_text(f"{text[:body]}        _ = 1 / 0\n{text[body:]}")
    told = holdfast(capsys, *QUICK, "--nemesis", "nemesis.py:CROWD_PAUSE")
    assert told.code == code and said in told.out + told.err


def test_a_changed_file_makes_a_campaign_run_again(mine: Path) -> None:
    plans = [Plan(system="reference", backend="sim", workload="workload.py:Greedy")]
    before = fingerprints.own_code(plans)
    assert before and fingerprints.own_code([Plan(system="reference")]) == ""
    (mine / "workload.py").write_text("# another\n")
    assert fingerprints.own_code(plans) != before


def test_a_campaign_takes_files_of_a_user(capsys: Capture, mine: Path) -> None:
    (mine / "own.toml").write_text(
        '[[entry]]\nsystems = ["reference"]\nworkloads = ["workload.py:Greedy"]\n'
        'nemeses = ["nemesis.py:CROWD_PAUSE:for=2s,every=5s"]\ncheckers = ["checker.py:served"]\n'
        'backend = "sim"\ntime = "12s"\nlease = "1s"\nseeds = 2\n'
    )
    told = holdfast(capsys, "campaign", "own.toml", "-j", "1")
    assert told.code == 0, told.err
    lines = (mine / ".holdfast/campaigns/own/journal.jsonl").read_text().splitlines()
    runs = [json.loads(line) for line in lines if "everybody-served" in line]
    assert len(runs) == 2
    assert {run["properties"]["everybody-served"]["verdict"] for run in runs} == {"HOLDS"}


def test_an_installed_checker_of_another_property_does_not_judge_a_run(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run was judged by "served"; what is installed under that name now judges something else."""
    (mine / "bad_checkers.py").write_text(BAD)
    monkeypatch.syspath_prepend(mine)
    found = PlugIn(name="served", value="bad_checkers:accusing", origin="another 1.0")
    monkeypatch.setattr(plug_ins, "installed", lambda kind: {"served": found})
    row = RecordedChecker(name="served", severity=Severity.LOW, says="nothing")
    _, found_checkers = with_named(manifest(["everybody-served"], {"everybody-served": row}), ())
    verdict = found_checkers["everybody-served"](case("0a? 0a+"))
    assert (verdict.property, verdict.verdict) == ("everybody-served", "UNKNOWN")
    _, found_checkers = with_named(manifest(["never-good"], {"never-good": row}), ())
    assert found_checkers["never-good"](case("0a? 0a+")).verdict == "VIOLATED"


@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_swarm_takes_a_workload_of_a_user(capsys: Capture, mine: Path, processes: str) -> None:
    words = ("sim", "--workload", "workload.py:Greedy", "--seeds", "6", "-j", processes, "--json")
    told = holdfast(capsys, *words)
    assert told.code == 0, told.err
    asked = {"mutual-exclusion", "token-order", "no-hung-request"}
    assert json.loads(told.out)["verdicts"].keys() == asked
    wrong = holdfast(capsys, "sim", "--workload", "workload.py", "--seeds", "1")
    assert wrong.code == 2 and "unknown workload" in wrong.err
