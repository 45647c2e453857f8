"""The named scenarios: each shows what it is for in the simulator, some in containers too."""

from __future__ import annotations

import json
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from holdfast import catalogue
from holdfast.api import history_frame
from holdfast.commands.scenario_command import plan_of
from holdfast.engine import seed_search
from holdfast.engine import sweep as sweeping
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import plain
from holdfast.harness.plans.plan import parse
from holdfast.planning import plan_source, prepare
from holdfast.scenarios import SCENARIOS, path_of, staging
from tests import needs
from tests.front.frame_rows import unshown
from tests.front.said import holdfast
from tests.front.test_runs import holdfast as run

Capture = pytest.CaptureFixture[str]
RUNS = [name for name, row in SCENARIOS.items() if not row.sweep]
SIMULATED = [name for name in RUNS if not SCENARIOS[name].only or "sim" in SCENARIOS[name].only]
BROKEN = {"split-vote"}
"""It runs the vote without consensus, whose tokens go backwards: or two held it at once."""


def simulated(name: str) -> seed_search.Ran:
    plan = plan_of(name, {"backend": "sim"})
    return seed_search.in_memory(prepare.manifest(prepare.prepared(plan), name, ""))


@pytest.mark.parametrize("name", SIMULATED)
def test_a_scenario_puts_everything_that_it_is_for_to_the_test(name: str) -> None:
    ran = simulated(name)
    found = {row.property: row.verdict for row in ran.verdicts.verdicts}
    must = plan_source.read_table(path_of(name))["must"]
    assert set(must) <= set(found)
    unknown = {prop for prop, verdict in found.items() if verdict == "UNKNOWN"}
    assert unknown == ({"mutual-exclusion"} if name in BROKEN else set())
    assert [window.reason for window in ran.case.windows if not window.effective] == []
    assert ran.verdicts.exit_code == (1 if name in BROKEN else 0)
    assert unshown(ran.case) == set(), "everything recorded is in the frame"
    attempts = history_frame.frame(ran.case, np.arange(len(ran.case.history.rows)), ["attempt"])
    recorded = len(set(ran.case.history.rows["attempt"].tolist()) - {0})
    assert attempts["attempt"].nunique() == recorded


@pytest.mark.parametrize("name", [name for name in RUNS if name.startswith("redlock-")])
def test_a_scenario_about_redlock_runs_redlock_in_the_simulator(name: str) -> None:
    assert plan_of(name, {"backend": "sim"}).system == "redlock"


def test_redlock_with_clocks_that_jump_has_two_owners_which_it_never_promised_to_avoid() -> None:
    rows = {
        row["property"]: row for row in plain(simulated("redlock-clock-step").verdicts)["verdicts"]
    }
    assert rows["mutual-exclusion"]["verdict"] == "VIOLATED"
    assert not rows["mutual-exclusion"]["promised"]


@pytest.mark.parametrize("name", RUNS)
def test_a_scenario_is_a_plan_file_that_says_what_must_be_seen(name: str) -> None:
    text = path_of(name).read_text()
    comment = [line for line in text.splitlines() if line.startswith("#")]
    assert comment[0].startswith("# ") and "# Required coverage" in " ".join(comment)
    assert parse(tomllib.loads(text), prepare.KNOWN).must


def test_every_plan_file_of_the_folder_is_in_the_table() -> None:
    files = {path.stem for path in path_of("owner-pause").parent.glob("*.toml")}
    assert files == set(SCENARIOS)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("backend", ["local", "docker"])
def test_a_scenario_can_be_planned_on_every_backend(name: str, backend: str) -> None:
    if SCENARIOS[name].only and backend not in SCENARIOS[name].only:
        return
    plan = plan_of(name, {"backend": backend})
    faults = {name for name, _ in plan.nemeses} | {fault.do for fault in plan.faults}
    if any(catalogue.NEMESES[name].traits.needs_disk for name in faults):
        needs.disks()
        if backend == "docker":
            with pytest.raises(UsageError, match="needs a disk of its own"):
                prepare.complete(plan)
            return
    traits = [catalogue.NEMESES[name].traits for name in faults]
    if any(one.on_connections or one.on_packets for one in traits):
        needs.namespaces()
    assert prepare.complete(plan).system in catalogue.SYSTEMS


def test_a_scenario_that_shows_nothing_is_unknown_and_never_a_pass(
    capsys: Capture, tmp_path: Path
) -> None:
    lone = ("--clients", "1", "--time", "2s", "--out", tmp_path)
    said = holdfast(capsys, "scenario", "concurrent-acquisition", *lone)
    assert said.code == 3
    assert "scenario concurrent-acquisition: UNKNOWN" in said.out
    assert "required, but not tested: mutual-exclusion" in said.out


