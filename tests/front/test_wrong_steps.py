"""Which step `holdfast explain` names of a client's mistake, a restart, or an early decision."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from holdfast import catalogue
from holdfast.clusters.backends.sim.observed.steps import Fate, Kind
from holdfast.clusters.systems.recorded_trace import event_of
from holdfast.clusters.systems.reference.service.trace_file import line
from holdfast.clusters.systems.reference.specification.trace import Boot, Save
from holdfast.clusters.systems.reference.specification.validation import validate
from holdfast.engine import swarm
from holdfast.planning import prepare
from holdfast.rewind import client_steps, explanation
from holdfast.rewind.decided import decided_at_once
from holdfast.rewind.execution import Execution, execute
from holdfast.rewind.explanation import ExplainedFinding, Explanation
from holdfast.rewind.restarts import forgotten


def ran(name: str, seed: int, system: str = "reference") -> Execution:
    nodes = catalogue.SYSTEMS[system].nodes
    options = {"mutant": name} if name else {}
    return execute(prepare.complete(swarm.draw(seed, system, nodes, options)))


def finding_of(done: Execution, prop: str) -> ExplainedFinding:
    return next(one for one in explanation.findings(done) if one.prop == prop)


def explained(done: Execution, prop: str) -> tuple[Explanation, str]:
    """The explanation, and what it says about the step that it names."""
    told = explanation.explained(done, finding_of(done, prop))
    return told, told.notes[told.named]


def test_a_session_counted_from_a_late_answer_is_named() -> None:
    done = ran("counted-from-answer", 49)
    told, says = explained(done, "mutual-exclusion")
    assert done.steps[told.named].node == "c4"
    assert "by a message that was sent 426 ms before" in says
    # The same rows are right for a client that was told so at once.
    shown = finding_of(done, "mutual-exclusion").shown
    assert shown is not None
    number = done.edges[next(e for e, step in done.edges.items() if step == told.named)]
    woken = done.steps[done.steps[number].cause]
    woken.cause = number - 1
    assert client_steps.overstated(done, shown) is None


@pytest.mark.parametrize(
    ("name", "seed", "prop", "says"),
    [
        ("unheard-loss", 500, "loss-notice", "is told the end of its hold, and records nothing"),
        ("late-word", 127, "grant-notice", "is told its grant, and records nothing"),
    ],
)
def test_the_message_is_named_that_a_client_does_not_heed(
    name: str, seed: int, prop: str, says: str
) -> None:
    done = ran(name, seed)
    shown = finding_of(done, prop).shown
    assert shown is not None
    told, said = explained(done, prop)
    step = done.steps[told.named]
    assert said.endswith(says)
    assert step.kind is Kind.MESSAGE
    assert step.source in done.judged.servers
    assert f"attempt={shown.witnesses[0].attempt}" in step.text
    # A message that did not arrive tells nothing.
    step.fate = Fate.LOST
    later = client_steps.unheeded(done, shown)
    assert later is None or later.step > step.number


def test_the_timer_is_named_that_should_have_ended_a_call() -> None:
    done = ran("deaf-waiter", 19)
    told, says = explained(done, "no-hung-request")
    step = done.steps[told.named]
    assert says.startswith("here the timer fires")
    assert step.node == "c1"
    assert step.t_ns - done.steps[step.cause].t_ns > 4_500_000_000
    step.kind = Kind.CALLBACK
    shown = finding_of(done, "no-hung-request").shown
    assert shown is not None
    assert client_steps.overdue(done, shown) is None


def test_a_vote_that_is_not_given_back_is_named() -> None:
    done = ran("leaky-round", 6, "majority")
    told, says = explained(done, "deadlock-freedom")
    assert says == "here c2 goes on without a grant of n1, and does not return it"
    assert done.steps[told.named].rows


def test_a_vote_that_is_given_back_is_not_named() -> None:
    done = ran("wide-quorum", 6, "majority")
    finding = finding_of(done, "deadlock-freedom")
    assert finding.shown is not None
    assert client_steps.kept_vote(done, finding.shown) is None


def test_a_restart_that_lost_what_was_written_is_named() -> None:
    done = ran("forgotten-jobs", 47)
    told, says = explained(done, "exactly-once-job")
    assert done.steps[told.named].node == "resource"
    assert "registers[lock-1#0] was version=1" in says
    assert "and is version=0" in says


def test_a_restart_that_kept_everything_is_not_named() -> None:
    """The same accesses and the same restart, of a resource without the bug."""
    done = ran("", 47)
    jobs = ran("forgotten-jobs", 47)
    shown = finding_of(jobs, "exactly-once-job").shown
    assert shown is not None
    assert forgotten(jobs, replace(shown, witnesses=shown.witnesses[:1])) is None
    assert forgotten(done, shown) is None


def test_an_end_that_no_time_has_caused_is_named_itself() -> None:
    done = ran("connection-bound", 4)
    finding = finding_of(done, "")
    assert decided_at_once(done)
    assert explanation.explained(done, finding).named == done.departed > done.began
    assert done.departure is not None
    assert done.departure.early_ns > 0


@pytest.mark.parametrize(("name", "seed"), [("early-expiry", 3), ("impatient-leader", 4)])
def test_an_end_by_a_timer_or_in_the_step_after_its_time_was_set_is_not(
    name: str, seed: int
) -> None:
    done = ran(name, seed)
    assert done.departure is not None
    assert done.departure.early_ns > 0
    assert not decided_at_once(done)


def test_where_a_snapshot_has_an_answer_too_many_what_should_have_ended_it_is_named() -> None:
    done = ran("kept-answers", 1)
    told, says = explained(done, "")
    assert told.named == done.began < done.departed
    assert "is applied, which ends the answer 1 of session 7" in says


def test_a_node_starts_with_the_quorum_of_a_majority() -> None:
    boots = [Boot("n1", 1, 0, Save("all"), (), quorum) for quorum in (0, 3, 2)]
    assert validate(boots[:2], nodes=5, options={}) is None
    departure = validate(boots, nodes=5, options={})
    assert departure is not None
    assert departure.rule == "a quorum is a majority of the servers"
    assert (departure.allows, departure.happened) == (
        "a quorum of 3",
        "starts with a quorum of 2",
    )
    assert ran("small-quorum", 1).departure is not None


def test_a_trace_without_quorums_is_read() -> None:
    row = json.loads(line(Boot("n1", 1, 0, Save("all"), (), 2)))
    assert event_of(row) == Boot("n1", 1, 0, Save("all"), (), 2)
    del row["quorum"]
    assert event_of(row) == Boot("n1", 1, 0, Save("all"), (), 0)
