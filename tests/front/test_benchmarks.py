"""Every benchmark still runs, at a size that says nothing; a run of CI keeps none from rotting.

They take half a minute, so they are no part of `make test`, which has five.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs

ROOT = Path(__file__).resolve().parents[2]
SMALL: dict[str, tuple[str, ...]] = {
    "checking": ("--ops", "2000", "4000"),
    "frame": ("2000",),
    "judging": ("--ops", "2000"),
    "judging_in_parts": ("--ops", "2000", "--times", "3", "--rows", "2000"),
    "planted": ("--searches", "1", "--bound", "3", "leaky-round"),
    "opportunities": ("--ops", "2000"),
    "foreign": ("500",),
    "output_lines": ("limit", "--columns", "80"),
    "packing": (),
    "recording": (),
    "registers": ("--most", "1000"),
    "seed_stages": ("--seeds", "2", "single"),
    "shrinking": ("release-by-lock",),
    "simulator": ("1", "saturated"),
}
ON_REAL_PARTS: dict[str, tuple[str, ...]] = {
    "campaign": (),
    "cluster_start": ("local", "--nodes", "1", "--runs", "1"),
    "faults": (),
    "power_loss": (),
    "reference_latency": (),
    "report": ("--ops", "2000"),
    "server_record": ("redis", "--runs", "1", "--seconds", "4"),
}
ELSEWHERE = {
    "peak": "is what two of them measure by",
    "run_directory": "makes what the others measure",
    "verifying": "tests/harness/verification/test_verify.py runs it",
    "frozen_holder": "80 minutes for all rows; tests/front/test_system_calls.py runs its plan",
    "install": "fetches packages; the bare root of CI installs the same",
    "intervals": "compiles a server and takes minutes at any size",
    "page_heights": "measures pages that it is given; tests/reports/test_browser.py holds them",
    "throughput": "a minute of load at any size",
}
WITHIN_S = 300


def runs(name: str, *words: str) -> None:
    """The benchmark ends, and begins with the build of the interpreter."""
    paths = os.pathsep.join((str(ROOT), str(ROOT / "src")))
    done = subprocess.run(
        [sys.executable, "-P", "-m", f"benchmarks.{name}", *words],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
        timeout=WITHIN_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Python" in done.stdout and ("optimised" in done.stdout or "without" in done.stdout)


@pytest.mark.real_server
@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_runs(name: str) -> None:
    runs(name, *SMALL[name])


@pytest.mark.real_server
@pytest.mark.parametrize("name", ON_REAL_PARTS)
def test_a_benchmark_on_real_parts_runs(name: str) -> None:
    needs.namespaces()
    needs.root()
    needs.binary("redis-server")
    needs.chromium()
    runs(name, *ON_REAL_PARTS[name])


def test_every_benchmark_is_run_or_has_a_reason() -> None:
    found = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "__init__"}
    assert found == {*SMALL, *ON_REAL_PARTS, *ELSEWHERE}
