"""What proves findings of grant-notice, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners
from holdfast.harness.verification.rule import ASK, OK, Rule

RULES: dict[str, Rule] = {
    # A waiter that is notified of its grant later than a holder query returns it.
    "late-grant-notice": Rule(
        kinds=("late-grant-notice",),
        lock="a",
        roles={"a": (ASK, "ok|info"), "waiting": ("waiting", OK), "named": ("holder", OK)},
        where=(
            "waiting.attempt == a.attempt",
            "named.key == a.key",
            "alone_with_token(a)",
            "not entered_unknown(a, named)",
            "undisturbed(a, named.t_ret, limit)",
        ),
        facts=(
            "0 < limit",
            "-1 < a.token",
            "named.token == a.token",
            "named.t_ret + slack + limit < a.t_ret",
        ),
    ),
}
PATTERNS: Mapping[str, OwnerPattern] = {
    "grant-notice/late-word/any": OwnerPattern(
        ("waiter", "named"), Owners.named, near=Owners.near_answer
    ),
}
