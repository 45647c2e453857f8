"""Opportunities from the plan to the verdict: faults and holds that give them, and the command for
a run that had none."""

from __future__ import annotations

import json
import random
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.api import plan_options
from holdfast.checkers.opportunities.table import every_row
from holdfast.engine import seed_search
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.verdict import PlanChange, Verdict
from holdfast.harness.plans.command_line import changed, run_command
from holdfast.harness.plans.plan import Plan
from holdfast.harness.verdicts.judged import Judged
from holdfast.nemesis.timetable import slots
from holdfast.planning import prepare
from holdfast.planning.lazy_holders import with_lazy_holders
from tests.draws import Draws
from tests.front.said import holdfast
from tests.power.twins import ON_SERVERS, PLANS, WEAK, separated

FORGETFUL = (
    "--system single --workload renewal --lease 2s --time 10s --seed 3"
    " --nemesis kill:for=100ms,every=1s,target=one"
)
"""A lock in the memory of one process, killed for less than its leases."""


def simulated(*words: str) -> Judged:
    """The judged run of options of `holdfast run`, in the simulator."""
    table, options = {"backend": "sim", "clients": 5, "locks": 1}, []
    for name, value in zip(words[::2], words[1::2], strict=True):
        if name == "--set":
            options.append(value)
        else:
            whole = name in ("--clients", "--locks", "--nodes", "--seed")
            table[name[2:]] = int(value) if whole else value
    plan = with_lazy_holders(plan_options.from_options(table, options))
    manifest = prepare.manifest(prepare.prepared(plan), "opportunities", "")
    return seed_search.in_memory(manifest).verdicts


def test_a_lock_that_forgets_is_violated_by_short_kills() -> None:
    judged = simulated(*shlex.split(FORGETFUL))
    broken = next(one for one in judged.verdicts if one.property == "mutual-exclusion")
    assert broken.verdict == "VIOLATED"
    assert broken.under["kill"].opportunities[0].count > 0


def test_no_seed_of_a_forgetful_lock_holds_under_long_kills() -> None:
    """Every lease is over when the server is back: forgetting them cannot show."""
    for seed in range(6):
        nemesis = "kill:for=3s,every=5s,target=one"
        words = f"--system single --lease 1s --time 20s --seed {seed} --nemesis {nemesis}"
        judged = simulated(*shlex.split(words))
        row = next(one for one in judged.verdicts if one.property == "mutual-exclusion")
        assert row.under["kill"].verdict == "UNKNOWN"
        assert "left at most" in row.reason or "no lock was held" in row.reason


@pytest.mark.parametrize(
    "lock", ["--system single", "--system majority", "--system redlock --set persistence=none"]
)
def test_default_kills_show_what_a_lock_in_memory_forgets_and_only_at_opportunities(
    lock: str, draws: Draws
) -> None:
    """Locks that lose their grants with their processes: most runs show it, and no run shows it
    where the table saw no opportunity."""
    words = shlex.split(f"{lock} --nemesis kill --time 30s")
    runs = [simulated(*words, "--seed", str(seed)) for seed in range(200, 200 + draws(6, least=2))]
    kinds = [
        one.under["kill"]
        for run in runs
        for one in run.verdicts
        if one.property in ("mutual-exclusion", "token-order") and "kill" in one.under
    ]
    violated = [one for one in kinds if one.verdict == "VIOLATED"]
    assert len(violated) >= len(runs) // 2
    assert all(any(row.count for row in one.opportunities) for one in violated)


OF_QUEUES = ("starvation-freedom", "bounded-bypass", "bounded-wait")
EARLY = [
    row
    for row in PLANS
    if row.startswith(("ownership", "no-stale", "no-expired", "loss-notice", *OF_QUEUES))
    or row.endswith(("/stop", "/cut", "/clocks"))
]
EACH = [
    pytest.param(row, marks=pytest.mark.slow) if row.startswith(OF_QUEUES) else row for row in EARLY
]


