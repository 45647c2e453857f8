"""The mode as the driver sees it.

Promises: what the reference service promises; and that a lock whose holder's session died is closed
    for the lock-delay, so that what the dead one had sent can arrive before anybody else is let in.
Does not promise: anything by the delay about requests that take longer than it; the sequencer is
    there for those.
Tested with: what the reference service is tested with, and owners that die holding.
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
        "token enforcement": "a sequencer names lock, mode and generation; the resource compares"
        " generations, and the service says whether a sequencer is in force",
        "consequence": "a lock whose holder's session died is closed for the lock-delay",
    },
)
