"""Every signal ends a deployment soon, and leaves no process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import needs
from tests.front.aborted import processes_of, wait_for

pytestmark = pytest.mark.slow
CLIENTS = 60
WITHIN_S = 10.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL)


def default_dispositions() -> None:
    """As in a terminal: what runs these tests may ignore some of them."""
    for number in SIGNALS[:-1]:
        signal.signal(number, signal.SIG_DFL)


# With 15 of its processes it makes the nodes, with 100 it starts the clients.
@pytest.mark.parametrize("processes", [15, 100])
@pytest.mark.parametrize("number", SIGNALS)
def test_a_deployment_ends_soon_after_a_signal(
    tmp_path: Path, number: signal.Signals, processes: int
) -> None:
    needs.namespaces()
    words = ["run", "--system", "reference", "--clients", str(CLIENTS), "--time", "60s"]
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *words, "--out", "runs"],
            cwd=tmp_path, env=env, stdout=said, stderr=said, preexec_fn=default_dispositions,
        )  # fmt: skip
    registry = tmp_path / "state" / "holdfast" / "registry"
    try:
        note = wait_for(lambda: next(iter(registry.glob("[!.]*.json")), None), 60, "no run")
        run_dir = Path(json.loads(note.read_text())["run_dir"])
        wait_for(lambda: len(processes_of(run_dir)) >= processes, 60, "it deploys nothing")
        process.send_signal(number)
        begun = time.monotonic()
        process.wait(WITHIN_S)
        left_s = WITHIN_S - (time.monotonic() - begun)
        wait_for(lambda: processes_of(run_dir) == [], left_s, "processes are left")
    finally:
        process.kill()
        process.wait()
