"""Small exact plans whose answers are known: the simulator must give those of real processes.

Each plan says what clients must have been answered, what they never may be, and how the properties
that it is about must come out. Both arms, simulated and local, are held to the same lines.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine import seed_search
from holdfast.engine.runner import carry_out
from holdfast.harness.core.case import History
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.ports import Fault
from holdfast.harness.history import reader
from holdfast.harness.plans.plan import Plan
from holdfast.harness.runs import journal
from holdfast.harness.runs.directory import RunDir
from holdfast.planning import prepare
from tests import needs

LEASE_NS = 600 * MILLISECOND
STAGES = ["deployed", "start", "stop", "probe", "end"]
"""The marks of a run; the simulator notes elections beside them."""
"""What the driver, which is one for both arms, marks in a run that it carries out to the end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """One plan and its known answers. answers: "op status" that must occur; never: that must not.

    verdicts   property -> how it must come out; effective: kinds of fault that must take effect
    times      real processes show it within so many runs, where it hangs on the instant of a signal
    """

    plan: Plan
    answers: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()
    verdicts: dict[str, str] = field(default_factory=dict)
    effective: frozenset[str] = frozenset()
    times: int = 1


def small(system: str, time_ms: int, *faults: Fault, **given: Any) -> Plan:
    return Plan(
        system=system,
        seed=5,
        time_ns=time_ms * MILLISECOND,
        lease_ns=LEASE_NS,
        nodes=given.pop("nodes", 1),
        clients=given.pop("clients", 2),
        workload=given.pop("workload", "critical-section"),
        resource=given.pop("resource", "fenced"),
        options=given,
        faults=faults,
    )


def fault(do: str, target: str, at_ms: int, for_ms: int, **params: str) -> Fault:
    at_ns, for_ns = at_ms * MILLISECOND, for_ms * MILLISECOND
    return Fault(id="f1", do=do, target=target, at_ns=at_ns, for_ns=for_ns, params=params)


HOLDER_PAUSED = fault("pause", "holder", 300, 1500)
KILLED_AT_ITS_GRANT = replace(
    fault("kill", "holder", 300, 900), when="acquire:ok", within_ns=1000 * MILLISECOND
)

PLANS = {
    "grant": Told(
        plan=small("single", 500, clients=1, workload="try-lock"),
        answers=frozenset({"try ok", "release ok", "served-write ok"}),
        never=frozenset({"try fail", "release not-owner", "served-write fail", "lost ok"}),
    ),
    "contention": Told(
        plan=small("reference", 1000, clients=3, nodes=3),
        answers=frozenset({"acquire ok", "waiting ok", "renew ok", "release ok"}),
        never=frozenset({"release not-owner", "renew not-owner", "lost ok"}),
        verdicts={"mutual-exclusion": "HOLDS", "token-order": "HOLDS"},
    ),
    "renewal": Told(
        plan=small("reference", 2500, workload="renewal", hold_leases="2"),
        answers=frozenset({"acquire ok", "renew ok", "release ok"}),
        never=frozenset({"renew not-owner", "release not-owner", "lost ok"}),
        verdicts={"mutual-exclusion": "HOLDS"},
    ),
    "extensions to longer and shorter leases": Told(
        plan=small("reference", 2500, workload="renewal", hold_leases="2", extend="1"),
        answers=frozenset({"acquire ok", "waiting ok", "renew ok", "release ok"}),
        never=frozenset({"renew not-owner", "release not-owner", "lost ok"}),
        verdicts={"mutual-exclusion": "HOLDS"},
    ),
    "a tree of locks": Told(
        plan=small("reference", 1500, workload="hierarchy", clients=4, nodes=3),
        answers=frozenset({"acquire ok", "waiting ok", "renew ok", "release ok"}),
        never=frozenset({"acquire info", "release not-owner", "served-write fail", "lost ok"}),
        verdicts={"mutual-exclusion": "HOLDS", "token-order": "HOLDS", "bounded-bypass": "HOLDS"},
    ),
    "an operator frees a lock": Told(
        plan=small("reference", 4000, workload="manual-recovery", clients=4, gap_ms="40"),
        answers=frozenset({"force-unlock ok", "lost ok", "served-write fail", "holder ok"}),
        never=frozenset({"force-unlock fail"}),
        verdicts={"mutual-exclusion": "HOLDS", "no-stale-write": "HOLDS"},
    ),
    "a hold shown as one word": Told(
        plan=small("chubby", 1500, workload="sequencers", nodes=3),
        answers=frozenset({"acquire ok", "check ok", "check fail", "release ok", "heartbeat ok"}),
        never=frozenset({"check info", "release not-owner", "closed ok"}),
        verdicts={"mutual-exclusion": "HOLDS", "truthful-queries": "HOLDS"},
    ),
    "a session that dies": Told(
        plan=small("chubby", 6000, fault("pause", "holder", 500, 3000), nodes=3, session_ms="600"),
        answers=frozenset({"acquire ok", "closed ok"}),
        verdicts={"mutual-exclusion": "HOLDS"},
        effective=frozenset({"pause"}),
    ),
    "expiry": Told(
        plan=small("reference", 2500, HOLDER_PAUSED),
        answers=frozenset({"acquire ok", "lost ok"}),
        verdicts={"loss-notice": "HOLDS", "mutual-exclusion": "HOLDS"},
        effective=frozenset({"pause"}),
    ),
    "a release of what is another's by now": Told(
        plan=small("single", 2500, HOLDER_PAUSED, resource="unfenced", gap_ms="50"),
        answers=frozenset({"release not-owner"}),
        verdicts={"ownership": "HOLDS", "mutual-exclusion": "HOLDS"},
        effective=frozenset({"pause"}),
    ),
    "a service that lets it through": Told(
        plan=small("reference", 2500, HOLDER_PAUSED, gap_ms="50", mutant="release-by-lock"),
        verdicts={"ownership": "VIOLATED"},
        effective=frozenset({"pause"}),
        times=4,
    ),
    "a paused holder, unfenced": Told(
        plan=small("reference", 2500, HOLDER_PAUSED, resource="unfenced", gap_ms="50"),
        never=frozenset({"served-write fail"}),
        verdicts={"no-stale-write": "VIOLATED", "mutual-exclusion": "HOLDS"},
        effective=frozenset({"pause"}),
    ),
    "a paused holder, fenced": Told(
        plan=small("reference", 2500, HOLDER_PAUSED, gap_ms="50"),
        answers=frozenset({"served-write fail"}),
        verdicts={"no-stale-write": "HOLDS", "mutual-exclusion": "HOLDS"},
        effective=frozenset({"pause"}),
    ),
    "a holder killed at its grant": Told(
        plan=small("reference", 3500, KILLED_AT_ITS_GRANT, gap_ms="50"),
        answers=frozenset({"acquire ok", "release ok"}),
        verdicts={"mutual-exclusion": "HOLDS", "token-order": "HOLDS"},
        effective=frozenset({"kill"}),
    ),
    "a holder cut off": Told(
        plan=small(
            "reference", 3500, fault("partition", "holder", 300, 2000, shape="isolate"), nodes=3
        ),
        answers=frozenset({"acquire ok", "release info"}),
        verdicts={"mutual-exclusion": "HOLDS", "token-order": "HOLDS"},
        effective=frozenset({"partition"}),
    ),
    "a server killed that keeps what it knows": Told(
        plan=small("reference", 3500, fault("kill", "n1", 500, 200), lazy_pct="100"),
        answers=frozenset({"acquire ok", "release ok"}),
        verdicts={"mutual-exclusion": "HOLDS", "token-order": "HOLDS"},
        effective=frozenset({"kill"}),
    ),
    "a server killed that keeps nothing": Told(
        plan=small("single", 3500, fault("kill", "n1", 500, 500), resource="unfenced"),
        verdicts={"token-order": "VIOLATED"},
        effective=frozenset({"kill"}),
    ),
}
AT_ONCE = ("contention", "a paused holder, fenced", "a server killed that keeps nothing")
"""What `make test` runs on real processes too; `make power` runs them all there."""


