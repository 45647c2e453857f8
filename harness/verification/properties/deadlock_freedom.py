"""What proves findings of deadlock-freedom, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from holdfast.harness.verification.owner_opportunities import WAITED, OwnerPattern, Owners, after
from holdfast.harness.verification.rule import Rule, refused, refused_in_part

RULES: dict[str, Rule] = {
    "deadlock": refused("deadlock", "acquire|probe"),
    "deadlock/part": refused_in_part("deadlock", "acquire|probe"),
}
PATTERNS: Mapping[str, OwnerPattern] = {
    "deadlock-freedom/not-handed-on/any": after(partial(Owners.passed_on, of=WAITED)),
    "deadlock-freedom/never-ends/any": after(partial(Owners.passed_on_silent, of=WAITED)),
}
