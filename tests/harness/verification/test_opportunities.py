"""The second program accepts the witnesses of opportunities that the rows bear out, and refuses
damaged ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from holdfast.api import plan_options
from holdfast.catalogue import SYSTEMS
from holdfast.checkers.opportunities.table import every_row
from holdfast.engine import judging, seed_search, swarm
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.plans.plan import Plan
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verification.opportunities import (
    WitnessCheck,
    witnessed,
)
from holdfast.harness.verification.rules import PATTERNS
from holdfast.harness.verification.stroke_opportunities import StrokePattern
from holdfast.harness.verification.verify import verify_run
from holdfast.planning import prepare, run_folder
from holdfast.planning.lazy_holders import with_lazy_holders

QUEUED = ["hold_leases=1", "wait_ms=60000"]
CASES: dict[str, dict[str, Any]] = {
    "single": {"system": "single", "nemesis": "kill", "lease": "2s", "seed": 3},
    "reference": {"system": "reference", "nemesis": "kill", "lease": "2s", "seed": 5},
    "chubby": {"system": "chubby", "nemesis": "kill", "lease": "2s", "seed": 1},
    "powered": {
        "system": "single",
        "nemesis": "power:every=2s,for=200ms",
        "lease": "2s",
        "seed": 4,
    },
    "majority": {"system": "majority", "nemesis": "power:target=all", "lease": "1s", "seed": 2},
    "owners": {
        "system": "single",
        "workload": "renewal",
        "nemesis": "pause:target=holder,for=3s,every=5s",
        "lease": "2s",
        "seed": 3,
    },
    "queues": {
        "system": "reference",
        "workload": "renewal",
        "nemesis": "kill:target=leader",
        "options": QUEUED,
        "seed": 3,
    },
    "tries": {
        "workload": "try-lock",
        "nemesis": "kill:target=holder",
        "options": ["mutant=endless-lease"],
        "time": "10s",
    },
    "updates": {
        "workload": "lost-update",
        "nemesis": "pause:target=holder",
        "options": ["mutant=unchecked-tokens"],
        "time": "10s",
    },
    "commands": {"workload": "duplicate-request", "nemesis": "reply-loss", "time": "6s"},
    "jobs": {"workload": "singleton-job", "nemesis": "kill:target=resource", "time": "6s"},
    "queries": {"workload": "queries", "nemesis": "kill", "time": "8s"},
    "releases": {"workload": "reentrant", "nemesis": "kill", "time": "8s"},
    "cycles": {
        "workload": "many-locks",
        "nemesis": "kill",
        "options": ["mutant=blind-to-cycles"],
        "locks": 3,
        "time": "12s",
    },
    "permits": {
        "workload": "semaphore",
        "nemesis": "pause",
        "options": ["mutant=one-permit-more"],
        "time": "8s",
    },
    "delays": {"system": "chubby", "nemesis": "kill:target=holder", "time": "8s"},
}
FIELDS = {
    "row", "op", "process", "node", "attempt", "t_inv_ns", "t_ret_ns", "status", "token", "lock",
    "arg", "res", "error",
}  # fmt: skip


def simulated(table: Mapping[str, Any], folder: Path) -> tuple[RunDir, dict[str, Any]]:
    """A kept run, and its verdicts."""
    given = {
        "backend": "sim",
        "system": "reference",
        "clients": 4,
        "locks": 1,
        "time": "20s",
        "seed": 3,
        **table,
    }
    options = given.pop("options", [])
    plan: Plan = with_lazy_holders(plan_options.from_options(given, options))
    prepared = prepare.prepared(plan)
    done = seed_search.in_memory(prepare.manifest(prepared, "opportunities", ""))
    run = run_folder.create(prepared, folder, "", name=str(given["system"]))
    done.world.keep(run)
    verdicts: dict[str, Any] = plain(judging.judge_run(run))
    return run, verdicts


@pytest.fixture(scope="module", params=list(CASES))
def kept(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunDir, dict[str, Any]]:
    return simulated(CASES[request.param], tmp_path_factory.mktemp("kept"))


def entries(verdicts: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(f, dict(e)) for row in verdicts["verdicts"] for f, e in witnessed(row)]


def checked(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> WitnessCheck:
    """The verifier of a run, to ask it about changed entries without reading the run again."""
    made: list[WitnessCheck] = []
    own = WitnessCheck.__init__

    def noted(self: WitnessCheck, *given: Any, **named: Any) -> None:
        own(self, *given, **named)
        made.append(self)

    monkeypatch.setattr(WitnessCheck, "__init__", noted)
    verify_run(run.path)
    return made[0]


REGAINED = "loss-notice/silent-reacquire/clients"
"""Only a lock of the user shows it in the simulator: tests/front/test_silent_reacquire.py."""


def test_each_row_of_crashes_and_of_every_class_has_a_rule_of_its_own() -> None:
    ruled = {row.id for row in every_row() if row.id.endswith(("/crash", "/any"))}
    assert {*ruled, REGAINED} == set(PATTERNS)


def test_the_witnesses_of_a_run_are_accepted(kept: tuple[RunDir, dict[str, Any]]) -> None:
    run, verdicts = kept
    outcome = verify_run(run.path)
    assert outcome.refused == [] and outcome.unruled == ()
    assert outcome.opportunities == len(entries(verdicts)) > 0


def test_the_runs_have_an_opportunity_of_each_row(tmp_path: Path) -> None:
    seen = {
        entry["row"]
        for name, table in CASES.items()
        for _, entry in entries(simulated(table, tmp_path / name)[1])
    }
    assert seen == set(PATTERNS) - {REGAINED}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from leaves(each, (*path, key))
    else:
        yield path


def compared(entry: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """The fields of its witnesses, without the number of a reason's text: that differs between
    readers of a run."""
    for path in leaves(entry["witnesses"], ("witnesses",)):
        if path[-1] != "res" or _at(entry, path[:-1])["op"] != "lost":
            yield path


def put(entry: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    new = deepcopy(entry)
    at: Any = new
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return new


def damaged(value: Any, chance: random.Random) -> Any:
    if isinstance(value, str):
        return chance.choice(
            (value + "x", value[1:] if value else "y", None, 3, value.upper() + ".")
        )
    near = value + chance.choice((-1, 1, 1 << 40, -(1 << 33)))
    return chance.choice((near, near, float(value), str(value), None))


def test_each_field_of_a_witness_is_compared(
    kept: tuple[RunDir, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, verdicts = kept
    places = checked(run, monkeypatch)
    for fault, entry in entries(verdicts):
        assert places.wrong(fault, entry) == ""
        assert {path[-1] for path in leaves(entry["witnesses"])} == FIELDS
        for path in compared(entry):
            for seed in range(12):
                value = damaged(_at(entry, path), random.Random(seed))
                assert places.wrong(fault, put(entry, path, value)), (path, value)
        assert places.wrong("delay", entry) and places.wrong(fault, {**entry, "fault": "f99"})
        assert places.wrong(fault, {**entry, "witnesses": {}})
        assert places.wrong(fault, {**entry, "row": "mutual-exclusion/other/crash"})


def test_random_damages_are_refused_or_show_another_opportunity(
    kept: tuple[RunDir, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,000 damages: witnesses of one row under another row, fault or role, changed fields. What
    is still accepted names two rows as recorded and a fault that took effect."""
    run, verdicts = kept
    places, chance = checked(run, monkeypatch), random.Random(1)
    every = entries(verdicts)
    faults = {one["id"]: one for one in verdicts["faults"]}
    still = 0
    for _ in range(1000):
        fault, entry = chance.choice(every)
        new = deepcopy(entry)
        match chance.randrange(4):
            case 0:
                path = chance.choice(list(compared(entry)))
                new = put(entry, path, damaged(_at(entry, path), chance))
                assert places.wrong(fault, new)
            case 1:
                new["fault"] = chance.choice([*faults, "", "f77"])
            case 2:
                new["row"] = chance.choice([*PATTERNS, "no-row"])
            case 3:
                _, other = chance.choice(every)
                roles = list(new["witnesses"])
                given = chance.sample(list(other["witnesses"].values()), 2)
                new["witnesses"] = dict(zip(roles, given, strict=True))
        if not places.wrong(fault, new) and new != entry:
            still += 1
            assert faults[new["fault"]]["effective"] and faults[new["fault"]]["do"] == fault
            one, other = new["witnesses"].values()
            of_two = one["process"] != other["process"] and one["lock"] == other["lock"]
            assert of_two or not isinstance(PATTERNS[new["row"]], StrokePattern)
            known = [dict(w) for _, e in every for w in e["witnesses"].values()]
            assert one in known and other in known
    assert still < 300


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def test_a_verdicts_file_with_a_changed_witness_is_refused(
    kept: tuple[RunDir, dict[str, Any]],
) -> None:
    run, verdicts = kept
    text = json.dumps(verdicts)
    _, first = entries(verdicts)[0]
    t_ns = next(iter(first["witnesses"].values()))["t_inv_ns"]
    changed = json.loads(text.replace(f'"t_inv_ns": {t_ns}', f'"t_inv_ns": {t_ns + 1}'))
    outcome = verify_run(run.path, changed)
    assert any("opportunity" in line and "t_inv_ns" in line for line in outcome.refused)


