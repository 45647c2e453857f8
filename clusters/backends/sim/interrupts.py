"""Ends a simulated run at ^C between two of its steps, where every coroutine can be ended."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def between_steps(before_next: Callable[[Callable[[], None]], None]) -> Iterator[None]:
    """The first ^C raises KeyboardInterrupt between two steps: raised inside a coroutine, it would
    leave all others in the middle, which Python reports at its end, one by one. A second ^C is
    raised at once, for a step that does not end; once the run is being ended there is no other.

    before_next   has something done before the next step

    In the main thread only, and only where ^C raises KeyboardInterrupt.
    """
    usual = signal.default_int_handler
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return
    asked = False

    def ask(number: int, frame: object) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, usual)
        before_next(end)

    def end() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, ask)
    try:
        yield
        if asked:  # After the last step.
            raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGINT, usual)
