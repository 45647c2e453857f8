"""Costs per op in counts that no busy machine changes: calls of functions, bytes, imported modules.

Each count is that of a big input less that of a small one, divided by the ops between them. The
limits are a quarter above what was counted when they were set, written beside them.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from benchmarks import checking, simulator
from benchmarks.run_directory import Shape, write

from holdfast import catalogue
from holdfast.checkers.linearizability.exact.rules import conflicts
from holdfast.engine.judging import judge_run
from holdfast.engine.reporting import report_run
from holdfast.harness.core.case import Case
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history.live import Live
from holdfast.harness.history.reader import load as read_history
from holdfast.harness.judging.parts import MOST_ROWS
from holdfast.harness.judging.run_case import case_of
from holdfast.harness.recording.segments import Recorder
from holdfast.harness.runs import journal
from holdfast.harness.runs.directory import RunDir

FEW, MANY = 4_000, 16_000
RECORDED = 4
"""Calls to record an op: `invoke` and `complete`, each with the clock."""
JUDGED = 0.95
"""Calls to judge an op by all properties, evidence and verifier; 0.76 counted. It was 36 when the
verifier derived the end of every hold, 8 when it grouped rows that few conditions ask for, 3 when
it looked for proofs of attempts that nothing followed, and 1.5 when it walked grant by grant."""
IN_PARTS = 0.33
"""Calls to judge an op in parts, if they do not become more; 0.27 counted."""
BY_PROPERTY = {"applied-once": 1.6, "exactly-once-job": 1.1, "grant-notice": 19}
"""Calls per op: 1.2, 0.8 and 14.5 counted."""
OTHERS = 0.1
"""All other properties judge columns: 0 counted. Truthful queries once derived each attempt of a
history without a query: 13.6."""
JUDGED_BYTES, LOADED_BYTES = 515, 230
"""Peak bytes per op to judge a run, and to read it; 412 and 188 counted. It was 1,239 when the
verifier had its columns as lists, beside what the checkers had derived; 560 and 308 when a history
was one array of rows, and each column of it a copy."""
REPORT_CALLS, REPORT_BYTES = 0.1, 6.7
"""Of a report, per op: 0 calls, for it draws columns, and 5.3 bytes counted."""
SIMULATED = 290
"""Calls per op of a client in a simulated cluster without faults; 228 counted."""
STARTED = {("--version",): 215, ("list", "systems"): 310, ("run", "--help"): 550}
"""Modules imported by a command: 171, 244 and 441 counted, the interpreter's own included."""
FOLLOWED = 16
"""Calls per op to follow a run as it goes on: 13.2 counted. It was 86 when it took row by row."""
CLIENT = (
    "import holdfast.harness.client.worker, holdfast.clusters.systems.etcd.client,"
    " holdfast.workloads.kinds.critical_section, holdfast.workloads.resource.client"
)
OF_VERDICTS: dict[tuple[str, str], set[str]] = {
    ("-c", CLIENT): set(),
    ("-c", "import holdfast.workloads.resource.process"): set(),
    ("-m", "holdfast.nemesis.agent"): set(),
    ("-c", "import holdfast.harness.driver.process"): {
        "core.verdict", "verdicts", "verdicts.call_evidence",
    },
}  # fmt: skip
"""What each process of a run imports of verdicts as it starts. The agent ends with its input."""
HEAVY = {"numpy", "msgspec", "jinja2", "pandas", "networkx"}
"""What `holdfast --version` does not wait for."""


