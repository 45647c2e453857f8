"""Calls that their own caller cancels while they run: a timeout, a closed request, a shutdown.

Models
    `asyncio.wait_for`, a web framework that drops a request: a running call of the client is
    cancelled (count=1 per fault) when it has lasted after=1ms. The caller then gives back what it
    may have got: it releases, and asks once more where it was the release that was cancelled.
Needs
    order: a client over a library of coroutines; a call of a blocking one cannot be cancelled, and
    is shown as not exercised.
Heals
    What has not been cancelled by then is left alone.
"""

from __future__ import annotations

from holdfast.nemesis.client_fault import InTheProcess

NEMESIS = InTheProcess(name="cancel", simulated=True)
