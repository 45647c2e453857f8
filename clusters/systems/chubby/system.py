"""Driver side of the Chubby mode of the reference service: promises and node commands.

Promises: the promises of the reference service; and a lock-delay: a lock whose holder's session
    expired is not granted until late requests of the dead client have had time to arrive.
Does not promise: protection by the lock-delay against requests that take longer than it; use the
    sequencer for those.
Tested with: the tests of the reference service, and owners that die while holding.
"""

from __future__ import annotations

from holdfast.clusters.systems.chubby.options import DEFAULTS
from holdfast.clusters.systems.reference.system import SHEET, ReferenceSystem

SYSTEM = ReferenceSystem(
    name="chubby",
    client="holdfast.clusters.systems.chubby.client:client",
    defaults=DEFAULTS,
    sheet={
        **SHEET,
        "lease": "a session kept alive by heartbeats; all its locks end with it",
        "renewal": "a heartbeat of the session, a command in the log",
        "token enforcement": "a sequencer contains lock, mode and generation; the resource compares"
        " generations, and the service checks whether a sequencer is in force",
        "consequence": "a lock whose holder's session expired is not granted during the lock-delay",
    },
)
