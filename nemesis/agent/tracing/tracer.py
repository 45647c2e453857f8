"""Follows all threads of some processes by ptrace, until a fault has them where it wants them.

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
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.processes import Process
from holdfast.nemesis.agent.request_errors import Refused
from holdfast.nemesis.agent.tracing import ptrace

WAKE = signal.SIGURG
WAKE_EVERY_S = 0.001
WITHIN_S = 10.0
STOP_SIGNALS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


@dataclass(frozen=True, kw_only=True, slots=True)
class Caught:
    """One call that was acted on: thread, name of the call, peer or file, time, bytes kept.

    number   which of the matching calls of its node it was, from 1
    point    before the call was made, after it, or within one that was torn
    of       the client's call that was under way: "acquire", "release"; "" if that is unknown
    """

    thread: int
    call: str
    target: str
    t_ns: int
    kept: int | None = None
    number: int = 1
    point: str = "before"
    of: str = ""


@dataclass(slots=True, kw_only=True)
class Tracer:
    """One fault on one node. `start` returns once every thread is traced; `end` lets all go on.

    A kind of fault says what happens at a system call (`_call`) or at a signal of its own making
    (`_trapped`).

    stops    how often a thread was stopped and looked at
    problem  the error with which it let every thread go; "" for none
    """

    roots: Sequence[Process]
    caught: list[Caught] = field(default_factory=list)
    frozen: bool = False
    stops: int = 0
    problem: str = ""
    meets_calls: ClassVar[bool] = True
    """whether it stops at system calls, which makes a program slow"""
    _threads: dict[int, bool] = field(default_factory=dict)
    """thread -> whether it is stopped"""
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
        else:
            self._prepare()
        self._ready.set()
        try:
            while self._threads and not self._ending.is_set() and not self._finished():
                self._next()
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"
        self._ending.set()
        self._let_go()

    def _prepare(self) -> None:
        """What remains to be done once every thread is traced. Errors: sets `_refused`."""

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
        """Waits for one stop or exit."""
        try:
            stop = ptrace.wait()
        except ChildProcessError:
            self._threads.clear()
            return
        if stop is not None:
            self._handle(*stop)

    def _finished(self) -> bool:
        """Whether nothing is left to do here, so that the program need not be traced any more."""
        return False

    def _handle(self, thread: int, status: int) -> None:
        if not os.WIFSTOPPED(status):
            self._forget(thread)
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
                if not event and not self._trapped(thread, number):
                    self._undelivered[thread] = number
                self._resume(thread)
        except ProcessLookupError:
            pass  # Killed meanwhile: its exit comes next.

    def _forget(self, thread: int) -> None:
        self._threads.pop(thread, None)
        self._undelivered.pop(thread, None)

    def _call(self, thread: int) -> None:
        """A thread enters or leaves a system call."""
        self._resume(thread)

    def _trapped(self, thread: int, number: int) -> bool:
        """Whether a signal is of our own making, and not for the program."""
        return False

    def _resume(self, thread: int) -> None:
        """Lets a thread run on, unless it or its node is frozen."""
        if self._still():
            return
        with suppress(ProcessLookupError):
            ptrace.resume(thread, self._undelivered.pop(thread, 0), calls=self.meets_calls)
            self._threads[thread] = False

    def _still(self) -> bool:
        """Whether no thread that stopped may run on."""
        return self.frozen or self._ending.is_set()

    def _freeze(self) -> None:
        """The thread in hand stays where it is, and all others stop too."""
        self.frozen = True
        for thread, stopped in self._threads.items():
            if not stopped:
                with suppress(ProcessLookupError):
                    ptrace.interrupt(thread)

    def _let_go(self) -> None:
        """Detaches every thread; one that runs is stopped for that."""
        for thread, stopped in self._threads.items():
            if not stopped:
                with suppress(ProcessLookupError):
                    ptrace.interrupt(thread)
        self._restore()
        while self._threads:
            for thread in [thread for thread, stopped in self._threads.items() if stopped]:
                self._detach(thread)
            if not self._threads:
                return
            try:
                stop = ptrace.wait()
            except ChildProcessError:
                return
            if stop is not None:
                self._handle(*stop)

    def _restore(self) -> None:
        """Undoes what was changed in the memory of the program."""

    def _detach(self, thread: int) -> None:
        del self._threads[thread]
        with suppress(ProcessLookupError):
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
