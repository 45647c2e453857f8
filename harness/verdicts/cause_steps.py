"""The steps of a cause as clauses: the fault, the calls of the witnesses, what followed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import OPERATIONS, UNKNOWN, Traits
from holdfast.harness.verdicts.judged import Event, Judged, ObservedFault, Shown, Step
from holdfast.harness.verdicts.met_calls import first_met_ns, happened
from holdfast.harness.verdicts.proof import contradicting, decisive_ns

FAULTS = 3
"""Faults of one cause that are named; of more, their kinds and number."""
DID = "did"
"""Evidence of a fault: the words for what it did to its nodes ("shut down"), of its half."""
LONGEST_DID = 60
BY_CALLS = ("stale-accepted-write", "expired-owner-write")
"""Kinds of findings whose witnesses are the steps; of others the sentence of the finding is one,
with the reason why the lock was held."""


class _Names(NamedTuple):
    """How a run's times and clients are named."""

    run: Judged

    def at(self, t_ns: int) -> str:
        return f"{(t_ns - self.run.start_ns) / SECOND:.3f} s"


def span(ns: int) -> str:
    """A duration in three digits: "4.00 s", "40.0 ms"."""
    for unit, name in ((SECOND, "s"), (10**6, "ms")):
        if ns >= unit:
            value = ns / unit
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {name}"
    return f"{ns / 1000:.0f} us"


def steps_of(
    run: Judged,
    finding: Shown,
    faults: Sequence[ObservedFault],
    traits: Mapping[str, Traits],
    between: Step | None = None,
) -> tuple[Step, ...]:
    """The steps of one finding in order of time, with the faults that may explain it.

    between   what happened before the grant that the finding is about, and made it possible: of
              the faults then only those are named that it is, or that were open at that time
    """
    if between is not None:
        faults = _open(run, faults, between)
    names = _Names(run)
    granted = [e for e in finding.witnesses if e.op in ("acquire", "try") and e.status == "ok"]
    steps = [
        _fault_step(names, fault, traits.get(fault.do, UNKNOWN), granted)
        for fault in faults[:FAULTS]
    ]
    if len(faults) > FAULTS:
        more, last = len(faults) - FAULTS, faults[FAULTS - 1]
        text = f"{more} more fault{'s' if more > 1 else ''} ({_kinds(faults[FAULTS:])})"
        steps.append(Step(text=text, t_ns=_began_ns(last), fault=faults[FAULTS].id))
    if between is not None and between.fault:
        steps = [replace(one, event=between.event) for one in steps]
    elif between is not None:
        steps.append(between)
    steps += _calls(names, finding) if finding.kind in BY_CALLS else _own(names, finding)
    return tuple(sorted(steps, key=lambda one: one.t_ns))


def _open(run: Judged, faults: Iterable[ObservedFault], between: Step) -> list[ObservedFault]:
    if between.fault:
        return [fault for fault in run.faults if fault.id == between.fault]
    return [one for one in faults if _began_ns(one) <= between.t_ns <= one.to_ns]


def sentence_of(steps: Iterable[Step]) -> str:
    """The steps as one sentence."""
    return f"{'; '.join(step.text for step in steps if not step.repeats).rstrip('.')}."


def _own(names: _Names, finding: Shown) -> list[Step]:
    """The finding's sentence as the step of the half of its proof that it begins with, if that was
    at its time, and the other half, which its words have too."""
    pair = contradicting(finding)
    own = next((one for one in pair if finding.t_ns in (decisive_ns(one), one.t_ret_ns)), None)
    row = own.row if own is not None else -1
    steps = [Step(text=finding.sentence.rstrip("."), t_ns=finding.t_ns, row=row)]
    for one in pair:
        if one is not own:
            text, t_ns = _clause(names, one, finding)
            text += _renewed(one) if finding.kind == "broken-lease" else ""
            steps.append(Step(text=text, t_ns=t_ns, row=one.row, repeats=True))
    return steps


def _renewed(event: Event) -> str:
    """The lease that a renewal returned; none where that is the time that its session has left."""
    asked, lease = event.arg, event.res
    if event.op != "renew" or not isinstance(asked, int) or not isinstance(lease, int):
        return ""
    return f": a lease of {span(lease)} from then" if 0 < lease <= 2 * asked else ""


def _kinds(faults: Iterable[ObservedFault]) -> str:
    return ", ".join(dict.fromkeys(fault.do for fault in faults))


def _began_ns(fault: ObservedFault) -> int:
    return fault.from_ns if fault.requested_ns < 0 else fault.requested_ns


def _fault_step(
    names: _Names, fault: ObservedFault, traits: Traits, granted: Sequence[Event]
) -> Step:
    nodes = _listed(fault.nodes) or fault.target or "the network"
    began_ns = _began_ns(fault)
    lasted = f" at {names.at(began_ns)} for {span(fault.to_ns - fault.from_ns)}"
    # A later renewal cannot have been sent while its client was stopped.
    owner = next((one for one in granted if [one.node] == list(fault.nodes)), None)
    leases = _leases(names.run, fault, owner)
    if clauses := happened(fault.evidence):
        return _met_step(names, fault, " and ".join(clauses), leases)
    if traits.stops or traits.stops_amid_send:
        text = f"{nodes} {_was(fault)} stopped ({fault.do}){lasted}{leases}"
    elif traits.shifts_clocks:
        text = f"{_clock(fault, nodes)} ({fault.do}) at {names.at(began_ns)}{_after(fault, owner)}"
    elif traits.kills or traits.kills_later:
        did = _did(fault) or "killed"
        text = f"{nodes} {_was(fault)} {did} ({fault.do}) at {names.at(began_ns)}"
    elif traits.cuts:
        text = f"{nodes} {_was(fault)} cut off ({fault.do}){lasted}{leases}"
    elif traits.operates in OPERATIONS:
        text = f"{OPERATIONS[traits.operates]} ({fault.do} of {nodes}){lasted}"
    elif did := _did(fault):
        text = f"{nodes} {_was(fault)} {did} ({fault.do}){lasted}"
    else:
        text = f"{fault.do} of {nodes}{lasted}"
    return Step(text=text, t_ns=began_ns, fault=fault.id)


