"""`holdfast explain` and `holdfast debug`: the steps of a simulated run, their causes, branches."""

from __future__ import annotations

import io
import json
import shlex
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FrameType
from xml.etree import ElementTree as ET

import pytest

from holdfast import catalogue
from holdfast.clusters.backends.sim.observed.states import changes
from holdfast.clusters.backends.sim.observed.steps import Fate, Kind
from holdfast.engine import seed_search, swarm
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import Plan, to_toml
from holdfast.planning import prepare
from holdfast.planning.resolve import resolve
from holdfast.rewind import branch, explanation
from holdfast.rewind.causes import Why, chain, parents
from holdfast.rewind.execution import Execution, execute
from holdfast.rewind.session import Session
from holdfast.rewind.unasked import first_unasked
from tests.clusters.sim.longer import longer
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]


def drawn(seed: int, system: str = "reference", mutant: str = "") -> Plan:
    given = {"mutant": mutant} if mutant else {}
    nodes = catalogue.SYSTEMS[system].nodes
    return prepare.complete(swarm.draw(seed, system, nodes, given))


def short(mutant: str = "") -> Plan:
    """A run of one second without faults: few steps, so that all states can be compared."""
    plan = Plan(
        system="reference",
        backend="sim",
        seed=4,
        time_ns=SECOND,
        lease_ns=200 * MILLISECOND,
        clients=2,
        options={"mutant": mutant} if mutant else {},
    )
    return prepare.complete(plan)


@cache
def stepped() -> Execution:
    return execute(short(), states=True)


@cache
def departing() -> Execution:
    """A release or renewal that applies to the current holder, whoever asks."""
    return execute(drawn(1, mutant="release-by-lock"))


@pytest.mark.parametrize(
    ("seed", "system"), [(1, "reference"), (2, "reference"), (3, "majority"), (4, "redlock")]
)
def test_an_observed_run_has_the_same_history(seed: int, system: str) -> None:
    plan = drawn(seed, system)
    usual = seed_search.in_memory(prepare.manifest(resolve(plan), "usual", ""))
    seen = execute(plan)
    assert seen.digest == usual.world.digest
    assert len(seen.steps) == usual.world.events


def test_a_run_that_nobody_observes_runs_no_code_of_the_observer() -> None:
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call" and "observed" in frame.f_code.co_filename

    manifest = prepare.manifest(resolve(short()), "usual", "")
    sys.setprofile(count)
    try:
        seed_search.in_memory(manifest)
        unobserved, calls = calls, 0
        execute(short())
    finally:
        sys.setprofile(None)
    assert unobserved == 0
    assert calls > 1000


def test_a_cause_comes_before_its_step_and_a_message_was_sent_by_its_sender() -> None:
    steps = departing().steps
    for step in steps:
        for parent, _ in parents(steps, step.number):
            assert parent < step.number
            assert steps[parent].t_ns <= step.t_ns
        if step.kind is Kind.MESSAGE and steps[step.cause].node:
            assert steps[step.cause].node == step.source


def test_the_chain_leads_from_the_call_of_a_client_to_the_departure() -> None:
    done = departing()
    (finding,) = [one for one in explanation.findings(done) if one.kind == "departure"]
    told = explanation.explained(done, finding)
    assert told.named == done.departed == told.links[-1].step
    assert told.faultless
    assert told.links[0].why is None
    assert any(not edge.returned for edge in done.steps[told.links[0].step].rows)
    for before, link in zip(told.links, told.links[1:], strict=False):
        assert (before.step, link.why) in parents(done.steps, link.step)
    assert sum(link.why is Why.SENT for link in told.links) >= 3


@pytest.mark.parametrize(
    ("name", "seed"), [("early-expiry", 3), ("endless-lease", 3), ("age-since-renewal", 5)]
)
def test_where_a_step_goes_by_a_wrong_time_what_set_it_is_named(name: str, seed: int) -> None:
    done = execute(drawn(seed, mutant=name))
    finding = explanation.findings(done)[-1]
    told = explanation.explained(done, finding)
    assert finding.kind == "departure"
    assert told.named == done.began < done.departed
    steps = done.steps
    assert steps[done.began].node == steps[done.departed].node
    assert "the time is set" in told.notes[done.began]


def test_a_chain_is_a_shortest_one() -> None:
    """Against the sums of all chains of a small piece of a run."""
    done = stepped()
    cost = {Why.WOKE: 0, Why.SENT: 1, Why.SET: 2, Why.RELEASED: 1, Why.SAME_NODE: 3}
    last, first = 400, 340
    best = {first: 0}
    for number in range(first + 1, last + 1):
        sums = [
            best[parent] + cost[why]
            for parent, why in parents(done.steps, number)
            if parent in best
        ]
        if sums:
            best[number] = min(sums)
    reachable = [number for number in best if number > first]
    assert reachable
    for number in reachable:
        links = chain(done.steps, number, lambda one: one == first)
        assert sum(cost[link.why] for link in links if link.why is not None) == best[number]