@pytest.mark.parametrize("row", EACH)
def test_a_planted_bug_is_seen_at_opportunities_of_its_row_and_nowhere_else(row: str) -> None:
    counts = separated(row, range(300, 310))
    assert counts.met >= 5 and 2 * counts.found >= counts.met
    assert not counts.elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in PLANS if row not in EARLY])
def test_the_twin_of_a_row_is_found_at_its_opportunities(row: str) -> None:
    """`python -m tests.power.twins` has the table, and which rows are known to be weak."""
    counts = separated(row, range(300, 304))
    assert counts.met
    assert 2 * counts.found >= counts.met or row in WEAK


def test_each_row_has_a_plan_that_stages_it_or_shows_on_real_servers_alone() -> None:
    assert {row.id for row in every_row()} - set(PLANS) == ON_SERVERS


@pytest.mark.parametrize("faults", ["", "--nemesis kill", "--nemesis pause:target=holder"])
def test_a_queue_that_starves_never_holds_and_the_command_finds_it(faults: str) -> None:
    """By default its waits end before anybody behind them is granted the lock."""
    for seed in (300, 302):
        words = f"--workload renewal --time 20s --set mutant=last-come-first --seed {seed} {faults}"
        judged = simulated("--system", "reference", *shlex.split(words))
        again = simulated(*shlex.split(judged.remedy)[2:])
        first, second = (
            next(row.verdict for row in run.verdicts if row.property == "starvation-freedom")
            for run in (judged, again)
        )
        assert (first, second) == ("UNKNOWN", "VIOLATED")


@pytest.mark.parametrize("kind", ["partition", "clock"])
def test_default_faults_of_a_correct_service_mostly_have_opportunities(kind: str) -> None:
    verdicts = []
    for seed in range(300, 310):
        words = f"--system reference --nemesis {kind} --time 20s --seed {seed}"
        judged = simulated(*shlex.split(words))
        row = next(one for one in judged.verdicts if one.property == "mutual-exclusion")
        verdicts.append(row.under[kind].verdict)
    assert Verdict.VIOLATED not in verdicts
    assert verdicts.count(Verdict.HOLDS) >= 6


@pytest.mark.parametrize("kind", ["partition", "clock"])
def test_the_command_has_the_opportunities_that_a_short_run_of_another_fault_lacked(
    kind: str,
) -> None:
    def lacks(judged: Judged) -> bool:
        rows = [one for one in judged.verdicts if one.property == "mutual-exclusion"]
        return rows[0].under[kind].verdict == "UNKNOWN"

    commands = []
    for seed in range(40):
        words = f"--system reference --nemesis {kind} --time 10s --set lazy_pct=0 --seed {seed}"
        judged = simulated(*shlex.split(words))
        commands += [judged.remedy] if lacks(judged) else []
        if len(commands) == 5:
            break
    assert len(commands) == 5
    assert not any(lacks(simulated(*shlex.split(command)[2:])) for command in commands)


@pytest.mark.parametrize("system", ["single", "reference", "redlock"])
def test_the_command_of_an_unknown_run_exercises_what_it_lacked(system: str, draws: Draws) -> None:
    """The first runs are too short for what the table needs; of the commands that they name, as
    printed, at most one in ten lacks anything."""
    commands = []
    for seed in range(8, 8 + draws(10, least=3)):
        words = f"--system {system} --nemesis kill --time 4s --seed {seed}"
        judged = simulated(*shlex.split(words))
        if judged.exit_code == 3:
            assert judged.remedy
            commands.append(judged.remedy)
    assert len(commands) >= draws(3)
    again = [simulated(*shlex.split(command)[2:]) for command in commands]
    assert sum(one.exit_code == 3 for one in again) <= len(again) // 10