def test_what_a_system_never_promised_must_be_put_to_the_test_as_well(
    capsys: Capture, tmp_path: Path
) -> None:
    plan = tmp_path / "calm.toml"
    plan.write_text(
        'system = "reference"\nbackend = "sim"\nresource = "unfenced"\ntime = "2s"\n'
        'must = ["mutual-exclusion", "no-lost-update"]\n'
    )
    said = holdfast(capsys, "run", plan, "--json", "--out", tmp_path / "runs")
    verdicts = json.loads(said.out)
    by_name = {row["property"]: row for row in verdicts["verdicts"]}
    assert by_name["no-lost-update"]["verdict"] == "UNKNOWN"
    assert not by_name["no-lost-update"]["promised"]
    assert (said.code, verdicts["verdict"]) == (3, "UNKNOWN")
    assert "loss-notice" in verdicts["aside"]


def test_a_planted_bug_is_found_by_a_scenario(capsys: Capture, tmp_path: Path) -> None:
    bug = ("--mutant", "unchecked-tokens", "--out", tmp_path)
    said = holdfast(capsys, "scenario", "owner-pause", *bug)
    assert said.code == 1
    assert "scenario owner-pause: VIOLATED" in said.out


def test_a_scenario_that_shows_what_was_never_promised_is_no_pass(
    capsys: Capture, tmp_path: Path
) -> None:
    memory = ("--set", "persistence=none", "--backend", "sim", "--out", tmp_path)
    said = holdfast(capsys, "scenario", "redlock-restart", *memory)
    assert said.code == 0 and "LIMIT: two clients held a lock" in said.out
    assert "scenario redlock-restart: LIMIT" in said.out


def test_a_storm_of_tries_on_a_lock_that_never_comes_free_is_a_deadlock() -> None:
    """The kill of a holder disturbs no service, so it excuses no part of the wait."""
    over = {"backend": "sim", "time": "22s", "options": {"mutant": "endless-lease"}}
    plan = plan_of("retry-storm", over)
    ran = seed_search.in_memory(prepare.manifest(prepare.prepared(plan), "storm", ""))
    rows = {row["property"]: row for row in plain(ran.verdicts)["verdicts"]}
    assert "deadlock" in [f["kind"] for f in rows["starvation-freedom"]["findings"]]
    assert rows["deadlock-freedom"]["verdict"] == "VIOLATED"
    assert ran.verdicts.exit_code == 1


def test_the_plan_file_is_shown_and_the_exact_plan_can_be_run(
    capsys: Capture, tmp_path: Path
) -> None:
    shown = holdfast(capsys, "scenario", "owner-pause", "--show").out
    assert shown == path_of("owner-pause").read_text()
    exact = holdfast(capsys, "scenario", "stutter", "--dry-run", "--seed", "9").out
    plan = parse(tomllib.loads(exact), prepare.KNOWN)
    assert plan.seed == 9 and len(plan.faults) > 5 and plan.must


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("owner-puase",), "did you mean 'owner-pause'?"),
        (("owner-pause", "--system", "redsi"), "did you mean 'redis'?"),
        (("owner-pause", "--backend", "dokcer"), "did you mean 'docker'?"),
        (("owner-pause", "--set", "gap_ms"), "expected NAME=VALUE"),
        (("priority-flood", "--system", "majority"), "system 'majority': unknown option 'queue'"),
    ],
)
def test_a_mistake_is_told_in_one_line(capsys: Capture, words: tuple[str, ...], told: str) -> None:
    said = holdfast(capsys, "scenario", *words)
    assert said.code == 2
    assert told in said.err


