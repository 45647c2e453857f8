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
GRANT = re.compile(r"newest|other\d+")
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
            "tokens != 'none'",
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
            "tokens != 'none'",
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
        where=("tokens != 'none'", *_knows("first", "second"), "apart(first, second)"),
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
        where=("tokens != 'none'", *_knows("first", "second"), "conflict(first, second)"),
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

_TOKENS = {
    "time": (("{a}_known.t_ret + slack < {b}.t_inv",), (), ()),
    "tokens": (
        ("-1 < {a}_known.token", "{a}_known.token < {b}_known.token"),
        ("in_token_order({a})",),
        ("ordered tokens",),
    ),
}
"""How it shows that b was granted after a: (facts, where, assumes)."""


def _in_order(prefix: str, a: str, b: str, **parts: Any) -> dict[str, Rule]:
    """A rule by times and one by tokens, with these parts in common."""
    found = {}
    for how, (facts, where, assumes) in _TOKENS.items():
        found[f"{prefix}/{how}"] = Rule(
            kinds=parts["kinds"],
            lock=parts["lock"],
            roles=parts["roles"],
            facts=(*(fact.format(a=a, b=b) for fact in facts), *parts["facts"]),
            where=(*parts["where"], *(each.format(a=a) for each in where)),
            values=parts.get("values", {}),
            assumes=(*parts.get("assumes", ()), *assumes),
        )
    return found


RULES["dead-grant"] = Rule(
    kinds=("dead-grant",),
    lock="dead",
    roles={"notice": ("lost", OK), **_known("dead"), **_sides("smaller")},
    where=(
        *_knows("dead", "smaller"),
        *_proves("smaller"),
        "notice.attempt == dead.attempt",
        "met(smaller, dead)",
        "smaller_proof.at == smaller.at or conflict(smaller, dead)",
        "in_token_order(dead)",
        "order == 'fifo'",
    ),
    facts=(
        "-1 < smaller_known.token",
        "smaller_known.token < dead_known.token",
        "notice.t_inv + slack < smaller_proof.t_inv",
    ),
    assumes=("ordered tokens", "first come, first served"),
)
RULES |= _in_order(
    "early-grant",
    "a",
    "b",
    kinds=("early-grant",),
    lock="b",
    roles={**_known("a", "b"), "lease": ("renew|heartbeat", OK)},
    where=(
        *_knows("a", "b"),
        "a.status == 2",
        "conflict(a, b)",
        "kept(a)",
        "unforced()",
        "confirms(lease, a)",
    ),
    values={"open": "opens(a, lease)"},
    facts=("b_known.t_ret + slack < open",),
    assumes=("bound",),
)
_CROWD = (
    "newest.mode == 2",
    "other*.mode == 2",
    "other*.key == newest.key",
    "distinct(roles)",
    "one_limit(newest)",
    *_knows("newest", "other*"),
)
_NEWEST = "other*_known.t_ret <= newest_known.t_ret"
"""All others held when the last of them was known: that each met the newest says less."""
_PERMITS = "(newest.op >> 8) % 65536 < permits(roles)"
RULES["over-admission"] = Rule(
    kinds=("over-admission",),
    lock="newest",
    roles=_sides("newest", "other*"),
    where=(*_CROWD, *_proves("newest", "other*")),
    facts=(
        _PERMITS,
        _NEWEST,
        "newest_known.t_ret + slack < other*_proof.t_inv",
        "other*_known.t_ret + slack < newest_proof.t_inv",
    ),
)
RULES["broken-lease/permits"] = Rule(
    kinds=("broken-lease",),
    lock="newest",
    roles=_known("newest", "other*"),
    where=_CROWD,
    values={"newest_reach": "reach(newest)", "other*_reach": "reach(other*)"},
    facts=(
        _PERMITS,
        _NEWEST,
        "newest_known.t_ret + slack < other*_reach",
        "other*_known.t_ret + slack < newest_reach",
    ),
    assumes=("bound",),
)
_FOREIGN = ("foreign-release", "foreign-renewal")
_SAID = {"row": ("renew|release", OK)}
RULES["foreign/refused"] = Rule(
    kinds=_FOREIGN,
    lock="attempt",
    roles={"attempt": (ASK, "fail"), **_SAID},
    where=("row.attempt == attempt.attempt", "says_owned(row)"),
    facts=("attempt.t_inv <= row.t_inv",),
)
RULES["foreign/given-back"] = Rule(
    kinds=_FOREIGN,
    lock="attempt",
    roles={"attempt": (ASK, OK), "release": ("release", OK), **_SAID},
    where=(
        "release.attempt == attempt.attempt",
        "row.attempt == attempt.attempt",
        "says_owned(row)",
        "settled(attempt)",
    ),
    facts=("release.t_ret < row.t_inv",),
)
for _how, _more, _values, _where in (
    ("after", (), {}, ("renewals_prove(attempt)",)),
    ("held", ("row.t_ret + slack < other_reach",), {"other_reach": "reach(other)"}, ()),
    ("proved", ("row.t_ret + slack < other_proof.t_inv",), {}, _proves("other")),
):
    RULES |= _in_order(
        f"foreign/{_how}",
        "attempt",
        "other",
        kinds=_FOREIGN,
        lock="attempt",
        roles={
            **_known("attempt"),
            **(_sides("other") if _how == "proved" else _known("other")),
            **_SAID,
        },
        where=(
            *_knows("attempt", "other"),
            "row.attempt == attempt.attempt",
            "conflict(attempt, other)",
            "row.f == 3 or says_owned(row)",
            *_where,
        ),
        values=_values,
        facts=("other_known.t_ret + slack < row.t_inv", *_more),
    )