def test_a_run_says_what_was_tried_and_the_command_for_what_was_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["run", "--backend", "sim", "--system", "reference", "--nemesis", "kill"]
    # Owners that are late would exercise all that this run lacks.
    words += ["--time", "10s", "--seed", "4", "--out", str(tmp_path), "--set", "late_pct=0"]
    monkeypatch.setenv("COLUMNS", "100")
    shown = holdfast(capsys, *words)
    assert shown.code == 3
    assert "questions (1 kind of fault, by property) not tested" in shown.out
    verbose = holdfast(capsys, "check", str(next(tmp_path.glob("*/verdicts.json")).parent), "-v")
    assert "Tried under kill (token order): 1 time a token was known" in verbose.out
    command = next(line for line in shown.out.splitlines() if line.startswith("  holdfast run"))
    verdicts = json.loads(next(tmp_path.glob("*/verdicts.json")).read_text())
    assert command.strip() == verdicts["remedy"]
    page = next(tmp_path.glob("*/report.html")).read_text()
    assert "To exercise what was not tested" in page and "lazy_pct=50" in page


def test_lengths_straddle_the_lease_and_fit_the_run() -> None:
    options = {"lease": "2s"}
    for seed in range(50):
        times = slots("kill", random.Random(seed), options, 30 * SECOND, straddles=True)
        assert len(times) == 6
        for n, (at_ns, for_ns) in enumerate(times):
            assert for_ns <= 10 * SECOND and at_ns + for_ns <= 30 * SECOND
            low, high = (1.2, 6.0) if n % 4 > 1 else (0.1, 1.2)
            assert low * SECOND <= for_ns <= high * SECOND
    given = {"lease": "2s", "for": "700ms"}
    fixed = slots("kill", random.Random(1), given, 30 * SECOND, straddles=True)
    assert {for_ns for _, for_ns in fixed} == {700 * MILLISECOND}


@pytest.mark.parametrize("kind", ["kill", "partition", "pause", "clock", "power"])
def test_a_run_shorter_than_a_fault_has_one_of_a_third_of_the_run(kind: str) -> None:
    """It was drawn for nothing before: no fault of three seconds fits into two."""
    judged = simulated(*shlex.split(f"--system reference --nemesis {kind} --time 2s --seed 1"))
    assert [fault.do for fault in judged.faults] == [kind]


UNDRAWN = "no {0} took place"
"""The reason of a run into which not even one of the faults fits that were asked for."""


@pytest.mark.parametrize("nemesis", ["kill:for=3s", "partition:for=3s", "clock:for=3s"])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_command_of_a_run_without_any_fault_brings_it(nemesis: str, seed: int) -> None:
    kind = nemesis.split(":")[0]
    words = f"--system reference --nemesis {nemesis} --time 2s --seed {seed}"
    judged = simulated(*shlex.split(words))
    rows = [one for one in judged.verdicts if one.promised]
    assert not judged.faults and judged.exit_code == 3
    assert all(UNDRAWN.format(kind) in one.under[kind].reason for one in rows if one.under)
    again = simulated(*shlex.split(judged.remedy)[2:])
    assert {fault.do for fault in again.faults} >= {kind} and again.exit_code == 0


def test_a_command_keeps_the_target_of_the_plan_and_drops_the_time_of_one_fault() -> None:
    words = "--system reference --nemesis kill:for=3s,target=follower --time 2s --seed 1"
    assert "target=follower" in simulated(*shlex.split(words)).remedy
    plan = Plan(system="redis", lease_ns=SECOND, nemeses=(("kill", {"at": "1s", "for": "1s"}),))
    often = PlanChange(nemesis="kill", every_leases=2.5)
    assert "--nemesis kill:for=1s,every=2500ms" in run_command(changed(plan, [often]))


@pytest.mark.parametrize("system", ["redlock", "reference"])
def test_owners_whom_no_token_orders_wait_for_less_than_a_hold(system: str) -> None:
    """Who was granted a lock of Redlock after whom is certain only if it asked for it later."""
    for seed in (2, 3):
        words = f"--system {system} --time 4s --nemesis pause:target=holder --seed {seed}"
        judged = simulated(*shlex.split(words))
        wait = "wait_ms=500" if system == "redlock" else "wait_ms=60000"
        assert judged.exit_code == 3 and wait in shlex.split(judged.remedy)
        assert simulated(*shlex.split(judged.remedy)[2:]).exit_code == 0


