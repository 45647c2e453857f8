"""Driving a run: its stages, what becomes of a problem in each, and what is left in any case.

Processes and the fault agent are real; the clock of bounds runs faster than the time that passes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.harness.client import agent_link
from holdfast.harness.client.agent_link import AgentLink
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import NEXT, AgentLost, EnvironmentFailed
from holdfast.harness.core.fault_traits import COPY, Traits
from holdfast.harness.core.ports import Fault, Nemesis, Place
from holdfast.harness.driver import cluster as cluster_module
from holdfast.harness.driver.cluster import Cluster
from holdfast.harness.driver.host_runtime import HostRuntime
from holdfast.harness.driver.operations import Operator
from holdfast.harness.driver.run import Run
from holdfast.harness.driver.runtime import Runtime
from holdfast.harness.history.so_far import Hold
from holdfast.harness.plans.events import Event
from holdfast.harness.plans.manifest import Manifest, Options
from holdfast.harness.plans.plan import Plan
from holdfast.harness.recording import full_disk
from holdfast.harness.recording.phase import END, GO, PREPARE, PROBE, STOP
from holdfast.harness.recording.segments import DIED_ON_PURPOSE, DONE, IDLE, OPENED, READY
from holdfast.harness.runs.journal import FaultRow, Mark
from holdfast.nemesis.operation import OPERATOR
from tests.harness.driver import machine as machine_module
from tests.harness.driver.machine import Machine, Service
from tests.harness.driver.test_cluster import Away
from tests.manifests import manifest

ROOT = Path(__file__).parents[3]
FASTER = 1000
WITHIN_S = 60.0
ENDLESS_NS = 20 * FASTER * SECOND
STATE = {PREPARE: READY, GO: READY, STOP: IDLE, PROBE: IDLE, END: DONE}


@dataclass
class Recorded:
    """The records of a run in memory, and writers that follow its phase.

    at_most   writer -> the state that it does not get beyond
    fixed     writer -> its state, whatever the phase
    lacks     the problems that it noticed
    looks     called once each, when the states are read
    """

    machine: Machine
    phases: list[int] = field(default_factory=lambda: [PREPARE])
    rows: list[FaultRow | Mark] = field(default_factory=list)
    at_most: dict[str, int] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    closed: int = 0
    grants: int = 4
    ops: int = 9
    lacks: Sequence[str] = ()
    looks: list[Callable[[], None]] = field(default_factory=list)

    @property
    def live(self) -> Recorded:
        return self

    @staticmethod
    def now() -> int:
        return time.monotonic_ns() * FASTER

    def states(self) -> Mapping[str, int]:
        if self.looks:
            self.looks.pop()()
        usual = STATE[self.phases[-1]]
        counts = Counter(self.machine.order)
        writers = [f"{name}.{n}" if n else name for name in counts for n in range(counts[name])]
        found = {name: min(usual, self.at_most.get(name, DONE)) for name in writers}
        return found | self.fixed

    def look(self) -> None: ...

    def holds(self) -> Sequence[Hold]:
        return []

    def happened(self, what: Event) -> tuple[int, int]:
        return 0, 0

    async def news(self) -> None:
        await asyncio.sleep(0)

    changes = news

    def append(self, row: FaultRow | Mark) -> None:
        self.rows.append(row)

    def set_phase(self, phase: int) -> None:
        self.phases.append(phase)

    def problems(self) -> Sequence[str]:
        return self.lacks

    def close(self) -> None:
        self.closed += 1

    def marks(self) -> dict[str, Mark]:
        return {row.mark: row for row in self.rows if isinstance(row, Mark)}

    def ended(self) -> list[str]:
        """The problems of the run as its last mark tells them."""
        return list(self.marks()["end"].problems or ())


@dataclass
class Driven:
    """A run that a test drives; `said`: what its progress told, `on`: called at each stage."""

    machine: Machine
    records: Recorded
    made: Manifest
    said: list[Mapping[str, Any]] = field(default_factory=list)
    on: dict[str, Callable[[], None]] = field(default_factory=dict)
    run: Run | None = None

    def progress(self, row: Mapping[str, Any]) -> None:
        self.said.append(row)
        if row["stage"] in self.on:
            self.on.pop(row["stage"])()

    def stages(self) -> list[str]:
        """The stages that were told, each once."""
        return list(dict.fromkeys(row["stage"] for row in self.said))

    def agents(self) -> list[int]:
        """The fault agents that were started."""
        return [int(line) for line in (self.machine.folder / "agents").read_text().split()]

    def execute(self) -> Run:
        """Carries the run out; the driver's own log has its errors."""
        folder = self.machine.folder
        place = Place(run_id="r", run_dir=folder, shared=(), label="r")
        records = cast(Runtime, self.records)

        async def work() -> Run:
            run = self.run = Run(self.made, place, self.machine, records, self.progress)
            await asyncio.wait_for(run.execute(), WITHIN_S)
            return run

        return asyncio.run(work())


