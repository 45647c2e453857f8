"""What proves findings of starvation-freedom, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners, queue
from holdfast.harness.verification.rule import Rule, overtaking, refused

_STORM = refused("livelock", "try")
RULES: dict[str, Rule] = {
    "starved": overtaking("starved"),
    "livelock": replace(
        _STORM,
        values={
            **_STORM.values,
            "tries": "tries(first, last)",
            "clients": "clients(first, last)",
            "later": "later(first, last)",
        },
        facts=(*_STORM.facts, "storm <= tries", "1 < clients", "tries <= 2 * later"),
    ),
}
PATTERNS: Mapping[str, OwnerPattern] = {
    "starvation-freedom/never-served/any": queue(Owners.starving),
}
