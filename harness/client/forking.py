"""Forks a child of a client process, which inherits the library's state, and ends it.

The child is forked in the thread that makes the client's calls, so that no call of the library is
in flight. It never returns from here, and records nothing: it shares the library's state with its
parent, above all connections. Standard library only.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import traceback
from collections.abc import Callable
from typing import NoReturn, Protocol, runtime_checkable

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.json_value import Json

EXIT, CLOSE, STAY = "exit", "close", "stay"
HOW: tuple[str, ...] = (EXIT, CLOSE, STAY)
"""How a child ends: by its interpreter's normal exit, which drops what it inherited; after it
closed the client, like leaving a `with` block around it; or it keeps everything until its time is
over. Default: the first."""


@runtime_checkable
class Closable(Protocol):
    """A client over a blocking library."""

    def close(self) -> None: ...


def fork(disown: Callable[[], object], how: str, for_ns: int) -> int:
    """The pid of a child that ends as `how` says, and is ended after `for_ns` if it has not by
    then. In the child `disown` returns the lock client and stops recording."""
    child = os.fork()
    if child == 0:
        _live(disown, how, for_ns)
    return child


def end(child: int) -> dict[str, Json]:
    """Waits for a child: its pid and its end, "exit 0" or "signal 14"."""
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return {"child": child, "end": f"exit {code}" if code >= 0 else f"signal {-code}"}


def _live(disown: Callable[[], object], how: str, for_ns: int) -> NoReturn:
    """The child's whole run. Any exception ends here."""
    code = 1
    try:
        # Unhandled, the signal ends a process even while it waits for a thread that was not forked.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, for_ns / SECOND)
        client = disown()
        if how == STAY:
            signal.pause()
        if how == CLOSE:
            assert isinstance(client, Closable)
            client.close()
        # What an interpreter does at exit, without unwinding the parent's frames.
        atexit._run_exitfuncs()
        vars(client).clear()
        gc.collect()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
