"""What proves findings of orphan-freedom, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from holdfast.harness.verification.owner_opportunities import TRIED, OwnerPattern, Owners, after
from holdfast.harness.verification.rule import Rule, refused, refused_in_part

RULES: dict[str, Rule] = {
    "orphan": refused("orphan", "try|probe"),
    "orphan/part": refused_in_part("orphan", "try|probe"),
}
PATTERNS: Mapping[str, OwnerPattern] = {
    "orphan-freedom/kept-for-nobody/any": after(partial(Owners.passed_on, of=TRIED)),
    "orphan-freedom/kept-for-silent/any": after(partial(Owners.passed_on_silent, of=TRIED)),
}
