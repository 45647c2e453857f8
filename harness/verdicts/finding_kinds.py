"""Kinds of findings, one row each, read by all that ask for one: `finding_kinds.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of finding: its words, what goes wrong, and which lost row could explain it."""

    name: str
    means: str
    remedy: str
    mechanism: str = ""
    lost_row: str = ""


KINDS = {
    name: Kind(**row)
    for name, row in tomllib.loads(
        Path(__file__).with_name("finding_kinds.toml").read_text()
    ).items()
}


def of_mechanism(mechanism: str) -> tuple[str, ...]:
    """The kinds of one mechanism."""
    return tuple(name for name, kind in KINDS.items() if kind.mechanism == mechanism)


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
