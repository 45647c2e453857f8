"""Groups the findings of a run by cause, across properties.

Findings of one incident share attempts: two clients that held at once, the release that freed the
lock, the token that both got. Incidents of one mechanism have one cause, unless they need different
kinds of fault: an incident can only be explained by faults that were in effect between its first
grant and its last event. Nothing else is assumed, so a cause may name several kinds of fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.fault_traits import UNKNOWN, Traits
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.properties import of_mechanism
from holdfast.harness.verdicts.advice import advice_of
from holdfast.harness.verdicts.cause_steps import sentence_of, steps_of
from holdfast.harness.verdicts.judged import Cause, Event, Judged, ObservedFault, Shown, Step

FREED = ("foreign-release", "late-release")
"""Values of `Shown.cause`: a release freed another client's hold, or may have."""
RELEASED, OVERLAP, LATE, WAIT = "released", "overlap", "late", "wait"
FOREIGN = of_mechanism("foreign")
MECHANISMS: Mapping[str, tuple[str, ...]] = {
    name: of_mechanism(name)
    for name in (
        RELEASED,
        "forgotten",
        OVERLAP,
        "token",
        "foreign",
        "notice",
        "rejection",
        "work",
        WAIT,
        LATE,
    )
}
"""Kinds of findings by what goes wrong, what others can follow from first. RELEASED are overlaps
whose `cause` is one of FREED."""
NEAR_NS = 50 * MILLISECOND
"""A response that a fault held back arrives within this time after its end."""
BY_OWNER = {LATE, RELEASED, "foreign"}
"""Mechanisms that a delay of the owner sets off, the first of the witnesses."""
STUCK, REFUSED = ("orphan", "deadlock"), "spurious-refusal"
"""Kinds of findings of a lock that no request is granted; of one request that was refused."""
GRANTED = ("acquire", "try")
"""Calls that are granted a lock."""
FREED_BY_ANOTHER = "wrong-reason/released"
"""Rule of a notice that a hold was released, to an owner who had requested no release."""
NOT_OWN = ("told", "released", "answered")
"""Rules by which a late write is the owner's own doing: it knew that it did not hold any more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Member:
    """One finding, with the property that it violates."""

    prop: str
    place: int
    finding: Shown
    broken: bool

    @property
    def attempts(self) -> set[int]:
        """The attempts that its witnesses belong to."""
        return {event.attempt for event in self.finding.witnesses if event.attempt > 0}

    @property
    def shows(self) -> str:
        """The kind of finding that it is, or that it is a trace of: a hold that was released, but
        not by its owner, was released by another client."""
        rule = (self.finding.certificate or {}).get("rule", "")
        return FREED[0] if rule == FREED_BY_ANOTHER else self.finding.kind

    def touched(self) -> set[tuple[str, int]]:
        """Lock and token of the holds that its renewals and releases acted on, by the answers."""
        return {
            (self.finding.lock, event.token)
            for event in self.finding.witnesses
            if event.op in ("renew", "release") and event.token >= 0 and event.status == "ok"
        }

    @property
    def mechanism(self) -> str:
        """What goes wrong: one of MECHANISMS, or the kind itself."""
        kind = self.finding.kind
        if self.finding.cause in FREED:
            return RELEASED
        return next((name for name, kinds in MECHANISMS.items() if kind in kinds), kind)

    @property
    def late(self) -> bool:
        """Whether it is a late write that was accepted."""
        return self.mechanism == LATE


@dataclass(kw_only=True, slots=True)
class _Incident:
    """Findings that share attempts. kinds: of fault, that may explain it, with the faults."""

    members: list[_Member]
    kinds: dict[str, list[ObservedFault]] = field(default_factory=dict)

    @property
    def broken(self) -> bool:
        """Whether it breaks a promise."""
        return any(one.broken for one in self.members)

    @property
    def root(self) -> _Member:
        """The finding that the others may follow from."""
        return _shown_first(self.members)

    @property
    def ended_ns(self) -> int:
        """The end of the last hold or call that its findings are about."""
        ends = [edge[1] for one in self.members for edge in one.finding.spans]
        calls = [event.t_ret_ns for one in self.members for event in one.finding.witnesses]
        return max([*ends, *calls], default=0)

    @property
    def mechanism(self) -> str:
        """What goes wrong."""
        return self.root.mechanism


Between = Callable[[Shown], Step | None]
"""What happened between the two grants of a finding and made the second possible."""


def unknown(_finding: Shown) -> None:
    """`Between` where the rows of the history are not at hand."""


def with_causes(run: Judged, traits: Mapping[str, Traits], between: Between = unknown) -> Judged:
    """The judged run with the causes of its findings."""
    return replace(run, causes=causes_of(run, traits, between))


def causes_of(
    run: Judged, traits: Mapping[str, Traits], between: Between = unknown
) -> tuple[Cause, ...]:
    """The findings of a run by cause: broken promises first, then what others can follow from.

    traits   of the kinds of fault, by name
    """
    members = [
        _Member(prop=row.property, place=place, finding=finding, broken=row.promised)
        for row in run.verdicts
        if row.verdict is Verdict.VIOLATED
        for place, finding in enumerate(row.findings)
    ]
    incidents = _incidents(run, members)
    for one in incidents:
        one.kinds = _explaining(run, one, traits)
    groups = [part for group in _by_mechanism(incidents) for part in _by_fault(group)]
    causes = [
        (_order(group[0].mechanism), _cause(run, group, under, traits, between))
        for group, under in groups
    ]
    causes.sort(key=lambda one: (not one[1].broken, one[0], one[1].t_ns))
    return tuple(cause for _, cause in causes)


def _order(mechanism: str) -> int:
    """Kinds of no mechanism, such as a false response, explain nothing else and follow from
    nothing: they stand beside the waits."""
    names = list(MECHANISMS)
    return names.index(mechanism if mechanism in names else WAIT)


def _depth(member: _Member) -> tuple[int, bool, int]:
    """Lost grants before overlaps before tokens and so on, then by time. The first overlap decides
    whether a release caused it: two owners free each other's holds later. Refusals follow from a
    lock that is stuck."""
    name = OVERLAP if member.mechanism == RELEASED else member.mechanism
    return _order(name), member.finding.kind == REFUSED, member.finding.t_ns


def _shown_first(members: Iterable[_Member]) -> _Member:
    """The root; if it is a release that may have freed another's hold, the first that did."""
    root = min(members, key=_depth)
    if root.mechanism != RELEASED:
        return root
    proved = [one for one in members if one.finding.cause == FREED[0]]
    return min(proved, key=_depth, default=root)


