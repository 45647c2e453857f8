"""What the service's answers mean to a caller, and how a caller's terms are put to it."""

from __future__ import annotations

from holdfast.clusters.systems.reference.wire import Frame
from holdfast.harness.events import PLAIN, Status, Terms

MEANING: dict[str, Status] = {
    "granted": Status.OK,
    "renewed": Status.OK,
    "released": Status.OK,
    "in-force": Status.OK,
    "forced": Status.OK,
    "not-in-force": Status.FAIL,
    "held": Status.FAIL,
    "changed": Status.FAIL,
    "deadlock": Status.FAIL,
    "timed-out": Status.FAIL,
    "cancelled": Status.FAIL,
    "dropped": Status.FAIL,
    "session-ended": Status.FAIL,
    "never-sent": Status.FAIL,
    "bad-request": Status.FAIL,
    "too-many-requests": Status.FAIL,
    "not-holder": Status.NOT_OWNER,
}
"""What the service says -> what it means. All else ("unanswered", "stale" ...) is INFO."""


def said(terms: Terms) -> Frame:
    """The part of an acquire that says on what terms: what is not plain, nothing if all is."""
    if terms is PLAIN:
        return {}
    names = Terms.__dataclass_fields__
    given = {name: getattr(terms, name) for name in names}
    unlike = {n: int(v) if n == "mode" else v for n, v in given.items() if v != getattr(PLAIN, n)}
    return {"terms": unlike} if unlike else {}
