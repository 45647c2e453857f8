"""Host processes by pid: descendants, states, and stopping, resuming, killing them.

A pid alone is not an identity, because the kernel reuses it; with the start time it is.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
BOUND_NS = 500_000_000
"""Time until a signal is visible in /proc; a thread in the middle of a disk write needs time."""
POLL_S = 0.000_02
TERMINATED_POLL_S = 0.001
"""A shutdown takes milliseconds to seconds, a signal microseconds."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
STOPPED = frozenset("Tt")
GONE = frozenset("ZX")


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """One process of this host: `started` is the start time of /proc/PID/stat, in clock ticks."""

    pid: int
    started: int


def find(pid: int) -> Process | None:
    """The process that has this pid now, or None."""
    fields = _stat(f"/proc/{pid}/stat")
    return Process(pid=pid, started=int(fields[19])) if fields else None


def thread_states(process: Process) -> list[str]:
    """One letter per thread, as in /proc/PID/stat; empty if the process has exited."""
    if find(process.pid) != process:
        return []
    with suppress(OSError):
        tasks = os.listdir(f"/proc/{process.pid}/task")
        stats = (_stat(f"/proc/{process.pid}/task/{task}/stat") for task in tasks)
        return [fields[0] for fields in stats if fields and fields[0] not in GONE]
    return []


def sleeps(process: Process) -> list[str]:
    """The kernel's function in which each uninterruptible thread (`D`) sleeps, "0" if it hides it;
    empty if the process has exited."""
    functions = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{process.pid}/task"):
            fields = _stat(f"/proc/{process.pid}/task/{task}/stat")
            if fields and fields[0] == "D":
                functions.append(Path(f"/proc/{process.pid}/task/{task}/wchan").read_text())
    return functions if find(process.pid) == process else []


def state(process: Process) -> str:
    """`T` if every thread is stopped, `gone` if none is left, else a running one's letter."""
    letters = thread_states(process)
    if not letters:
        return "gone"
    running = [letter for letter in letters if letter not in STOPPED]
    return running[0] if running else "T"


def tree(roots: Iterable[Process]) -> list[Process]:
    """The live ones of `roots` and all their live descendants, parents first."""
    by_pid: dict[int, Process] = {}
    todo = [root for root in roots if thread_states(root)]
    while todo:
        process = todo.pop(0)
        if process.pid in by_pid:
            continue
        by_pid[process.pid] = process
        children = (find(pid) for pid in _children(process.pid))
        todo += [child for child in children if child and thread_states(child)]
    return list(by_pid.values())


def send(process: Process, number: signal.Signals) -> bool:
    """Signals exactly this process; False if it has exited. Errors: PermissionError."""
    try:
        fd = os.pidfd_open(process.pid)
    except (ProcessLookupError, OSError):
        return False
    try:
        if find(process.pid) != process:
            return False
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def stop(roots: Iterable[Process]) -> dict[Process, str]:
    """SIGSTOP to the roots and their descendants, also those forked meanwhile.

    Returns the last state of each: `T`, unless it exited or the bound ran out.
    """
    roots = list(roots)
    seen: dict[Process, str] = {}
    deadline = time.monotonic_ns() + BOUND_NS
    while fresh := [process for process in tree(roots) if process not in seen]:
        for process in fresh:
            send(process, signal.SIGSTOP)
        for process in fresh:
            seen[process] = settled(process, ("T", "gone"), deadline)
        if time.monotonic_ns() > deadline:
            break
    return seen


def resume(processes: Iterable[Process]) -> None:
    """SIGCONT to these, children before parents, so that no parent misses a child's event."""
    for process in reversed(list(processes)):
        send(process, signal.SIGCONT)


def end(roots: Iterable[Process]) -> dict[Process, str]:
    """SIGKILL to the roots and their descendants, stopped first so that none forks away.

    Returns the last state of each: `gone`, unless the bound ran out.
    """
    doomed = list(stop(roots))
    for process in doomed:
        send(process, signal.SIGKILL)
    deadline = time.monotonic_ns() + 2 * BOUND_NS
    return {process: settled(process, ("gone",), deadline) for process in doomed}


def terminate(
    roots: Iterable[Process], living: Iterable[Process], within_ns: int
) -> dict[Process, int]:
    """SIGTERM to the roots, and nothing to their descendants: a parent ends its children itself.

    Of `living`, those that exited within the time, and how long each took, ns.
    """
    left, begun_ns = list(living), time.monotonic_ns()
    for root in roots:
        send(root, signal.SIGTERM)
    exited: dict[Process, int] = {}
    while left:
        passed_ns = time.monotonic_ns() - begun_ns
        exited |= {process: passed_ns for process in left if not thread_states(process)}
        left = [process for process in left if process not in exited]
        if passed_ns >= within_ns:
            break
        time.sleep(TERMINATED_POLL_S)
    return exited


def cpu_ns(process: Process) -> int:
    """CPU time that a process has used, as exact as the kernel's clock tick; 0 if it has exited."""
    fields = _stat(f"/proc/{process.pid}/stat")
    if not fields or int(fields[19]) != process.started:
        return 0
    return (int(fields[11]) + int(fields[12])) * (1_000_000_000 // TICKS_PER_S)


def is_killed(process: Process) -> bool:
    """Whether SIGKILL was sent to it and it has not exited yet: it waits for a disk."""
    with suppress(OSError, StopIteration):
        lines = (PROC / str(process.pid) / "status").read_text().splitlines()
        pending = [line.split()[1] for line in lines if line.startswith(("SigPnd:", "ShdPnd:"))]
        return any(int(mask, 16) >> (signal.SIGKILL - 1) & 1 for mask in pending)
    return False


@contextmanager
def held(process: Process) -> Iterator[None]:
    """Keeps one process stopped temporarily; one that was stopped before stays stopped.

    Errors: TimeoutError if it does not stop, ProcessLookupError if it has exited.
    """
    if state(process) == "T":
        yield
        return
    if not send(process, signal.SIGSTOP):
        raise ProcessLookupError(f"process {process.pid} has exited")
    try:
        deadline = time.monotonic_ns() + BOUND_NS
        letter = settled(process, ("T", "gone"), deadline)
        if letter not in ("T", "gone"):
            raise TimeoutError(f"process {process.pid} did not stop; state {letter}")
        yield
    finally:
        send(process, signal.SIGCONT)


def settled(process: Process, wanted: Collection[str], deadline_ns: int) -> str:
    """The first wanted state that a process reaches, or its state at the deadline."""
    while (now := state(process)) not in wanted and time.monotonic_ns() < deadline_ns:
        time.sleep(POLL_S)
    return now


def _stat(path: str) -> list[str]:
    """Fields of a stat file after the command name: state, parent, ...; empty if it has exited."""
    try:
        with open(path, "rb", buffering=0) as file:
            text = file.read(1024)
    except OSError:
        return []
    return text[text.rindex(b")") + 2 :].decode().split() if b")" in text else []


def _children(pid: int) -> list[int]:
    pids: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                pids += map(int, (PROC / str(pid) / "task" / task / "children").read_text().split())
    return pids
