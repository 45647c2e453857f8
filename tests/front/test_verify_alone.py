"""`holdfast-verify`, installed by itself: no Holdfast, no numpy, the same word about each run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from holdfast.harness.runs.version import VERSION
from holdfast.harness.verification import command
from holdfast.harness.verification.verify import Outcome
from tests.front.test_plug_ins import Environment
from tests.front.test_verify import call, violated

__all__ = ["violated"]

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "src" / "holdfast_verify"
TABLE = tomllib.loads((PROJECT / "pyproject.toml").read_text())
INCLUDED = TABLE["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
PARTS = {
    str(Path(target.removeprefix("holdfast_verify/parts/")) / file.relative_to(source)): file
    for source, target in ((PROJECT / one, target) for one, target in INCLUDED.items())
    if "/parts/" in target
    for file in (sorted(source.glob("*.py")) if source.is_dir() else [source])
}
"""Path in the wheel, below the folder of parts -> file."""


def test_its_parts_are_what_it_imports_and_the_standard_library(tmp_path: Path) -> None:
    for name, source in PARTS.items():
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    imports = (
        "import sys, json; sys.path.insert(0, sys.argv[1]); before = set(sys.modules);"
        "import holdfast.harness.verification.command;"
        "print(json.dumps({n: getattr(m, '__file__', None)"
        " for n, m in sys.modules.items() if n not in before}))"
    )
    # -S: no packages of this environment, so that a part which is missing is an error.
    words = [sys.executable, "-I", "-S", "-c", imports, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    ours = {
        str(Path(path).relative_to(tmp_path))
        for path in loaded.values()
        if path and Path(path).is_relative_to(tmp_path)
    }
    assert ours == set(PARTS)
    assert {name.partition(".")[0] for name in loaded} - {"holdfast"} <= sys.stdlib_module_names


def test_it_has_the_version_of_holdfast_and_no_dependency() -> None:
    assert TABLE["project"]["version"] == VERSION
    assert TABLE["project"]["dependencies"] == []


def test_a_run_that_cannot_be_read_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(tmp_path / "none")]) == 2
    said = capsys.readouterr()
    assert said.out == "" and re.fullmatch(r"holdfast-verify: .*\n", said.err)


def test_no_name_in_a_run_reaches_the_terminal_as_a_control_sequence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = Outcome(1, ("token-order: lock \x1b[2J",))
    monkeypatch.setattr(command, "verify_run", lambda _: outcome)
    assert command.main([str(tmp_path)]) == command.REFUSED
    assert capsys.readouterr().out.splitlines()[0] == r"refused: token-order: lock \x1b[2J"


@pytest.mark.real_server
def test_installed_by_itself_it_accepts_and_refuses_as_holdfast_does(
    violated: Path, tmp_path: Path
) -> None:
    alone = Environment(tmp_path)
    alone.install(str(PROJECT))
    assert [
        row["name"] for row in json.loads(alone.run("pip", "list", "--format=json").stdout)
    ] == [
        "holdfast-verify",
        "pip",
        "setuptools",
    ]
    accepted = alone.run("holdfast-verify", str(violated))
    assert (accepted.returncode, accepted.stderr) == (0, "")
    assert accepted.stdout == call("verify", str(violated)).output
    run = Path(shutil.copytree(violated, tmp_path / "run"))
    verdicts = json.loads((run / "verdicts.json").read_text())
    finding = next(f for row in verdicts["verdicts"] for f in row["findings"])
    finding["certificate"]["rows"] = dict.fromkeys(finding["certificate"]["rows"], "c1/1")
    (run / "verdicts.json").write_text(json.dumps(verdicts))
    refused = alone.run("holdfast-verify", str(run))
    assert refused.returncode == command.REFUSED and "refused: " in refused.stdout
