"""What proves findings of mutual-exclusion, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners, after
from holdfast.harness.verification.rule import ASK, OK, Rule, in_order, known, knows, proves, sides
from holdfast.harness.verification.stroke_opportunities import (
    DECIDERS,
    LEADER,
    MINORITY,
    SECOND,
    StrokePattern,
    Strokes,
    held,
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
}
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
PATTERNS: Mapping[str, StrokePattern | OwnerPattern] = {
    "mutual-exclusion/forgotten-grant/crash": held(DECIDERS, Strokes.outlived),
    "mutual-exclusion/unsynced-grant/crash": held(DECIDERS, Strokes.outlived, SECOND),
    "mutual-exclusion/new-leader-grants/crash": held(LEADER, Strokes.outlived),
    "mutual-exclusion/too-few-votes/crash": held(MINORITY, Strokes.meanwhile),
    "mutual-exclusion/held-at-once/any": after(Owners.inside),
    "mutual-exclusion/over-admits/any": after(Owners.full),
    "mutual-exclusion/opens-early/any": after(Owners.delayed),
}
