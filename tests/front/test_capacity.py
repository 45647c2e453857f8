"""More clients than a backend or this machine can carry are refused before the run."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from holdfast.harness.core.errors import NEXT
from holdfast.harness.plans.plan import Plan
from holdfast.harness.recording.segments import segment_bytes
from holdfast.planning import capacity
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]


def test_more_nodes_than_a_backend_has_are_refused_before_the_run(capsys: Capture) -> None:
    words = ("run", "--system", "redis", "--backend", "local", "--dry-run", "--clients")
    said = holdfast(capsys, *words, "248")
    assert said.code == 2 and "251 nodes; backend local supports at most 250" in said.err
    assert "use --clients 247" in said.err
    assert holdfast(capsys, *words, "247").code == 0
    shared = holdfast(capsys, *words, "1000", "--workload", "paced", "--set", "workers=8")
    assert shared.code == 0, shared.err


MEMINFO = "MemTotal: 8000000 kB\nMemFree: 100 kB\nMemAvailable: {} kB\n"


@pytest.mark.parametrize(("clients", "refused"), [(9, False), (10, True)])
def test_more_memory_than_is_available_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clients: int, refused: bool
) -> None:
    memory = tmp_path / "meminfo"
    memory.write_text(MEMINFO.format(10 * capacity.CLIENT_MIB * 1024 - 1))
    monkeypatch.setattr(capacity, "MEMORY", memory)
    why = capacity.too_large(Plan(system="redis", backend="local", clients=clients))
    assert bool(why) is refused
    assert why is None or why.endswith("enough for 9 clients")
    assert capacity.too_large(Plan(system="reference", backend="sim", clients=1000)) is None
    shared = {"workers": "2"}
    assert not capacity.too_large(Plan(system="x", backend="local", clients=99, options=shared))
    memory.write_text("nothing of memory")
    assert capacity.too_large(Plan(system="redis", backend="local", clients=1000)) is None


@dataclass
class Usage:
    free: int


@pytest.mark.parametrize(("clients", "refused"), [(5, False), (6, True)])
def test_files_of_clients_that_the_disk_cannot_take_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clients: int, refused: bool
) -> None:
    free = (5 + capacity.BESIDE) * segment_bytes() + capacity.BESIDE_BYTES + capacity.MIB
    asked: list[Path] = []

    def usage(path: Path) -> Usage:
        asked.append(path)
        return Usage(free)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    plan = Plan(system="redis", backend="local", clients=clients)
    why = capacity.no_space(plan, tmp_path / "not" / "made yet")
    assert bool(why) is refused and asked == [tmp_path]
    assert why is None or (f"{tmp_path}: the run needs 27 MiB" in why and NEXT in why)
    assert capacity.no_space(replace(plan, backend="sim", clients=1000), tmp_path) is None
