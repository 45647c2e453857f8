"""Registry of this user's running runs, whether the driver of a run is alive, what is left of it.

A driver is identified by its *mark*, `pid:start time:pid namespace`, because pids are reused.
Everything that a backend starts carries the mark, which distinguishes leftovers of aborted runs
from parts of live ones, from any folder and by any user. The registry has the run's folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Leftover:
    """One leftover to remove.

    kind      "process", "control group", "disk", or one of a source's kinds
    id        its pid, the engine's id, its folder, its loop device and the file behind it, or the
              run's folder and the host's name in its manifest
    label     of the run it belonged to
    text      description for messages
    started   of a process, in clock ticks since boot: a pid alone may be reused by now
    """

    kind: str
    id: str
    label: str
    text: str
    started: int = -1


RUN_VARIABLE = "HOLDFAST_RUN"
DRIVER_VARIABLE = "HOLDFAST_DRIVER"


@dataclass(frozen=True, kw_only=True, slots=True)
class Noted:
    """A run as registered by its driver. `started` is in clock ticks since the host booted.

    namespace   the driver's pid namespace; 0: noted by an older version
    """

    run_id: str
    pid: int
    started: int
    run_dir: str
    label: str
    namespace: int = 0

    @property
    def alive(self) -> bool:
        """Whether the driver that wrote the note is still the process of that pid."""
        return started(self.pid) == self.started

    @property
    def died_here(self) -> bool:
        """Whether the driver was seen in our pid namespace, and has exited without `forget`."""
        return self.namespace == _pid_namespace() and not self.alive


def folder() -> Path:
    """Folder of the notes: under XDG_STATE_HOME, by default ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "holdfast" / "registry"


def note(run_id: str, *, run_dir: Path, label: str) -> Path:
    """Registers the calling process as the driver of this run; returns the file of the note."""
    own = os.getpid()
    noted = Noted(
        run_id=run_id,
        pid=own,
        started=started(own),
        run_dir=str(run_dir),
        label=label,
        namespace=_pid_namespace(),
    )
    place = folder()
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{run_id}.json"
    draft = place / f".{run_id}.{own}"
    content = {name: value for name, value in asdict(noted).items() if name != "run_id"}
    draft.write_text(json.dumps(content) + "\n")
    draft.replace(path)
    return path


def forget(run_id: str) -> None:
    """Removes the note of a run, if there is one."""
    (folder() / f"{run_id}.json").unlink(missing_ok=True)


def noted() -> list[Noted]:
    """Every registered run of this user, oldest name first; unreadable notes are skipped."""
    found = []
    for path in sorted(folder().glob("*.json")):
        try:
            content = json.loads(path.read_text())
            found.append(
                Noted(
                    run_id=path.stem,
                    pid=int(content["pid"]),
                    started=int(content["started"]),
                    run_dir=str(content["run_dir"]),
                    label=str(content["label"]),
                    namespace=int(content.get("namespace", 0)),
                )
            )
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def mark() -> str:
    """The mark of the calling process, as the driver of a run."""
    own = os.getpid()
    return f"{own}:{started(own)}:{_pid_namespace()}"


def environ(label: str) -> dict[str, str]:
    """Environment variables of each process of a run: the run, and the mark of its driver."""
    return {RUN_VARIABLE: label, DRIVER_VARIABLE: mark()}


def abandoned(label: str, mark: str, notes: Iterable[Noted]) -> bool:
    """Whether something with this label certainly belongs to no live run.

    Without a mark this needs a note with the same label whose driver has exited. A mark from
    another pid namespace cannot be judged from here, and counts as alive.
    """
    same = [run for run in notes if run.label == label]
    if any(run.alive for run in same):
        return False
    if not mark:
        return bool(same)
    try:
        pid, begun, namespace = (int(part) for part in mark.split(":"))
    except ValueError:
        return False
    return namespace == _pid_namespace() and started(pid) != begun


def started(pid: int) -> int:
    """Start time of a process, in clock ticks since boot; -1 if it has exited or is a zombie."""
    state, ticks = state_and_start(pid)
    return -1 if state in "ZX" else ticks


def state_and_start(pid: int) -> tuple[str, int]:
    """Letter of the state of a process's first thread, and the start time; ("X", -1) if gone."""
    try:
        stat = Path("/proc", str(pid), "stat").read_text(errors="replace")
    except OSError:
        return "X", -1
    state, *rest = stat.rpartition(")")[2].split()
    return state, int(rest[18])


def _pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino
