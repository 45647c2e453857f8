"""A child that a client's process makes of itself, and what it does with all that it inherited.

The child is forked where the client's calls are made, so that nothing of the library is under way.
It never comes back from here, and records nothing: what it shares with its parent is the library's
own, connections above all. Standard library only.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from holdfast.harness.core.clock import SECOND

EXIT, CLOSE, STAY = "exit", "close", "stay"
HOW: tuple[str, ...] = (EXIT, CLOSE, STAY)
"""How a child comes to its end: its interpreter's usual end, which drops what it inherited; it
closes the client first, as leaving a `with` block around it does; it keeps all until its time is
over. The first where nothing is said."""


def fork(disown: Callable[[], Any], how: str, for_ns: int) -> int:
    """The pid of a child that ends as `how` says, and is ended after `for_ns` if it has not by
    then. In the child `disown` gives the lock client, and sees to it that nothing is recorded."""
    child = os.fork()
    if child == 0:
        _live(disown, how, for_ns)
    return child


def end(child: int) -> dict[str, Any]:
    """Waits for a child: its pid and what it came to, "exit 0" or "signal 14"."""
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return {"child": child, "end": f"exit {code}" if code >= 0 else f"signal {-code}"}


def _live(disown: Callable[[], Any], how: str, for_ns: int) -> NoReturn:
    """All of the child's life. Whatever is raised in it, it ends here."""
    code = 1
    try:
        # Unhandled, this ends a process also where it waits for a thread that was not forked.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, for_ns / SECOND)
        client = disown()
        if how == STAY:
            signal.pause()
        if how == CLOSE:
            client.close()
        # What an interpreter does when it ends, but for frames that are the parent's.
        atexit._run_exitfuncs()
        vars(client).clear()
        gc.collect()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