def test_owners_are_silent_where_a_row_asks_for_it() -> None:
    calm = with_lazy_holders(Plan(system="reference"))
    assert calm.options == {"lazy_pct": "5", "late_pct": "50"}, "for the sake of late ones"
    session = Plan(system="zookeeper")
    assert with_lazy_holders(session).options == {**calm.options, "stopped": "1"}
    virtual = Plan(system="reference", backend="sim")
    for unknown in (virtual, replace(session, workload="renewal")):
        assert with_lazy_holders(unknown) == unknown
    faulted = Plan(system="reference", nemeses=(("kill", {}),))
    assert with_lazy_holders(faulted).options == {"lazy_pct": "25", "late_pct": "40"}
    session = Plan(system="zookeeper", nemeses=(("kill", {}),))
    late = {"lazy_pct": "25", "late_pct": "40", "stopped": "1"}
    assert with_lazy_holders(session).options == late
    connection = Plan(system="postgres-row", nemeses=(("kill", {}),))
    assert with_lazy_holders(connection).options == {"lazy_pct": "25"}
    for kind in ("power", "partition", "clock"):
        assert with_lazy_holders(Plan(system="reference", nemeses=((kind, {}),))).options
    for kind in ("delay", "pause"):
        other = Plan(system="reference", nemeses=((kind, {}),))
        assert with_lazy_holders(other) == other
    own = Plan(system="reference", nemeses=(("kill", {}),), options={"lazy_pct": "0"})
    assert with_lazy_holders(own) == own
    staged = Plan(system="reference", nemeses=(("kill", {}),), scenario="owner-crash")
    assert with_lazy_holders(staged) == staged


def test_changes_of_a_plan_add_up_with_the_longest_lease() -> None:
    plan = Plan(system="redis", lease_ns=SECOND, nemeses=(("kill", {"every": "9s"}),), locks=3)
    first = PlanChange(nemesis="pause", target="holder", fault_leases=1.5, locks=1)
    second = PlanChange(nemesis="kill", fault_leases=0.05, least_lease_ns=4 * SECOND)
    words = run_command(changed(plan, [first, second]))
    assert "--nemesis kill:every=9s,for=200ms,pause:for=6s,target=holder" in words
    assert "--lease 4s" in words and "--locks 1" in words


def test_what_needs_several_locks_has_them_beside_what_contends_for_one() -> None:
    plan = Plan(system="redis", lease_ns=SECOND, nemeses=(("kill", {}),), locks=1)
    one, two = PlanChange(locks=1), PlanChange(locks=2, least_locks=2)
    for changes in ([one, two], [two, one], [two]):
        assert changed(plan, changes).locks == 2
        assert changed(replace(plan, locks=3), changes).locks == 2
    assert changed(replace(plan, locks=3), [one]).locks == 1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_command_of_a_run_without_crossed_waits_has_some(seed: int) -> None:
    """A cycle of waits takes two locks, and other properties ask for contention on one."""
    words = f"--system reference --nemesis kill --workload many-locks --seed {seed}"
    judged = simulated(*shlex.split(f"{words} --time 4s --locks 1"))
    assert judged.exit_code == 3 and "--locks 2" in judged.remedy
    again = simulated(*shlex.split(judged.remedy)[2:])
    row = next(one for one in again.verdicts if one.property == "no-multi-lock-deadlock")
    assert row.verdict == row.under["kill"].verdict == "HOLDS"


def test_a_fault_that_has_to_last_longer_comes_less_often() -> None:
    plan = Plan(system="redis", lease_ns=SECOND, nemeses=(("pause", {}),))
    often = PlanChange(nemesis="pause", fault_leases=1.5, every_leases=2.5)
    long = PlanChange(nemesis="pause", fault_leases=3, every_leases=5)
    assert "pause:for=3s,every=3750ms" in run_command(changed(plan, [often, long]))
    assert "pause:for=1500ms,every=2500ms" in run_command(changed(plan, [long, often]))


