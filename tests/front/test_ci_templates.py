"""The action of GitHub and the template of GitLab: their steps, executed as a runner does it.

Not tried, for want of the runners: the steps of others that the action uses (setup-python,
upload-artifact), and GitLab's `include`.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.front.author import ROOT, Repository

CAMPAIGN = """systems = ["{system}"]
backend = "sim"
nemeses = ["pause:target=holder,every=3s,for=1500ms"]
clients = 4
time = "6s"
lease = "500ms"
seeds = 2
[options]
writes = "6"
gap_ms = "40"
"""
EXPRESSION = re.compile(r"\$\{\{ (inputs|github)\.([\w-]+) \}\}")


def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    return found


class Runner(Repository):
    """Executes the steps of the action that are commands, one shell each, until one fails."""

    def act(self, **inputs: str) -> tuple[int, str, str]:
        """Exit code, what was printed, and the summary of the job."""
        declared = action()["inputs"]
        assert not set(inputs) - set(declared)
        values = {name: inputs.get(name, row.get("default", "")) for name, row in declared.items()}
        values["action_path"] = str(ROOT)
        summary = self.folder.parent / "summary.md"
        summary.unlink(missing_ok=True)
        printed, code = "", 0
        for step in action()["runs"]["steps"]:
            if "run" not in step or code:
                continue
            given = {
                name: EXPRESSION.sub(lambda found: values[found[2]], text)
                for name, text in step["env"].items()
            }
            # An input inside of a script would be code: they are in the environment only.
            assert "${{" not in step["run"] and step["shell"] == "bash"
            words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            environ = {**self.environ(), **given, "GITHUB_STEP_SUMMARY": str(summary)}
            done = subprocess.run(
                words, cwd=self.folder, env=environ, capture_output=True, text=True
            )
            printed, code = printed + done.stdout + done.stderr, done.returncode
        return code, printed, summary.read_text() if summary.exists() else ""


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    made = Runner(tmp_path)
    # Nothing is installed: `holdfast` is the one under test, and `python -m pip` is looked at.
    made.shim("python", 'echo "python $*"')
    return made


def test_the_action_gates_against_the_baseline_that_its_first_run_wrote(runner: Runner) -> None:
    runner.write("ci.toml", CAMPAIGN.format(system="single"))
    code, printed, summary = runner.act(campaign="ci.toml")
    assert code == 0, printed
    assert f"python -m pip install --quiet {ROOT}" in printed
    assert "::notice title=holdfast::no holdfast-baseline.toml" in printed
    assert re.search(r"\| single \| [✓◔?] (OPEN|HOLDS|UNKNOWN)", summary), summary
    written = runner.folder / ".holdfast" / "holdfast-baseline.toml"
    (runner.folder / "holdfast-baseline.toml").write_text(written.read_text())
    code, printed, _ = runner.act(campaign="ci.toml", package="holdfast==0.2.0")
    assert code == 0 and "::notice" not in printed, printed
    assert "pip install --quiet holdfast==0.2.0" in printed
    for name in ("gate.xml", "gate.json", "campaigns/action/index.html"):
        assert (runner.folder / ".holdfast" / name).is_file()


def test_the_action_fails_with_an_annotation_and_the_heat_map(runner: Runner) -> None:
    runner.write("bad name.toml", CAMPAIGN.format(system="majority"))
    code, printed, summary = runner.act(campaign="bad name.toml")
    assert code == 1, printed
    assert re.search(r"^::error title=holdfast%3A violation .*token-order", printed, re.M)
    assert summary.index("✕ VIOLATED: ") < summary.index("| what | where |")
    assert "holdfast run --system majority" in summary
    assert not (runner.folder / ".holdfast" / "holdfast-baseline.toml").exists()


def test_an_input_is_never_code_and_a_wrong_campaign_ends_the_action(runner: Runner) -> None:
    code, printed, summary = runner.act(campaign='"; touch stolen; $(touch stolen)')
    assert code == 2 and not (runner.folder / "stolen").exists(), printed
    assert summary == "", "no gate after a campaign that could not be read"


def test_the_action_keeps_the_reports_whatever_the_gate_says() -> None:
    last = action()["runs"]["steps"][-1]
    assert last["if"] == "always()" and last["with"]["path"] == ".holdfast"
    assert last["with"]["include-hidden-files"] is True


@pytest.mark.parametrize(("system", "ends"), [("single", 0), ("majority", 1)])
def test_the_template_of_gitlab_gates(runner: Runner, system: str, ends: int) -> None:
    text = (ROOT / "examples" / "gitlab-template.yml").read_text()
    spec, _ = yaml.safe_load_all(text)
    given = {"campaign": "ci.toml"}
    values = {name: given.get(name, row.get("default")) for name, row in
              spec["spec"]["inputs"].items()}  # fmt: skip
    assert None not in values.values()
    filled = re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda found: values[found[1]], text)
    job = list(yaml.safe_load_all(filled))[1]["holdfast"]
    runner.write("ci.toml", CAMPAIGN.format(system=system))
    runner.write("holdfast-baseline.toml", 'schema = "holdfast-baseline/1"\n')
    script = "\n".join([*job["before_script"], *job["script"]])
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=runner.folder,
        env={**runner.environ(), **job["variables"]},
        capture_output=True,
        text=True,
    )
    assert done.returncode == ends, done.stdout + done.stderr
    assert "pip install --quiet holdfast\n" in done.stdout
    kept = [*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]]
    assert all((runner.folder / path).exists() for path in kept)