_WRITE = {"owner": (ASK, "ok|info|invoked"), "request": ("served-write", OK)}
_LATE = ("request.attempt == owner.attempt", "settled(owner)", "outside(owner, request)")
for _how, _of, _where, _facts, _values in (
    ("answered", ("renew|release", "not-owner"), ("end.attempt == owner.attempt",), (), {}),
    ("released", ("release", OK), ("end.attempt == owner.attempt",), (), {}),
    ("told", ("lost", OK), ("end.attempt == owner.attempt",), (), {}),
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
_LOST = {"lost": ("served-write", OK), "over": ("served-write", OK)}
RULES["lost-update/passed"] = Rule(
    kinds=("lost-update",),
    lock="lost",
    roles=_LOST,
    where=("lost.key == over.key", "missing(lost)"),
    values={"over_base": "base(over)"},
    facts=("over_base < lost.res", "lost.res < over.res"),
)
RULES["lost-update/again"] = Rule(
    kinds=("lost-update",),
    lock="lost",
    roles=_LOST,
    where=("lost.key == over.key", "missing(lost)", "logged(lost, over)", "lost.op != over.op"),
    facts=("over.res <= lost.res",),
)
_TWICE = {"before": ("served-write", OK), "again": ("served-write", OK)}
RULES["applied-twice"] = Rule(
    kinds=("applied-twice",),
    lock="again",
    roles=_TWICE,
    where=("logged(before, again)",),
    facts=("before.op == again.op",),
)
RULES["job-done-twice"] = Rule(
    kinds=("job-done-twice",),
    lock="again",
    roles=_TWICE,
    where=("logged(before, again)", "before.key == again.key", "job(before)[2] == 0"),
    values={"before_job": "job(before)[1]", "again_job": "job(again)[1]"},
    facts=("before_job == again_job",),
)
RULES["job-never-done/told"] = Rule(
    kinds=("job-never-done",),
    lock="told",
    roles={"told": ("read|write", OK)},
    where=("undone(told)", "told.f == 10 or job(told)[2] == 0"),
    facts=("0 < told.res",),
)
RULES["job-never-done/later"] = Rule(
    kinds=("job-never-done",),
    lock="later",
    roles={"asked": ("read|write|served-write|served-read", ANY), "later": ("served-write", OK)},
    where=("undone(asked)", "job(asked)[0] == job(later)[0]", "job(later)[2] == 0"),
    values={"asked_job": "job(asked)[1]", "later_job": "job(later)[1]"},
    facts=("asked_job < later_job",),
)
RULES["false-rejection"] = Rule(
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
)
for _kind, _alike in (("overtaken", ("by*.mode == a.mode",)), ("starved", ())):
    RULES[_kind] = Rule(
        kinds=(_kind,),
        lock="a",
        roles={"a": (ASK, OK), "waiting": ("waiting", OK), "by*": (ASK, OK)},
        where=(
            "waiting.attempt == a.attempt",
            "met(by*, a)",
            "by*.process != a.process",
            "distinct(roles)",
            "in_token_order(a)",
            *_alike,
        ),
        values={"allowed": f"allowed('{_kind}')"},
        facts=(
            "allowed < count(roles)",
            "-1 < by*.token",
            "by*.token < a.token",
            "waiting.t_inv + slack < by*.t_inv",
        ),
        assumes=("ordered tokens",),
    )
RULES["write-after-notice"] = Rule(
    kinds=("write-after-notice",),
    lock="notice",
    roles={"notice": ("lost", OK), "first": ("write", ANY), "second": ("write", ANY)},
    where=(
        "first.attempt == notice.attempt",
        "second.attempt == notice.attempt",
        "first.at != second.at",
        "unrenewed(notice, notice.t_inv, True)",
    ),
    facts=(
        "notice.t_inv < first.t_inv - first.tx",
        "first.t_inv - first.tx <= second.t_inv - second.tx",
    ),
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


def permits(roles: Mapping[str, Any]) -> int:
    """How many permits the grants among the rows of a certificate take together."""
    return sum(row.op >> 24 for name, row in roles.items() if GRANT.fullmatch(name))


def count(roles: Mapping[str, Any]) -> int:
    """How many overtook."""
    return sum(name.startswith("by") for name in roles)


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
