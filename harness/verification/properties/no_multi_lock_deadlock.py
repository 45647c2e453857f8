"""What proves findings of no-multi-lock-deadlock, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners
from holdfast.harness.verification.rule import ANY, ASK, OK, Rule, known, knows

RULES: dict[str, Rule] = {
    "multi-lock-deadlock": Rule(
        kinds=("multi-lock-deadlock",),
        lock="waiter1",
        roles={"waiter*": (ASK, ANY), "waiting*": ("waiting", OK), **known("holder*")},
        states=("from_ns", "to_ns"),
        where=(
            "ring(roles)",
            "waiting*.attempt == waiter*.attempt",
            "waiter*.mode != 2",
            "conflict(waiter*, holder*)",
            *knows("holder*"),
            "whole_wait(roles, from_ns, to_ns)",
        ),
        values={"holder*_held": "held_until(holder*)", "waiter*_waited": "waited_until(waiter*)"},
        facts=(
            "broken_within < to_ns - from_ns",
            "waiting*.t_inv + slack <= from_ns",
            "holder*_known.t_ret + slack <= from_ns",
            "to_ns + slack <= holder*_held",
            "to_ns + slack <= waiter*_waited",
        ),
        assumes=("bound",),
    ),
}
PATTERNS: Mapping[str, OwnerPattern] = {
    "no-multi-lock-deadlock/undetected-cycle/any": OwnerPattern(
        ("waiter", "other"), Owners.waits_in_cycle, near=Owners.near_answer
    ),
}
