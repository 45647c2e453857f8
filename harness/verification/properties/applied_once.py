"""What proves findings of applied-once, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners, served
from holdfast.harness.verification.rule import OK, Rule

_TWICE = {"before": ("served-write", OK), "again": ("served-write", OK)}
RULES: dict[str, Rule] = {
    "applied-twice": Rule(
        kinds=("applied-twice",),
        lock="again",
        roles=_TWICE,
        where=("logged(before, again)",),
        facts=("before.op == again.op",),
    ),
}
PATTERNS: Mapping[str, OwnerPattern] = {
    "applied-once/applied-again/any": served(Owners.again),
}
