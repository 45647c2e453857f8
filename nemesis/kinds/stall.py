"""One thread of a client that stands still while the rest of its process runs.

Models
    A blocking call on an event loop, a long computation under the interpreter's lock: the thread in
    which the client's calls are made does nothing for the fault's length. Threads by which a
    library renews or listens go on.
Needs
    order: a client that runs.
Heals
    By itself, when its time is over.
"""

from __future__ import annotations

from holdfast.nemesis.client_fault import InTheProcess

NEMESIS = InTheProcess(name="stall")
