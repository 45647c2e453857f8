"""What proves findings of no-lost-update, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners, served
from holdfast.harness.verification.rule import OK, Rule

RULES: dict[str, Rule] = {}
_LOST = {"lost": ("served-write", OK), "over": ("served-write", OK)}
RULES["lost-update/passed"] = Rule(
    kinds=("lost-update",),
    lock="lost",
    roles=_LOST,
    where=("lost.key == over.key", "missing(lost)"),
    values={"over_base": "base(over)"},
    facts=("over_base < lost.res", "lost.res < over.res"),
)
RULES["lost-update/again"] = Rule(
    kinds=("lost-update",),
    lock="lost",
    roles=_LOST,
    where=("lost.key == over.key", "missing(lost)", "logged(lost, over)", "lost.op != over.op"),
    facts=("over.res <= lost.res",),
)
PATTERNS: Mapping[str, OwnerPattern] = {
    "no-lost-update/old-version/any": served(Owners.outdated_update),
}
