"""Which runs this user has going, and whether the driver of a run still lives.

A driver is named by its *mark*, `pid:start time:pid namespace`, for a pid alone is used again.
Everything a backend starts carries the mark, so that what an aborted run left can be told from what
a living one needs, from any folder and by any user. The registry says where such a run was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

RUN_VARIABLE = "HOLDFAST_RUN"
DRIVER_VARIABLE = "HOLDFAST_DRIVER"


@dataclass(frozen=True, kw_only=True, slots=True)
class Noted:
    """A run as its driver noted it. `started` is in clock ticks since the host booted."""

    run_id: str
    pid: int
    started: int
    run_dir: str
    label: str

    @property
    def alive(self) -> bool:
        """Whether the driver that wrote the note is still the process of that pid."""
        return started(self.pid) == self.started


def folder() -> Path:
    """Where the notes are: under XDG_STATE_HOME, by default ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "holdfast" / "registry"


def note(run_id: str, *, run_dir: Path, label: str) -> Path:
    """Notes that the calling process drives this run; returns the file of the note."""
    own = os.getpid()
    noted = Noted(run_id=run_id, pid=own, started=started(own), run_dir=str(run_dir), label=label)
    place = folder()
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{run_id}.json"
    draft = place / f".{run_id}.{own}"
    content = {name: value for name, value in asdict(noted).items() if name != "run_id"}
    draft.write_text(json.dumps(content) + "\n")
    draft.replace(path)
    return path


def forget(run_id: str) -> None:
    """Takes the note of a run away; nothing happens where there is none."""
    (folder() / f"{run_id}.json").unlink(missing_ok=True)


def noted() -> list[Noted]:
    """Every run noted by this user, oldest name first; unreadable notes are passed over."""
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
    """What the environment of each process of a run says: which run, and who drives it."""
    return {RUN_VARIABLE: label, DRIVER_VARIABLE: mark()}


def abandoned(label: str, mark: str, notes: Iterable[Noted]) -> bool:
    """Whether something so labelled certainly belongs to no living run.

    Without a mark it takes a note under the same label, and that its driver is gone. A mark from
    another pid namespace cannot be judged from here, and counts as living.
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
    """When a process started, in clock ticks since boot; -1 for one that is gone or a zombie."""
    try:
        stat = Path("/proc", str(pid), "stat").read_text(errors="replace")
    except OSError:
        return -1
    state, *rest = stat.rpartition(")")[2].split()
    return -1 if state in "ZX" else int(rest[18])


def _pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino
