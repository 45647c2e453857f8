"""Many clients share few processes, and a run that could not be driven fast enough says so."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Op
from holdfast.harness.history import reader
from holdfast.harness.plans.plan import Plan
from holdfast.planning import offered_load, prepare
from tests import needs
from tests.front.test_runs import run

PACED = Plan(system="reference", workload="paced", clients=40, seed=1, time_ns=10**9)


def test_many_clients_share_as_many_processes_as_there_are_cores() -> None:
    assert offered_load.shared(PACED).options == {"workers": str(os.cpu_count())}
    for alone in (
        replace(PACED, clients=16),
        replace(PACED, workload="critical-section"),
        replace(PACED, options={"workers": "0"}),
        replace(PACED, backend="sim"),
    ):
        assert offered_load.shared(alone) == alone


def test_workers_that_fit_nothing_are_refused_at_once() -> None:
    with pytest.raises(UsageError) as raised:
        prepare.complete(replace(PACED, workload="renewal", options={"workers": "41", "rate": "9"}))
    told = "\n".join(raised.value.problems)
    assert "--rate requires --workload paced, not renewal" in told
    assert "--workers requires --workload paced, not renewal" in told
    assert "--workers 41 is more than --clients 40" in told


@pytest.mark.slow
def test_a_load_of_many_clients_comes_from_few_processes(tmp_path: Path) -> None:
    needs.namespaces()
    ran = run(
        tmp_path,
        *("--workload", "paced", "--rate", "60", "--clients", "20", "--workers", "2"),
        *("--time", "3s", "--lease", "1s", "--locks", "4"),
        codes=(0, 3),
    )
    found = reader.load(ran.run_dir / "history")
    on = {node: [p for p, at in found.nodes.items() if at == node] for node in ("c1", "c2")}
    assert on == {"c1": list(range(1, 21, 2)), "c2": list(range(2, 21, 2))}
    tries = found.history.rows[found.history.rows["f"] == Op.TRY]
    assert set(tries["process"]) == set(range(1, 21))
    pace = json.loads((ran.run_dir / "verdicts.json").read_text())["evidence"]["pace"]
    # A busy machine ends a run late, and more is due by then.
    assert pace["planned"] >= 180 and pace["issued"] == pytest.approx(pace["planned"], abs=30)


@pytest.mark.slow
def test_a_run_below_nine_tenths_of_its_rate_passes_nothing(tmp_path: Path) -> None:
    needs.namespaces()
    ran = run(
        tmp_path,
        *("--workload", "paced", "--rate", "200000", "--clients", "4", "--workers", "2"),
        *("--time", "1s", "--lease", "1s"),
        codes=(3,),
    )
    assert ran.verdict("mutual-exclusion") == "UNKNOWN"
    assert "of the planned rate" in ran.row("mutual-exclusion")["reason"]
