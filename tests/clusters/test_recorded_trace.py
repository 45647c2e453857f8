"""Traces that servers write to files, and what a kill leaves of a write."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast import catalogue
from holdfast.clusters.systems import recorded_trace as recorded
from holdfast.clusters.systems.reference.service.trace_file import TraceFile, line
from holdfast.clusters.systems.reference.specification.trace import Begun, Boot, Save, Step, Torn
from holdfast.clusters.systems.reference.specification.validation import validate
from holdfast.engine import swarm
from holdfast.harness.core.clock_summary import ClockSummary
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import COPY, Traits
from holdfast.harness.core.loading import load
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.judging import recorded_trace
from holdfast.harness.judging.recorded_trace import validated
from holdfast.harness.runs import files
from holdfast.harness.verdicts.judged import Judged, ObservedFault, Traced
from holdfast.harness.verdicts.specification import TRACE
from holdfast.nemesis.kinds import kill
from holdfast.planning import prepare
from holdfast.planning.resolve import resolve
from holdfast.reports.run import story

TRAITS = {
    "kill": kill.NEMESIS.traits,
    "rollback": Traits(kills_later=True, operates=COPY),
    "sync-lie": Traits(lies=True),
}


def traced(seed: int, system: str = "reference") -> tuple[list[Any], Mapping[str, str]]:
    """The events of a simulated run, and the options of the service."""
    plan = prepare.complete(swarm.draw(seed, system, catalogue.SYSTEMS[system].nodes, {}, ""))
    manifest = prepare.manifest(resolve(plan), f"sim-{seed}", "")
    events: list[Any] = []
    load(manifest.entries.backend)(manifest, trace=events)
    return events, manifest.options.system


def written(folder: Path, events: list[Any]) -> Path:
    """A run directory with the traces of these events."""
    for event in events:
        place = folder / "logs" / event.node
        place.mkdir(parents=True, exist_ok=True)
        with open(place / TRACE, "ab") as file:
            file.write(line(event))
    return folder


def judged(**changes: Any) -> Judged:
    given: dict[str, Any] = {
        "run": "r",
        "system": "reference",
        "backend": "local",
        "workload": "critical-section",
        "seed": 1,
        "verdict": Verdict.HOLDS,
        "exit_code": 0,
        "command": "",
        "start_ns": 0,
        "stop_ns": 0,
        "end_ns": 0,
        "servers": ("n1", "n2", "n3"),
    }
    return Judged(**{**given, **changes})


def of(folder: Path, system: str = "reference", **changes: Any) -> Traced:
    row = catalogue.SYSTEMS[system]
    entries = load(row.specification), load(row.recorded)
    return validated(folder, judged(**changes), *entries, {}, TRAITS)


def rows(*events: Any) -> Iterator[Mapping[str, Any]]:
    return iter([json.loads(line(event)) for event in events])


@pytest.mark.parametrize("seed", range(20, 24))
def test_a_trace_is_read_as_it_was_written(seed: int, tmp_path: Path) -> None:
    events, options = traced(seed)
    assert len(events) > 100
    again = [recorded.event_of(row) for row in rows(*events)]
    assert again == events
    assert validate(again, nodes=3, options=options) is None


def test_the_steps_of_all_servers_are_validated_in_the_order_of_time(tmp_path: Path) -> None:
    seed, events, options = next(
        (seed, events, options)
        for seed, (events, options) in ((seed, traced(seed)) for seed in range(20, 60))
        if not any(isinstance(event, Torn) for event in events)
    )
    entries = validate, recorded.of_reference
    folder = written(tmp_path, events)
    assert validated(folder, judged(), *entries, options, TRAITS) == Traced(steps=len(events))
    late = ObservedFault(id="f1", do="rollback", from_ns=events[90].t_ns, to_ns=0, effective=True)
    for do in ("rollback", "sync-lie", "of a plug-in"):
        cut = judged(faults=(replace(late, do=do),))
        told = validated(folder, cut, *entries, options, TRAITS)
        assert told.steps == sum(one.t_ns < events[90].t_ns for one in events), seed
        assert f"f1 ({do})" in told.why
    kill_only = judged(faults=(replace(late, do="kill"),))
    assert validated(folder, kill_only, *entries, options, TRAITS).steps == len(events)


def test_a_lease_server_is_read_as_it_was_written() -> None:
    events, _ = traced(3, "single")
    assert len(events) > 20
    assert [*recorded.of_leases(rows(*events))] == events


def test_what_cannot_be_validated_says_so(tmp_path: Path) -> None:
    assert of(tmp_path) == Traced(why="no server recorded its steps")
    clocks = {"a": ClockSummary(offset_ns=0, drift_ppm=0, error_ns=1)}
    assert "several hosts" in of(tmp_path, clocks=clocks).why


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"{",
        b'{"event":"Boot","node":"n1"}',
        b'{"event":"Boot","node":"n1","t_ns":5}',
        b'{"event":"Other","t_ns":5}',
        b'{"event":["Boot"],"t_ns":5}',
        b'{"event":"Torn","node":"n1","t_ns":5,"saves":[["ballot","x"]]}',
        b'{"event":"Boot","node":"n1","t_ns":5,"now_ns":0,"disk":["all",0,"",0,[],0,0],"done":[3]}',
        b'{"event":"Boot","node":"n1","t_ns":5,"now_ns":0,"disk":["all",0,"",0,[],0,0],'
        b'"done":[["Applied",1]]}',
        b'{"event":"Torn","node":"n1","t_ns":5,"saves":[]}\n'
        b'{"event":"Torn","node":"n1","t_ns":4,"saves":[]}',
    ],
)
@pytest.mark.parametrize("system", ["reference", "single"])
def test_a_damaged_trace_is_bad_input(text: bytes, system: str, tmp_path: Path) -> None:
    (tmp_path / "logs" / "n1").mkdir(parents=True)
    (tmp_path / "logs" / "n1" / TRACE).write_bytes(text + b"\n")
    with pytest.raises(UsageError):
        of(tmp_path, system)


@pytest.mark.parametrize("seed", range(60))
def test_a_trace_that_somebody_changed_is_bad_input_or_departs(seed: int, tmp_path: Path) -> None:
    chance, system = random.Random(seed), ("reference", "single")[seed % 2]
    events, _ = traced(20 + seed % 4, system)
    rows_of = [json.loads(line(event)) for event in events[:80]]
    changed(chance.choice(rows_of), chance)
    for row in rows_of:
        place = tmp_path / "logs" / "n1"
        place.mkdir(parents=True, exist_ok=True)
        with open(place / TRACE, "a") as file:
            file.write(f"{json.dumps(row)}\n")
    with suppress(UsageError):
        assert of(tmp_path, system).steps <= 80


def changed(value: Any, chance: random.Random) -> None:
    """Changes one value somewhere in it."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = chance.choice(keys)
    inner = value[key]
    if isinstance(inner, dict | list) and inner and chance.random() < 0.8:
        changed(inner, chance)
    elif isinstance(value, dict) and chance.random() < 0.3:
        del value[key]
    else:
        value[key] = chance.choice([-1, 0, 1 << 70, "n9", None, [], {}, [[]], True, 7.5])


