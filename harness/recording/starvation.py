"""Measures when this process was starved of CPU, in a log beside its others, for the judge.

A thread repeatedly sleeps 100 ms and measures how much later it resumes, and for how long tasks of
this host waited for a CPU (/proc/pressure/cpu). A span above the limit is a line of
logs/NODE/starved.log, which is collected like every log, also from hosts. A run of an older
Holdfast has no such lines. Standard library only.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from holdfast.harness.core.clock import MILLISECOND, SECOND, now_ns
from holdfast.harness.core.operations import DELAY, PRESSURE, Starved

FILE = "starved.log"
TICK_NS = 100 * MILLISECOND
LATE_NS = 100 * MILLISECOND
"""Smaller delays are normal scheduling, and far below the timeout of a request."""
LOOK_NS = SECOND
PRESSED_PCT = 95
STALLED = Path("/proc/pressure/cpu")


def stalled_us() -> int | None:
    """Total time in which a task of this host waited for a CPU; None: unknown."""
    try:
        line = STALLED.read_text().splitlines()[0]
        return int(line.rpartition("total=")[2])
    except (OSError, ValueError, IndexError):
        return None


class Watch:
    """Measures from one call to the next; `note` receives each starved span."""

    def __init__(
        self,
        note: Callable[[str, int, int], None],
        now: Callable[[], int] = now_ns,
        sleep: Callable[[float], None] = time.sleep,
        stalled: Callable[[], int | None] = stalled_us,
    ) -> None:
        self._note, self._now, self._sleep, self._stalled = note, now, sleep, stalled
        self._looked_ns, self._told_us = now(), stalled()

    def tick(self) -> None:
        """Sleeps once, and notes a starved span."""
        due_ns = self._now() + TICK_NS
        self._sleep(TICK_NS / SECOND)
        at_ns = self._now()
        if at_ns - due_ns >= LATE_NS:
            self._note(DELAY, due_ns, at_ns)
        if at_ns - self._looked_ns < LOOK_NS:
            return
        told_us, before_us = self._stalled(), self._told_us
        if told_us is not None and before_us is not None:
            share = (told_us - before_us) * 1000 * 100
            if share >= PRESSED_PCT * (at_ns - self._looked_ns):
                self._note(PRESSURE, self._looked_ns, at_ns)
        self._looked_ns, self._told_us = at_ns, told_us


Stopped = list[tuple[int, int]]
"""(from, to): when a process paused itself, ns; appended to before it does."""


def begin(run_dir: Path, node: str) -> Stopped:
    """Measures this process from now on, until it exits, except while it pauses itself: it appends
    these times to what this returns."""
    stopped: Stopped = []
    folder = run_dir / "logs" / node
    folder.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    file = os.open(folder / FILE, flags, 0o644)

    def note(kind: str, from_ns: int, to_ns: int) -> None:
        if kind == DELAY and meant(stopped, from_ns, to_ns):
            return
        row = {"node": node, "kind": kind, "from_ns": from_ns, "to_ns": to_ns}
        os.write(file, json.dumps(row).encode() + b"\n")

    def work() -> None:
        watch = Watch(note)
        while True:
            try:
                watch.tick()
            except OSError:
                # A full disk ends the measurement only.
                return

    threading.Thread(target=work, name="starvation", daemon=True).start()
    return stopped


def of_row(row: Mapping[str, Any]) -> Starved:
    """The span of a line of the log. ValueError if it is invalid."""
    found = Starved(
        node=str(row["node"]),
        kind=str(row["kind"]),
        from_ns=int(row["from_ns"]),
        to_ns=int(row["to_ns"]),
    )
    if found.kind not in (DELAY, PRESSURE) or found.to_ns < found.from_ns:
        raise ValueError(f"no starved span: {dict(row)}")
    return found


def meant(stopped: Stopped, from_ns: int, to_ns: int) -> bool:
    """Whether a process was late because it had paused itself, and no later than that explains."""
    late = ((begun, over) for begun, over in stopped if begun < to_ns and over > from_ns)
    return any(to_ns < over + LATE_NS for _, over in late)
