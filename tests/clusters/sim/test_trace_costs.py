"""What a trace costs, in counts that no busy machine changes."""

from __future__ import annotations

import random

from holdfast.clusters.backends.sim.run import simulate
from holdfast.clusters.systems.reference.consensus.messages import NOTHING
from holdfast.clusters.systems.reference.options import ReferenceOptions
from holdfast.clusters.systems.reference.service.node import LockNode
from holdfast.clusters.systems.reference.service.tracing import ServiceTracer, traced
from holdfast.clusters.systems.reference.specification import locks
from holdfast.clusters.systems.reference.specification.leadership import LeadersView
from holdfast.clusters.systems.reference.specification.validation import validate
from holdfast.planning import prepare
from tests.clusters.sim.longer import longer
from tests.front.test_costs import calls

VALIDATED = 60
"""Calls per event of a trace; 53 counted. It was 66 when each step of a follower made the state
of a leader and of a disk, and each applied entry went through all locks."""


def test_validating_a_step_costs_few_calls() -> None:
    plan = longer(100_003, 4)
    manifest = prepare.manifest(prepare.prepared(plan), "", "")
    events: list[object] = []
    simulate(manifest, trace=events)
    options = manifest.options.system
    cost = calls(lambda: validate(events, nodes=plan.nodes, options=options))
    assert len(events) > 300
    assert cost <= VALIDATED * len(events)


def done(table: locks.Table, index: int, command: locks.Command) -> locks.Table:
    return locks.after(table, index, command, order="fifo", delays=False, past={}).table


def test_an_applied_entry_costs_nothing_per_lock_that_it_leaves_as_it_is() -> None:
    costs = []
    for others in (1, 50):
        opened = locks.Command(op="open", ttl_ns=10**9)
        before, table = locks.EMPTY, done(locks.EMPTY, 1, opened)
        for number in range(others + 1):
            asked = locks.Command(
                op="acquire",
                session=1,
                seq=number,
                done=0,
                owner="c1",
                lock=f"lock-{number}",
                attempt=number,
                ttl_ns=5,
                wait_ns=-1,
            )
            before, table = table, done(table, number + 2, asked)
        leader = LeadersView()
        last = others + 2
        costs.append(calls(lambda: leader.applies(before, table, last, 7, 0)))  # noqa: B023
        assert list(leader.due) == [("lease", f"lock-{others}", others + 1, others)]
    assert costs[1] - costs[0] == 49, "a look-up, to see that it is the same"


def test_the_nodes_of_a_cluster_have_one_type() -> None:
    made = [
        traced(LockNode, ServiceTracer(name, lambda event: None, lambda: 0))(
            name=name,
            peers=["n1", "n2"],
            options=ReferenceOptions(),
            rng=random.Random(1),
            durable=NOTHING,
            now_ns=0,
        )
        for name in ("n1", "n2")
    ]
    assert type(made[0]) is type(made[1])
    assert type(made[0].locks) is type(made[1].locks)
    assert [one.locks.tracer.node for one in made] == ["n1", "n2"]  # type: ignore[attr-defined]