class Hosted(Machine):
    """A machine whose fault agents note their pids. `closed`: how often it was closed, `left`: what
    ran on it then."""

    closed, left = 0, list[str]()
    agent = f"exec {sys.executable} -S -P -m holdfast.nemesis.agent"

    def agent_argv(self) -> Sequence[str]:
        return ["sh", "-c", f"echo $$ >> {self.folder}/agents; {self.agent}"]

    async def close(self) -> None:
        self.closed += 1
        self.left = [name for name, one in self.processes.items() if one.poll() is None]
        self.end()


@pytest.fixture
def driven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driven]:
    (tmp_path / "workers").mkdir()
    (tmp_path / "code.zip").mkdir()
    (tmp_path / "code.zip" / "holdfast").symlink_to(ROOT / "src" / "holdfast")
    machine = Hosted(tmp_path)
    monkeypatch.setattr(machine_module, "SERVICE", Service())
    monkeypatch.setattr(cluster_module, "EXIT_LOOK_NS", 5 * MILLISECOND)
    usual = manifest()
    made = replace(
        usual,
        plan=Plan(system="reference", nodes=1, clients=2, time_ns=20 * FASTER * MILLISECOND),
        entries=replace(usual.entries, system="tests.harness.driver.machine:SERVICE", nemeses={}),
        options=Options(system={}, workload={"probe_ns": str(SECOND)}),
        promises=replace(usual.promises, recovery_ns=SECOND),
        ready_ns=2 * SECOND,
        longest_hold_ns=SECOND,
    )
    monkeypatch.setattr("holdfast.harness.core.waiting.sleep_until", _sleep_until)
    yield Driven(machine, Recorded(machine), made)
    machine.end()


async def _sleep_until(t_ns: int, now: Callable[[], int]) -> None:
    """As the driver's own, on the faster clock."""
    await asyncio.sleep(max(0, t_ns - now()) / FASTER / SECOND)


def gone(pid: int) -> bool:
    """Whether a process has exited and was reaped."""
    return not Path(f"/proc/{pid}").exists()


def test_a_run_deploys_works_settles_probes_and_leaves_nothing(driven: Driven) -> None:
    records, machine = driven.records, cast(Hosted, driven.machine)
    driven.records.lacks = ["a call outside"]
    run = driven.execute()
    assert driven.stages() == ["deploy", "run", "settle", "probe", "collect"]
    assert records.phases == [PREPARE, GO, STOP, PROBE, END, END]
    marks = records.marks()
    assert list(marks) == ["deployed", "start", "stop", "probe", "end"]
    times = [mark.t_ns for mark in marks.values()]
    assert times == sorted(times) and marks["deployed"].took_ns == pytest.approx(
        marks["deployed"].t_ns - times[0], abs=10**15
    )
    assert marks["stop"].t_ns - marks["start"].t_ns >= driven.made.plan.time_ns
    assert run.problems == [] and records.ended() == ["a call outside"]
    assert (records.closed, machine.closed) == (1, 1)
    assert all(map(gone, [*driven.agents(), *(one.pid for one in machine.started)]))
    worked = next(row for row in driven.said if row["stage"] == "run")
    names = ("of_ns", "grants", "ops", "faults", "active")
    assert [worked[name] for name in names] == [driven.made.plan.time_ns, 4, 9, 0, 0]
    assert 0 <= worked["t_ns"] < driven.made.plan.time_ns