def test_a_line_that_was_not_completed_is_left_out(tmp_path: Path) -> None:
    boot = Boot("n1", 5, 0, Save("all"), ())
    folder = written(tmp_path, [boot])
    with open(folder / "logs" / "n1" / TRACE, "ab") as file:
        file.write(line(boot)[:-5])
    assert of(folder) == Traced(steps=1)


def test_a_trace_is_read_line_by_line_and_a_line_has_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boots = [Boot("n1", t_ns, 0, Save("all"), ()) for t_ns in (1, 2)]
    folder = written(tmp_path, boots)
    monkeypatch.delattr(files, "read")  # it has a bound on whole files, which a long run exceeds
    assert of(folder).steps == len(boots)
    monkeypatch.setattr(recorded_trace, "MOST_LINE", len(line(boots[0])) // 2)
    with pytest.raises(UsageError, match="line 1"):
        of(folder)


def test_a_file_is_appended_to_by_each_start(tmp_path: Path) -> None:
    boots = [Boot("n1", t_ns, 0, Save("all"), ()) for t_ns in (1, 2)]
    for boot in boots:
        TraceFile(tmp_path / TRACE).append(boot)
    assert (tmp_path / TRACE).read_bytes() == b"".join(map(line, boots))


# What a kill leaves of a write


def entries(first: int, *terms: int) -> Save:
    return Save("entries", first=first, entries=tuple((term, None) for term in terms))


def boot_from(disk: recorded.Disk, t_ns: int = 9) -> Boot:
    term, vote, base, base_term, terms = disk
    kept = tuple((one, None) for one in terms)
    return Boot("n1", t_ns, 0, Save("all", term, vote, 0, kept, base, base_term), ())


def lines_of(saves: tuple[Save, ...]) -> list[Save]:
    """One save per line that a write appends to the log."""
    found = []
    for save in saves:
        if save.what == "ballot":
            found.append(save)
        for at, entry in enumerate(save.entries):
            found.append(Save("entries", first=save.first + at, entries=(entry,)))
    return found


@pytest.mark.parametrize("seed", range(200))
def test_any_number_of_lines_of_a_write_may_be_left(seed: int) -> None:
    """The brute force appends line by line, as the files of a server do."""
    chance = random.Random(seed)
    before = (2, "n1", 0, 0, (1, 1, 2))
    saves: tuple[Save, ...] = ()
    for _ in range(chance.randint(1, 3)):
        one = entries(chance.randint(2, 4), *[chance.randint(2, 4)] * chance.randint(1, 3))
        saves += (chance.choice([Save("ballot", chance.randint(3, 4), "n2"), one]),)
    every = lines_of(saves)
    for left in range(len(every) + 1):
        disk: recorded.Disk = before
        for save in every[:left]:
            disk = appended(disk, save)
        start = boot_from(before, 0)
        begun = Begun("n1", 5, saves)
        first, torn, again = recorded.of_reference(rows(start, begun, boot_from(disk)))
        assert isinstance(torn, Torn)
        assert (first, again) == (start, boot_from(disk))
        seen: recorded.Disk = before
        for save in lines_of(torn.saves):
            seen = appended(seen, save)
        assert seen == disk


def appended(disk: recorded.Disk, save: Save) -> recorded.Disk:
    """After one line: a ballot, or an entry, which replaces all from its place on."""
    term, vote, base, base_term, terms = disk
    if save.what == "ballot":
        return save.term, save.vote, base, base_term, terms
    kept = terms[: save.first - base - 1]
    return term, vote, base, base_term, (*kept, save.entries[0][0])


def test_a_disk_that_no_write_explains_is_left_to_the_specification() -> None:
    start, begun = boot_from((1, "n1", 0, 0, (1,)), 0), Begun("n1", 5, (entries(2, 1),))
    _, torn, _ = recorded.of_reference(rows(start, begun, boot_from((1, "n1", 0, 0, (1, 7)))))
    assert torn == Torn("n1", 5, begun.saves)


def test_a_death_between_a_snapshot_and_its_log_ends_the_trace(tmp_path: Path) -> None:
    disk = (1, "n1", 0, 0, (1, 1, 1))
    begun = Begun("n1", 5, (Save("all", 1, "n1", 0, ((1, None),), 2, 1),))
    between = boot_from((1, "n1", 2, 1, (1, 1)))  # the new snapshot, and more of the log
    start = Boot("n1", 1, 0, Save("all"), ())
    grown = Step("n1", 2, 0, False, (Save("ballot", 1, "n1"),), (), (), (), (), ())
    folder = written(tmp_path, [start, grown, begun, between])
    told = of(folder)
    assert told.steps == 2 and "died while a snapshot replaced its log" in told.why
    for left in (disk, (1, "n1", 2, 1, (1,))):
        events = recorded.of_reference(rows(boot_from(disk, 0), begun, boot_from(left)))
        assert [type(one) for one in events] == [Boot, Torn, Boot]


def test_a_write_that_ended_is_told_by_its_step() -> None:
    save = Save("ballot", 1, "n1")
    step = Step("n1", 6, 0, False, (save,), (), (), (), (), ())
    start = Boot("n1", 1, 0, Save("all"), ())
    told = recorded.of_reference(
        rows(start, Begun("n1", 5, (save,)), step, boot_from((1, "n1", 0, 0, ())))
    )
    assert [type(one) for one in told] == [Boot, Step, Boot]


# What is said of it


def test_a_story_says_how_many_steps_were_compared() -> None:
    assert story.servers(judged()) == []
    (said,) = story.servers(judged(traced=Traced(steps=7)))
    assert said == "7 steps of the servers validated against their specification: all are allowed."
    (said,) = story.servers(judged(traced=Traced(why="no server recorded its steps")))
    assert said == "No step of the servers was validated. No server recorded its steps."


def test_a_departure_is_no_violation_and_no_success() -> None:
    departure = validate(
        [Boot("n1", 1, 0, Save("all"), ()), Boot("n1", 2, 0, Save("all", 1), ())],
        nodes=3,
        options={},
    )
    run = judged(traced=Traced(steps=2, departure=departure), exit_code=3)
    told = story.servers(run)
    assert told[0].startswith("n1 departs from its specification at 0.000 s, after 2 steps")
    assert "not a violated promise" in told[0]
    assert len(told) == 4
    assert story.headline(run) == (
        "UNKNOWN: a server of reference departs from its specification; no promise was broken."
    )
