"""Which system calls a fault met, from the fault agent's evidence, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.harness.core.json_value import Json

STOPPED = "stopped"
"""What a fault did to a node that goes on at the heal."""
_OF_NODES = (STOPPED, "delayed", "killed")
_OF_CALLS: Mapping[str, str] = {"failed": "failed", "skipped": "was skipped"}
"""What a fault did to a call -> as the end of a clause."""


def met(evidence: Mapping[str, Json]) -> Mapping[str, str]:
    """Node -> the first call that was acted on: "unlink of /tmp/a.lock". Nothing without evidence
    of calls.

    A call is numbered among those that the fault was for, if it was not the first of them."""
    within = bool(evidence.get("within"))
    return {node: _call(one, within) for node, one in _first(evidence).items()}


def happened(evidence: Mapping[str, Json]) -> Sequence[str]:
    """For each node that was met, a clause: "c2 was stopped before its unlink of /tmp/a.lock"."""
    did, calls = str(evidence.get("did")), met(evidence)
    clauses = []
    for node, one in _first(evidence).items():
        point = one.get("point", "before")
        if did in _OF_CALLS:
            made = " after it was made" if point == "after" else ""
            clauses.append(f"the {calls[node]} by {node} {_OF_CALLS[did]}{made}")
        elif did in _OF_NODES:
            clauses.append(f"{node} was {did} {point} its {calls[node]}")
    return clauses


def first_met_ns(evidence: Mapping[str, Json]) -> int | None:
    """When the first of these calls was met."""
    times = [one.get("t_ns") for one in _first(evidence).values()]
    return min((t_ns for t_ns in times if isinstance(t_ns, int)), default=None)


def _first(evidence: Mapping[str, Json]) -> Mapping[str, Mapping[str, Json]]:
    caught = evidence.get("caught")
    if not isinstance(caught, Mapping):
        return {}
    firsts = {node: calls[0] for node, calls in caught.items() if isinstance(calls, list) and calls}
    return {node: one for node, one in firsts.items() if isinstance(one, Mapping)}


def _call(one: Mapping[str, Json], within: bool) -> str:
    number, of = one.get("number"), one.get("of")
    which = f", number {number}" if isinstance(number, int) and number > 1 else ""
    which += " since the fault began" if which and not within else ""
    which += f" of its {of}" if which and within else f", in its {of}" if of else ""
    about = "of" if str(one.get("target")).startswith("/") else "to"
    return f"{one.get('call')} {about} {one.get('target')}{which}"