@pytest.mark.parametrize(
    ("writer", "at_most", "problem"),
    [
        ("c2", OPENED, "c2 was not ready within 2 s"),
        ("resource", OPENED, "resource was not ready within 2 s"),
        ("c1", READY, "c1 was not idle within 9 s"),
        ("probe", READY, "the probe did not finish within 17 s"),
        ("resource", READY, ""),
    ],
)
def test_a_writer_that_is_late_is_a_problem_and_the_run_goes_on(
    driven: Driven, writer: str, at_most: int, problem: str
) -> None:
    driven.records.at_most = {writer: at_most}
    found = driven.execute().problems
    assert found[0] == problem if problem else found[0].startswith("resource was not done")
    assert driven.stages()[-1] == "collect"
    if problem:
        assert problem in driven.records.ended()


def test_a_writer_that_is_ready_within_the_bound_is_waited_for(driven: Driven) -> None:
    records = driven.records
    driven.made = replace(driven.made, ready_ns=3600 * SECOND)
    records.at_most = {"c2": OPENED, "probe": OPENED}
    records.looks = [records.at_most.clear, lambda: None, lambda: None]
    assert driven.execute().problems == []
    assert records.looks == [] and "deployed" in records.marks()


def test_what_exits_before_it_is_ready_ends_the_deployment(driven: Driven) -> None:
    records = driven.records
    records.at_most = {"c2": OPENED}
    records.looks = [lambda: driven.machine.kill("c2")]
    with pytest.raises(EnvironmentFailed, match=r"^c2 exited unexpectedly: no output ") as failed:
        driven.execute()
    assert list(records.marks()) == ["failed"]
    assert records.marks()["failed"].reason == str(failed.value)
    assert driven.stages() == ["deploy"]


class WithoutItsService(Hosted):
    """A backend whose service dies together with its nodes."""

    asked = 0

    async def service_failure(self) -> str:
        self.asked += 1
        dead = any(process.poll() is not None for process in self.processes.values())
        return "the engine does not respond; see doctor" if dead else ""


def on_service(driven: Driven) -> WithoutItsService:
    driven.machine = machine = WithoutItsService(driven.machine.folder)
    driven.records = Recorded(machine)
    many_looks(driven)
    return machine


@pytest.mark.parametrize("stage", ["deploy", "run", "probe"])
def test_a_node_is_not_blamed_for_the_end_of_the_service_that_it_depends_on(
    driven: Driven, stage: str
) -> None:
    """The run ends at once, with the reason on record."""
    on_service(driven)
    if stage == "deploy":
        driven.records.at_most = {"c2": OPENED}
        driven.records.looks = [lambda: driven.machine.kill("c2")]
    else:
        driven.on = {stage: exits(driven, "n1")}
    with pytest.raises(EnvironmentFailed, match="the engine does not respond; see"):
        driven.execute()
    marks = driven.records.marks()
    assert marks["failed"].reason == "the engine does not respond; see doctor"
    assert "end" not in marks


