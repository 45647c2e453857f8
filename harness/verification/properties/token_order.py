"""What proves findings of token-order, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners
from holdfast.harness.verification.rule import Rule, known, knows, proves, sides
from holdfast.harness.verification.stroke_opportunities import (
    DECIDERS,
    LEADER,
    MINORITY,
    SECOND,
    StrokePattern,
    Strokes,
    numbered,
)

RULES: dict[str, Rule] = {
    "token-inversion": Rule(
        kinds=("token-inversion",),
        lock="second",
        roles={**known("first"), **sides("second")},
        where=(
            "tokens != 'none'",
            *knows("first", "second"),
            *proves("second"),
            "in_turn(first, second, second_proof)",
        ),
        facts=(
            "-1 < second_known.token",
            "second_known.token < first_known.token",
            "first_known.t_ret + slack < second_proof.t_inv",
        ),
    ),
    "token-inversion/lease": Rule(
        kinds=("token-inversion",),
        lock="second",
        roles=known("first", "second"),
        where=(
            "tokens != 'none'",
            *knows("first", "second"),
            "conflict(first, second)",
            "disjoint(second)",
            "promised('mutual-exclusion')",
        ),
        values={"second_reach": "reach(second)"},
        facts=(
            "-1 < second_known.token",
            "second_known.token < first_known.token",
            "first_known.t_ret + slack < second_reach",
        ),
        assumes=("bound",),
    ),
    "token-repeated/unique": Rule(
        kinds=("token-repeated",),
        lock="second",
        roles=known("first", "second"),
        where=("tokens != 'none'", *knows("first", "second"), "apart(first, second)"),
        facts=(
            "-1 < first_known.token",
            "first_known.token == second_known.token",
        ),
        assumes=("unique tokens",),
    ),
    "token-repeated/order": Rule(
        kinds=("token-repeated",),
        lock="second",
        roles=known("first", "second"),
        where=("tokens != 'none'", *knows("first", "second"), "conflict(first, second)"),
        facts=(
            "-1 < first_known.token",
            "first_known.token == second_known.token",
            "first_known.t_ret + slack < second.t_inv",
        ),
    ),
    "token-repeated/anew": Rule(
        kinds=("token-repeated",),
        lock="second",
        roles=known("first", "second"),
        where=(
            "tokens != 'none'",
            *knows("first", "second"),
            "met(first, second)",
            "first.process == second.process",
            "first.mode == 0",
            "second.mode == 0",
            "second.status == 2",
            "first.at != second.at",
            "anew(second)",
        ),
        facts=(
            "-1 < first_known.token",
            "first_known.token == second_known.token",
            "first.t_inv <= second.t_inv",
        ),
    ),
}
PATTERNS: Mapping[str, StrokePattern | OwnerPattern] = {
    "token-order/counter-restarts/crash": numbered(DECIDERS, Strokes.renumbered),
    "token-order/unsynced-counter/crash": numbered(DECIDERS, Strokes.renumbered, SECOND),
    "token-order/new-leader-counts/crash": numbered(LEADER, Strokes.renumbered),
    "token-order/too-few-votes/crash": numbered(MINORITY, Strokes.renumbered),
    "token-order/out-of-order/any": OwnerPattern(
        ("before", "after"), Owners.numbered, near=Owners.near_answer
    ),
}
