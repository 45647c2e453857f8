"""Processes of a run on this host: waiting for their last exec, finding and killing them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from holdfast.harness.core.clock import MILLISECOND, SECOND, now_ns
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.runs import registry

DIES_WITH_DRIVER = ("setpriv", "--pdeathsig", "KILL", "--")
ONLY_UNDER = '[ "$PPID" = "$0" ] && exec "$@"'
"""Shell: go on only as a child of the process whose pid comes next."""

START_NS = 20 * SECOND
AS_NOBODY = ("unshare", "--user", "--ipc", "--map-user=65534", "--map-group=65534", "--")
"""Runs a command as user `nobody` in a user namespace, so that its files remain ours, and in an IPC
namespace, so that its shared memory ends with it."""

END_NS = 5 * SECOND
POLL_NS = MILLISECOND


def dies_with_us() -> tuple[str, ...]:
    """Words before a command: the kernel kills it when the thread that starts it ends, for any
    reason.

    The child itself asks the kernel for that. If we are killed before it does, it has another
    parent by then, and ends at once.
    """
    return (*DIES_WITH_DRIVER, "sh", "-c", ONLY_UNDER, str(os.getpid()))


async def until(condition: Callable[[], bool], *, bound_ns: int, where: str, what: str) -> None:
    """Returns as soon as the condition is true; EnvironmentFailed after `bound_ns`."""
    deadline = now_ns() + bound_ns
    while not condition():
        if now_ns() > deadline:
            seconds = bound_ns / SECOND
            raise EnvironmentFailed(f"{where}: {what} took more than {seconds:g} s")
        await asyncio.sleep(POLL_NS / SECOND)


async def became(pid: int, launchers: Sequence[bytes], *, where: str) -> bool:
    """Waits until a started process has executed its command; False if it has ended by then.

    An exec after a clock patch would undo it, so a pid must not be published before its last exec.
    `launchers` are words that only the command lines of the steps before it contain. During an exec
    a living process shows an empty command line.
    """

    def done() -> bool:
        words = command_line(pid)
        if not words:
            return registry.started(pid) < 0
        return not any(launcher in words for launcher in launchers)

    await until(done, bound_ns=START_NS, where=where, what=f"the start of process {pid}")
    return registry.started(pid) >= 0


def command_line(pid: int) -> Sequence[bytes]:
    """The words a process was started with; none once its first thread has exited."""
    words = _contents(Path("/proc", str(pid), "cmdline"))
    return words.rstrip(b"\0").split(b"\0") if words else ()


def threads(pid: int) -> list[Path]:
    """The /proc folders of the threads of a process that have not exited, the first thread first.

    The first thread of a killed process is a zombie, without mounts, environment or network, while
    another one cannot be killed because it waits for a disk.
    """
    try:
        found = sorted(Path("/proc", str(pid), "task").iterdir(), key=lambda one: int(one.name))
    except OSError:
        return []
    return [one for one in found if registry.state_and_start(int(one.name))[0] not in "ZX"]


def started(pid: int) -> int:
    """Start time of a process, in clock ticks since boot; -1 once all its threads have exited."""
    state, ticks = registry.state_and_start(pid)
    return ticks if state not in "ZX" or threads(pid) else -1


def view(pid: int) -> Path:
    """The /proc folder that shows a process: of its first thread that has not exited."""
    return next(iter(threads(pid)), Path("/proc", str(pid)))


def shown_line(pid: int) -> str:
    """The command line of a process, for a message; also where the first thread has exited."""
    words = _contents(view(pid) / "cmdline")
    return words.replace(b"\0", b" ").decode(errors="replace").strip()


def sleeps_in(pid: int) -> str:
    """Kernel functions in which the threads of a process wait uninterruptibly; empty if none."""
    waits = [
        _contents(one / "wchan").decode(errors="replace")
        for one in threads(pid)
        if registry.state_and_start(int(one.name))[0] == "D"
    ]
    return "+".join(sorted(set(waits)))


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def pids() -> list[int]:
    """Every process that /proc shows."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def environ(pid: int) -> dict[str, str]:
    """The environment a process was started with; empty if it may not be read."""
    raw = _contents(Path("/proc", str(pid), "environ"))
    if not raw and registry.state_and_start(pid)[0] in "ZX":
        raw = _contents(view(pid) / "environ")
    pairs = (item.decode(errors="replace").partition("=") for item in raw.split(b"\0"))
    return {name: value for name, _, value in pairs if name}


def works_in(pid: int, folder: Path) -> bool:
    """Whether both the folder and the log of a process are inside `folder`.

    This identifies servers that write their title over their environment (as redis does).
    """
    shown = view(pid)
    try:
        places = [Path(os.readlink(shown / name)) for name in ("cwd", "fd/1")]
    except OSError:
        return False
    return all(place.is_relative_to(folder) for place in places)


def kill(pids: Iterable[int]) -> None:
    """SIGKILL to each; one that is gone is no error."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def last_output(log: Path, lines: int = 3) -> str:
    """The last lines of a log, for a message; empty if there is none."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