def _met_step(names: _Names, fault: ObservedFault, clauses: str, leases: str) -> Step:
    """A fault at a call: it begins when the call is met, and a stop alone lasts until the heal."""
    met_ns = first_met_ns(fault.evidence) or _began_ns(fault)
    lasted = f" for {span(fault.to_ns - met_ns)}{leases}" if "was stopped" in clauses else ""
    text = f"{clauses} ({fault.do}) at {names.at(met_ns)}{lasted}"
    return Step(text=text, t_ns=met_ns, fault=fault.id)


def _listed(nodes: Sequence[str]) -> str:
    """ "n1, n3 and n5"."""
    return " and ".join(part for part in (", ".join(nodes[:-1]), *nodes[-1:]) if part)


def _was(fault: ObservedFault) -> str:
    return "were" if len(fault.nodes) > 1 else "was"


def _did(fault: ObservedFault) -> str:
    """What it did to its nodes, as its evidence has it; "" if that does not say."""
    did = fault.evidence.get(DID)
    if isinstance(did, str):
        return did[:LONGEST_DID]
    # The agent of 0.2 had no words for servers that it had asked to stop.
    if not fault.evidence.get("shutdown_ns"):
        return ""
    return "shut down or killed" if fault.evidence.get("grace_exceeded") else "shut down"


def _leases(run: Judged, fault: ObservedFault, owner: Event | None) -> str:
    """That a fault outlasted its owner's lease or session, with its length."""
    lease_ns = owner.arg if owner is not None and isinstance(owner.arg, int) else 0
    what = "lease"
    if run.promises is not None and run.promises.bound == "session":
        what, lease_ns = "session", run.promises.lasting_ns(lease_ns)
    if not 0 < lease_ns <= fault.to_ns - fault.from_ns:
        return ""
    return f", longer than its {what} of {span(lease_ns)}"


def _clock(fault: ObservedFault, nodes: str) -> str:
    sizes = set(_numbers(fault.evidence.get("offset_ns")))
    if len(sizes) != 1:
        return f"the clock of {nodes} was changed"
    ns = sizes.pop()
    return f"the clock of {nodes} was set {span(abs(ns))} {'ahead' if ns > 0 else 'back'}"


def _numbers(evidence: object) -> Iterator[int]:
    """The numbers of an evidence that may be per node, or per node and process."""
    if isinstance(evidence, Mapping):
        for value in evidence.values():
            yield from _numbers(value)
    elif isinstance(evidence, int):
        yield evidence


def _after(fault: ObservedFault, owner: Event | None) -> str:
    """How long after a grant a clock was seen to be changed."""
    if owner is None or not owner.t_ret_ns or fault.from_ns < owner.t_ret_ns:
        return ""
    return f", {span(fault.from_ns - owner.t_ret_ns)} after the grant of {owner.node}"


def _calls(names: _Names, finding: Shown) -> list[Step]:
    """The witnesses as clauses; a request that the resource logged is named once, as it has it."""
    served = {event.attempt for event in finding.witnesses if event.op.startswith("served")}
    steps = []
    for event in finding.witnesses:
        request = event.op in ("write", "read") and event.attempt in served
        if not event.attempt > 0 or request:
            continue
        text, t_ns = _clause(names, event, finding)
        steps.append(Step(text=text, t_ns=t_ns, row=event.row))
    return steps


def _clause(names: _Names, event: Event, finding: Shown) -> tuple[str, int]:
    # A row of the resource's log may name the resource as its node; the attempt is the owner's.
    node = names.run.nodes.get(str(event.attempt >> 32), event.node)
    owner = node if event.token < 0 else f"{node} (token {event.token})"
    sent, back_ns = names.at(event.t_inv_ns), event.t_ret_ns or event.t_inv_ns
    ok = event.status == "ok"
    match event.op:
        case "acquire" | "try" if ok:
            return f"{owner} was granted '{finding.lock}' at {names.at(back_ns)}", back_ns
        case "renew" | "release":
            call = "renewal" if event.op == "renew" else "release"
            return f"{node}'s {call}, sent at {sent}, returned {event.status}", event.t_inv_ns
        case "lost":
            return f"{node} was notified at {sent} that it had lost the lock", event.t_inv_ns
        case "served-write" | "served-read" if event.row != finding.witnesses[-1].row:
            call = "wrote" if event.op == "served-write" else "read"
            return f"{node} {call} at {sent}", event.t_inv_ns
        case "served-write" | "served-read":
            what = "accepted" if ok else "rejected"
            return f"the resource {what} {node}'s late write at {sent}", event.t_inv_ns
        case _:
            answered = event.status not in ("info", "invoked")
            response = f"returned {event.status}" if answered else "had no response"
            return f"{node}'s {event.op}, sent at {sent}, {response}", event.t_inv_ns
