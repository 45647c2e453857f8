"""Waits until a time of the monotonic clock, in programs whose monotonic clock is behind.

A program computes such a time from its own clock, which is behind the kernel's, so that the kernel
would end the wait at once: Python's `time.sleep` and `Event.wait`, and `pthread_cond_timedwait`,
wait like this. A seccomp filter in the program reports these calls to this agent, which adds the
standstill to the time in the program's memory and lets the call go on. Other calls are not touched.

If the agent dies, the reported calls fail with ENOSYS; the run and its processes end then.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import struct
import threading
from contextlib import closing, suppress

from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.processes import Process
from holdfast.nemesis.agent.request_errors import Refused
from holdfast.nemesis.agent.tracing import ptrace
from holdfast.nemesis.agent.vdso import Patch

NANOSLEEP, FUTEX, SECCOMP, PRCTL, CLOSE, PIDFD_GETFD = 230, 202, 317, 157, 3, 438
"""Numbers of system calls of x86-64."""
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_NOTICE = struct.Struct("=QIIiIQ6Q")
"""id, thread, flags; then number, architecture, instruction and arguments of the call."""
_REPLY = struct.Struct("=QqiI")
_GO_ON = 1
_TIME = struct.Struct("=qq")
SECOND_NS = 1_000_000_000
MOST_PATCHES, MOST_TIMES = 64, 4096
_FILTER_FLAGS = 1 | 8 | 16
"""For all threads, with a listener, and an error if a thread cannot have the filter."""
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_LOAD, _EQUAL, _AND, _ANY_BIT, _RETURN = 0x20, 0x15, 0x54, 0x45, 0x06


def program() -> bytes:
    """The filter: reports clock_nanosleep until a time of CLOCK_MONOTONIC, and the same of futex.

    Offsets are those of `struct seccomp_data`: 0 the number, 4 the architecture, 16 + 8 n the low
    half of argument n. Jumps count the instructions that are left out.
    """
    steps = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 0, 13, 0xC000003E),
        (_LOAD, 0, 0, 0),
        (_EQUAL, 0, 4, NANOSLEEP),
        (_LOAD, 0, 0, 16),
        (_EQUAL, 0, 9, 1),  # CLOCK_MONOTONIC
        (_LOAD, 0, 0, 24),
        (_ANY_BIT, 8, 7, 1),  # TIMER_ABSTIME
        (_EQUAL, 0, 6, FUTEX),
        (_LOAD, 0, 0, 24),
        (_AND, 0, 0, 0x17F),  # Without FUTEX_PRIVATE_FLAG, with FUTEX_CLOCK_REALTIME.
        (_EQUAL, 1, 0, 9),  # FUTEX_WAIT_BITSET
        (_EQUAL, 0, 2, 13),  # FUTEX_LOCK_PI2
        (_LOAD, 0, 0, 40),
        (_EQUAL, 0, 1, 0),  # It waits without a time.
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NOTIFY),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


class AbsoluteWaits:
    """The programs with such a filter. A forked child has that of its parent."""

    def __init__(self) -> None:
        self._watched: set[Process] = set()

    def watch(self, process: Process, patch: Patch) -> None:
        """Reports the waits of a running process from now on. Errors: Refused, OSError.

        patch   of the process, with its functions replaced
        """
        if process in self._watched:
            return
        try:
            listener = _installed(process, patch)
        except PermissionError as error:
            raise Refused(
                f"suspend: process {process.pid} has a tracer already, or may not be traced by"
                " this user"
            ) from error
        self._watched.add(process)
        if listener is not None:
            threading.Thread(target=_serve, args=(listener,), daemon=True).start()


def _installed(process: Process, patch: Patch) -> int | None:
    """Puts the filter into a process by calls in its main thread; the listener, in this process.

    None if it has the filter of the process that forked it.
    """
    at, memory = patch.scratch()
    code = program()
    patch.write(at, struct.pack("=HxxxxxxQ", len(code) // 8, memory + 16) + code)
    with closing(ptrace.Stopped(process.pid, patch.call_instruction())) as thread:
        # No new privileges: else only root may have a filter.
        thread.call(PRCTL, 38, 1)
        inside = thread.call(SECCOMP, 1, _FILTER_FLAGS, memory)
        if inside == -errno.EBUSY:
            return None
        if inside < 0:
            raise Refused(f"suspend: process {process.pid}: seccomp: {os.strerror(-inside)}")
        try:
            return _taken(process.pid, inside)
        finally:
            thread.call(CLOSE, inside)


def _taken(pid: int, inside: int) -> int:
    """A copy of a descriptor of another process. Errors: OSError."""
    pidfd = os.pidfd_open(pid)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        taken = int(libc.syscall(PIDFD_GETFD, pidfd, inside, 0))
        if taken < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        os.set_inheritable(taken, False)
        return taken
    finally:
        os.close(pidfd)


def _serve(listener: int) -> None:
    """Answers until the last process with this filter has exited."""
    memory = _Memory()
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while True:
        events = [event for _, event in poll.poll()]
        if not any(event & select.POLLIN for event in events):
            break
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, notice)
        except OSError:
            continue  # It was killed meanwhile.
        number, thread, _, call, _, _, *arguments = _NOTICE.unpack(notice)
        memory.shift(thread, arguments[2 if call == NANOSLEEP else 3])
        with suppress(OSError):
            fcntl.ioctl(listener, _SEND, bytearray(_REPLY.pack(number, 0, 0, _GO_ON)))
    memory.close()
    os.close(listener)


class _Memory:
    """Times of waits in the memory of programs."""

    def __init__(self) -> None:
        self._patches: dict[int, Patch] = {}
        self._written: dict[tuple[int, int], tuple[int, int]] = {}
        """(thread, address) -> the program's own time there, and what it was changed to"""

    def shift(self, thread: int, address: int) -> None:
        """Adds the standstill of a thread's program to the time at an address.

        A program that waits again uses the time that was changed before: it is changed once.
        """
        try:
            patch = self._patch(thread)
            still_ns = patch.standstill_ns()
            packed = patch.read_at(address, _TIME.size)
            asked_ns = _to_ns(packed)
            own_ns, changed_ns = self._written.get((thread, address), (0, -1))
            own_ns = own_ns if asked_ns == changed_ns else asked_ns
            if own_ns + still_ns != asked_ns:
                patch.write_at(address, _TIME.pack(*divmod(own_ns + still_ns, SECOND_NS)))
            if len(self._written) >= MOST_TIMES:
                self._written.clear()
            self._written[thread, address] = own_ns, own_ns + still_ns
        except (OSError, Refused, struct.error):
            # It has exited, or runs another program, whose clock is the kernel's.
            self._forget(thread)

    def close(self) -> None:
        """Closes what is open."""
        for thread in list(self._patches):
            self._forget(thread)

    def _patch(self, thread: int) -> Patch:
        if thread not in self._patches:
            if len(self._patches) >= MOST_PATCHES:
                self.close()
            process = processes.find(thread)
            if process is None:
                raise ProcessLookupError(thread)
            self._patches[thread] = Patch(process)
        return self._patches[thread]

    def _forget(self, thread: int) -> None:
        patch = self._patches.pop(thread, None)
        if patch is not None:
            patch.close()


def _to_ns(data: bytes) -> int:
    seconds, rest = _TIME.unpack(data)
    return int(seconds) * SECOND_NS + int(rest)
