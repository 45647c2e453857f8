"""A driver that is killed with SIGKILL loses nothing and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.harness.core.seeds import stream
from tests import needs
from tests.front import aborted

pytestmark = pytest.mark.slow


def check(folder: Path, backend: str, seed: int, who: str, system: str = "reference") -> None:
    """Start a run, kill it at a moment of chance, and look at everything it touched."""
    started = aborted.start(folder, backend, seed, system=system)
    moment = stream(seed, "moment of the kill").uniform(0.2, 9.0)
    try:
        aborted.wait_for(aborted.until(moment), moment + 5, "time does not pass")
        aborted.kill(started, who)
        aborted.wait_for(
            lambda: not aborted.stopped(aborted.processes_of(started.run_dir)),
            aborted.HEAL_WITHIN_S,
            "a process is still paused",
        )
        started.process.wait(60)
        aborted.doctor(started, "--clean")
        assert aborted.leftovers(started) == []
        assert aborted.processes_of(started.run_dir) == []
        assert aborted.nothing_acknowledged_is_missing(started.run_dir) > 0
    finally:
        if started.process.poll() is None:
            started.process.kill()
        started.process.wait(10)


@pytest.mark.parametrize(
    ("seed", "who"), [(1, "driver"), pytest.param(2, "front", marks=pytest.mark.power), (3, "both")]
)
def test_a_killed_run_on_this_machine_is_healed_and_keeps_its_history(
    tmp_path: Path, seed: int, who: str
) -> None:
    needs.namespaces()
    check(tmp_path, "local", seed, who)


@pytest.mark.docker
@pytest.mark.parametrize(("seed", "who"), [(4, "driver"), (5, "both")])
def test_a_killed_run_in_containers_is_healed_and_keeps_its_history(
    tmp_path: Path, seed: int, who: str
) -> None:
    needs.engine()
    check(tmp_path, "docker", seed, who)


@pytest.mark.real_server
@pytest.mark.parametrize(("system", "binary"), [("etcd", "etcd"), ("zookeeper", "java")])
def test_no_member_of_a_real_cluster_outlives_its_driver(
    tmp_path: Path, system: str, binary: str
) -> None:
    needs.namespaces()
    needs.binary(binary)
    check(tmp_path, "local", 6, "driver", system)


@pytest.mark.power
@pytest.mark.parametrize("seed", range(100, 120))
@pytest.mark.parametrize("backend", ["local", "docker"])
def test_twenty_moments_of_death(tmp_path: Path, backend: str, seed: int) -> None:
    needs.engine() if backend == "docker" else needs.namespaces()
    check(tmp_path, backend, seed, "driver")
