"""Child processes of a driver on its own host: they end with it, or when it kills them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.clusters.backends import processes
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.ports import Command, Place
from holdfast.harness.runs import registry

NOT_RUN = (126, 127)


async def _exit_code(process: asyncio.subprocess.Process) -> int | None:
    """The exit code of a process that has been killed or has ended; None if it stays too long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(processes.END_NS / SECOND):
            return await process.wait()
    return None


def _not_gone(pid: int) -> str:
    waits = processes.sleeps_in(pid)
    return (
        f"close: process {pid} ({processes.shown_line(pid)[:100]}) has not exited within"
        f" {processes.END_NS // SECOND} s of SIGKILL{f': it waits in {waits}' if waits else ''};"
        " remove it with `holdfast doctor --clean`"
    )


class Children:
    """The processes that one backend has started. Use it from the driver's longest-living thread.

    The kernel kills a child when the thread that started it ends, for any reason.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._own: list[asyncio.subprocess.Process] = []

    async def hold(self, *argv: str) -> asyncio.subprocess.Process:
        """Starts a process that holds a resource, without output."""
        return await self._spawn(argv, {}, Path("/"), asyncio.subprocess.DEVNULL)

    async def start(self, command: Command, *, where: str, enter: Sequence[str] = ()) -> int:
        """Starts a command in the folder of its log; its pid after its last exec.

        `enter` are words before it that finally exec it. Raises EnvironmentFailed, which says
        `where`, if it cannot be started.
        """
        become = processes.AS_NOBODY if command.nobody and os.geteuid() == 0 else ()
        where = f"{where}: {command.argv[0]}"
        command.log.parent.mkdir(parents=True, exist_ok=True)
        words = [*enter, *become, *command.argv]
        with command.log.open("ab") as log:
            process = await self._spawn(words, command.env, command.log.parent, log.fileno())
        first = [processes.ONLY_UNDER, *enter[:1], *become[:1], command.prelude]
        steps = [word.encode() for word in first if word]
        lives = await processes.became(process.pid, steps, where=where)
        if not lives and await _exit_code(process) in NOT_RUN:
            raise EnvironmentFailed(f"{where} cannot run: {processes.last_output(command.log)}")
        return process.pid

    async def end(self, others: Callable[[], Iterable[int]]) -> None:
        """Kills the children and all that `others` finds, repeatedly until it finds nothing."""

        def ended() -> bool:
            found = set(others())
            own = {process.pid for process in self._own if process.returncode is None}
            processes.kill(found | own)
            return not found

        await processes.until(
            ended,
            bound_ns=processes.END_NS,
            where="close",
            what="ending the processes of the nodes",
        )
        # A process that waits for a disk does not exit; its first thread may be a zombie already.
        exits = [asyncio.ensure_future(_exit_code(process)) for process in self._own]
        await asyncio.gather(*exits)
        stuck = [process.pid for process in self._own if process.returncode is None]
        self._own.clear()
        if stuck:
            raise EnvironmentFailed("\n".join(map(_not_gone, stuck)))

    async def _spawn(
        self, words: Sequence[str], environ: Mapping[str, str], folder: Path, output: int
    ) -> asyncio.subprocess.Process:
        path = os.environ.get("PATH", os.defpath)
        process = await asyncio.create_subprocess_exec(
            *processes.dies_with_us(),
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env={"PATH": path, **environ, **registry.environ(self._place.label)},
            start_new_session=True,
        )
        self._own.append(process)
        return process