def test_faults_of_servers_and_of_owners_come_in_turn() -> None:
    """Each needs its own: a pause of the leader stops no owner."""
    plan = Plan(system="reference", lease_ns=SECOND, nemeses=(("pause", {"target": "leader"}),))
    owners = PlanChange(nemesis="pause", target="holder", beside=True, least_leases=20)
    assert changed(plan, [owners]).nemeses == (("pause", {"target": "leader/holder"}),)
    assert changed(plan, [owners]).time_ns == 40 * SECOND
    servers = PlanChange(nemesis="pause", target="minority|one")
    assert "target=minority|one/holder" in run_command(changed(plan, [owners, servers]))
    again = changed(changed(plan, [owners]), [owners])
    assert dict(again.nemeses)["pause"]["target"] == "leader/holder"
    alone = changed(Plan(system="reference", nemeses=(("pause", {}),)), [owners])
    assert dict(alone.nemeses)["pause"]["target"] == "holder"


def test_all_servers_that_rows_lack_are_struck_in_turn() -> None:
    plan = Plan(system="reference", lease_ns=SECOND, nemeses=(("kill", {}),))
    roles = ("majority|one", "leader|one", "minority|one")
    asked = [PlanChange(nemesis="kill", target=role, least_leases=20) for role in roles]
    made = changed(plan, asked)
    assert dict(made.nemeses)["kill"]["target"] == "majority|one/leader|one/minority|one"
    assert made.time_ns == 40 * SECOND
    assert changed(plan, asked[:2]).time_ns == 30 * SECOND
    own = replace(plan, nemeses=(("kill", {"target": "follower"}),))
    assert dict(changed(own, [PlanChange(nemesis="kill", clients=5)]).nemeses)["kill"] == {
        "target": "follower"
    }


@pytest.mark.parametrize("workload", ["lost-update", "duplicate-request"])
def test_the_command_brings_each_row_that_a_run_of_brief_holds_lacked(workload: str) -> None:
    """Kills of the majority and of the leader, each of which found no hold: two rows."""

    def counts(judged: Judged) -> dict[str, int]:
        row = next(one for one in judged.verdicts if one.property == "mutual-exclusion")
        seen = row.under["kill"].needed()
        return {one.row.split("/")[1]: one.count for one in seen if one.row.endswith("/crash")}

    words = f"--system reference --nemesis kill --time 10s --workload {workload} --seed 500"
    judged = simulated(*shlex.split(f"{words} --set lazy_pct=0"))
    assert counts(judged) == {"forgotten-grant": 0, "new-leader-grants": 0}
    again = counts(simulated(*shlex.split(judged.remedy)[2:]))
    assert again.keys() == {"forgotten-grant", "new-leader-grants"}
    assert min(again.values()) > 0


@pytest.mark.parametrize("options", ["--clients 1", "--set think_ms=20000 --clients 2"])
def test_the_command_has_clients_that_contend(options: str) -> None:
    words = f"--system reference --nemesis backup-restore --time 10s --seed 502 {options}"
    judged = simulated(*shlex.split(words))
    assert "--clients 5" in judged.remedy and "think_ms=20000" not in judged.remedy


def test_the_command_exercises_a_stopped_leader_and_what_only_a_stopped_owner_shows(
    draws: Draws,
) -> None:
    """The first runs stop the leader alone: no owner loses its lock."""
    commands = []
    for seed in range(draws(40, least=3)):
        words = (
            f"--system reference --nemesis pause:target=leader --time 10s --lease 2s --seed {seed}"
        )
        judged = simulated(*shlex.split(words))
        assert judged.exit_code in (0, 3)
        commands += [judged.remedy] if judged.exit_code == 3 else []
    assert len(commands) >= draws(30, least=3)
    assert all("target=leader" in command and "/holder" in command for command in commands)
    again = [simulated(*shlex.split(command)[2:]) for command in commands]
    assert sum(one.exit_code == 3 for one in again) <= len(again) // 20
