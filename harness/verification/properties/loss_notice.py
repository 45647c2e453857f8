"""What proves findings of loss-notice, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners
from holdfast.harness.verification.rule import ANY, OK, Rule, in_order, known, knows

RULES: dict[str, Rule] = {
    "write-after-notice": Rule(
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
    ),
}
# Notices.
RULES |= in_order(
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
RULES |= in_order(
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
_REASONS: tuple[
    tuple[str, dict[str, tuple[str, str]], str, dict[str, str], tuple[str, ...]], ...
] = (
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
    RULES[f"wrong-reason/{_how}"] = Rule(
        kinds=("wrong-reason",),
        lock="a",
        roles={**_TOLD, **_roles},
        where=(*_NOTICE, _where),
        values=_values,
        facts=("-1 < a_known.token", *_facts),
        assumes=("true reasons",),
    )
PATTERNS: Mapping[str, OwnerPattern] = {
    "loss-notice/no-notice/any": OwnerPattern(("owner", "shows"), Owners.lost),
    "loss-notice/silent-reacquire/clients": OwnerPattern(
        ("hold", "renewal"), Owners.regained, "other", Owners.kept_away
    ),
}