def test_a_node_is_blamed_where_the_service_responds(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def well(machine: WithoutItsService) -> str:
        machine.asked += 1
        return ""

    monkeypatch.setattr(WithoutItsService, "service_failure", well)
    machine = on_service(driven)
    driven.on = {"run": exits(driven, "n1")}
    assert driven.execute().problems[0].startswith("n1 exited unexpectedly")
    assert machine.asked == 1


def exits(driven: Driven, name: str, state: int | None = None) -> Callable[[], None]:
    """Ends the process of a node, whose writer last told a state."""

    def act() -> None:
        if state is not None:
            driven.records.fixed[name] = state
        driven.machine.kill(name)

    return act


def many_looks(driven: Driven) -> None:
    """The run lasts for a hundred looks, so that one sees an exit on a busy machine too."""
    longer = replace(driven.made.plan, time_ns=500 * FASTER * MILLISECOND)
    driven.made = replace(driven.made, plan=longer)


def test_an_exit_is_told_once_and_not_if_the_writer_was_done(driven: Driven) -> None:
    ends = [exits(driven, "c1"), exits(driven, "c2", DONE), exits(driven, "n1")]

    def all_of_them() -> None:
        for end in ends:
            end()

    driven.on = {"run": all_of_them}
    problems = driven.execute().problems
    assert [problem.partition(":")[0] for problem in problems] == [
        "n1 exited unexpectedly", "c1 exited unexpectedly",
    ]  # fmt: skip
    assert driven.machine.order.count("c1") == 1
    assert driven.stages()[-1] == "collect"


def test_an_exit_after_the_last_look_is_noticed_as_well(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "EXIT_LOOK_NS", 3600 * SECOND)
    driven.on = {"probe": exits(driven, "n1")}
    (problem,) = driven.execute().problems
    assert problem.startswith("n1 exited unexpectedly")


def test_an_owner_that_died_on_purpose_at_the_end_is_not_started_again(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "EXIT_LOOK_NS", 3600 * SECOND)
    driven.on = {"probe": exits(driven, "c1", DIED_ON_PURPOSE)}
    assert driven.execute().problems == []
    assert driven.machine.order.count("c1") == 1


def test_an_owner_that_died_on_purpose_is_started_again(driven: Driven) -> None:
    many_looks(driven)
    driven.on = {"run": exits(driven, "c1", DIED_ON_PURPOSE)}
    assert driven.execute().problems == []
    assert driven.machine.order.count("c1") == 2
    assert (driven.machine.folder / "workers" / "c1.1.json").exists()


def test_an_owner_that_cannot_be_started_again_is_one_problem(driven: Driven) -> None:
    many_looks(driven)
    plain = driven.machine.start

    async def start(node: str, command: Any) -> int:
        if driven.machine.order.count(node):
            raise EnvironmentFailed(f"{node}: no memory")
        return await plain(node, command)

    driven.machine.start = start  # type: ignore[method-assign]
    driven.on = {"run": exits(driven, "c1", DIED_ON_PURPOSE)}
    problems = driven.execute().problems
    assert set(problems) == {"c1: no memory"}
    assert driven.stages()[-1] == "collect"


def test_a_program_that_exits_ends_the_run_of_a_system_that_says_so(driven: Driven) -> None:
    machine_module.SERVICE.ends_with_client = True
    driven.made = replace(driven.made, plan=replace(driven.made.plan, time_ns=ENDLESS_NS))
    driven.on = {"run": exits(driven, "c1")}
    with pytest.raises(EnvironmentFailed, match=r"^c1 exited unexpectedly: no output") as failed:
        driven.execute()
    marks = driven.records.marks()
    assert list(marks)[-2:] == ["end", "failed"] and marks["failed"].reason == str(failed.value)
    assert driven.records.ended() == [str(failed.value)]
    assert driven.stages() == ["deploy", "run"]


@pytest.mark.parametrize("stage", ["deploy", "run"])
def test_a_workload_that_is_ended_early_is_followed_by_the_other_stages(
    driven: Driven, stage: str
) -> None:
    driven.made = replace(driven.made, plan=replace(driven.made.plan, time_ns=ENDLESS_NS))

    def end() -> None:
        assert driven.run is not None
        driven.run.end_workload()

    driven.on = {stage: end}
    assert driven.execute().problems == []
    assert driven.stages() == ["deploy", "run", "settle", "probe", "collect"]
    assert driven.records.phases == [PREPARE, GO, STOP, PROBE, END, END]


def test_a_server_that_exits_does_not_end_the_run_of_such_a_system(driven: Driven) -> None:
    machine_module.SERVICE.ends_with_client = True
    driven.on = {"run": exits(driven, "n1")}
    (problem,) = driven.execute().problems
    assert problem.startswith("n1 exited unexpectedly") and driven.stages()[-1] == "collect"


def test_a_dead_fault_agent_ends_the_run_and_a_second_one_undoes_what_it_did(
    driven: Driven,
) -> None:
    driven.made = replace(driven.made, plan=replace(driven.made.plan, time_ns=ENDLESS_NS))
    driven.on = {"run": lambda: os.kill(driven.agents()[0], signal.SIGKILL)}
    with pytest.raises(AgentLost, match=r"^fault agent: it exited with code -9; see "):
        driven.execute()
    marks = driven.records.marks()
    assert str(marks["failed"].reason).startswith("fault agent: it exited with code -9")
    assert len(driven.agents()) == 2 and all(map(gone, driven.agents()))
    assert driven.stages() == ["deploy", "run"], "the second one had no problem"
    assert "end" not in marks and driven.records.phases[-1] == END
    assert cast(Hosted, driven.machine).left == [], "it knew all nodes and ended what ran there"


def test_a_second_fault_agent_undoes_it_though_the_disk_is_full(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark of the end cannot be written any more."""
    append = driven.records.append

    def full(row: Mark) -> None:
        if row.mark == "failed":
            raise EnvironmentFailed("times.jsonl: No space left on device")
        append(row)

    monkeypatch.setattr(driven.records, "append", full)
    driven.made = replace(driven.made, plan=replace(driven.made.plan, time_ns=ENDLESS_NS))
    driven.on = {"run": lambda: os.kill(driven.agents()[0], signal.SIGKILL)}
    with pytest.raises(AgentLost, match=r"^fault agent: it exited with code -9; see "):
        driven.execute()
    assert len(driven.agents()) == 2 and all(map(gone, driven.agents()))
    assert cast(Hosted, driven.machine).left == []


def test_a_journal_whose_disk_is_full_is_a_failure_of_the_environment_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = tmp_path / "times.jsonl"
    runtime = SimpleNamespace(_journals={Mark: journal})
    monkeypatch.setattr(os, "write", lambda file, data: len(data) // 2)
    with pytest.raises(EnvironmentFailed) as failed:
        HostRuntime.append(cast(HostRuntime, runtime), Mark(mark="start", t_ns=1))
    assert str(failed.value) == f"{journal}: {full_disk.REASON}: {NEXT}"
    assert journal.read_bytes() == b""


def test_a_probe_that_exits_is_not_waited_for(driven: Driven) -> None:
    """Its bound is minutes elsewhere, and would be a second problem."""
    driven.records.at_most = {"probe": READY}
    driven.on = {"probe": exits(driven, "probe", READY)}
    (problem,) = driven.execute().problems
    assert problem.startswith("probe exited unexpectedly") and driven.stages()[-1] == "collect"


def test_a_second_fault_agent_that_cannot_start_is_told(driven: Driven) -> None:
    machine = cast(Hosted, driven.machine)

    def kill() -> None:
        machine.agent = "exit 1"
        os.kill(driven.agents()[0], signal.SIGKILL)

    driven.on = {"run": kill}
    driven.made = replace(driven.made, plan=replace(driven.made.plan, time_ns=ENDLESS_NS))
    with pytest.raises(AgentLost):
        driven.execute()
    assert driven.said[-1]["stage"] == "healing"
    assert str(driven.said[-1]["problem"]).startswith("fault agent: ")
    assert (driven.records.closed, machine.closed) == (1, 1)


def test_without_a_fault_agent_nothing_is_deployed_and_everything_is_closed(
    driven: Driven,
) -> None:
    machine = cast(Hosted, driven.machine)
    machine.agent = "exit 1"
    with pytest.raises(AgentLost):
        driven.execute()
    assert driven.said == [] and machine.order == []
    assert (driven.records.closed, machine.closed) == (1, 1)
    assert driven.records.phases == [PREPARE, END]
    assert [gone(pid) for pid in driven.agents()] == [True]


@pytest.mark.parametrize("words", ["echo no line of JSON", "exec 1<&-"])
def test_a_fault_agent_that_answers_wrongly_and_stays_is_ended(
    driven: Driven, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setattr(agent_link, "ANSWER_WITHIN_S", 0.2)
    cast(Hosted, driven.machine).agent = f"{words}; exec sleep 600"
    with pytest.raises(AgentLost):
        driven.execute()
    assert [gone(pid) for pid in driven.agents()] == [True]


def test_records_are_closed_though_the_backend_cannot_be(driven: Driven) -> None:
    async def close() -> None:
        driven.machine.end()
        raise EnvironmentFailed("a container stays")

    driven.machine.close = close  # type: ignore[method-assign]
    with pytest.raises(EnvironmentFailed, match="a container stays"):
        driven.execute()
    assert driven.records.closed == 1 and all(map(gone, driven.agents()))


def test_a_reader_of_the_progress_that_left_stops_nothing(driven: Driven) -> None:
    def leave() -> None:
        raise BrokenPipeError

    driven.on = {"deploy": leave, "settle": leave}
    assert driven.execute().problems == []
    assert driven.stages()[-1] == "collect"


def test_a_node_that_a_fault_killed_is_no_exit_and_is_started_again(driven: Driven) -> None:
    fault = Fault(id="f1", do="kill", target="c1", at_ns=0, for_ns=10 * FASTER * MILLISECOND)
    entries = replace(driven.made.entries, nemeses={"kill": "holdfast.nemesis.kinds.kill:NEMESIS"})
    plan = replace(driven.made.plan, faults=(fault,))
    driven.made = replace(driven.made, plan=plan, entries=entries)
    assert driven.execute().problems == []
    assert driven.machine.order.count("c1") == 2
    rows = [row for row in driven.records.rows if isinstance(row, FaultRow)]
    assert [row.event for row in rows] == ["planned", "injected", "healed"]
    assert rows[1].nodes == ["c1"] and rows[2].effective
    assert driven.said[-1]["stage"] == "collect"


@pytest.mark.parametrize(
    ("traits", "hosted", "found"),
    [
        ([], False, (False, False, False)),
        ([Traits(), Traits(on_connections=True)], False, (True, False, False)),
        ([Traits(in_client=True), Traits()], False, (False, True, False)),
        ([Traits(), Traits(operates=COPY)], False, (False, False, True)),
        ([Traits(on_connections=True, in_client=True, operates=COPY)], True, (False,) * 3),
    ],
    ids=["none", "connections", "in clients", "operations", "by the hosts' agents"],
)
def test_a_cluster_is_prepared_for_the_kinds_of_fault_of_the_plan(
    driven: Driven, traits: list[Traits], hosted: bool, found: tuple[bool, bool, bool]
) -> None:
    backend = Away(driven.machine.folder) if hosted else driven.machine
    place = Place(run_id="r", run_dir=driven.machine.folder, shared=(), label="r")
    agent = cast(AgentLink, object())

    async def made() -> Cluster:
        run = Run(driven.made, place, backend, cast(Runtime, driven.records))
        nemeses = [
            SimpleNamespace(traits=one, operator=OPERATOR if one.operates else "") for one in traits
        ]
        return run._assembly.cluster(agent, cast(Sequence[Nemesis], nemeses))

    cluster = asyncio.run(made())
    assert (cluster.tapped, cluster.ordered, isinstance(cluster.agent, Operator)) == found
    assert (cluster.agent is agent) is hosted
    plan, hold_ns = driven.made.plan, driven.made.longest_hold_ns
    settle_ns = SECOND + (plan.clients + 1) * hold_ns + 5 * SECOND
    assert cluster.over_ns == plan.time_ns + settle_ns + 60 * SECOND
