"""The words for a finding: those of its kind, and of its cause."""

from __future__ import annotations

from holdfast.harness.verdicts.finding_kinds import KINDS, Kind

CAUSES: dict[str, tuple[str, str]] = {
    "foreign-release": (
        "foreign-release",
        "a client that did not hold the lock released it, which freed another client's hold; the"
        " next grant then met that hold:",
    ),
    "late-release": (
        "foreign-release",
        "a release returned ok after its lease may have expired; either it freed another client's"
        " hold, or",
    ),
}
"""Cause of a finding -> the kind of finding that the cause is itself, and the words for it."""


def kind(name: str, cause: str = "") -> Kind:
    """The entry of a kind of finding, or a generic one for an unknown kind.

    cause   of CAUSES: it is named first, and its remedy is shown
    """
    known = KINDS.get(name)
    if known and cause in CAUSES:
        own, first = CAUSES[cause]
        return Kind(name=KINDS[own].name, means=f"{first} {known.means}", remedy=KINDS[own].remedy)
    if known:
        return known
    title = name.replace("-", " ").strip() or "finding"
    return Kind(
        name=title[:1].upper() + title[1:],
        means="the recorded history contradicts the property",
        remedy="Read the events that prove it, in their order.",
    )
