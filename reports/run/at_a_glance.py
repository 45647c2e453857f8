"""The short lines of a run's page: facts beside the verdict, tiles, what each fold has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verdicts.judged import Judged
from holdfast.reports.text.formatting import count, listed, plain, seconds, span

TRIED = ("acquires during a judged hold", "contended acquires")
"""Counts of mutual exclusion that say how often a second holder would have been seen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tile:
    """A number with its name and what it counts."""

    title: str
    value: str
    text: str


def facts(run: Judged, *, simulated: bool) -> list[tuple[str, str]]:
    """Lock, load, resource and faults of a run, one line each."""
    lease = run.evidence.lease_margin.lease_ns
    lock = plain(run.system, 60) + (f", lease {span(lease)}" if lease else "")
    time = f"{seconds(run.end_ns - run.start_ns, 1)}{' of simulated time' if simulated else ''}"
    nodes = f"{count(run.clients(), 'client')}, {count(len(run.servers), 'server')}"
    grants = count(run.evidence.acquire.granted, "grant")
    named = [("Lock", lock), ("Load", f"{plain(run.workload, 60)}: {nodes}, {grants} in {time}")]
    named += [("Resource", plain(run.resource, 60))] if run.resource else []
    return [*named, ("Faults", faults(run))]


def faults(run: Judged) -> str:
    """ "3 (pause), all took effect"."""
    if not run.faults:
        return "none"
    kinds = Counter(fault.do for fault in run.faults)
    effective = sum(fault.effective for fault in run.faults)
    some = {0: "none", len(run.faults): "all"}.get(effective, f"{effective:,}")
    return f"{len(run.faults):,} ({kinds_named(kinds)}), {some} took effect"


def kinds_named(kinds: Mapping[str, int]) -> str:
    """ "pause" of one kind, else "1 kill and 2 pause"."""
    if len(kinds) == 1:
        return plain(next(iter(kinds)), 40)
    return listed(f"{n:,} {plain(do, 40)}" for do, n in kinds.items())


def tiles(run: Judged) -> list[Tile]:
    """What was exercised, what was verified, how long an acquire took; each only if known."""
    made = []
    exclusion = next((one for one in run.verdicts if one.property == "mutual-exclusion"), None)
    counted = exclusion.exercised if exclusion else {}
    tries = next((counted[name] for name in TRIED if name in counted), None)
    asked = run.evidence.acquire.asked
    if tries is not None and asked:
        text = "acquires, while another client held"
        made.append(Tile(title="Exercised", value=f"{int(tries):,} of {asked:,}", text=text))
    checked = run.verified.accepted + run.verified.bare
    if checked:
        proved, of = (
            len(run.verified.properties),
            count(len(run.verdicts), "property", "properties"),
        )
        text = f"certificates (the rows as proof), {proved} of {of}"
        value = f"{run.verified.accepted:,} of {checked:,}"
        made.append(Tile(title="Checked by a second program", value=value, text=text))
    wait = run.evidence.wait_ns
    if wait.n:
        late = run.evidence.timeouts
        text = f"maximum {span(wait.max)}; {count(late, 'timeout')}"
        value = f"p50 {span(wait.p50)} · p99 {span(wait.p99)}"
        made.append(Tile(title="Time to acquire", value=value, text=text))
    return made


def properties(run: Judged) -> str:
    """ "2 violated, 1 limit (violated, never promised), 3 held, 2 unknown"."""
    verdicts = [one.verdict for one in run.verdicts]
    broken = sum(one.promised for one in run.verdicts if one.verdict is Verdict.VIOLATED)
    counts = (
        (broken, "violated"),
        (verdicts.count(Verdict.VIOLATED) - broken, "limit (violated, never promised)"),
        (verdicts.count(Verdict.UNKNOWN), "unknown"),
        (verdicts.count(Verdict.HOLDS), "held"),
    )
    return ", ".join(f"{n} {word}" for n, word in counts if n)


def measures(run: Judged) -> str:
    """What the section of evidence has of this run."""
    facts = run.evidence
    named = [plain(op.replace("_", " "), 24) for op, dist in facts.latency_ns.items() if dist.n]
    parts = [", ".join(named[:4])] if named else []
    parts += [count(facts.tokens.grants, "token")] if facts.tokens.log else []
    parts += [count(facts.rejected.total, "refusal")] if facts.rejected.total else []
    parts += [count(len(facts.failovers), "failover")] if facts.failovers else []
    return "; ".join(parts)