def test_a_property_that_is_not_known_is_told(capsys: Capture, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('system = "single"\nmust = ["mutual-exclusoin"]\n')
    said = holdfast(capsys, "run", plan)
    assert said.code == 2 and "did you mean 'mutual-exclusion'?" in said.err


def test_a_sweep_names_the_smallest_value_that_breaks(capsys: Capture) -> None:
    words = ("sweep-pause", "--values", "500ms,1500ms", "--seeds", "1")
    said = holdfast(capsys, "scenario", *words)
    assert "smallest value with a violation: 1500ms; held at 500ms" in said.out
    assert said.code == 0, "an unfenced resource was never promised to refuse"
    assert "the resource is unfenced: it admits the stale writes" in said.out
    found = json.loads(holdfast(capsys, "scenario", *words, "--json").out)
    assert (found["breaks"], found["held"]) == ("1500ms", "500ms")
    assert found["resource"] == "unfenced"
    fenced = holdfast(capsys, "scenario", *words[:3], "--seeds", "1", "--resource", "fenced")
    assert "unfenced" not in fenced.out
    assert [step["tested"] for step in found["steps"]] == [True, True]


def test_a_clock_that_jumps_breaks_only_what_counts_on_it(capsys: Capture) -> None:
    words = ("sweep-skew", "--values", "500ms,5s", "--seeds", "1", "--json")
    assert json.loads(holdfast(capsys, "scenario", *words).out)["breaks"] is None
    bug = ("--mutant", "wall-clock")
    assert json.loads(holdfast(capsys, "scenario", *words, *bug).out)["breaks"] == "5s"


def test_slow_links_hurt_where_renewals_come_too_late(capsys: Capture) -> None:
    words = ("sweep-delay", "--values", "50ms,1600ms", "--seeds", "1", "--json")
    found = json.loads(holdfast(capsys, "scenario", *words).out)
    assert (found["breaks"], found["held"]) == ("1600ms", "50ms")


def test_a_short_lease_ends_too_soon_and_without_one_nobody_recovers(capsys: Capture) -> None:
    words = ("ttl-sweep", "--values", "1s,8m", "--time", "90s", "--json")
    found = json.loads(holdfast(capsys, "scenario", *words).out)
    short, none = (step["measured"][0] for step in found["steps"])
    assert short["false_expiries"] > 0 == none["false_expiries"]
    assert short["recovery_ns"]["n"] > 0 == short["never"]
    assert none["never"] > 0 == none["recovery_ns"]["n"]
    assert 0.9 < found["section_p99_ns"] / 1e9 < 4


def test_without_a_lease_the_death_of_a_holder_deadlocks_its_lock(capsys: Capture) -> None:
    words = ("ttl-sweep", "--values", "2s,none", "--time", "90s")
    found = json.loads(holdfast(capsys, "scenario", *words, "--json").out)
    timed, none = found["steps"]
    assert not any("deadlock" in name for name in timed["findings"])
    assert none["findings"]["deadlock-freedom: deadlock"] == 1
    assert none["measured"][0]["never"] > 0 == none["measured"][0]["recovery_ns"]["n"]
    assert none["measured"][0]["false_expiries"] == 0
    said = holdfast(capsys, "scenario", *words)
    assert said.code == 0, "a lock without leases does not promise to be free again"
    assert "without a lease a crashed holder deadlocks its lock" in said.out
    wrong = holdfast(capsys, "scenario", *words, "--system", "reference")
    assert wrong.code == 2 and "unknown option 'leases'" in wrong.err


def test_a_queue_asks_for_no_more_requests_the_more_clients_there_are(capsys: Capture) -> None:
    words = ("sweep-clients", "--values", "2,12", "--time", "2s")
    found = json.loads(holdfast(capsys, "scenario", *words, "--json").out)
    few, many = (step["measured"][0] for step in found["steps"])
    assert (few["clients"], many["clients"]) == (2, 12)
    assert many["requests_per_grant"] < 1.2 * few["requests_per_grant"]
    assert many["latency_ns"]["p50"] > 3 * few["latency_ns"]["p50"]
    shown = holdfast(capsys, "scenario", *words)
    assert (shown.code, f"{many['grants']} grants" in shown.out) == (0, True)


def test_a_sweep_of_servers_runs_on_as_many_as_each_value_says(capsys: Capture) -> None:
    words = ("sweep-nodes", "--values", "1,9", "--time", "2s", "--json")
    found = json.loads(holdfast(capsys, "scenario", *words).out)
    one, nine = (step["measured"][0] for step in found["steps"])
    assert one["latency_ns"]["p50"] != nine["latency_ns"]["p50"]
    table = tomllib.loads(path_of("sweep-nodes").read_text())
    sweep = sweeping.read(table, "sweep-nodes")
    for value in sweep.values:
        assert prepare.complete(sweeping.plan_at(table, sweep, value)).nodes == int(value)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_has_a_backend_of_its_own_where_none_is_named(
    capsys: Capture, name: str
) -> None:
    usual, only = staging.usual_backend(name), SCENARIOS[name].only
    assert usual == ("sim" if not only or "sim" in only else only[0])
    assert staging.own_table(name, usual)["backend"] == usual
    if usual != "sim":
        assert "supports only" not in holdfast(capsys, "scenario", name, "--dry-run").err


def test_a_sweep_says_so_where_it_cannot_be_run(capsys: Capture) -> None:
    said = holdfast(capsys, "scenario", "sweep-delay", "--backend", "local")
    assert (said.code, "supports only --backend sim" in said.err) == (2, True)
    said = holdfast(capsys, "scenario", "owner-pause", "--values", "1s")
    assert (said.code, "scenario owner-pause is not one" in said.err) == (2, True)
    said = holdfast(capsys, "scenario", "sweep-pause", "--values", "5 parsecs")
    assert (said.code, "invalid duration '5 parsecs'" in said.err) == (2, True)


IN_CONTAINERS = (
    "concurrent-acquisition",
    "owner-pause",
    "owner-crash",
    "stutter",
    "leader-isolated",
    "clock-skew",
    "resource-restart",
    "redlock-two-down",
)


@pytest.mark.docker
def test_scenarios_show_in_containers_what_they_are_for(tmp_path: Path) -> None:
    needs.engine()

    def said_by(name: str) -> tuple[int, str, str]:
        words = ("scenario", name, "--backend", "docker", "--out", name)
        found = run(tmp_path, *words)
        # On a busy host a fault may miss what it is aimed at; what showed nothing is tried again.
        return run(tmp_path, *words) if found[0] == 3 else found

    with ThreadPoolExecutor(2) as two_at_a_time:
        said = dict(zip(IN_CONTAINERS, two_at_a_time.map(said_by, IN_CONTAINERS), strict=True))
    assert {name: words for name, words in said.items() if words[0]} == {}
