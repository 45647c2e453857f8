"""^C at any moment: never lost, never in the middle of an import, and with words.

It imports little itself: it is loaded first.
"""

from __future__ import annotations

import _thread
import importlib
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from holdfast.harness.runs.signals import deferred

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

AGAIN_S = 0.01


def loaded(name: str) -> ModuleType:
    """A module. ^C meanwhile waits for its end: in the middle Python prints a traceback, or
    swallows it in a callback."""
    with deferred():
        return importlib.import_module(name)


def never_lost() -> None:
    """From now on ^C comes again where Python drops what is raised: in a destructor, or in a
    callback of the garbage collector. SIGTERM is as ^C, unless what started us ignores one
    of them: in the background of a script SIGTERM ends us at once.

    For a program, in its main thread.
    """
    others = sys.unraisablehook

    def dropped(what: UnraisableHookArgs) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt):
            others(what)
            return
        # Later, because what is raised in this call is dropped too.
        again = threading.Timer(AGAIN_S, _thread.interrupt_main)
        again.daemon = True
        again.start()

    sys.unraisablehook = dropped
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if raises and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, frame: _thread.interrupt_main())


@contextmanager
def saying(words: str) -> Iterator[None]:
    """A KeyboardInterrupt from inside gets these words, unless it has some already: the innermost
    knows best. The command line prints them (`commands.main`)."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if stop.args:
            raise
        raise KeyboardInterrupt(words) from stop