def test_the_first_cause_is_explained_whatever_property_it_breaks() -> None:
    done = execute(drawn(3, mutant="release-by-lock"))
    causes = done.judged.causes
    assert len(causes) > 1
    turned = replace(done, judged=replace(done.judged, causes=causes[::-1]))
    for given, first in ((done, causes[0]), (turned, causes[-1])):
        chosen = explanation.findings(given)[0]
        prop, place = first.first
        row = next(row for row in done.judged.verdicts if row.property == prop)
        assert (chosen.prop, chosen.shown) == (prop, row.findings[place])
        assert chosen.cause == 1


def test_a_fault_that_the_finding_needs_begins_its_chain() -> None:
    done = execute(prepare.complete(longer(3, 5, {"mutant": "early-expiry"})))
    finding = next(one for one in explanation.findings(done) if one.prop == "loss-notice")
    told = explanation.explained(done, finding)
    assert told.needed
    assert not told.faultless
    for fault in told.needed[:1]:
        faults = tuple(one for one in done.plan.faults if one.id != fault.id)
        without = execute(replace(done.plan, faults=faults))
        kinds = [(one.prop, one.kind) for one in explanation.findings(without)]
        assert (finding.prop, finding.kind) not in kinds
    assert told.fault in told.needed
    assert done.steps[told.links[0].step].t_ns >= told.fault.from_ns


def test_a_renewal_that_sends_nothing_is_found() -> None:
    done = execute(drawn(5, mutant="silent-renewal"))
    assert done.departure is None
    step = done.steps[first_unasked(done)]
    assert step.node.startswith("c")
    assert first_unasked(execute(drawn(5))) < 0


def test_states_are_those_that_all_changes_give() -> None:
    """A state that is put together from a keyframe is the one of all changes since the start."""
    done = stepped()
    assert done.states is not None
    folded: dict[str, dict[str, str]] = {node: {} for node in done.states.nodes()}
    for step in done.steps:
        if step.node not in folded:
            continue
        before = dict(folded[step.node])
        for path, old, new in done.states.changed(step.node, step.number):
            assert before.get(path, "") == old
            folded[step.node].pop(path, None)
            if new:
                folded[step.node][path] = new
        if step.number % 97 == 0:
            assert done.states.at(step.node, step.number) == folded[step.node]
    assert all(len(state) > 5 for node, state in folded.items() if node.startswith("n"))
    assert changes({"a": "1", "b": "2"}, {"b": "3", "c": "4"}) == (
        ("a", "1", ""),
        ("b", "2", "3"),
        ("c", "", "4"),
    )


def test_the_last_writer_of_a_value_is_found() -> None:
    done = stepped()
    assert done.states is not None
    path, last = "server.node.consensus.commit", len(done.steps) - 1
    found = done.states.wrote("n1", path, last)
    assert found is not None
    number, change = found
    assert change in done.states.changed("n1", number)
    assert change[2] == done.states.at("n1", last)[path] == done.states.at("n1", number)[path]
    assert done.states.at("n1", number - 1)[path] == change[1]
    assert f"step {number}: " in prompted(done, f"step {_on(done, 'n1')}", f"wrote {path}")
    assert done.states.wrote("n1", "no such path", last) is None


def _on(done: Execution, node: str) -> int:
    """The last step of a node."""
    return next(step.number for step in reversed(done.steps) if step.node == node)


def test_the_state_of_a_server_has_the_hold_that_it_granted() -> None:
    done = stepped()
    assert done.states is not None
    granted = next(step for step in done.steps if "is=granted" in step.text and step.source != "")
    state = done.states.at(granted.source, granted.number)
    holds = [value for path, value in state.items() if "holds[0]" in path]
    assert any("token=1" in value for value in holds)


def answer(done: Execution) -> int:
    """The first delivery of a grant to a client."""
    return next(
        step.number
        for step in done.steps
        if step.kind is Kind.MESSAGE and step.fate is Fate.DELIVERED and "is=granted" in step.text
    )


def test_a_branch_loses_one_message_and_is_the_same_each_time(tmp_path: Path) -> None:
    done = stepped()
    lost = answer(done)
    one, two = (branch.branch(done, [lost]) for _ in range(2))
    assert one.done.steps[lost].fate is Fate.CHOSEN
    assert [str(step) for step in one.done.steps[:lost]] == [str(s) for s in done.steps[:lost]]
    assert one.differs
    assert one.done.digest == two.done.digest != done.digest
    branch.write(one, tmp_path / "branch.json")
    assert branch.read(tmp_path / "branch.json") == [lost]


