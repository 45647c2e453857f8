"""What proves findings of bounded-bypass, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners, queue
from holdfast.harness.verification.rule import Rule, overtaking
from holdfast.harness.verification.stroke_opportunities import LED, StrokePattern, Strokes

RULES: dict[str, Rule] = {"overtaken": overtaking("overtaken", "by*.mode == a.mode")}
PATTERNS: Mapping[str, StrokePattern | OwnerPattern] = {
    "bounded-bypass/new-leader-reorders/crash": StrokePattern(
        ("waiter", "later"), LED, Strokes.requeued
    ),
    "bounded-bypass/served-out-of-turn/any": queue(Owners.both_waited),
}
