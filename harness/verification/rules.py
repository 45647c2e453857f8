"""The rules by which a certificate proves a finding: data, read by the judge and by the verifier.

A rule names its witnesses (roles), what kind of row each has to be, the conditions between them
that the verifier evaluates on the recorded rows (`where`), and the inequalities (`facts`) whose two
sides are numbers in the certificate. `values` are numbers that one row alone does not show: the
checker states them, the verifier derives them again. A role that ends in "*" stands for several,
numbered from 1; each fact or condition about it applies to every one of them. Rules of waits and of
responses to queries are in `liveness_rules` and `query_rules`.
"""

from __future__ import annotations

from holdfast.harness.verification.durability_rules import DURABILITY
from holdfast.harness.verification.liveness_rules import LIVENESS
from holdfast.harness.verification.query_rules import QUERIES
from holdfast.harness.verification.rule import (
    ANY,
    ASK,
    OK,
    SERVED,
    Rule,
    in_order,
    known,
    knows,
    proves,
    sides,
)

_IN_TIME = ("newer_known.t_ret + slack < older_reach", "older_known.t_ret + slack < newer_reach")
_REACHES = {"older_reach": "reach(older)", "newer_reach": "reach(newer)"}
_PAIR = ("conflict(older, newer)", *knows("older", "newer"))

RULES: dict[str, Rule] = {
    "double-grant": Rule(
        kinds=("double-grant",),
        lock="older",
        roles=sides("older", "newer"),
        where=(*_PAIR, *proves("older", "newer")),
        facts=(
            "newer_known.t_ret + slack < older_proof.t_inv",
            "older_known.t_ret + slack < newer_proof.t_inv",
        ),
    ),
    "broken-lease": Rule(
        kinds=("broken-lease",),
        lock="older",
        roles=known("older", "newer"),
        where=(*_PAIR, "bound != 'none'"),
        values=_REACHES,
        facts=_IN_TIME,
        assumes=("bound",),
    ),
    "double-holder": Rule(
        kinds=("double-holder",),
        lock="older",
        roles=known("older", "newer"),
        where=(*_PAIR, "bound == 'none'"),
        values=_REACHES,
        facts=_IN_TIME,
        assumes=("bound",),
    ),
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

RULES["dead-grant"] = Rule(
    kinds=("dead-grant",),
    lock="dead",
    roles={"notice": ("lost", OK), **known("dead"), **sides("smaller")},
    where=(
        *knows("dead", "smaller"),
        *proves("smaller"),
        "ends_by(dead, notice)",
        "met(smaller, dead)",
        "smaller_proof.at == smaller.at or conflict(smaller, dead)",
        "smaller.mode == 0 or smaller.mode != dead.mode",
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
RULES |= in_order(
    "early-grant",
    "a",
    "b",
    Rule(
        kinds=("early-grant",),
        lock="b",
        roles={**known("a", "b"), "lease": (f"{ASK}|renew|heartbeat", OK)},
        where=(
            *knows("a", "b"),
            "a.status == 2",
            "delayed()",
            "conflict(a, b)",
            "kept(a)",
            "unforced()",
            "confirms(lease, a)",
        ),
        values={"open": "opens(a, lease)"},
        facts=("b_known.t_ret + slack < open",),
        assumes=("bound",),
    ),
)
_CROWD = (
    "newest.mode == 2",
    "other*.mode == 2",
    "other*.key == newest.key",
    "distinct(roles)",
    "one_limit(newest)",
    *knows("newest", "other*"),
)
_NEWEST = "other*_known.t_ret <= newest_known.t_ret"
"""All others held when the last of them was known: that each overlaps the newest is weaker."""
_PERMITS = "(newest.op >> 8) % 65536 < permits(roles)"
RULES["over-admission"] = Rule(
    kinds=("over-admission",),
    lock="newest",
    roles=sides("newest", "other*"),
    where=(*_CROWD, *proves("newest", "other*")),
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
    roles=known("newest", "other*"),
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
_FOREIGN = {"foreign-release": "release", "foreign-renewal": "renew"}
_SAID = {"row": ("renew|release", OK)}
RULES["foreign/refused"] = Rule(
    kinds=tuple(_FOREIGN),
    calls=_FOREIGN,
    lock="attempt",
    roles={"attempt": (ASK, "fail"), **_SAID},
    where=("row.attempt == attempt.attempt", "says_owned(row)"),
    facts=("attempt.t_inv <= row.t_inv",),
)
RULES["foreign/given-back"] = Rule(
    kinds=tuple(_FOREIGN),
    calls=_FOREIGN,
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
    (
        "held",
        ("row.t_ret + slack < other_reach",),
        {"other_reach": "reach(other)"},
        ("lasting(other)",),
    ),
    ("proved", ("row.t_ret + slack < other_proof.t_inv",), {}, proves("other")),
):
    RULES |= in_order(
        f"foreign/{_how}",
        "attempt",
        "other",
        Rule(
            kinds=tuple(_FOREIGN),
            calls=_FOREIGN,
            lock="attempt",
            roles={
                **known("attempt"),
                **(sides("other") if _how == "proved" else known("other")),
                **_SAID,
            },
            where=(
                *knows("attempt", "other"),
                "row.attempt == attempt.attempt",
                "conflict(attempt, other)",
                "row.f == 3 or says_owned(row)",
                *_where,
            ),
            values=_values,
            facts=("other_known.t_ret + slack < row.t_inv", *_more),
        ),
    )
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
    facts=("-1 < before_job", "before_job == again_job"),
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
            "in_its_place(a, waiting)",
            "met(by*, a)",
            "by*.process != a.process",
            "distinct(roles)",
            "in_token_order(a)",
            "anew(by*)",
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
RULES |= LIVENESS | QUERIES | DURABILITY
