"""Acts on chosen system calls of a node: freezes, delays, fails, skips, tears, kills."""

from __future__ import annotations

import errno
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.tracing import ptrace
from holdfast.nemesis.agent.tracing.ptrace import Entry
from holdfast.nemesis.agent.tracing.tracer import Caught, Tracer
from holdfast.nemesis.agent.tracing.watched_calls import ENDS_WITH_0, ONE_BUFFER, Watched

ACTS = ("freeze", "delay", "fail", "skip", "tear", "kill")
SECTOR = 512
"""A disk writes a sector wholly or not at all, so a write is torn between two of them."""
LOOK_S = 0.0002


@dataclass(frozen=True, kw_only=True, slots=True)
class Act:
    """What is done to the calls that a fault waits for.

    do     one of ACTS
    first  the first matching call that is acted on, counted from 1
    count  how many calls are acted on; 0: all. Freeze, tear and kill act on one
    by_ns  length of a delay
    error  errno of a call that fails
    """

    do: str
    first: int = 1
    count: int = 1
    by_ns: int = 0
    error: int = errno.EIO


@dataclass(slots=True, kw_only=True)
class CallTracer(Tracer):
    """One fault at the system calls of one node."""

    watched: Watched
    act: Act
    _matched: int = 0
    _pending: dict[int, Callable[[], None]] = field(default_factory=dict)
    """thread -> what remains to be done when it leaves its call"""
    _due_ns: dict[int, int] = field(default_factory=dict)
    """thread -> when its delayed call may go on"""

    def _next(self) -> None:
        """Waits for one stop or exit; while calls are delayed, at most until one may go on."""
        try:
            stop = ptrace.wait(block=not self._due_ns)
        except ChildProcessError:
            self._threads.clear()
            return
        if stop is not None:
            self._handle(*stop)
        elif self._due_ns:
            time.sleep(LOOK_S)
        now = time.monotonic_ns()
        for thread in [thread for thread, due in self._due_ns.items() if due <= now]:
            del self._due_ns[thread]
            self._resume(thread)

    def _finished(self) -> bool:
        """Whether nothing is left to do here, so that the program need not be slow any more."""
        busy = self._pending or self._due_ns or self.act.do not in ("delay", "fail", "skip")
        return not busy and self._exhausted()

    def _forget(self, thread: int) -> None:
        Tracer._forget(self, thread)
        self._pending.pop(thread, None)
        self._due_ns.pop(thread, None)

    def _call(self, thread: int) -> None:
        """A thread enters or leaves a call."""
        entry = ptrace.entry(thread)
        if entry is None:
            finish = self._pending.pop(thread, None)
            if finish is not None:
                finish()
            self._resume(thread)
            return
        target = "" if self._exhausted() else self.watched.target(thread, entry)
        if not target:
            self._resume(thread)
            return
        self._matched += 1
        if self._matched < self.act.first:
            self._resume(thread)
        else:
            self._do(thread, entry, target)

    def _exhausted(self) -> bool:
        return self._still() or bool(self.act.count and len(self.caught) >= self.act.count)

    def _do(self, thread: int, entry: Entry, target: str) -> None:
        call, do = self.watched.name(entry), self.act.do
        if do == "skip" and call not in (*ONE_BUFFER, *ENDS_WITH_0):
            self._resume(thread)  # What it returns if all went well is not known here.
            return
        kept = entry.arguments[2] // SECTOR * SECTOR if call in ONE_BUFFER else None
        if do == "tear":
            if not kept or kept == entry.arguments[2]:
                self._resume(thread)  # Nothing, or all of it, would be written.
                return
            ptrace.set_word(thread, ptrace.THIRD_ARGUMENT, kept)
            self._pending[thread] = self._kill
        seen = Caught(
            thread=thread,
            call=call,
            target=target,
            t_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
            kept=kept if do == "tear" else None,
        )
        self.caught.append(seen)
        if do == "freeze":
            self._freeze()
        elif do == "kill":
            self._kill()
        elif do == "delay":
            self._due_ns[thread] = time.monotonic_ns() + self.act.by_ns
        else:
            if do in ("fail", "skip"):
                self._instead(thread, entry, call)
            self._resume(thread)

    def _instead(self, thread: int, entry: Entry, call: str) -> None:
        """The call is not made; it returns an error, or what it would return if it had been."""
        done = entry.arguments[2] if call in ONE_BUFFER else 0
        result = -self.act.error if self.act.do == "fail" else done
        ptrace.set_word(thread, ptrace.CALL_NUMBER, -1)
        self._pending[thread] = lambda: ptrace.set_word(thread, ptrace.RESULT, result)

    def _kill(self) -> None:
        for process in processes.tree(self.roots):
            processes.send(process, signal.SIGKILL)

    def _detach(self, thread: int) -> None:
        finish = self._pending.pop(thread, None)
        if finish is not None:
            with suppress(ProcessLookupError):
                if ptrace.entry(thread) is None:
                    finish()
        Tracer._detach(self, thread)