def _incidents(run: Judged, members: Sequence[_Member]) -> list[_Incident]:
    """The findings by shared attempts, by time."""
    linked, apart = list[_Member](), list[_Member]()
    for one in members:
        alone = one.late or _order(one.mechanism) == _order(WAIT)
        (apart if alone else linked).append(one)
    incidents = _continued(_connected(linked))
    owners = {
        attempt: incident
        for incident in incidents
        for one in incident.members
        for attempt in one.attempts
    }
    stuck = [one for one in apart if one.finding.kind in STUCK]
    rest = dict[tuple[object, ...], list[_Member]]()
    for one in apart:
        incident = _followed(run, one, owners) if one.late else None
        if incident is not None:
            incident.members.append(one)
        else:
            rest.setdefault(_event_of(_meanwhile(one, stuck)), []).append(one)
    incidents += [_Incident(members=group) for group in rest.values()]
    return sorted(incidents, key=lambda one: one.root.finding.t_ns)


def _connected(members: Sequence[_Member]) -> list[_Incident]:
    """Findings that share an attempt, directly or over others, are of one incident. A release or
    renewal of another client's hold concerns that one: the token of its answer names it."""
    of_attempt = dict[int, _Incident]()
    incidents = list[_Incident]()
    named = _named_by_token(members)
    for one in sorted(members, key=lambda each: each.finding.t_ns):
        attempts = one.attempts | {named[hold] for hold in one.touched() if hold in named}
        met = list({id(of_attempt[a]): of_attempt[a] for a in attempts if a in of_attempt}.values())
        # The larger one takes in the others: a finding changes its incident seldom.
        joint = max(met, key=lambda each: len(each.members), default=_Incident(members=[]))
        moved = [member for other in met if other is not joint for member in other.members]
        for other in met:
            other.members = other.members if other is joint else []
        if not met:
            incidents.append(joint)
        joint.members += [*moved, one]
        for member in (*moved, one):
            of_attempt.update(dict.fromkeys(member.attempts, joint))
        of_attempt.update(dict.fromkeys(attempts, joint))
    return [one for one in incidents if one.members]


