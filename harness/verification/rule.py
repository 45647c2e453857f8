"""The format of a rule, and the evaluation of its expressions; the rules are in `properties`.

X_known is the row that proves the grant of X: its acquire, or a later row. X_proof is the row whose
call shows that X still held then: a renewal or release that returned ok and is declared to prove
it, or its own acquire, which was not granted before it was called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    "length": 18, "arrived": 19,
}  # fmt: skip
FACT = re.compile(r"(.+?) (<=|<|==) (.+)")
GRANT = re.compile(r"newest|other\d+")
LIMITS = {"hang": 9_000_000_000, "storm": 10, "broken_within": 2_000_000_000}
"""Numbers that rules name: how late a request may return, number of rejected tries in a retry
storm, how long a wait-for cycle may last."""
STATUSES = {"invoked": 1, "ok": 2, "fail": 3, "info": 4, "not-owner": 5}


class Refused(Exception):
    """Why a certificate or an opportunity is not accepted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One way to prove findings of some kinds. `lock` is the role whose key the finding names.

    states   times that no row shows: the certificate states them, `where` determines them
    calls    of several kinds: per kind the op that its role `row` is
    """

    kinds: tuple[str, ...]
    lock: str
    roles: Mapping[str, tuple[str, str]]
    facts: tuple[str, ...]
    where: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    assumes: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    calls: Mapping[str, str] = field(default_factory=dict)


def sides(*names: str) -> dict[str, tuple[str, str]]:
    """The roles of grants: each with the rows that prove its grant and its hold."""
    found = {}
    for name in names:
        found[name] = (ASK, "ok|info|invoked")
        found[name + "_known"] = (SURE, OK)
        found[name + "_proof"] = (SURE, ANY)
    return found


def known(*names: str) -> dict[str, tuple[str, str]]:
    """The same without the row that proves its hold."""
    return {role: of for role, of in sides(*names).items() if not role.endswith("_proof")}


def knows(*names: str) -> tuple[str, ...]:
    """Conditions: each is certainly granted by the row named as X_known."""
    return tuple(f"knows({name}, {name}_known)" for name in names)


def proves(*names: str) -> tuple[str, ...]:
    """Conditions: each still held at the call of the row named as X_proof."""
    return tuple(f"proves({name}, {name}_proof)" for name in names)


TOKENS = {
    "time": (("{a}_known.t_ret + slack < {b}.t_inv",), (), ()),
    "tokens": (
        ("-1 < {a}_known.token", "{a}_known.token < {b}_known.token"),
        ("in_token_order({a})",),
        ("ordered tokens",),
    ),
}
"""How it proves that b was granted after a: (facts, where, assumes)."""


def in_order(prefix: str, a: str, b: str, rule: Rule) -> dict[str, Rule]:
    """The rule by times and by tokens."""
    return {
        f"{prefix}/{how}": replace(
            rule,
            facts=(*(fact.format(a=a, b=b) for fact in facts), *rule.facts),
            where=(*rule.where, *(each.format(a=a) for each in where)),
            assumes=(*rule.assumes, *assumes),
        )
        for how, (facts, where, assumes) in TOKENS.items()
    }


def overtaking(kind: str, *alike: str) -> Rule:
    """The rule of a wait that was overtaken more often than allowed; alike: by whom it counts."""
    return Rule(
        kinds=(kind,),
        lock="a",
        roles={"a": (ASK, OK), "waiting": ("waiting", OK), "by*": (ASK, OK)},
        where=(
            "in_its_place(a, waiting)",
            "met(by*, a)",
            "by*.process != a.process",
            "distinct(roles)",
            "in_token_order(a)",
            "anew(by*)",
            *alike,
        ),
        values={"allowed": f"allowed('{kind}')"},
        facts=(
            "allowed < count(roles)",
            "-1 < by*.token",
            "by*.token < a.token",
            "waiting.t_inv + slack < by*.t_inv",
        ),
        assumes=("ordered tokens",),
    )


def refused(kind: str, ops: str) -> Rule:
    """The rule of a lock that no client could hold and that was requested without success: from
    the call of the first of some requests in close succession to the last response to the last."""
    return Rule(
        kinds=(kind,),
        lock="first",
        roles={"first": (ops, ANY), "last": (ops, ANY)},
        where=(
            f"asked_throughout(first, last, '{kind}')",
            f"idle(first, first.t_inv, refused_until(last, '{kind}'), '{kind}')",
        ),
        values={
            "until": f"refused_until(last, '{kind}')",
            "excused": "excused(first, first.t_inv, until)",
        },
        facts=("first.t_inv < until", "excused <= until - first.t_inv"),
    )


def refused_in_part(kind: str, ops: str) -> Rule:
    """The same of a single request of which only a part lies in such a span: the certificate
    states that part."""
    return Rule(
        kinds=(kind,),
        lock="asked",
        roles={"asked": (ops, ANY)},
        states=("from_ns", "to_ns"),
        where=(f"whole_part(asked, from_ns, to_ns, '{kind}')",),
        values={"excused": "excused(asked, from_ns, to_ns)"},
        facts=("from_ns < to_ns", "excused <= to_ns - from_ns"),
    )


ROW_FIELDS = ("f", "status", "attempt", "token", "t_inv", "t_ret", "arg", "res")
"""Fields of each witness in the certificate, besides its writer and its number there."""


def assumed(rule: Rule, roles: Mapping[str, Any]) -> tuple[str, ...]:
    """The assumptions of a certificate: those of its rule, and of the rows that prove it."""
    found = list(rule.assumes)
    for name, row in roles.items():
        if name.endswith(("_known", "_proof")) and row.f in (OPS["renew"], OPS["release"]):
            found.append("renew_proves" if row.f == OPS["renew"] else "release_proves")
    return tuple(dict.fromkeys(found))


def each_of(text: str, roles: Mapping[str, object]) -> Sequence[str]:
    """A condition for each of the numbered roles that it names; else the condition itself."""
    names = re.findall(r"(\w+)\*", text)
    if not names:
        return (text,)
    count = sum(re.fullmatch(names[0] + r"\d+", role) is not None for role in roles)
    return [text.replace("*", str(n + 1)) for n in range(count)]


def permits(roles: Mapping[str, Any]) -> int:
    """Number of permits that the grants among the rows of a certificate take together."""
    return sum(row.op >> 24 for name, row in roles.items() if GRANT.fullmatch(name))


def count(roles: Mapping[str, object]) -> int:
    """Number of overtaking grants."""
    return sum(name.startswith("by") for name in roles)


def entries(roles: Mapping[str, object]) -> int:
    """Number of other entries of an owner that lasted beyond its release."""
    return sum(re.fullmatch(r"other\d+", name) is not None for name in roles)


def waits(roles: Mapping[str, object]) -> int:
    """Number of waiters, as rows before and after a query show."""
    return sum(name.startswith("before") for name in roles)


def facts_of(
    rule: Rule, roles: Mapping[str, object], names: Mapping[str, object]
) -> list[list[Any]]:
    """Each inequality of a rule with its two numbers: [left, sign, right, number, number]."""
    facts = []
    for text in (each for fact in rule.facts for each in each_of(fact, roles)):
        found = FACT.fullmatch(text)
        assert found, f"{text} is no fact"
        left, sign, right = found.groups()
        facts.append([left, sign, right, int(valued(left, names)), int(valued(right, names))])
    return facts


def stated(rule: Rule, told: Mapping[str, Any]) -> dict[str, int]:
    """The times that a rule requires to be stated; KeyError or TypeError if they are invalid."""
    found = {name: told[name] for name in rule.states}
    if not all(type(value) is int for value in found.values()):
        raise TypeError("a moment is no whole number")
    return found


def valued(text: str, names: Mapping[str, object]) -> Any:
    """The value of an expression of a rule; certificates contain no expressions."""
    return eval(_compiled(text), {"__builtins__": {}}, dict(names))  # the table above, no input


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "rule", "eval")
