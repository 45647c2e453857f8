"""Follows all threads of some processes to a system call, and acts on it there.

The kernel takes ptrace requests from the thread that seized a tracee only, so each tracer is a
thread of the agent. When the tracer dies, with the agent or alone, the kernel lets all tracees go
on: a fault of this kind cannot outlive the agent.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from holdfast.nemesis.agent import processes, ptrace
from holdfast.nemesis.agent.processes import Process
from holdfast.nemesis.agent.ptrace import Entry
from holdfast.nemesis.agent.request_errors import Refused
from holdfast.nemesis.agent.watched_calls import ONE_BUFFER, Watched

WAKE = signal.SIGURG
SECTOR = 512
"""A disk writes a sector wholly or not at all, so a write is torn between two of them."""
WAKE_EVERY_S = 0.001
LOOK_S = 0.0002
WITHIN_S = 10.0
STOP_SIGNALS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
ACTS = ("freeze", "delay", "fail", "skip", "tear", "kill")


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Caught:
    """One call that was acted on: thread, name of the call, peer or file, time, bytes kept."""

    thread: int
    call: str
    target: str
    t_ns: int
    kept: int | None = None


@dataclass(slots=True)
class Tracer:
    """One fault on one node. `start` returns once every thread is traced; `end` lets all go on.

    stops    how often a thread was stopped and looked at
    problem  the error with which it let every thread go; "" for none
    """

    roots: Sequence[Process]
    watched: Watched
    act: Act
    caught: list[Caught] = field(default_factory=list)
    frozen: bool = False
    stops: int = 0
    problem: str = ""
    _matched: int = 0
    _threads: dict[int, bool] = field(default_factory=dict)
    """thread -> whether it is stopped"""
    _pending: dict[int, Callable[[], None]] = field(default_factory=dict)
    """thread -> what remains to be done when it leaves its call"""
    _due_ns: dict[int, int] = field(default_factory=dict)
    _undelivered: dict[int, int] = field(default_factory=dict)
    """thread -> the signal that it gets when it goes on"""
    _refused: str = ""
    _ready: threading.Event = field(default_factory=threading.Event)
    _ending: threading.Event = field(default_factory=threading.Event)
    _worker: threading.Thread | None = None

    def start(self) -> None:
        """Begins to trace. Errors: Refused, and then nothing is traced."""
        ptrace.interruptible(WAKE)
        self._worker = threading.Thread(target=self._run, name="tracer", daemon=True)
        self._worker.start()
        if not self._ready.wait(WITHIN_S):
            self.end()
            raise Refused(f"the threads could not be traced within {WITHIN_S:.0f} s")
        if self._refused:
            self._worker.join()
            raise Refused(self._refused)

    def end(self) -> None:
        """Every thread goes on, untraced. TimeoutError if the tracer cannot be reached."""
        self._ending.set()
        deadline = time.monotonic() + WITHIN_S
        while self._worker is not None and self._worker.is_alive():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the tracer did not end within {WITHIN_S:.0f} s")
            self._wake()
            self._worker.join(WAKE_EVERY_S)

    def _wake(self) -> None:
        worker = self._worker
        if worker is not None and worker.ident is not None and worker.is_alive():
            with suppress(ProcessLookupError):
                signal.pthread_kill(worker.ident, WAKE)

    def _run(self) -> None:
        try:
            self._seize()
        except OSError as error:
            self._refused = self._reason(error)
            self._ending.set()
        self._ready.set()
        try:
            while self._threads and not self._ending.is_set() and not self._finished():
                self._next()
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"
        self._ending.set()
        self._let_go()

    def _reason(self, error: OSError) -> str:
        if error.errno == errno.EPERM:
            return "a process has a tracer already, or may not be traced by this user"
        return f"a process cannot be traced: {error.strerror}"

    def _seize(self) -> None:
        """Seizes every thread; one that is made meanwhile is in the list the next time."""
        fresh = True
        while fresh:
            fresh = False
            for process in processes.tree(self.roots):
                for thread in _threads_of(process.pid):
                    if thread not in self._threads and _seized(thread):
                        self._threads[thread] = False
                        ptrace.interrupt(thread)
                        fresh = True
        if not self._threads:
            raise OSError(errno.ESRCH, "no live process; restart it first")

    def _next(self) -> None:
        """Waits for one stop or exit; while calls are delayed, at most until one may go on."""
        try:
            found = ptrace.wait(block=not self._due_ns)
        except ChildProcessError:
            self._threads.clear()
            return
        if found is not None:
            self._handle(*found)
        elif self._due_ns:
            time.sleep(LOOK_S)
        now = time.monotonic_ns()
        for thread in [thread for thread, due in self._due_ns.items() if due <= now]:
            del self._due_ns[thread]
            self._resume(thread)

    def _handle(self, thread: int, status: int) -> None:
        if not os.WIFSTOPPED(status):
            for table in (self._threads, self._pending, self._due_ns, self._undelivered):
                table.pop(thread, None)
            return
        self.stops += 1
        self._threads[thread] = True
        number, event = os.WSTOPSIG(status), status >> 16
        try:
            if number == ptrace.SYSCALL_STOP:
                self._call(thread)
            elif event == ptrace.EVENT_STOP and number in STOP_SIGNALS and not self._still():
                ptrace.listen(thread)
                self._threads[thread] = False
            else:
                if not event:
                    self._undelivered[thread] = number
                self._resume(thread)
        except ProcessLookupError:
            pass  # Killed meanwhile: its exit comes next.

    def _resume(self, thread: int) -> None:
        """Lets a thread run on, unless its node is frozen."""
        if self._still():
            return
        with suppress(ProcessLookupError):
            ptrace.resume(thread, self._undelivered.pop(thread, 0))
            self._threads[thread] = False

    def _finished(self) -> bool:
        """Whether nothing is left to do here, so that the program need not be slow any more."""
        busy = self._pending or self._due_ns or self.act.do not in ("delay", "fail", "skip")
        return not busy and self._exhausted()

    def _still(self) -> bool:
        """Whether no thread that stopped may run on."""
        return self.frozen or self._ending.is_set()

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

    def _freeze(self) -> None:
        """This thread stays inside its call, and all others stop where they are."""
        self.frozen = True
        for thread, stopped in self._threads.items():
            if not stopped:
                with suppress(ProcessLookupError):
                    ptrace.interrupt(thread)

    def _kill(self) -> None:
        for process in processes.tree(self.roots):
            processes.send(process, signal.SIGKILL)

    def _let_go(self) -> None:
        """Detaches every thread; one that runs is stopped for that."""
        for thread, stopped in self._threads.items():
            if not stopped:
                with suppress(ProcessLookupError):
                    ptrace.interrupt(thread)
        while self._threads:
            for thread in [thread for thread, stopped in self._threads.items() if stopped]:
                self._detach(thread)
            if not self._threads:
                return
            try:
                found = ptrace.wait()
            except ChildProcessError:
                return
            if found is not None:
                self._handle(*found)

    def _detach(self, thread: int) -> None:
        finish = self._pending.pop(thread, None)
        del self._threads[thread]
        with suppress(ProcessLookupError):
            if finish is not None and ptrace.entry(thread) is None:
                finish()
            ptrace.detach(thread, self._undelivered.pop(thread, 0))


def _threads_of(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    return []


def _seized(thread: int) -> bool:
    try:
        ptrace.seize(thread)
    except ProcessLookupError:
        return False
    return True


def trace_all(tracers: Iterable[Tracer]) -> None:
    """Starts all or none. Errors: Refused."""
    started: list[Tracer] = []
    try:
        for tracer in tracers:
            tracer.start()
            started.append(tracer)
    except Refused:
        for tracer in started:
            tracer.end()
        raise
