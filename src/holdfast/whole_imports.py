"""Imports that ^C does not end in the middle. It imports little itself: it is loaded first."""

from __future__ import annotations

import importlib
import signal
import threading
from types import FrameType, ModuleType


def loaded(name: str) -> ModuleType:
    """A module. ^C meanwhile waits for its end: in the middle Python prints a traceback, or
    swallows it in a callback. A second ^C is raised at once.

    In the main thread only, and only where ^C raises KeyboardInterrupt.
    """
    usual, asked = signal.default_int_handler, False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, usual)

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not usual:
        return importlib.import_module(name)
    signal.signal(signal.SIGINT, ask)
    try:
        module = importlib.import_module(name)
    finally:
        signal.signal(signal.SIGINT, usual)
    if asked:
        raise KeyboardInterrupt
    return module