def test_verdicts_of_earlier_versions_have_none(kept: tuple[RunDir, dict[str, Any]]) -> None:
    run, verdicts = kept
    old = deepcopy(verdicts)
    for row in old["verdicts"]:
        for one in row["under"].values():
            one.pop("opportunities", None)
    assert verify_run(run.path, old).opportunities == 0


def test_a_notice_at_the_moment_of_the_release_ends_a_hold_too() -> None:
    """A frozen client takes in the notice and sends its release at one time; its last write, sent
    before, arrives later. The search ends with an error if the second program refuses a witness."""
    drawn = swarm.draw(37, "chubby", SYSTEMS["chubby"].nodes, {"mutant": "no-lock-delay"})
    manifest = prepare.manifest(prepare.prepared(drawn), "notice", "")
    ran = seed_search.in_memory(manifest)
    rows = ran.case.history.rows
    lost, releases = rows[rows["f"] == Op.LOST], rows[rows["f"] == Op.RELEASE]
    assert set(lost["t_inv"].tolist()) & set(releases["t_inv"].tolist())
    (late,) = (v for v in ran.verdicts.verdicts if v.property == "no-expired-write")
    assert late.under["freeze"].opportunities[0].count == 1


def test_the_number_of_a_reason_is_another_one_in_each_reading_of_a_run() -> None:
    """Clients that write their texts in another order than the merged history has them."""
    drawn = swarm.draw(7, "majority", SYSTEMS["majority"].nodes, {})
    ran = seed_search.in_memory(prepare.manifest(prepare.prepared(drawn), "reason", ""))
    (told,) = (v for v in ran.verdicts.verdicts if v.property == "loss-notice")
    assert told.under["kill"].opportunities[0].witnesses["shows"].op == "lost"


