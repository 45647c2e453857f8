"""What proves findings of no-stale-write, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners
from holdfast.harness.verification.rule import ASK, OK, SERVED, Rule

RULES: dict[str, Rule] = {
    "stale-accepted-write/time": Rule(
        kinds=("stale-accepted-write",),
        lock="request",
        roles={
            "old": (ASK, OK),
            "new": (ASK, OK),
            "admitted": (SERVED, OK),
            "request": ("served-write", OK),
        },
        where=(
            "conflict(old, new)",
            "request.attempt == old.attempt",
            "admitted.attempt == new.attempt",
            "admitted.key == request.key",
            "logged(admitted, request)",
        ),
        facts=("old.t_ret + error <= new.t_inv",),
    ),
}
RULES["stale-accepted-write/tokens"] = Rule(
    kinds=("stale-accepted-write",),
    lock="request",
    roles=RULES["stale-accepted-write/time"].roles,
    where=(*RULES["stale-accepted-write/time"].where, "in_token_order(old)"),
    facts=("-1 < old.token", "old.token < new.token", "old.t_inv < new.t_ret + error"),
    assumes=("ordered tokens",),
)
PATTERNS: Mapping[str, OwnerPattern] = {
    "no-stale-write/unchecked-token/any": OwnerPattern(("owner", "request"), Owners.stale),
}
