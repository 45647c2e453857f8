"""What proves findings of no-expired-write, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners
from holdfast.harness.verification.rule import ASK, OK, Rule

RULES: dict[str, Rule] = {}
_WRITE = {"owner": (ASK, "ok|info|invoked"), "request": ("served-write", OK)}
_LATE = ("request.attempt == owner.attempt", "settled(owner)", "outside(owner, request)")
for _how, _of, _where, _facts, _values in (
    ("answered", ("renew|release", "not-owner"), ("end.attempt == owner.attempt",), (), {}),
    ("released", ("release", OK), ("end.attempt == owner.attempt",), (), {}),
    ("told", ("lost", OK), ("ends_by(owner, end)",), (), {}),
    ("unlocked", ("force-unlock", OK), ("freed(owner, end)",), (), {}),
    (
        "passed",
        (ASK, OK),
        ("owner.status == 2", "conflict(owner, end)"),
        ("owner.t_ret + error <= end.t_inv", "owner_until < end.t_ret"),
        {"owner_until": "until(owner)"},
    ),
):
    RULES[f"expired-owner-write/{_how}"] = Rule(
        kinds=("expired-owner-write",),
        lock="request",
        roles={**_WRITE, "end": _of},
        where=(*_LATE, *_where, "unrenewed(owner, end.t_ret)"),
        values=_values,
        facts=("end.t_ret + error < request.t_inv", *_facts),
    )
RULES["expired-owner-write/lease"] = Rule(
    kinds=("expired-owner-write",),
    lock="request",
    roles=_WRITE,
    where=(*_LATE, "calm(owner)"),
    values={"over": "lapsed(owner)"},
    facts=("over + error < request.t_inv",),
    assumes=("bound",),
)
PATTERNS: Mapping[str, OwnerPattern] = {
    "no-expired-write/unchecked-end/any": OwnerPattern(("owner", "request"), Owners.expired),
}
