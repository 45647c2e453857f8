"""What a campaign adds to its runs, and the plugin to a user's pytest, in CPU time."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from holdfast.campaigns.progress import carry_out
from holdfast.campaigns.runner import Task, work
from holdfast.harness.campaigns.spec import read
from holdfast.interpreter import build
from holdfast.planning import prepare
from holdfast.scenarios import staging

RUNS = 20
ROUNDS = 7
RUN_MS = 2000.0
TABLE = {
    "systems": ["reference"],
    "backend": "sim",
    "time": "4s",
    "nemeses": ["pause"],
    "seeds": RUNS,
}


def overhead() -> str:
    """Runs through the whole machinery, beside the same runs alone, both in this process."""
    campaign = read(TABLE, prepare.KNOWN, "benchmark", "benchmark", staging.one_run)
    jobs = list(campaign.jobs("1"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        work(Task(jobs=tuple(jobs), folder=folder / "warm"))
        begun = time.process_time()
        work(Task(jobs=tuple(jobs), folder=folder / "alone"))
        alone = time.process_time() - begun
        begun = time.process_time()
        carry_out(campaign, jobs, folder / "all", 1, "")
        everything = time.process_time() - begun
    more_ms = 1000 * (everything - alone) / RUNS
    return (
        f"campaign: {more_ms:.2f} ms CPU a run, beside {1000 * alone / RUNS:.0f} ms of the run"
        f" itself; of a run of 2 s {100 * more_ms / RUN_MS:.2f} %"
    )


PLUGIN = """
import pytest, time
begun = time.process_time()
import holdfast.pytest.plugin as plugin
parser = pytest.Parser(_ispytest=True)
plugin.pytest_addoption(parser)
print(time.process_time() - begun)
"""


def plugin() -> str:
    """What pytest pays for the plugin where no test uses it: its import and its options."""
    argv = [sys.executable, "-W", "ignore", "-c", PLUGIN]
    found = [
        float(subprocess.run(argv, capture_output=True, check=True, text=True).stdout)
        for _ in range(ROUNDS)
    ]
    return f"plugin: {1000 * median(found):.1f} ms CPU in a pytest that does not use it"


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
    sys.stdout.write(f"{overhead()}\n{plugin()}\n")
