"""Finds and removes what runs without a driver left: on this host, and where backends put more.

Processes have their driver's mark in their environment; for a registered run also those count that
work in its folder. What a backend keeps elsewhere (an engine, other hosts) a `Source` of its row
finds. Anything that belongs to a living run, or may belong to one, is never found.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from holdfast.clusters.backends import frozen_disks, memory_groups, processes
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.runs import registry
from holdfast.harness.runs.registry import Leftover

QUICK_S = 3
SURE_S = 30
ROUNDS, BETWEEN_S = 8, 0.3
KILLED_S, POLL_S = 5, 0.005
"""A killed process exits within this time, unless it waits for something in the kernel."""


class Source(Protocol):
    """Where a backend leaves more than processes (`BackendRow.leftovers`).

    kinds   the kinds of leftovers that it finds and cleans
    here    they are on this host: `sweep` removes them before the next run
    """

    @property
    def kinds(self) -> Collection[str]: ...

    @property
    def here(self) -> bool: ...

    def find(self, notes: Sequence[registry.Noted], within_s: float) -> Iterable[Leftover]:
        """Leftovers of ended runs; EnvironmentFailed if it does not respond within that time."""
        ...

    def clean(self, leftover: Leftover) -> None:
        """Removes one; nothing happens if it is gone by now. Errors: EnvironmentFailed."""
        ...

    def keeps(self, run: registry.Noted) -> bool:
        """Whether the note of a killed run is needed until `find` has looked there."""
        ...


def find(label: str = "", sources: Sequence[Source] = ()) -> list[Leftover]:
    """Everything left of runs without a driver, in an order in which it can be cleaned.

    A source on this host that does not respond within QUICK_S seconds is skipped. `label`: of this
    run only, and no other run's hosts are queried; EnvironmentFailed if such a source does not
    respond in time.
    """
    notes = [run for run in registry.noted() if not label or run.label == label]
    beside: list[Leftover] = []
    for source in sources:
        try:
            beside += source.find(notes, SURE_S if label else QUICK_S) if source.here else ()
        except EnvironmentFailed:
            if label:
                raise
    elsewhere = [s.find(notes, SURE_S) for s in sources if not s.here]
    found = [*_of_host(notes, beside), *(one for part in elsewhere for one in part)]
    return [one for one in found if not label or one.label == label]


def _of_host(notes: Sequence[registry.Noted], beside: Iterable[Leftover]) -> list[Leftover]:
    """Leftovers on this host. A disk is detached when the last process that mounts it is gone."""
    return [*of_processes(notes), *beside, *_of_groups(notes), *_of_disks(notes)]


def sweep(sources: Sequence[Source] = ()) -> tuple[list[Leftover], list[str]]:
    """Removes what this user's killed runs left on this host, and their notes: before the next run.

    Returns what was removed, and why something was not.
    Only runs with a note: whatever else has no driver is left to `holdfast doctor`.
    """
    notes = registry.noted()
    killed = {run.label: run for run in notes if run.died_here}
    if not killed:
        return [], []
    beside, asked = list[Leftover](), True
    for source in sources:
        try:
            beside += source.find(notes, QUICK_S) if source.here else ()
        except EnvironmentFailed:
            asked = False
    removed, problems = [], []
    for one in _of_host(notes, beside):
        if one.label not in killed:
            continue
        try:
            clean(one, sources)
            removed.append(one)
        except EnvironmentFailed as error:
            problems.append(f"{one.kind} {one.text} of run {one.label}: {error}")
            killed.pop(one.label)
    for run in killed.values() if asked else ():
        # One on other hosts is kept until they have been looked at.
        if not any(source.keeps(run) for source in sources):
            registry.forget(run.run_id)
    return removed, problems


def clean_run(label: str, sources: Sequence[Source] = ()) -> list[str]:
    """Removes the leftovers of a run whose driver has just died; the reasons for what remains.

    Searches until nothing was found twice in a row: an object that the engine was creating when the
    driver died appears a moment later.
    """
    problems: list[str] = []
    empty = 0
    for _ in range(ROUNDS):
        problems = []
        try:
            left = find(label, sources)
        except EnvironmentFailed as error:
            return [str(error)]
        empty = 0 if left else empty + 1
        if empty == 2:
            break
        for one in left:
            try:
                clean(one, sources)
            except EnvironmentFailed as error:
                problems.append(f"{one.kind} {one.text}: {error}")
        time.sleep(BETWEEN_S)
    return problems


def clean(leftover: Leftover, sources: Sequence[Source] = ()) -> None:
    """Removes it; nothing happens if it is gone by now. EnvironmentFailed if refused."""
    if leftover.kind == "process":
        _clean_process(int(leftover.id), leftover.started)
        return
    if leftover.kind == "disk":
        frozen_disks.release(*leftover.id.split(" ", 1))
        return
    if leftover.kind == "control group":
        memory_groups.remove(Path(leftover.id))
        return
    for source in sources:
        if leftover.kind in source.kinds:
            source.clean(leftover)
            return
    raise EnvironmentFailed(f"no backend cleans a {leftover.kind}")


def _clean_process(pid: int, begun: int) -> None:
    """Thaws the disks that a process sees, and kills it; returns when it is gone."""
    if processes.started(pid) != begun:
        return
    processes.kill([pid])
    frozen_disks.thaw(pid)
    deadline = time.monotonic() + KILLED_S
    while processes.started(pid) == begun:
        if time.monotonic() > deadline:
            waits = processes.sleeps_in(pid)
            raise EnvironmentFailed(
                f"killed, but it has not exited within {KILLED_S} s"
                + (f": it waits in the kernel ({waits})" if waits else "")
            )
        time.sleep(POLL_S)


def of_processes(notes: Sequence[registry.Noted]) -> Iterable[Leftover]:
    """The processes among the leftovers, judged by these notes."""
    for pid in processes.pids():
        started = processes.started(pid)
        label = _label(pid, notes)
        if label and started >= 0:
            text = processes.shown_line(pid)[:100]
            yield Leftover(kind="process", id=str(pid), label=label, text=text, started=started)


def _label(pid: int, notes: Sequence[registry.Noted]) -> str:
    """Label of the ended run that a process belongs to; empty if none or unknown."""
    environ = processes.environ(pid)
    label = environ.get(registry.RUN_VARIABLE, "")
    if label:
        mark = environ.get(registry.DRIVER_VARIABLE, "")
        return label if registry.abandoned(label, mark, notes) else ""
    ended = (run for run in notes if not run.alive)
    return next((run.label for run in ended if processes.works_in(pid, Path(run.run_dir))), "")


def _of_groups(notes: Sequence[registry.Noted]) -> Iterable[Leftover]:
    """Control groups of memory of ended runs."""
    for label, path in memory_groups.find():
        living = any(run.alive for run in notes if run.label == label)
        if registry.abandoned(label, "", notes) or (
            not living and memory_groups.unowned(label, path)
        ):
            yield Leftover(kind="control group", id=str(path), label=label, text=path.name)


def _of_disks(notes: Sequence[registry.Noted]) -> Iterable[Leftover]:
    """Loop devices with disks of ended runs: one that is frozen stays when nothing mounts it."""
    for one in frozen_disks.devices():
        if registry.abandoned(one.label, one.mark, notes):
            disk = f"{one.path} {one.backing}"
            yield Leftover(kind="disk", id=disk, label=one.label, text=one.path)