def test_a_refusal_that_no_server_answered_is_none_for_a_cycle_of_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that looks for cycles refuses the request that would close one. The same row with
    the error of a client that reached no server is refused as a witness."""
    correct = {"workload": "many-locks", "locks": 3, "time": "12s", "nemesis": "kill"}
    run, verdicts = simulated(correct, tmp_path)
    (fault, entry) = next(
        (fault, entry)
        for fault, entry in entries(verdicts)
        if entry["row"].startswith("no-multi-lock-deadlock/")
    )
    places, waiter = checked(run, monkeypatch), entry["witnesses"]["waiter"]
    assert waiter["status"] == "fail" and places.wrong(fault, entry) == ""
    error = "unreachable: no server answered"
    row = next(
        row
        for row in range(len(places.rows.t_inv))
        if (places.rows.t_inv[row], places.rows.process[row])
        == (waiter["t_inv_ns"], waiter["process"])
        and places.rows.status[row] == Status.FAIL
    )
    rows, err = places.rows, list(places.rows.err)
    err[row] = len(rows.strings)
    monkeypatch.setattr(rows, "strings", [*rows.strings, error])
    monkeypatch.setattr(rows, "err", err)
    alone = put(entry, ("witnesses", "waiter", "error"), error)
    assert places.wrong(fault, alone) == "one of its acquires did not wait"
