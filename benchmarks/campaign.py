"""What a campaign adds to its runs, and the plugin to a user's pytest, in CPU time."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from holdfast.campaigning import work
from holdfast.commands import prepare
from holdfast.commands.campaign_command import carry_out
from holdfast.harness.campaign import read

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


def cpu_s() -> float:
    """CPU time of this process and of those it waited for."""
    return sum(
        sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )


def overhead() -> str:
    """Runs through the whole machinery, beside the same runs alone, both in this process."""
    from holdfast.campaigning import Task

    campaign = read(TABLE, prepare.KNOWN, "benchmark", "benchmark")
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


def plugin() -> str:
    """Collecting nothing with the plugin and without, the median of several."""

    def once(*words: str) -> float:
        argv = [sys.executable, "-m", "pytest", "-q", "--co", *words]
        with tempfile.TemporaryDirectory() as empty:
            before = cpu_s()
            subprocess.run(
                argv, cwd=empty, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, capture_output=True
            )
            return cpu_s() - before

    once()
    pairs = [(once("-p", "holdfast.pytest_plugin"), once()) for _ in range(ROUNDS)]
    more_ms = 1000 * median(with_it - without for with_it, without in pairs)
    return f"plugin: {more_ms:.1f} ms CPU more in a pytest that does not use it"


if __name__ == "__main__":
    sys.stdout.write(f"{overhead()}\n{plugin()}\n")