def test_only_a_message_that_arrives_can_be_lost() -> None:
    done = stepped()
    timer = next(step.number for step in done.steps if step.kind is Kind.TIMER)
    with pytest.raises(UsageError, match="delivers no message"):
        branch.branch(done, [timer])
    with pytest.raises(UsageError, match="no step"):
        branch.branch(done, [len(done.steps)])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"schema": "holdfast-branch/1", "lost": []}',
        '{"schema": "holdfast-branch/1", "lost": [true]}',
        '{"schema": "other", "lost": [1]}',
        "[" * 100_000,
    ],
)
def test_what_is_no_branch_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "branch.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"branch\.json"):
        branch.read(file)


def prompted(done: Execution, *lines: str) -> str:
    out = io.StringIO()
    given = io.StringIO("\n".join([*lines, "quit", ""]))
    Session(done, 0, given, out, prompts=False).cmdloop()
    return out.getvalue()


def test_the_prompt_goes_to_steps_and_says_what_they_did() -> None:
    done = stepped()
    number = answer(done)
    said = prompted(done, f"step {number}", "next", "previous", "state n1", "diff", "causes")
    assert f"step {number} of {len(done.steps)}" in said
    assert f"step {number + 1} of" in said
    assert f"caused by step {done.steps[number].cause}" in said
    assert "server.node.consensus.role = " in said
    assert "its process starts" not in said.splitlines()[0]


def test_the_prompt_answers_mistakes_with_a_line_and_goes_on() -> None:
    lines = ("step x", "step 99999999", "state n9", "bogus", "row c1", "enter", "lose 0", "time")
    said = prompted(stepped(), *lines, "step 1")
    assert said.count("error: ") == len(lines) - 1
    assert "unknown command 'bogus'" in said
    assert "step 1 of" in said


def test_the_prompt_makes_a_branch_and_walks_in_it(tmp_path: Path) -> None:
    done = stepped()
    number = answer(done)
    file = tmp_path / "b.json"
    said = prompted(done, f"lose {number}", "enter", f"step {number}", "leave", f"write {file}")
    assert f"the message of step {number} is lost" in said
    assert str(Fate.CHOSEN) in said
    assert branch.read(file) == [number]


def kept(capsys: Capture, folder: Path, plan: Plan) -> Path:
    """A run directory of a plan."""
    file = folder / "plan.toml"
    file.write_text(to_toml(plan, exact=True))
    holdfast(capsys, "run", file, "--out", folder / "runs")
    return folder / "runs" / "latest"


def test_the_commands_explain_and_show_a_recorded_run(capsys: Capture, tmp_path: Path) -> None:
    plan = short("lone-commit")
    run = kept(capsys, tmp_path, plan)
    picture = tmp_path / "why.svg"
    said = holdfast(capsys, "explain", run, "--json", "--output", picture)
    told = json.loads(said.out)
    assert said.code == 0
    assert told["step"] == execute(plan).departed == told["departure"]["step"]
    assert told["step"] in [link["step"] for link in (*told["chain"], *told["departing"])]
    root = ET.parse(picture).getroot()
    assert sum(element.tag.endswith("circle") for element in root.iter()) >= 2
    words = holdfast(capsys, "explain", run)
    assert f"[{told['step']}]" in words.out
    assert holdfast(capsys, "debug", run, "--step", "9999999").code == 2
    shown = holdfast(capsys, "debug", run, "--step", told["step"])
    assert shown.code == 0
    assert "departs from its specification" in shown.out


def test_a_run_of_another_history_is_refused(capsys: Capture, tmp_path: Path) -> None:
    run = kept(capsys, tmp_path, short())
    plan = run / "plan.toml"
    plan.write_text(plan.read_text().replace("seed = 4", "seed = 5"))
    said = holdfast(capsys, "explain", run)
    assert said.code == 2
    assert "another history" in said.err


def test_a_run_that_was_not_simulated_is_refused(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(to_toml(replace(short(), backend="local"), exact=True))
    said = holdfast(capsys, "debug", file, "--step", "1")
    assert said.code == 2
    assert "only simulated runs" in said.err


def test_a_run_without_a_finding_has_nothing_to_explain(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(to_toml(short(), exact=True))
    said = holdfast(capsys, "explain", file)
    assert said.code == 0
    assert "nothing to explain" in said.out


@pytest.mark.parametrize(("resource", "explained"), [("unfenced", True), ("fenced", False)])
def test_a_violated_run_ends_with_the_command_that_explains_it(
    capsys: Capture, tmp_path: Path, resource: str, explained: bool
) -> None:
    folder = tmp_path / "a folder"
    words = (
        "--backend",
        "sim",
        "--resource",
        resource,
        "--time",
        "5s",
        "--lease",
        "1s",
        "--seed",
        7,
    )
    pause = ("--nemesis", "pause:target=holder,for=2s,every=4s")
    # A limit has no such line among its ten.
    said = holdfast(capsys, "run", *words, *pause, "--out", folder, "-v")
    told = [line for line in said.out.splitlines() if line.startswith("why ")]
    assert len(told) == explained
    for line in told:
        argv = shlex.split(line)[2:]
        assert "it needs f1 (pause of " in holdfast(capsys, *argv).out
