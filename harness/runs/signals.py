"""Signals of this process: those it inherits, and ^C where it must not be raised.

What nohup, `&` in a script or a runner of CI ignores or blocks is inherited, by every process
below: a server whose orderly shutdown is such a signal never stops. So that ends with us. A handler
is not inherited. What was ignored gets one that does nothing: to us it is as before, and all that
we start begins with the default.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Those by which people and programs end a process, or talk to it. Not the signals of terminals: to
# ignore them means something to the kernel.
TALKING = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGALRM,
)  # fmt: skip


def end_here() -> None:
    """Children of this process start with the default for each signal, and none is blocked.

    Call it first in what is started by others than us. Does nothing in another thread than the
    main one, where Python changes no handler.
    """
    if not _changeable():
        return
    for number in TALKING:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _nothing)
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else no exit code of a child is known
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def disregarded(number: int) -> bool:
    """Whether the process that started us ignores a signal, and so do we."""
    return signal.getsignal(number) in (signal.SIG_IGN, _nothing)


@contextmanager
def passed_on() -> Iterator[None]:
    """Children that start meanwhile ignore what we ignore, from the beginning. They are parts of
    this process that share its group: under nohup, the end of its terminal must end none of them.
    They call `end_here`.
    """
    numbers = [number for number in TALKING if signal.getsignal(number) is _nothing]
    numbers = numbers if _changeable() else []
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, _nothing)


@contextmanager
def deferred() -> Iterator[None]:
    """^C meanwhile is raised at the end, unless something else is; a second one at once.

    In the main thread only, and only where ^C raises KeyboardInterrupt.
    """
    usual, asked = signal.default_int_handler, False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, usual)

    if not _changeable() or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return
    signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if asked:
        raise KeyboardInterrupt


def _changeable() -> bool:
    return threading.current_thread() is threading.main_thread()


def _nothing(number: int, frame: FrameType | None) -> None: ...