def _named_by_token(members: Iterable[_Member]) -> dict[tuple[str, int], int]:
    """The attempts that were granted a lock, by lock and token; none of a repeated token."""
    attempts = dict[tuple[str, int], set[int]]()
    for one in members:
        for event in one.finding.witnesses:
            if event.op in GRANTED and event.token >= 0:
                attempts.setdefault((one.finding.lock, event.token), set()).add(event.attempt)
    return {hold: min(several) for hold, several in attempts.items() if len(several) == 1}


def _continued(incidents: Iterable[_Incident]) -> list[_Incident]:
    """Overlaps without a cause of their own belong to the releases before them on the same lock, if
    a client of those still held or called when the first of the two was granted: the lock had not
    come to rest, and the release that freed it may have been on its way then."""
    kept = list[_Incident]()
    released = dict[str, tuple[int, _Incident]]()
    for began_ns, root, one in sorted(
        ((one.root.finding.t_ns, one.root, one) for one in incidents), key=lambda each: each[0]
    ):
        lock = root.finding.lock
        began_ns = min((edge[0] for edge in root.finding.spans), default=began_ns)
        ended_ns, before = released.get(lock, (-1, one))
        if root.mechanism == OVERLAP and began_ns <= ended_ns:
            before.members += one.members
            continue
        kept.append(one)
        if root.mechanism == RELEASED and one.ended_ns > ended_ns:
            released[lock] = one.ended_ns, one
    return kept


def _meanwhile(member: _Member, stuck: Iterable[_Member]) -> _Member:
    """Of a refusal the finding that its lock was stuck at that time: each request was refused then.
    The member itself without one."""
    if member.finding.kind != REFUSED:
        return member
    for one in stuck:
        times = [one.finding.t_ns, *(event.t_inv_ns for event in one.finding.witnesses)]
        alike = one.finding.lock == member.finding.lock
        if alike and min(times) <= member.finding.t_ns <= max(times):
            return one
    return member


def _event_of(member: _Member) -> tuple[object, ...]:
    """What two findings about the same event have in common: a write, or a time without grant."""
    if member.late:
        return (member.finding.witnesses[-1].row,)
    return (member.finding.lock, member.finding.t_ns, member.mechanism)


def _followed(run: Judged, member: _Member, owners: Mapping[int, _Incident]) -> _Incident | None:
    """The incident that made a write late: its owner had been made one of several, or should not
    have been granted the lock. None if the owner itself was late: it knew that it did not hold, or
    a fault had outlasted its hold."""
    finding = member.finding
    if str((finding.certificate or {}).get("rule", "")).rpartition("/")[2] in NOT_OWN:
        return None
    # A stale write names both owners: the late one and the newer one.
    named = [event for event in finding.witnesses if event.op in GRANTED]
    incidents = [owners.get(event.attempt) for event in named[:2]]
    first = incidents[0] if incidents else None
    if first is None:
        return None
    if any(one is not first for one in incidents) and named[0].attempt not in _beside(first):
        return None
    return None if _outlasted(run, named[0], finding.t_ns) else first


def _beside(incident: _Incident) -> set[int]:
    """The attempts that were granted while another one held: their grants are the violation."""
    found = set[int]()
    for one in incident.members:
        grants = [e for e in one.finding.witnesses if e.op in GRANTED]
        if one.mechanism in (RELEASED, OVERLAP) and len(grants) > 1:
            found.add(max(grants, key=lambda event: event.t_ret_ns).attempt)
    return found


