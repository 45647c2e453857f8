"""Rules of findings about waits: deadlocks, orphans, livelocks, hung requests, queues, notices."""

from __future__ import annotations

from holdfast.harness.verification.rule import (
    ANY,
    ASK,
    OK,
    Rule,
    in_order,
    known,
    knows,
)

_Roles = dict[str, tuple[str, str]]
LIVENESS: dict[str, Rule] = {}

# No client could hold a lock and it was requested without success. Either by requests in close
# succession, from the call of the first to the last response to the last one; or by a single
# request of which only a part lies in such a span: then the certificate states that part.
for _kind, _of in (("deadlock", "acquire|probe"), ("orphan", "try|probe"), ("livelock", "try")):
    LIVENESS[_kind] = Rule(
        kinds=(_kind,),
        lock="first",
        roles={"first": (_of, ANY), "last": (_of, ANY)},
        where=(
            f"asked_throughout(first, last, '{_kind}')",
            f"idle(first, first.t_inv, refused_until(last, '{_kind}'), '{_kind}')",
        ),
        values={
            "until": f"refused_until(last, '{_kind}')",
            "excused": "excused(first, first.t_inv, until)",
        },
        facts=("first.t_inv < until", "excused <= until - first.t_inv"),
    )
    if _kind != "livelock":
        LIVENESS[f"{_kind}/part"] = Rule(
            kinds=(_kind,),
            lock="asked",
            roles={"asked": (_of, ANY)},
            states=("from_ns", "to_ns"),
            where=(f"whole_part(asked, from_ns, to_ns, '{_kind}')",),
            values={"excused": "excused(asked, from_ns, to_ns)"},
            facts=("from_ns < to_ns", "excused <= to_ns - from_ns"),
        )
_STORM = LIVENESS["livelock"]
LIVENESS["livelock"] = Rule(
    kinds=_STORM.kinds,
    lock=_STORM.lock,
    roles=_STORM.roles,
    where=_STORM.where,
    values={
        **_STORM.values,
        "tries": "tries(first, last)",
        "clients": "clients(first, last)",
        "later": "later(first, last)",
    },
    facts=(*_STORM.facts, "storm <= tries", "1 < clients", "tries <= 2 * later"),
)

_CALL = f"{ASK}|renew|release"
LIVENESS["hung-request/answered"] = Rule(
    kinds=("hung-request",),
    lock="row",
    roles={"row": (_CALL, "ok|fail|info|not-owner")},
    values={"bound_ns": "bound_ns(row)", "starved": "starved(row, row.t_ret)"},
    facts=("0 <= bound_ns", "hang + bound_ns + starved < row.t_ret - row.t_inv"),
)
LIVENESS["hung-request/unanswered"] = Rule(
    kinds=("hung-request",),
    lock="row",
    roles={"row": (_CALL, "invoked")},
    where=("lived_on(row)",),
    values={"bound_ns": "bound_ns(row)", "starved": "starved(row, end_ns())", "over": "end_ns()"},
    facts=("0 <= bound_ns", "hang + bound_ns + starved < over - row.t_inv"),
)

LIVENESS["multi-lock-deadlock"] = Rule(
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
)

_OVERTAKEN = ("in_its_place(a, waiting)", "in_token_order(a)")
_QUEUE = {"allowed": "allowed('overtaken')", "ahead": "ahead(a, waiting)"}
LIVENESS["beyond-queue/counted"] = Rule(
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
)
LIVENESS["beyond-queue/tokens"] = Rule(
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
)

# Rejections: shut_until is the end of the last reason that may have kept the lock closed.
LIVENESS["spurious-refusal"] = Rule(
    kinds=("spurious-refusal",),
    lock="refused",
    roles={"refused": ("try", "fail")},
    where=("called_held(refused)", "session_lasted(refused)"),
    values={"shut_until": "shut_until(refused)"},
    facts=("shut_until + error < refused.t_inv",),
)

# Notices.
LIVENESS |= in_order(
    "lost-without-notice",
    "a",
    "other",
    Rule(
        kinds=("lost-without-notice",),
        lock="a",
        roles=known("a", "other"),
        where=(*knows("a", "other"), "a.status == 2", "conflict(a, other)"),
        values={
            "lost": "lost_by(a, other)",
            "claimed": "claimed_until(a)",
            "limit": "notice_within()",
            "calm": "reachable_from(a, lost, limit)",
        },
        facts=("a.t_ret <= claimed", "lost < claimed", "0 < limit", "calm + limit < claimed"),
        assumes=("bound",),
    ),
)
LIVENESS |= in_order(
    "silent-reacquire",
    "a",
    "other",
    Rule(
        kinds=("silent-reacquire",),
        lock="a",
        roles={**known("a", "other"), "row": ("renew|check", OK)},
        where=(
            *knows("a", "other"),
            "a.status == 2",
            "leases_end()",
            "conflict(a, other)",
            "row.attempt == a.attempt",
            "row.process == a.process",
            "not renewals_prove(a)",
            "asked_once(a, row)",
        ),
        values={
            "leased": "leased_before(a, row)",
            "seen": "unnotified_until(a)",
            "limit": "notice_within()",
            "calm": "reachable_from(a, row.t_ret, limit)",
        },
        facts=(
            "other_known.t_ret + slack < row.t_inv",
            "leased + slack < row.t_inv",
            "0 < limit",
            "calm + limit < seen",
        ),
        assumes=("bound",),
    ),
)
_NOTICE = ("truthful_reasons()", "notice.attempt == a.attempt", "knows(a, a_known)")
_TOLD = {"notice": ("lost", OK), **known("a")}
_REASONS: tuple[tuple[str, _Roles, str, dict[str, str], tuple[str, ...]], ...] = (
    (
        "revoked",
        {},
        "reason(notice) == 'revoked'",
        {"unlocks": "unlocks(a, notice)"},
        ("unlocks < 1",),
    ),
    (
        "unlocked",
        {"unlock": ("force-unlock", OK)},
        "unlock.key == a.key and lone_token(a) and not entered_unknown(a, unlock)"
        " and reason(notice) in not_revoked"
        " and not taken_again(a, unlock, notice)",
        {},
        ("unlock.token == a_known.token", "unlock.t_inv + slack <= notice.t_inv"),
    ),
    (
        "released",
        {},
        "reason(notice) == 'released'",
        {"releases": "releases(a, notice)"},
        ("releases < 1",),
    ),
    ("kind", {}, "reason(notice) in other_ends", {}, ()),
    (
        "early",
        {},
        "reason(notice) == 'expired' and a.status == 2 and ends_by(a, notice)",
        {"leased": "leased(a)"},
        ("slack == 0", "notice.t_inv <= leased"),
    ),
)
for _how, _roles, _where, _values, _facts in _REASONS:
    LIVENESS[f"wrong-reason/{_how}"] = Rule(
        kinds=("wrong-reason",),
        lock="a",
        roles={**_TOLD, **_roles},
        where=(*_NOTICE, _where),
        values=_values,
        facts=("-1 < a_known.token", *_facts),
        assumes=("true reasons",),
    )
