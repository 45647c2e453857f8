"""A run that ended while it was deployed: everything that reads it says so."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.clusters.backends import processes
from holdfast.harness.core.seeds import stream
from tests import needs
from tests.front import aborted
from tests.front.said import holdfast

pytestmark = pytest.mark.slow

ENDED = "the run ended during deployment, before its workload began"
SEEDS = [pytest.param(n, marks=pytest.mark.power if n else ()) for n in range(20)]


def run_ended(folder: Path, how: str, after_s: float) -> tuple[Path, str]:
    """A run that is ended so long after its driver was registered; its folder, and what it said."""
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "NO_COLOR": "1"}
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "run", "--time", "30s", "--out", "runs"],
            cwd=folder,
            env=env,
            stdout=said,
            stderr=said,
            # As at a terminal: whoever runs the tests in the background has it ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    notes = folder / "state" / "holdfast" / "registry"
    try:
        noted = aborted.wait_for(lambda: [*notes.glob("[!.]*.json")], 60, "no run was registered")
        note = json.loads(noted[0].read_text())
        run_dir = Path(note["run_dir"])
        aborted.wait_for(aborted.until(after_s), 10, "time does not pass")
        if how == "^C":
            process.send_signal(signal.SIGINT)
        else:
            if how == "everybody":
                # As a control group is killed: nobody is started between the list and its end.
                process.send_signal(signal.SIGSTOP)
                os.kill(note["pid"], signal.SIGSTOP)
            marked = aborted.processes_of(run_dir)
            if how == "everybody":
                process.kill()
            processes.kill([note["pid"], *marked] if how == "everybody" else [note["pid"]])
        process.wait(60)
        aborted.wait_for(
            lambda: not aborted.processes_of(run_dir), 10, lambda: aborted.left_of(run_dir)
        )
    finally:
        process.kill()
        process.wait(10)
    return run_dir, (folder / "said").read_text()


def told(run: Path, *words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of a command on the run, and what it says."""
    done = holdfast(capsys, *words, run)
    return done.code, " ".join((done.out + done.err).split())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("how", ["^C", "driver", "everybody"])
def test_a_run_that_really_died_while_it_was_deployed_is_judged_as_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str, seed: int
) -> None:
    needs.namespaces()
    moment = stream(seed, "moment of the end").uniform(0, 0.5)
    run, said = run_ended(tmp_path, how, moment)
    times = run / "times.jsonl"
    if times.exists() and '"start"' in times.read_text():
        # It was faster than the kill: then it is judged as any other that was cut short.
        assert told(run, "check", capsys=capsys)[0] in (1, 3)
        return
    if how == "^C":
        assert f"holdfast check {run}" in said
    for words in ((), ("--in-parts", "1000"), ("--json",)):
        code, shown = told(run, "check", *words, capsys=capsys)
        assert (code, ENDED in shown) == (3, True), shown
    assert told(run, "verify", capsys=capsys)[0] == 0
    assert ENDED in (run / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "missing"), [((), "history"), ((), "segments"), (("--in-parts", "9"), "segments")]
)
def test_a_run_that_began_and_has_lost_its_rows_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: Sequence[str], missing: str
) -> None:
    """That is damage: the marks say that the workload began."""
    needs.namespaces()
    run, _ = run_ended(tmp_path, "everybody", 0.0)
    (run / "times.jsonl").write_text('{"mark": "start", "t_ns": 7}\n')
    if missing == "history":
        shutil.rmtree(run / "history", ignore_errors=True)
    for segment in (run / "history").glob("*.seg"):
        segment.unlink()
    code, shown = told(run, "check", *words, capsys=capsys)
    assert (code, "no *.seg files" in shown) == (2, True), shown


def test_a_folder_that_was_never_prepared_is_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs.namespaces()
    run, _ = run_ended(tmp_path, "everybody", 0.0)
    (run / "manifest.json").unlink()
    code, shown = told(run, "check", capsys=capsys)
    assert (code, "ended before it was prepared" in shown) == (2, True), shown
