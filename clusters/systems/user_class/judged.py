"""How far a user's declarations let a hold be judged, in one sentence: what they cost."""

from __future__ import annotations

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.verdict import Promises

RENEWED = "an ok renewal or release proves it (proves)"


def judged(promises: Promises) -> str:
    """Within which span of a hold another grant is a violation."""
    bound = promises.bound
    proves = promises.renew_proves or promises.release_proves
    if bound == "none":
        until = "a hold is judged from its grant until its release is sent"
        seconds = promises.lapse_ns / SECOND
        length = f"for {seconds:g} s, or its lease if that is longer"
        lapses = f"; it is lost once another is granted it after nobody renewed it {length}"
        return until + (f"{lapses} (lapse_ms)" if promises.lapses else "")
    if bound == "lease" and proves:
        return f"a hold is judged from its grant to the end of its lease, and as far as {RENEWED}"
    if bound == "lease":
        return (
            "a hold is judged within the lease that its acquire was sent with; a renewal prolongs"
            " that only if it returns before the lease may end (proves = false)"
        )
    if not proves:
        return (
            f"no hold is judged: nothing tells when a {bound} ends (bound), and no ok renewal or"
            " release proves that it lasted (proves = false), so a second owner is no violation"
        )
    lasts = ""
    if bound == "session":
        seconds = promises.session_ns / SECOND
        length = f"{seconds:g} s, or the lease if it is longer" if seconds else "the lease"
        lasts = f"; that of a client that is gone may last {length} (session_ms)"
    return f"a hold is judged only as far as {RENEWED}: nothing tells when a {bound} ends{lasts}"