def _outlasted(run: Judged, granted: Event, until_ns: int) -> bool:
    """Whether an effective fault of the owner began after its grant and ended before `until_ns`,
    and lasted longer than the lease. Where only a release ends a hold, no fault makes it late."""
    if run.promises is not None and run.promises.bound == "none":
        return False
    lease_ns = granted.arg if isinstance(granted.arg, int) else 0
    return any(
        fault.effective
        and granted.node in fault.nodes
        and granted.t_inv_ns <= fault.from_ns
        and fault.to_ns <= until_ns
        and fault.to_ns - fault.from_ns >= lease_ns
        for fault in run.faults
    )


def _explaining(
    run: Judged, incident: _Incident, traits: Mapping[str, Traits]
) -> dict[str, list[ObservedFault]]:
    """The effective faults that may explain an incident, by kind.

    Of those in effect between its first request and its root, those that struck the nodes that can
    be at fault: of a late write or release its owner, else the servers. Others only if there is
    none of these.
    """
    root = incident.root.finding
    began_ns = min((event.t_inv_ns for event in root.witnesses), default=root.t_ns)
    met = [
        fault
        for fault in run.faults
        if fault.effective and _began(fault) <= root.t_ns and fault.to_ns >= began_ns
    ]
    owners = {event.node for event in root.witnesses if event.attempt > 0}
    first = {event.node for event in root.witnesses[:1]}
    guilty = first if incident.mechanism in BY_OWNER else set(run.servers)
    for nodes in (guilty, owners | set(run.servers)):
        chosen = [fault for fault in met if nodes & set(fault.nodes)]
        if chosen:
            break
    else:
        chosen = [fault for fault in met if not fault.nodes]
    kinds = dict[str, list[ObservedFault]]()
    for fault in chosen:
        kinds.setdefault(fault.do, []).append(fault)
    return kinds


def _began(fault: ObservedFault) -> int:
    """From when on it may have been in effect."""
    return fault.from_ns if fault.requested_ns < 0 else min(fault.requested_ns, fault.from_ns)


def _by_mechanism(incidents: Iterable[_Incident]) -> list[list[_Incident]]:
    """Incidents of one mechanism, apart where they break no promise.

    An incident that has only kinds of findings which another mechanism brought with it elsewhere
    in the run belongs to that one: it is the same defect, seen in part.
    """
    groups = dict[tuple[bool, str], list[_Incident]]()
    incidents = list(incidents)
    freeing = any(one.mechanism == RELEASED for one in incidents)
    for one in incidents:
        # A release of another's hold is the same defect where no grant met that hold.
        same = freeing and one.root.shows == FREED[0]
        groups.setdefault((one.broken, RELEASED if same else one.mechanism), []).append(one)
    in_order = sorted(groups, key=lambda key: _order(key[1]))
    for n, key in reversed(list(enumerate(in_order))):
        kinds = _kinds(groups[key])
        for other in in_order[:n]:
            if other[0] == key[0] and kinds and kinds <= _kinds(groups[other]):
                groups[other] += groups.pop(key)
                break
    return list(groups.values())


def _kinds(group: Iterable[_Incident]) -> set[str]:
    """The kinds of findings, without late writes: many causes have them."""
    return {one.shows for each in group for one in each.members if not one.late}


def _by_fault(group: Sequence[_Incident]) -> Iterator[tuple[list[_Incident], tuple[str, ...]]]:
    """A group by the kinds of fault that its incidents need, with these kinds.

    What makes a write or a release late is the owner's delay, whatever delayed it. Of the rest one
    that occurred without a fault needs none, and neither do the others then. Else as few kinds as
    explain all; kinds that explain the same incidents remain side by side.
    """
    group = sorted(group, key=lambda one: one.root.finding.t_ns)
    if all(one.mechanism in BY_OWNER for one in group):
        yield group, tuple(dict.fromkeys(kind for one in group for kind in one.kinds))
        return
    if any(not one.kinds for one in group):
        yield group, ()
        return
    left = list(group)
    while left:
        counts = Counter(kind for one in left for kind in one.kinds)
        most = max(counts.values())
        best = next(kind for kind, n in counts.items() if n == most)
        part = [one for one in left if best in one.kinds]
        yield part, tuple(k for k in counts if all(k in one.kinds for one in part))
        left = [one for one in left if best not in one.kinds]


