"""Extracts the cycle of a finding (wait-for, or order) from its witnesses, for drawing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.harness.verdicts.evidence import Serial
from holdfast.harness.verdicts.judged import Event, Judged, Shown
from holdfast.reports.pictures.cycle import Cycle, Edge, Node
from holdfast.reports.text.formatting import plain, seconds

NO_ORDER = 'An arrow means "must come before". A cycle means no order is possible.'


def cycle_of(finding: Shown, run: Judged) -> Cycle | None:
    """The cycle of a finding; None for a kind without one, or without the needed witnesses."""
    edges_of = CYCLES.get(finding.kind)
    return edges_of(finding.witnesses, run) if edges_of else None


MOST_DRAWN = 12


def section_cycle(found: Serial) -> Cycle | None:
    """A shortest cycle of critical sections; None if there is none, or too many to draw."""
    names = [edge.before for edge in found.cycle]
    if not 2 <= len(names) <= MOST_DRAWN or not all(names) or len(set(names)) < len(names):
        return None
    return Cycle(
        title="Critical sections in a cycle",
        verb="comes before",
        caption=NO_ORDER,
        nodes=[
            Node(name=client, note=rest.rstrip(")"))
            for client, _, rest in (name.partition(" (") for name in names)
        ],
        edges=[
            Edge(before=n, after=(n + 1) % len(names), label=edge.says)
            for n, edge in enumerate(found.cycle)
        ],
    )


def _waits(witnesses: Sequence[Event], run: Judged) -> Cycle | None:
    """Witnesses come in pairs: a waiting op, and the hold that it waits for."""
    pairs = list(zip(witnesses[::2], witnesses[1::2], strict=False))
    names = [run.client(waiter.process) for waiter, _ in pairs]
    if len(pairs) < 2 or len(set(names)) < len(names):
        return None
    last = run.client(pairs[-1][1].process)
    whole = last == names[0]
    shown = names if whole else [*names, last]
    edges = [
        Edge(before=n, after=(n + 1) % len(shown), label=plain(waiter.lock, 24))
        for n, (waiter, _) in enumerate(pairs)
    ]
    open_end = [] if whole else [Edge(before=len(shown) - 1, after=0, label="")]
    return Cycle(
        title="Wait-for cycle",
        verb="waits for",
        caption="An arrow means: waits for the named lock, which the other client holds.",
        nodes=[Node(name=name) for name in shown],
        edges=[*edges, *open_end],
    )


def _lost_update(witnesses: Sequence[Event], run: Judged) -> Cycle | None:
    """The last two witnesses are the resource's: the lost write and the one that ignored it."""
    if len(witnesses) < 2 or not all(one.op.startswith("served") for one in witnesses[-2:]):
        return None
    lost, over = witnesses[-2:]
    if int(over.res) <= int(lost.res):
        rests = f"accepted at {_at(run, lost.t_inv_ns)}, before {_at(run, over.t_inv_ns)}"
        back = f"took version {over.res} again, ignoring it"
    else:
        rests = f"accepted as version {lost.res}, before version {over.res}"
        built = f"built on version {over.arg}" if int(over.arg) >= 0 else "wrote blindly"
        back = f"{built}, ignoring version {lost.res}"
    notes = [f"version {one.res}" for one in (lost, over)]
    return _orders([_sender(lost, run), _sender(over, run)], notes, rests, back)


def _stale_write(witnesses: Sequence[Event], run: Judged) -> Cycle | None:
    """Witnesses: both grants, the newer owner's admitted request, the older owner's write."""
    if len(witnesses) < 4 or not witnesses[2].op.startswith("served"):
        return None
    old, new, admitted, write = *witnesses[:3], witnesses[-1]
    if 0 <= old.token < new.token:
        rests = f"its token {old.token} was granted before token {new.token}"
    else:
        rests = f"granted at {_at(run, old.t_ret_ns)}, before {_at(run, new.t_ret_ns)}"
    back = f"admitted at {_at(run, admitted.t_inv_ns)}, before {_at(run, write.t_inv_ns)}"
    return _orders([run.client(one.process) for one in (old, new)], ["older", "newer"], rests, back)


def _inversion(witnesses: Sequence[Event], run: Judged) -> Cycle | None:
    """Witnesses: the earlier grant with the larger token, the later grant with the smaller one."""
    grants = [one for one in witnesses if one.op in ("acquire", "try", "probe")]
    if len(grants) < 2:
        return None
    first, second = grants[:2]
    if second.t_inv_ns > first.t_ret_ns:
        rests = f"granted by {_at(run, first.t_ret_ns)}, before {_at(run, second.t_inv_ns)}"
    else:
        rests = "granted first: the other grant is proved to be later"
    back = f"token {second.token} must have been issued before {first.token}"
    notes = [f"token {one.token}" for one in (first, second)]
    return _orders([run.client(one.process) for one in (first, second)], notes, rests, back)


def _orders(names: Sequence[str], notes: Sequence[str], rests: str, back: str) -> Cycle:
    """Two nodes, each of which must come before the other."""
    nodes = [Node(name=name, note=note) for name, note in zip(names, notes, strict=True)]
    edges = [Edge(before=0, after=1, label=rests), Edge(before=1, after=0, label=back)]
    title = "Contradictory order"
    return Cycle(title=title, verb="comes before", caption=NO_ORDER, nodes=nodes, edges=edges)


def _sender(event: Event, run: Judged) -> str:
    return run.client(event.attempt >> 32 if event.attempt > 0 else event.process)


def _at(run: Judged, t_ns: int) -> str:
    return seconds(run.at(t_ns))


CYCLES: dict[str, Callable[[Sequence[Event], Judged], Cycle | None]] = {
    "multi-lock-deadlock": _waits,
    "lost-update": _lost_update,
    "stale-accepted-write": _stale_write,
    "token-inversion": _inversion,
}
