"""A client's process that forks while it holds, and whose child exits or lives on.

Models
    A worker that a library, a web server or `os.fork` makes of a process with open connections. The
    child has a copy of the lock client and shares its sockets; it never requests a lock. how=exit:
    it drops them and exits as an interpreter does, with all finalizers; how=close: it closes the
    client first, as leaving a `with` around it does; how=stay: it keeps all for the fault's length.
    Threads of a library are not forked. By default at the holder.
Needs
    order: a client over a blocking library. A child of a running event loop would share what its
    parent waits on, and a user's client program cannot be forked: reported as not exercised.
Heals
    The child is killed at the end of the fault, if it still runs. Its parent records its pid and
    exit; if the parent is killed before, the fault counts as not observed.
"""

from __future__ import annotations

from holdfast.harness.client.forking import HOW
from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.client_fault import InTheProcess
from holdfast.nemesis.options import one_of

TRAITS = Traits(in_client=True, simulator=NOT_SIMULATED)
NEMESIS = InTheProcess(name="fork", traits=TRAITS, usual="holder", known={"how": one_of(*HOW)})
