"""Acts on chosen system calls of a node: freezes, delays, fails, skips, tears, kills."""

from __future__ import annotations

import errno
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from holdfast.harness.recording.call_marks import called
from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.tracing import ptrace
from holdfast.nemesis.agent.tracing.file_names import ASKS, named
from holdfast.nemesis.agent.tracing.ptrace import Entry
from holdfast.nemesis.agent.tracing.tracer import Caught, Tracer
from holdfast.nemesis.agent.tracing.watched_calls import ENDS_WITH_0, ONE_BUFFER, Watched

ACTS = ("freeze", "delay", "fail", "skip", "tear", "kill")
BEFORE, AFTER = "before", "after"
POINTS = (BEFORE, AFTER)
NOT_AFTER = ("skip", "tear")
"""Acts on a call that is not, or not wholly, made."""
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
    of     only within this call of a client, one of `call_marks.WORDS`, and counted from its begin;
           "": anywhere, counted from the injection
    point  one of POINTS; after a call that was made and succeeded, and no other counts then
    """

    do: str
    first: int = 1
    count: int = 1
    by_ns: int = 0
    error: int = errno.EIO
    point: str = BEFORE
    of: str = ""


class FirstComer:
    """Which node of a fault is acted on, where it is the first one that makes such a call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken_by: CallTracer | None = None

    def take(self, tracer: CallTracer) -> bool:
        """Whether the turn is this one's, which takes it if it is free."""
        with self._lock:
            self._taken_by = self._taken_by or tracer
            return self._taken_by is tracer

    def lost(self, tracer: CallTracer) -> bool:
        """Whether another one has taken it."""
        return self._taken_by not in (None, tracer)


@dataclass(slots=True, kw_only=True, eq=False)
class CallTracer(Tracer):
    """One fault at the system calls of one node."""

    watched: Watched
    act: Act
    turn: FirstComer | None = None
    """shared with the other nodes of its fault, where only one of them is acted on"""
    _matched: int = 0
    _within: str = ""
    """the client's call that is under way, by its last mark"""
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
        if self._pending or self._due_ns:
            return False
        if self.turn is not None and self.turn.lost(self):
            return True
        return self.act.do in ("delay", "fail", "skip") and self._exhausted()

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
            if thread not in self._due_ns:
                self._resume(thread)
            return
        target = "" if self._exhausted() else self._target(thread, entry)
        if target and self.act.point == AFTER:
            self._pending[thread] = partial(self._made, thread, self.watched.name(entry), target)
            target = ""
        if target and self._is_due():
            self._do(thread, entry, target)
        else:
            self._resume(thread)

    def _target(self, thread: int, entry: Entry) -> str:
        """What a call is about, if it is watched. A mark is none, and begins or ends a client's
        call."""
        mark = called(named(thread, entry, "")) if entry.number in ASKS else None
        if mark is not None:
            self._within = mark
            if mark and mark == self.act.of:
                self._matched = 0
            return ""
        if self.act.of and self._within != self.act.of:
            return ""
        return self.watched.target(thread, entry)

    def _exhausted(self) -> bool:
        return self._still() or bool(self.act.count and len(self.caught) >= self.act.count)

    def _is_due(self) -> bool:
        """Counts a matching call; whether it is one to act on."""
        self._matched += 1
        return self._matched >= self.act.first and (self.turn is None or self.turn.take(self))

    def _made(self, thread: int, call: str, target: str) -> None:
        """Acts on a call that a thread leaves, if it succeeded."""
        result = ptrace.word(thread, ptrace.RESULT)
        if result >> 63 or self._exhausted() or not self._is_due():
            return
        self.caught.append(self._seen(thread, call, target))
        if self.act.do == "delay":
            self._due_ns[thread] = time.monotonic_ns() + self.act.by_ns
        elif self.act.do == "fail":
            ptrace.set_word(thread, ptrace.RESULT, -self.act.error)
        else:
            self._stop_all()

    def _seen(self, thread: int, call: str, target: str, kept: int | None = None) -> Caught:
        return Caught(
            thread=thread,
            call=call,
            target=target,
            t_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
            kept=kept,
            number=self._matched,
            point=self.act.point if kept is None else "within",
            of=self._within,
        )

    def _stop_all(self) -> None:
        """Freezes or kills the node."""
        if self.act.do == "freeze":
            self._freeze()
        else:
            self._kill()

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
        self.caught.append(self._seen(thread, call, target, kept if do == "tear" else None))
        if do in ("freeze", "kill"):
            self._stop_all()
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