def calls(act: Callable[[], object]) -> int:
    """How many functions are called, ours and others'."""
    count = 0

    def seen(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def peak(act: Callable[[], object]) -> int:
    """Most bytes that were allocated at once."""
    gc.collect()
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def run(folder: Path, **shape: Any) -> RunDir:
    return RunDir(write(Shape(**shape), folder).path)


def runs(folder: Path, **shape: Any) -> tuple[RunDir, RunDir]:
    """A small run and a big one; what is loaded or cached on first use is there."""
    judge_run(run(folder / "first", ops=100, **shape))
    return run(folder / "few", ops=FEW, **shape), run(folder / "many", ops=MANY, **shape)


def case(directory: RunDir) -> Case:
    manifest, recording = directory.read_manifest(), read_history(directory.history)
    return case_of(manifest, recording, journal.marks(directory), journal.faults(directory))


def test_recording_an_op_costs_few_calls(tmp_path: Path) -> None:
    with Recorder(tmp_path, "w", {"node": "c1", "processes": [1]}) as recorder:

        def record(ops: int) -> None:
            for attempt in range(ops):
                recorder.complete(recorder.invoke(Op.TRY, 1, 0, attempt=attempt), Status.OK)

        record(1)
        few, many = calls(lambda: record(FEW)), calls(lambda: record(MANY))
    assert many - few <= RECORDED * (MANY - FEW)


def test_following_a_run_costs_few_calls_per_op(tmp_path: Path) -> None:
    """The driver follows all clients, beside them on the same cores."""
    costs = []
    for count in (FEW, MANY):
        folder = tmp_path / str(count)
        folder.mkdir()
        with Recorder(folder, "c1", {"node": "c1", "processes": [1]}) as recorder:
            for attempt in range(count):
                recorder.complete(recorder.invoke(Op.TRY, 1, 0, attempt=attempt), Status.OK)
            live = Live(folder)
            costs.append(calls(live.look))
            assert live.grants == count
    few, many = costs
    assert (many - few) / (MANY - FEW) <= FOLLOWED


@pytest.mark.parametrize("words", OF_VERDICTS)
def test_a_process_of_a_run_starts_without_what_judges_it(words: tuple[str, str]) -> None:
    argv = [sys.executable, "-P", "-X", "importtime", *words]
    done = subprocess.run(
        argv, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    imported = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()]
    ours = [name for name in imported if name.startswith("holdfast.")]
    assert len(ours) > 10, "nothing was started"
    verdicts = {name.removeprefix("holdfast.harness.") for name in ours if "verdict" in name}
    assert verdicts == OF_VERDICTS[words]


def test_judging_an_op_by_all_properties_with_the_verifier_costs_few_calls(tmp_path: Path) -> None:
    small, big = runs(tmp_path)
    few, many = calls(lambda: judge_run(small)), calls(lambda: judge_run(big))
    assert many - few <= JUDGED * (MANY - FEW)


def test_judging_an_op_in_parts_costs_few_calls(tmp_path: Path) -> None:
    small, big = runs(tmp_path)
    few, many = (calls(partial(judge_run, each, in_parts=MOST_ROWS)) for each in (small, big))
    assert many - few <= IN_PARTS * (MANY - FEW)


def test_a_property_judges_columns_and_not_rows_one_by_one(tmp_path: Path) -> None:
    small, big = runs(tmp_path, writes=2, locks=3)
    costs = {}
    for name, row in catalogue.CHECKERS.items():
        check = load(row)
        few, many = case(small), case(big)  # anew: derived facts are kept with a case
        costs[name] = (calls(partial(check, many)) - calls(partial(check, few))) / (MANY - FEW)
    assert {
        name: cost for name, cost in costs.items() if cost > BY_PROPERTY.get(name, OTHERS)
    } == {}
    assert costs.keys() >= BY_PROPERTY.keys()


def test_judging_an_op_takes_bounded_memory(tmp_path: Path) -> None:
    small, big = runs(tmp_path)
    few, many = (peak(lambda: judge_run(each)) for each in (small, big))  # noqa: B023
    assert many - few <= JUDGED_BYTES * (MANY - FEW)
    few, many = (peak(lambda: read_history(each.history)) for each in (small, big))  # noqa: B023
    assert many - few <= LOADED_BYTES * (MANY - FEW)


@pytest.mark.parametrize("name", checking.RULES)
def test_an_exact_model_costs_no_call_per_op(name: str) -> None:
    rule, costs = checking.RULES[name], []
    for ops in (FEW, MANY):
        columns = checking.drawn(
            ops, clients=5, locks=3, unknown=0.2, violation=False, seed=3, permits=rule.limit
        )
        costs.append(calls(lambda: conflicts(columns, rule)))  # noqa: B023
    assert costs[0] == costs[1]


def test_the_report_of_an_op_more_costs_few_bytes_and_no_calls(tmp_path: Path) -> None:
    judged = [(each, judge_run(each)) for each in runs(tmp_path, violation=True)]
    report_run(*judged[0])
    few, many = (calls(lambda: report_run(*each)) for each in judged)  # noqa: B023
    assert many - few <= REPORT_CALLS * (MANY - FEW)
    small, big = ((each.path / "report.html").stat().st_size for each, _ in judged)
    assert big - small <= REPORT_BYTES * (MANY - FEW)


def test_an_op_of_a_simulated_client_costs_few_calls() -> None:
    counted = []
    for seconds in (1, 2):
        plans = [simulator.plan(7, seconds, locks=5, options={"think_ms": "1", "gap_ms": "0"})]
        simulator.carry_out(plans)
        ops: list[int] = []
        cost = calls(lambda: ops.append(simulator.carry_out(plans)["ops"]))  # noqa: B023
        counted.append((cost, ops[0]))
    (few_calls, few), (many_calls, many) = counted
    assert many - few > 1000
    assert many_calls - few_calls <= SIMULATED * (many - few)


@pytest.mark.parametrize("words", STARTED)
def test_a_command_imports_what_it_needs(words: tuple[str, ...]) -> None:
    argv = [sys.executable, "-P", "-X", "importtime", "-m", "holdfast", *words]
    said = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stderr
    imported = [line.rpartition("|")[2].strip() for line in said.splitlines()]
    assert "click" in imported
    assert len(imported) <= STARTED[words]
    assert words != ("--version",) or not HEAVY & {*imported}
