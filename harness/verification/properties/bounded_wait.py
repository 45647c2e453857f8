"""What proves findings of bounded-wait, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners, queue
from holdfast.harness.verification.rule import ASK, OK, Rule

_OVERTAKEN = ("in_its_place(a, waiting)", "in_token_order(a)")
_QUEUE = {"allowed": "allowed('overtaken')", "ahead": "ahead(a, waiting)"}
RULES: dict[str, Rule] = {
    "beyond-queue/counted": Rule(
        kinds=("beyond-queue",),
        lock="a",
        roles={"a": (ASK, OK), "waiting": ("waiting", OK), "by*": (ASK, OK)},
        where=(
            *_OVERTAKEN,
            "met(by*, a)",
            "by*.process != a.process",
            "by*.mode == a.mode",
            "anew(by*)",
            "several_tokens(roles)",
        ),
        values=_QUEUE,
        facts=(
            "ahead + allowed < count(roles)",
            "-1 < by*.token",
            "by*.token < a.token",
            "waiting.t_inv + slack < by*.t_inv",
        ),
        assumes=("ordered tokens",),
    ),
    "beyond-queue/tokens": Rule(
        kinds=("beyond-queue",),
        lock="a",
        roles={"a": (ASK, OK), "waiting": ("waiting", OK), "first": (ASK, OK)},
        where=(
            *_OVERTAKEN,
            "first.key == a.key",
            "first.process != a.process",
            "first.mode == a.mode",
            "anew(first)",
        ),
        values={**_QUEUE, "passed": "passed(a, first)"},
        facts=(
            "ahead + allowed < passed",
            "-1 < first.token",
            "first.token < a.token",
            "waiting.t_inv + slack < first.t_inv",
        ),
        assumes=("ordered tokens",),
    ),
}
PATTERNS: Mapping[str, OwnerPattern] = {
    "bounded-wait/served-out-of-turn/any": queue(Owners.beyond_queue),
}
