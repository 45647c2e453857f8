"""Index of the runs under a folder, with their states, for browsing."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.harness.campaigns import results
from holdfast.harness.campaigns.results import Result
from holdfast.harness.core.clock import now_ns
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.judging.stored import stored
from holdfast.harness.plans.manifest import OWN, Manifest, Origin
from holdfast.harness.runs import files, journal, registry
from holdfast.harness.runs.directory import RunDir

DEPTH = ("*", "*/*", "*/*/*")
"""Runs are in the folder itself, or in the `runs` of a campaign in it."""
MOST_RUNS = 5000
MOST_ZIPS = 2
"""Maximum number of live verdicts at a time: each takes a core and a copy of its run on disk."""
JUDGE_EVERY_S, JUDGE_WITHIN_S = 2.0, 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One run: `state` is "judged", "running", "unjudged" or "unreadable"; result if judged."""

    id: str
    dir: RunDir
    state: str
    started: float
    manifest: Manifest | None = None
    result: Result | None = None
    problem: str = ""

    @property
    def verdict(self) -> str:
        return self.result.verdict if self.result else self.state

    @property
    def origin(self) -> Origin:
        """Its name, and the run that it is an attempt of."""
        return self.manifest.origin if self.manifest else OWN

    @property
    def nemesis(self) -> str:
        faults = self.manifest.plan.faults if self.manifest else ()
        return results.planned(fault.do for fault in faults)


class RunIndex:
    """All runs under a folder. A run is named only by an id from the folder's own listing."""

    def __init__(self, root: Path, judge: Sequence[str]) -> None:
        """`judge` is the command of a program that prints the live verdict of a run as JSON."""
        self.root, self._judge = root.resolve(), judge
        self._read: dict[tuple[str, int, int], Entry] = {}
        self._live: dict[str, _Live] = {}
        self._lock = threading.Lock()
        self.zipping = threading.BoundedSemaphore(MOST_ZIPS)

    def entries(self) -> list[Entry]:
        """Every run, the newest first; links are not followed."""
        going = {Path(note.run_dir) for note in registry.noted() if note.alive}
        entries = []
        for pattern in DEPTH:
            for manifest in self.root.glob(f"{pattern}/manifest.json"):
                folder = manifest.parent
                name = str(manifest.relative_to(self.root))
                if not files.is_file(self.root, name):
                    continue
                with contextlib.suppress(OSError):
                    entries.append(self._entry(folder, running=folder in going))
        entries.sort(key=lambda entry: (-entry.started, entry.id))
        return entries[:MOST_RUNS]

    def entry(self, ident: str) -> Entry | None:
        """The run of this id, None if there is none."""
        return next((entry for entry in self.entries() if entry.id == ident), None)

    def live(self, entry: Entry) -> Mapping[str, Json]:
        """Live state of a running run, judged again periodically in another process."""
        with self._lock:
            watched = self._live.setdefault(entry.id, _Live(entry.dir, self._judge))
        return watched.look()

    def _entry(self, folder: Path, *, running: bool) -> Entry:
        run, ident = RunDir(folder), folder.relative_to(self.root).as_posix()
        judged = run.has(run.verdicts)
        stamp = (run.verdicts if judged else run.manifest).stat()
        key = (f"{ident} {running}", stamp.st_mtime_ns, stamp.st_size)
        if key not in self._read:
            started = run.manifest.stat().st_mtime
            state = "judged" if judged else "running" if running else "unjudged"
            self._read[key] = _read(Entry(id=ident, dir=run, state=state, started=started))
        return self._read[key]


def _read(entry: Entry) -> Entry:
    try:
        manifest = entry.dir.read_manifest()
        if entry.state != "judged":
            return replace(entry, manifest=manifest)
        result = results.of_verdicts(stored(entry.dir), manifest, run=entry.id)
        return replace(entry, manifest=manifest, result=result)
    except (UsageError, KeyError, TypeError, ValueError, AttributeError, LookupError) as error:
        return replace(entry, state="unreadable", problem=f"{type(error).__name__}: {error}")


class _Live:
    """The latest live verdict of a running run, and the process that computes the next one."""

    def __init__(self, run: RunDir, judge: Sequence[str]) -> None:
        self._run, self._argv = run, [*judge, str(run.path)]
        self._said: Mapping[str, Json] = {}
        self._next = 0.0
        self._lock = threading.Lock()

    def look(self) -> Mapping[str, Json]:
        """The latest state; starts a new judgement if the last one is old."""
        with self._lock:
            if time.monotonic() >= self._next:
                self._next = time.monotonic() + JUDGE_WITHIN_S + JUDGE_EVERY_S
                threading.Thread(target=self._judge, daemon=True).start()
            return {**self._said, **progress(self._run)}

    def _judge(self) -> None:
        try:
            done = subprocess.run(
                self._argv, capture_output=True, timeout=JUDGE_WITHIN_S, check=False
            )
            live = json.loads(done.stdout) if done.returncode == 0 else {}
        except (OSError, ValueError, subprocess.TimeoutExpired):
            live = {}
        with self._lock:
            self._said = live or self._said
            self._next = time.monotonic() + JUDGE_EVERY_S


def progress(run: RunDir) -> dict[str, Json]:
    """Progress of a run: time done and planned, last event of each of its faults."""
    try:
        plan = run.read_manifest().plan
        marks = {row.mark: row.t_ns for row in journal.marks(run)}
        faults = {row.id: row for row in journal.faults(run)}
    except (UsageError, KeyError, TypeError):
        return {}
    start = marks.get("start")
    stage = "deploying" if start is None else "settling" if "stop" in marks else "running"
    done = 0 if start is None else now_ns() - start
    return {
        "stage": stage,
        "done_ns": min(done, plan.time_ns),
        "of_ns": plan.time_ns,
        "faults": [
            {"id": ident, "do": row.do, "target": row.target, "event": row.event}
            for ident, row in faults.items()
        ],
    }
