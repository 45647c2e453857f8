"""Truthful queries: responses that cannot be right: holder, length, whether a hold is in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners
from holdfast.harness.verification.rule import ANY, ASK, OK, Rule, known, knows, sides

RULES: dict[str, Rule] = {}
_FALSE = ("false-answer",)
_HOLDER, _PLACE = {"query": ("holder", OK)}, {"query": ("place", OK)}
_PLAIN = "not in_tree(query)"
_ORDERED = ("ordered tokens",)


def _add(name: str, **parts: Any) -> None:
    rule: dict[str, Any] = {"kinds": _FALSE, "lock": "query", **parts}
    RULES[f"{rule['kinds'][0]}/{name}"] = Rule(**rule)


# The holder. A response without a token means that no client holds.
_add(
    "nobody",
    roles={**_HOLDER, **known("holder")},
    where=(_PLAIN, "holder.key == query.key", *knows("holder")),
    values={"held": "held_until(holder)"},
    facts=(
        "query.token == -1",
        "holder_known.t_ret + slack < query.t_inv",
        "query.t_ret + slack < held",
    ),
    assumes=("bound",),
)
_LATER = ("query.token < newer_known.token", "newer_known.t_ret + slack < query.t_inv")
_add(
    "passed",
    roles={**_HOLDER, **known("newer")},
    where=(
        _PLAIN,
        "newer.key == query.key",
        "newer.mode == 0",
        *knows("newer"),
        "in_token_order(newer)",
    ),
    facts=("-1 < query.token", *_LATER),
    assumes=_ORDERED,
)
_NAMED = ("named.key == query.key", "knows(named, named_known)")
_add(
    "passed-beside",
    roles={**_HOLDER, **known("named", "newer")},
    where=(
        _PLAIN,
        *_NAMED,
        *knows("newer"),
        "conflict(named, newer)",
        "in_token_order(newer)",
    ),
    facts=("-1 < query.token", "named_known.token == query.token", *_LATER),
    assumes=_ORDERED,
)
_add(
    "not-yet",
    roles={**_HOLDER, **known("named"), **sides("older")},
    where=(
        _PLAIN,
        *_NAMED,
        *knows("older"),
        "proves(older, older_proof)",
        "conflict(named, older)",
        "in_token_order(older)",
    ),
    facts=(
        "named_known.token == query.token",
        "-1 < older_known.token",
        "older_known.token < named_known.token",
        "query.t_ret + slack < older_proof.t_inv",
    ),
    assumes=_ORDERED,
)
_add(
    "text",
    roles=_HOLDER,
    where=(_PLAIN, "text(query) != ''"),
    values={"carriers": "carriers(query)"},
    facts=("-1 < query.token", "carriers < 1"),
)
_add(
    "no-hold",
    roles=_HOLDER,
    where=(_PLAIN,),
    values={"possible": "possible(query)"},
    facts=("-1 < query.token", "possible < 1"),
)
_add(
    "beside",
    roles={**_HOLDER, **known("holder")},
    where=(
        _PLAIN,
        "holder.key == query.key",
        "holder.mode == 0",
        *knows("holder"),
        "holder_known.token != query.token",
        "sole_entry(holder, query)",
        "promised('mutual-exclusion')",
    ),
    values={"held": "held_until(holder)"},
    facts=(
        "-1 < query.token",
        "-1 < holder_known.token",
        "holder_known.t_ret + slack < query.t_inv",
        "query.t_ret + slack < held",
    ),
    assumes=("bound",),
)
_ONE = {**_HOLDER, "holder": (ASK, OK)}
_ITS = (_PLAIN, "holder.key == query.key", "alone(holder, query)", "holder.mode == 0")
for _how, _values, _fact in (
    ("renewed-more", {"least": "renewed_least(holder, query)"}, "query.res < least"),
    ("renewed-less", {"most": "renewed_most(holder, query)"}, "most < query.res"),
    ("too-old", {"most": "oldest(holder, query)", "said": "lasted(query)[0]"}, "most < said"),
    ("too-young", {"least": "youngest(holder, query)", "said": "lasted(query)[1]"}, "said < least"),
    ("lease-left", {"most": "longest_lease(holder, query)", "said": "left(query)"}, "most < said"),
):
    _add(
        _how,
        roles=_ONE,
        where=_ITS,
        values=_values,
        facts=("holder.token == query.token", _fact),
    )

# Number of waiters ahead of an attempt; -1: it does not wait.
_MINE = (_PLAIN, "a.attempt == query.attempt")
_HELD: dict[str, Any] = {
    "roles": {
        **_PLACE,
        "a": (ASK, OK),
        "waiting": ("waiting", OK),
    },
    "where": (*_MINE, "in_its_place(a, waiting)", "conflict(a, holder)", *knows("holder")),
    "values": {"held": "held_until(holder)"},
    "facts": (
        "query.res < 0",
        "waiting.t_inv + slack < query.t_inv",
        "query.t_ret + slack < a.t_ret",
        "holder_known.t_ret + slack < query.t_inv",
        "query.t_ret + slack < held",
    ),
}
_add(
    "waits/tokens",
    roles={**_HELD["roles"], **known("holder")},
    where=(*_HELD["where"], "in_token_order(holder)"),
    values=_HELD["values"],
    facts=(*_HELD["facts"], "-1 < holder_known.token", "holder_known.token < a.token"),
    assumes=("bound", *_ORDERED),
)
_add(
    "waits/proved",
    roles={**_HELD["roles"], **known("holder"), "a_proof": ("renew|release", OK)},
    where=(*_HELD["where"], "proves(a, a_proof)"),
    values=_HELD["values"],
    facts=(
        *_HELD["facts"],
        "a.t_ret + slack < a_proof.t_inv",
        "holder_known.t_ret + slack < a_proof.t_inv",
    ),
    assumes=("bound",),
)
_add(
    "answered",
    roles={**_PLACE, "a": (ASK, "ok|fail")},
    where=_MINE,
    facts=("0 <= query.res", "a.t_ret + slack < query.t_inv"),
)
_add(
    "place",
    roles={**_PLACE, "a": (ASK, ANY)},
    where=_MINE,
    values={"most": "most_ahead(a, query)"},
    facts=("0 <= query.res", "most < query.res"),
)
_add(
    "growing",
    roles={**_PLACE, "before": ("place", OK)},
    where=(
        _PLAIN,
        "query.attempt != 0",
        "before.attempt == query.attempt",
        "in_turn_of_asking(query)",
    ),
    facts=("0 <= before.res", "before.res < query.res", "before.t_ret < query.t_inv"),
    assumes=("first come, first served",),
)

# Whether a hold is in force.
_add(
    "in-force",
    lock="a",
    roles={"query": ("check", OK), "a": (ASK, ANY)},
    where=("query.attempt == a.attempt", "alone(a, query)"),
    values={"over": "told_over(a)"},
    facts=("over + slack < query.t_inv",),
)
_add(
    "not-in-force",
    lock="a",
    roles={"query": ("check", "fail"), **sides("a")},
    where=("query.attempt == a.attempt", *knows("a"), "proves(a, a_proof)"),
    facts=(
        "a_known.t_ret + slack < query.t_inv",
        "query.t_inv <= query.t_ret + slack",
        "query.t_ret + slack < a_proof.t_inv",
    ),
)

# A grant on the condition that no token is newer than the one that it names.
_GIVEN: dict[str, object] = {"kinds": ("false-condition",), "lock": "a"}
_add(
    "granted",
    **_GIVEN,
    roles={"a": (ASK, OK), **known("between")},
    where=(
        "a.mode != 2",
        "between.key == a.key",
        *knows("between"),
        "in_token_order(a)",
    ),
    values={"newest": "newest(a)"},
    facts=(
        "0 <= newest",
        "newest < between_known.token",
        "between_known.token < a.token",
    ),
    assumes=_ORDERED,
)
_add(
    "refused",
    **_GIVEN,
    roles={"a": (ASK, "fail")},
    where=("a.mode != 2", "called_changed(a)"),
    values={"newest": "newest(a)", "followers": "followers(a)"},
    facts=("0 <= newest", "followers < 1"),
)

# The number of waiters, and the number of entries of its owner that a lock has left.
_LENGTH: dict[str, Any] = {"kinds": ("false-length",), "lock": "asked"}
_add(
    "more",
    **_LENGTH,
    roles={"asked": ("length", OK)},
    where=("not in_tree(asked)",),
    values={"most": "waiting_at_most(asked)"},
    facts=("most < asked.res",),
)
_add(
    "fewer",
    **_LENGTH,
    roles={"asked": ("length", OK), "before*": ("waiting|place", OK), "after*": ("place", OK)},
    where=(
        "before*.key == asked.key",
        "after*.key == asked.key",
        "before*.attempt == after*.attempt",
        "before*.f == 5 or -1 < before*.res",
        "apart_waits(roles)",
        "not in_tree(asked)",
    ),
    facts=(
        "asked.res < waits(roles)",
        "-1 < after*.res",
        "before*.t_ret + slack < asked.t_inv",
        "asked.t_ret + slack < after*.t_inv",
    ),
)
_ENTRIES: dict[str, object] = {"kinds": ("false-entries",), "lock": "release"}
_add(
    "more",
    **_ENTRIES,
    roles={"release": ("release", OK)},
    where=("renewals_prove(release)", "requested(release)"),
    values={"most": "entries_at_most(release)"},
    facts=("most + 1 < release.res",),
)
_add(
    "fewer",
    **_ENTRIES,
    roles={"release": ("release", OK), **known("other*")},
    where=(
        "knows(other*, other*_known)",
        "other*.process == release.process",
        "other*.key == release.key",
        "other*.attempt != release.attempt",
        "distinct(roles)",
        "requested(release)",
        "lasting(release)",
    ),
    values={"other*_reach": "reach(other*)"},
    facts=(
        "0 < release.res",
        "release.res < entries(roles) + 1",
        "other*_known.t_ret < release.t_inv",
        "release.t_ret + slack < other*_reach",
    ),
    assumes=("bound",),
)

PATTERNS: Mapping[str, OwnerPattern] = {
    "truthful-queries/false-answer/any": OwnerPattern(
        ("grant", "answer"), Owners.answer, near=Owners.near_answer
    ),
}