def answers(seen: History) -> set[str]:
    """Every "op status" of a history."""
    pairs = {(int(row["f"]), int(row["status"])) for row in seen.rows}
    return {
        f"{Op(f).name.lower().replace('_', '-')} {Status(status).name.lower().replace('_', '-')}"
        for f, status in pairs
    }


def simulated(plan: Plan) -> tuple[dict[str, Any], History]:
    ran = seed_search.in_memory(prepare.manifest(prepare.prepared(plan), "conformance", ""))
    assert [row.mark for row in ran.world.marks if row.mark != journal.ELECTED] == STAGES
    return plain(ran.verdicts), ran.case.history


def on_processes(plan: Plan, folder: Path) -> tuple[dict[str, Any], History]:
    verdicts: dict[str, Any] = plain(
        carry_out(prepare.prepared(plan), folder, "a test", quiet=True)
    )
    run = Path(str(verdicts["report"])).parent
    assert [row.mark for row in journal.marks(RunDir(run))] == STAGES
    return verdicts, reader.load(run / "history").history


def on_the_local_arm(name: str, folder: Path) -> None:
    """As often as it may take; what was never seen fails as it did the last time."""
    needs.namespaces()
    told = PLANS[name]
    plan = replace(told.plan, backend="local")
    for _ in range(told.times - 1):
        with contextlib.suppress(AssertionError):
            judged(told, *on_processes(plan, folder))
            return
    judged(told, *on_processes(plan, folder))


def judged(told: Told, verdicts: dict[str, Any], seen: History) -> None:
    assert verdicts["problems"] == []
    found = answers(seen)
    assert told.answers - found == set(), f"never answered; there were {sorted(found)}"
    assert told.never & found == set()
    by_name = {row["property"]: row["verdict"] for row in verdicts["verdicts"]}
    assert {prop: by_name[prop] for prop in told.verdicts} == told.verdicts, verdicts["verdicts"]
    assert {window["do"] for window in verdicts["faults"] if window["effective"]} == told.effective


@pytest.mark.parametrize("name", list(PLANS))
def test_the_simulated_arm_answers_as_it_must(name: str) -> None:
    told = PLANS[name]
    judged(told, *simulated(replace(told.plan, backend="sim")))


def test_a_hold_that_an_operator_ended_is_told_as_revoked() -> None:
    _, seen = simulated(replace(PLANS["an operator frees a lock"].plan, backend="sim"))
    told = seen.rows["res"][seen.of(Op.LOST)]
    assert {seen.strings[reason] for reason in told} == {"revoked"}


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_ONCE)
def test_the_local_arm_answers_the_same(name: str, tmp_path: Path) -> None:
    on_the_local_arm(name, tmp_path)


@pytest.mark.power
@pytest.mark.parametrize("name", [name for name in PLANS if name not in AT_ONCE])
def test_the_local_arm_answers_the_same_everywhere(name: str, tmp_path: Path) -> None:
    on_the_local_arm(name, tmp_path)
