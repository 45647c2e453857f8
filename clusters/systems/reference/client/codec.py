"""Translates the service's responses to the harness's answers, and terms to requests."""

from __future__ import annotations

from holdfast.clusters.systems.reference.wire.frames import Frame
from holdfast.harness.core.operations import NO_TOKEN, PLAIN, Answer, Status, Terms
from holdfast.harness.core.ports import Queried

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
"""Response of the service -> what it means. All others ("unanswered", "stale" ...) are INFO."""


def meant(answer: Frame) -> Answer:
    """The service's response as an answer of the harness."""
    word = str(answer["is"])
    outcome = MEANING.get(word, Status.INFO)
    detail = answer.get("reason") or answer.get("why") or answer.get("newest")
    return Answer(
        outcome=outcome,
        token=answer.get("token", NO_TOKEN) if outcome is Status.OK else NO_TOKEN,
        ttl_ns=answer.get("ttl_ns", 0) if outcome is Status.OK else 0,
        left=answer.get("left", -1),
        error="" if outcome is Status.OK else f"{word}: {detail}" if detail else word,
    )


def described(answer: Frame, *, leases: bool) -> Queried:
    """A holder query's response. leases: a hold has its own lease, not its session's."""
    if answer["is"] not in ("free", "held-by"):
        return Queried(outcome=Status.INFO, error=str(answer["is"]))
    return Queried(
        outcome=Status.OK,
        token=answer.get("token", NO_TOKEN),
        renewals=answer.get("renewals", 0),
        place=answer["place"],
        length=answer["length"],
        owner=answer.get("owner", ""),
        metadata=answer.get("metadata", ""),
        held_ns=answer.get("held_ns"),
        left_ns=answer.get("left_ns") if leases else None,
    )


def said(terms: Terms) -> Frame:
    """The part of an acquire request with its terms; empty for the defaults."""
    if terms is PLAIN:
        return {}
    names = Terms.__dataclass_fields__
    given = {name: getattr(terms, name) for name in names}
    unlike = {n: int(v) if n == "mode" else v for n, v in given.items() if v != getattr(PLAIN, n)}
    return {"terms": unlike} if unlike else {}