def _cause(
    run: Judged,
    group: Sequence[_Incident],
    under: Collection[str],
    traits: Mapping[str, Traits],
    between: Between,
) -> Cause:
    roots = [one.root for one in group]
    # A reader can follow the one that a fault set off, if there is one.
    first = _shown_first([one.root for one in group if one.kinds and under] or roots)
    members = [one for each in group for one in each.members]
    findings = dict[str, list[int]]()
    for one in members:
        findings.setdefault(one.prop, []).append(one.place)
    faults = [[fault for kind in under for fault in each.kinds.get(kind, ())] for each in group]
    # A release that freed the hold is in the finding's own sentence.
    event = None if first.mechanism == RELEASED else between(first.finding)
    named = faults[roots.index(first)]
    if first.finding.kind in (*MECHANISMS[LATE], *MECHANISMS["notice"]):
        named, event = _of_outdated(run, first.finding, named, traits, event)
    steps = steps_of(run, first.finding, named, traits, event)
    return Cause(
        kind=first.finding.kind,
        cause=first.finding.cause,
        broken=any(one.broken for one in members),
        sentence=sentence_of(steps),
        times=_times(first, members),
        t_ns=first.finding.t_ns,
        under=tuple(under),
        without=sum(not one.kinds for one in group),
        faults=tuple(dict.fromkeys(fault.id for some in faults for fault in some)),
        findings={prop: tuple(sorted(places)) for prop, places in findings.items()},
        first=(first.prop, first.place),
        steps=steps,
        advice=advice_of(event.event, len(run.servers)) if event is not None else "",
    )


def _of_outdated(
    run: Judged,
    finding: Shown,
    named: Sequence[ObservedFault],
    traits: Mapping[str, Traits],
    event: Step | None,
) -> tuple[list[ObservedFault], Step | None]:
    """The faults and the event to name where an owner's hold was over: a fault that delayed the
    owner says more than the end of its lease. What struck other clients explains nothing."""
    owner = next((one for one in finding.witnesses if one.attempt > 0), None)
    if owner is None:
        return list(named), event
    over_ns = _known_over_ns(finding, owner)
    early = [fault for fault in named if _delayed(fault, traits, owner, over_ns)]
    if own := [fault for fault in early if owner.node in fault.nodes]:
        return own, None
    servers = set(run.servers)
    return [one for one in early if not one.nodes or servers & set(one.nodes)], event


def _delayed(
    fault: ObservedFault, traits: Mapping[str, Traits], owner: Event, over_ns: int
) -> bool:
    """Whether a fault can have kept an owner from its renewals, or its write from the resource: it
    met the hold, or stopped the owner after the end of the hold was known."""
    kind = traits.get(fault.do, UNKNOWN)
    met = fault.to_ns >= owner.t_ret_ns - NEAR_NS or kind.shifts_clocks
    return met and (_began(fault) <= over_ns or kind.stops or kind.stops_amid_send)


def _known_over_ns(finding: Shown, owner: Event) -> int:
    """When it was known, by the witnesses, that a hold was over: its owner was notified, or another
    was granted the lock; else the time of the finding."""
    known = [finding.t_ns]
    for one in finding.witnesses:
        if one.attempt == owner.attempt:
            notified = one.op == "lost" or (one.op, one.status) == ("renew", "not-owner")
            known += [one.t_ret_ns or one.t_inv_ns] if notified else []
        elif one.op in ("acquire", "try") and one.status == "ok":
            known.append(one.t_ret_ns)
    return min(known)


def _times(first: _Member, members: Sequence[_Member]) -> int:
    """How often it occurred: the events of its first finding's mechanism, of the property that has
    most of them; of a release that freed another's hold, such releases."""
    if first.late:
        return len({one.finding.witnesses[-1].row for one in members if one.late})
    alike = [one for one in members if one.mechanism == first.mechanism]
    if first.mechanism == RELEASED:
        alike = [one for one in members if one.finding.kind in FOREIGN] or alike
    return max(Counter(one.prop for one in alike).values())
