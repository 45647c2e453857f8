"""A client's process that forks while it holds, and whose child ends or lives on.

Models
    A worker that a library, a web server or `os.fork` makes of a process with open connections. The
    child has a copy of the lock client and shares its sockets; it never asks for a lock. how=exit:
    it drops them and ends as an interpreter does, with all finalizers; how=close: it closes the
    client first, as leaving a `with` around it does; how=stay: it keeps all for the fault's length.
    Threads of a library are not forked. By default at the holder.
Needs
    order: a client over a blocking library. A child of a running event loop would share what its
    parent waits on, and a client program of its user is not ours to fork: shown as not exercised.
Heals
    The child is ended when the fault is over, if it has not by then; its pid and its end are kept
    by its parent: where that is killed before, the fault counts as not seen.
"""

from __future__ import annotations

from holdfast.harness.client.forking import HOW
from holdfast.nemesis.client_fault import InTheProcess
from holdfast.nemesis.options import one_of

NEMESIS = InTheProcess(name="fork", usual="holder", known={"how": one_of(*HOW)})
