"""What proves findings of no-false-rejection, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from holdfast.harness.verification.owner_opportunities import (
    TRIED,
    OwnerPattern,
    Owners,
    after,
    served,
)
from holdfast.harness.verification.rule import ASK, OK, SERVED, Rule

RULES: dict[str, Rule] = {
    "false-rejection": Rule(
        kinds=("false-rejection",),
        lock="request",
        roles={"owner": (ASK, OK), "request": (SERVED, "fail")},
        where=(
            "request.attempt == owner.attempt",
            "owner.mode == 0",
            "resource == 'fenced' or request.token != highest(request)",
        ),
        values={"owner_until": "until(owner)"},
        facts=(
            "owner.token == request.token",
            "owner.t_ret + error <= request.t_inv",
            "request.t_ret + error <= owner_until",
        ),
        assumes=("bound",),
    ),
}
# Rejections: shut_until is the end of the last reason that may have kept the lock closed.
RULES["spurious-refusal"] = Rule(
    kinds=("spurious-refusal",),
    lock="refused",
    roles={"refused": ("try", "fail")},
    where=("called_held(refused)", "session_lasted(refused)"),
    values={"shut_until": "shut_until(refused)"},
    facts=("shut_until + error < refused.t_inv",),
)
PATTERNS: Mapping[str, OwnerPattern] = {
    "no-false-rejection/refuses-free/any": after(partial(Owners.passed_on, of=TRIED)),
    "no-false-rejection/refuses-holder/any": served(Owners.of_holder),
}
