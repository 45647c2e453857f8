"""The ptrace requests that the tracer uses, on x86-64 Linux, through the C library.

All of them are for the thread that seized the tracee, and for no other: see `tracer`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NoReturn

SYSCALL_STOP = signal.SIGTRAP | 0x80
"""The stop signal of a thread that enters or leaves a system call."""
EVENT_STOP = 128
"""The event of a thread that was interrupted, is new, or is stopped by SIGSTOP."""
RESULT, CALL_NUMBER, THIRD_ARGUMENT, INSTRUCTION = 8 * 10, 8 * 15, 8 * 12, 8 * 16
"""Offsets of rax, orig_rax, rdx and rip in `struct user` of x86-64."""

_SEIZE, _INTERRUPT, _LISTEN, _CONT, _SYSCALL, _DETACH = 0x4206, 0x4207, 0x4208, 7, 24, 17
_PEEKUSER, _POKEUSER, _GET_SYSCALL_INFO = 3, 6, 0x420E
_GET_REGISTERS, _SET_REGISTERS = 12, 13
_SYSTEM_CALL_STOPS = 0x01
_REGISTERS = struct.Struct("=27Q")
_RAX, _ORIG_RAX, _RIP = 10, 15, 16
_ARGUMENTS = (14, 13, 12, 7, 9, 8)
"""Places in `struct user_regs_struct`: of rdi, rsi, rdx, r10, r8 and r9."""
_WITHIN_S, _POLL_S = 2.0, 0.000_05
_OPTIONS = 0x01 | 0x02 | 0x04 | 0x08 | 0x10
"""System call stops have a signal of their own; fork, vfork, clone and exec are followed."""
_WNOTHREAD, _WALL = 0x20000000, 0x40000000
_INFO = struct.Struct("=B3xIQQQ6Q")
"""op, architecture, instruction and stack pointer, then number and arguments of an entry."""
_X86_64 = 0xC000003E
_ENTRY = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """A system call that a thread is about to make."""

    number: int
    arguments: tuple[int, ...]


def seize(thread: int) -> None:
    """Traces a thread without stopping it. Errors: OSError (EPERM: it has a tracer, ESRCH)."""
    _ptrace(_SEIZE, thread, 0, _OPTIONS)


def interrupt(thread: int) -> None:
    """Makes a running thread stop with EVENT_STOP. Errors: OSError."""
    _ptrace(_INTERRUPT, thread)


def resume(thread: int, number: int = 0, *, calls: bool = True) -> None:
    """Lets a stopped thread run on; `number`: a signal to deliver; `calls`: up to its next entry to
    a system call or exit from one."""
    _ptrace(_SYSCALL if calls else _CONT, thread, 0, number)


def listen(thread: int) -> None:
    """Leaves a thread stopped by SIGSTOP, until SIGCONT."""
    _ptrace(_LISTEN, thread)


def detach(thread: int, number: int = 0) -> None:
    """Ends the trace of a stopped thread, which goes on."""
    _ptrace(_DETACH, thread, 0, number)


def set_word(thread: int, offset: int, value: int) -> None:
    """Writes a register of a stopped thread."""
    _ptrace(_POKEUSER, thread, offset, value)


def word(thread: int, offset: int) -> int:
    """A register of a stopped thread."""
    # glibc returns the word itself, and says by errno whether -1 is one.
    ctypes.set_errno(0)
    value = int(_libc().ptrace(_PEEKUSER, thread, offset, 0))
    if value == -1 and ctypes.get_errno():
        _raise(ctypes.get_errno())
    return value & (1 << 64) - 1


def entry(thread: int) -> Entry | None:
    """The call that a thread in a system call stop is entering; None as it leaves one, and for
    programs of 32 bits, whose numbers are others."""
    data = ctypes.create_string_buffer(_INFO.size + 8)
    _ptrace(_GET_SYSCALL_INFO, thread, len(data), ctypes.addressof(data))
    op, machine, _, _, number, *arguments = _INFO.unpack_from(data)
    return Entry(number, tuple(arguments)) if op == _ENTRY and machine == _X86_64 else None


def wait(thread: int = -1, *, block: bool = True) -> tuple[int, int] | None:
    """The next stop or exit of a tracee of this thread, or of that one: (thread, status).

    None if a signal came, or there is none yet and it may not block. Errors: ChildProcessError if
    this thread traces nothing.
    """
    status = ctypes.c_int()
    flags = _WALL | _WNOTHREAD | (0 if block else os.WNOHANG)
    tracee = _libc().waitpid(thread, ctypes.byref(status), flags)
    if tracee > 0:
        return tracee, status.value
    if tracee < 0 and ctypes.get_errno() != errno.EINTR:
        _raise(ctypes.get_errno())
    return None


def interruptible(number: signal.Signals) -> None:
    """From now on a signal does nothing but end a `wait` of the thread that it is sent to.

    Its handler is C's `abs`, because a Python handler would also wake the agent's main loop, which
    takes every signal for the order to leave.
    """
    libc = _libc()
    libc.signal(number, ctypes.cast(libc.abs, ctypes.c_void_p))
    libc.siginterrupt(number, 1)


class Stopped:
    """A thread of another process that is stopped, to make system calls of our choice.

    Then it goes on as if nothing had been: a call in which it was interrupted is made again.
    """

    def __init__(self, thread: int, instruction: int) -> None:
        """instruction: address of a `syscall` in its memory. Errors: OSError."""
        self._thread, self._instruction = thread, instruction
        self._came: list[int] = []
        _ptrace(_SEIZE, thread, 0, _SYSTEM_CALL_STOPS)
        try:
            interrupt(thread)
            self._until_event()
            self._kept = self._registers()
        except BaseException:
            detach(thread)
            raise

    def call(self, number: int, *arguments: int) -> int:
        """Makes one system call; its result, negative for an error. Errors: OSError."""
        registers = list(self._kept)
        registers[_RAX], registers[_ORIG_RAX] = number, (1 << 64) - 1
        registers[_RIP] = self._instruction
        for place, value in zip(_ARGUMENTS, (*arguments, 0, 0, 0, 0, 0, 0), strict=False):
            registers[place] = value
        self._set(registers)
        for _ in ("entry", "exit"):
            self._until_call()
        result = self._registers()[_RAX]
        # Only from a stop for a signal or an event does the kernel look at interrupted calls.
        interrupt(self._thread)
        resume(self._thread, calls=False)
        self._until_event()
        return result - (1 << 64) if result >> 63 else result

    def close(self) -> None:
        """Lets it go on where it was. Errors: OSError."""
        self._set(self._kept)
        first, *others = self._came or [0]
        detach(self._thread, first)
        for number in others:
            os.kill(self._thread, number)

    def _until_call(self) -> None:
        """Runs up to the next entry to a system call, or exit from one."""
        resume(self._thread)
        while self._stop() != (SYSCALL_STOP, 0):
            resume(self._thread)

    def _until_event(self) -> None:
        while self._stop()[1] != EVENT_STOP:
            resume(self._thread, calls=False)

    def _stop(self) -> tuple[int, int]:
        """The next stop: its signal and event. Signals of others are kept until the end."""
        deadline = time.monotonic() + _WITHIN_S
        while (stop := wait(self._thread, block=False)) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"thread {self._thread} did not stop within {_WITHIN_S} s")
            time.sleep(_POLL_S)
        status = stop[1]
        if not os.WIFSTOPPED(status):
            raise ProcessLookupError(f"thread {self._thread} has exited")
        number, event = os.WSTOPSIG(status), status >> 16
        if not event and number != SYSCALL_STOP:
            self._came.append(number)
        return number, event

    def _registers(self) -> tuple[int, ...]:
        data = ctypes.create_string_buffer(_REGISTERS.size)
        _ptrace(_GET_REGISTERS, self._thread, 0, ctypes.addressof(data))
        return _REGISTERS.unpack(data.raw)

    def _set(self, registers: Sequence[int]) -> None:
        data = ctypes.create_string_buffer(_REGISTERS.pack(*registers), _REGISTERS.size)
        _ptrace(_SET_REGISTERS, self._thread, 0, ctypes.addressof(data))


def unsupported() -> str | None:
    """Why this machine cannot trace at all, or None."""
    machine = os.uname().machine
    if sys.platform != "linux" or machine != "x86_64":
        return f"system calls are traced on x86-64 Linux only, not on {sys.platform} {machine}"
    return None


def _ptrace(request: int, thread: int, address: int = 0, data: int = 0) -> None:
    if _libc().ptrace(request, thread, address, data) < 0:
        _raise(ctypes.get_errno())


def _raise(number: int) -> NoReturn:
    raise OSError(number, os.strerror(number))


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.restype = ctypes.c_long
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_ulong, ctypes.c_ulong)
    libc.waitpid.argtypes = (ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.c_int)
    libc.signal.restype = ctypes.c_void_p
    libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    return libc
