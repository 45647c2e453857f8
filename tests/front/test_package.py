"""`holdfast package`: a finding as a script that needs no Holdfast, and what is refused."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from holdfast.engine import finding_package
from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import Plan
from tests import needs
from tests.clusters.driving import eventually
from tests.front.said import holdfast
from tests.front.test_runs import run

WORDS = ("--system", "redis", "--library", "redis==8.1.0", "--time", "4s")
MOST_LINES = 60


@pytest.mark.real_server
def test_a_double_grant_is_packaged_and_its_script_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs.namespaces()
    needs.binary("redis-server")
    ran = run(tmp_path, *WORDS, "--set", "expire=zero", codes=(1,))
    target = tmp_path / "package"
    said = holdfast(capsys, "package", str(ran.run_dir), "--out", str(target))
    assert said.code == 0, said.err
    assert "in 5 of 5 trials" in said.out
    script = (target / "reproduce.py").read_text()
    assert len(script.splitlines()) <= MOST_LINES
    assert "holdfast" not in script
    assert "redis==8.1.0" in (target / "requirements.txt").read_text().splitlines()
    assert ET.parse(target / "finding.svg").getroot().tag.endswith("svg")
    issue = (target / "issue.md").read_text()
    assert "two owners" in issue
    assert "expire=zero" in issue
    again = holdfast(capsys, "package", str(ran.run_dir), "--out", str(target))
    assert again.code == 2
    assert "exists; choose another folder with --out" in again.err


@pytest.mark.real_server
def test_a_script_that_does_not_show_the_finding_is_not_packaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.namespaces()
    needs.binary("redis-server")
    ran = run(tmp_path, *WORDS, "--set", "expire=zero", codes=(1,))
    # Without the first owner's renewal the library keeps the lock.
    monkeypatch.setattr(finding_package, "_renewals", lambda run, finding: 0)
    target = tmp_path / "package"
    said = holdfast(capsys, "package", str(ran.run_dir), "--out", str(target))
    assert said.code == 2
    assert "show it in 0 of 5 trials; the last one: not shown" in said.err
    assert not target.exists()


def test_a_run_without_such_a_finding_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--system", "reference", "--backend", "sim", "--time", "1s")
    ran = run(tmp_path, *words, codes=(0, 3))
    said = holdfast(capsys, "package", str(ran.run_dir))
    assert said.code == 2
    assert "has no violation of a promised mutual-exclusion" in said.err


@pytest.mark.parametrize("name", finding_package.SPOKEN)
def test_every_script_is_valid_python(name: str) -> None:
    spoken = finding_package.SPOKEN[name]
    compile(spoken.imports, name, "exec")
    for text in (spoken.client, spoken.lock, spoken.acquire, spoken.renew):
        compile(text.format(name="'l'", lease="LEASE_S", owner="first"), name, "eval")


@pytest.mark.parametrize("name", finding_package.SPOKEN)
@pytest.mark.parametrize("renewals", [0, 200])
def test_what_a_run_directory_says_does_not_become_code(name: str, renewals: int) -> None:
    hostile = 'x"); import os; os._exit(7)  # \'"""\n{lease}'
    finding: Any = SimpleNamespace(lock=hostile)
    plan = Plan(system="redis", options={"expire": '"""; import os'})
    manifest: Any = SimpleNamespace(plan=plan)
    spoken = finding_package.SPOKEN[name]
    text = finding_package.script(f"{name}==1.0", spoken, manifest, finding, renewals)
    tree = ast.parse(text)
    imported = [n.names[0].name for n in ast.walk(tree) if isinstance(n, ast.Import)]
    assert "os" not in imported
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    assert hostile in texts
    assert len(text.splitlines()) <= MOST_LINES


@pytest.mark.parametrize("version", ["8.1.0 --index-url=x", '8.1.0"', "../x", "1\n"])
def test_a_library_that_is_no_version_is_refused(version: str) -> None:
    options = {"library": f"redis=={version}"}
    manifest: Any = SimpleNamespace(plan=Plan(system="redis", options=options))
    with pytest.raises(UsageError):
        finding_package._library(manifest)


HOLDS_A_SERVER = """
import sys, time
from pathlib import Path
from holdfast.engine import finding_package
with finding_package._server(Path(sys.argv[1])) as port:
    print(port, flush=True)
    time.sleep(600)
"""


@pytest.mark.real_server
def test_a_server_of_a_trial_ends_with_a_command_that_is_killed(tmp_path: Path) -> None:
    needs.binary("redis-server")
    words = [sys.executable, "-P", "-c", HOLDS_A_SERVER, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        port = int(command.stdout.readline())
        assert finding_package._listens(port)
        command.kill()
    eventually(lambda: not finding_package._listens(port))
