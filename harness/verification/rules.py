"""The rules by which a certificate proves a finding: data, read by the judge and by the verifier.

A rule names its witnesses (roles), what kind of row each has to be, the conditions between them
that the verifier looks up in the recorded rows (`where`), and the inequalities (`facts`) whose two
sides stand in the certificate as numbers. `values` are numbers that one row alone does not show:
the checker states them, the verifier derives them anew. A role that ends in "*" stands for
several, numbered from 1; each fact or condition about it is meant of every one of them.

X_known is the row by which X was surely granted: its acquire, or what proves it. X_proof is the row
whose call shows that X still held then: a renewal or release that was answered ok and is declared
to prove it, or its own acquire, which was not granted before it was called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import CodeType
from typing import Any

ASK, OK, ANY = "acquire|try|probe", "ok", "ok|fail|info|not-owner|invoked"
SURE = f"{ASK}|renew|release"
SERVED = "served-write|served-read"

OPS = {
    "acquire": 1, "try": 2, "renew": 3, "release": 4, "waiting": 5, "lost": 6, "closed": 7,
    "force-unlock": 8, "heartbeat": 9, "read": 10, "write": 11, "served-read": 12,
    "served-write": 13, "probe": 14, "holder": 15, "place": 16, "check": 17,
}  # fmt: skip
FACT = re.compile(r"(.+?) (<=|<|==) (.+)")
STATUSES = {"invoked": 1, "ok": 2, "fail": 3, "info": 4, "not-owner": 5}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One way to prove findings of some kinds. `lock` is the role whose key the finding names."""

    kinds: tuple[str, ...]
    lock: str
    roles: Mapping[str, tuple[str, str]]
    facts: tuple[str, ...]
    where: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    assumes: tuple[str, ...] = ()


def _sides(*names: str) -> dict[str, tuple[str, str]]:
    """The roles of grants: each with the row by which it is known, and the row that proves it."""
    found = {}
    for name in names:
        found[name] = (ASK, "ok|info|invoked")
        found[name + "_known"] = (SURE, OK)
        found[name + "_proof"] = (SURE, ANY)
    return found


def _known(*names: str) -> dict[str, tuple[str, str]]:
    return {role: of for role, of in _sides(*names).items() if not role.endswith("_proof")}


def _knows(*names: str) -> tuple[str, ...]:
    return tuple(f"knows({name}, {name}_known)" for name in names)


def _proves(*names: str) -> tuple[str, ...]:
    return tuple(f"proves({name}, {name}_proof)" for name in names)


_IN_TIME = ("newer_known.t_ret + slack < older_reach", "older_known.t_ret + slack < newer_reach")
_REACHES = {"older_reach": "reach(older)", "newer_reach": "reach(newer)"}
_PAIR = ("conflict(older, newer)", *_knows("older", "newer"))

RULES: dict[str, Rule] = {
    "double-grant": Rule(
        kinds=("double-grant",),
        lock="older",
        roles=_sides("older", "newer"),
        where=(*_PAIR, *_proves("older", "newer")),
        facts=(
            "newer_known.t_ret + slack < older_proof.t_inv",
            "older_known.t_ret + slack < newer_proof.t_inv",
        ),
    ),
    "broken-lease": Rule(
        kinds=("broken-lease",),
        lock="older",
        roles=_known("older", "newer"),
        where=(*_PAIR, "bound != 'none'"),
        values=_REACHES,
        facts=_IN_TIME,
        assumes=("bound",),
    ),
    "double-holder": Rule(
        kinds=("double-holder",),
        lock="older",
        roles=_known("older", "newer"),
        where=(*_PAIR, "bound == 'none'"),
        values=_REACHES,
        facts=_IN_TIME,
        assumes=("bound",),
    ),
    "token-inversion": Rule(
        kinds=("token-inversion",),
        lock="second",
        roles={**_known("first"), **_sides("second")},
        where=(
            *_knows("first", "second"),
            *_proves("second"),
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
        roles=_known("first", "second"),
        where=(
            *_knows("first", "second"),
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
        roles=_known("first", "second"),
        where=(*_knows("first", "second"), "apart(first, second)"),
        facts=(
            "-1 < first_known.token",
            "first_known.token == second_known.token",
        ),
        assumes=("unique tokens",),
    ),
    "token-repeated/order": Rule(
        kinds=("token-repeated",),
        lock="second",
        roles=_known("first", "second"),
        where=(*_knows("first", "second"), "conflict(first, second)"),
        facts=(
            "-1 < first_known.token",
            "first_known.token == second_known.token",
            "first_known.t_ret + slack < second.t_inv",
        ),
    ),
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

ROW_FIELDS = ("f", "status", "attempt", "token", "t_inv", "t_ret", "arg", "res")
"""Of each witness what the certificate repeats, besides its writer and its number there."""


def assumed(rule: Rule, roles: Mapping[str, Any]) -> tuple[str, ...]:
    """What a certificate leans on: what its rule says, and what the rows that prove it have to."""
    found = list(rule.assumes)
    for name, row in roles.items():
        if name.endswith(("_known", "_proof")) and row.f in (OPS["renew"], OPS["release"]):
            found.append("renew_proves" if row.f == OPS["renew"] else "release_proves")
    return tuple(dict.fromkeys(found))


def each_of(text: str, roles: Mapping[str, Any]) -> Sequence[str]:
    """A condition for each of the numbered roles that it is about; else by itself."""
    names = re.findall(r"(\w+)\*", text)
    if not names:
        return (text,)
    count = sum(re.fullmatch(names[0] + r"\d+", role) is not None for role in roles)
    return [text.replace("*", str(n + 1)) for n in range(count)]


def facts_of(rule: Rule, roles: Mapping[str, Any], names: Mapping[str, Any]) -> list[list[Any]]:
    """Each inequality of a rule with its two numbers: [left, sign, right, number, number]."""
    facts = []
    for text in (each for fact in rule.facts for each in each_of(fact, roles)):
        found = FACT.fullmatch(text)
        assert found, f"{text} is no fact"
        left, sign, right = found.groups()
        facts.append([left, sign, right, int(valued(left, names)), int(valued(right, names))])
    return facts


def valued(text: str, names: Mapping[str, Any]) -> Any:
    """What an expression of a rule comes to; certificates have none of their own."""
    return eval(_compiled(text), {"__builtins__": {}}, dict(names))  # the table above, no input


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "rule", "eval")
