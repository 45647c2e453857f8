"""Calls that their own caller cancels while they run: a timeout, a closed request, a shutdown.

Models
    `asyncio.wait_for`, a web framework that drops a request: a running call of the client is
    cancelled (count=1 per fault) when it has lasted after=1ms. The caller then releases what it may
    have got; if the release was cancelled, it repeats it once.
Needs
    order: a client over a library of coroutines; a call of a blocking library cannot be cancelled
    and is reported as not exercised.
Heals
    Calls that have not been cancelled by then are not cancelled.
"""

from __future__ import annotations

from holdfast.nemesis.client_fault import InTheProcess

NEMESIS = InTheProcess(name="cancel", simulated=True)
