"""The result of a run in sentences: verdict, causes, untested properties, scope."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.verdict import Verdict, worst
from holdfast.harness.properties import PROPERTIES, kind
from holdfast.harness.verdicts.cause_steps import BY_CALLS
from holdfast.harness.verdicts.judged import Cause, Judged, Judgement, Outcome
from holdfast.harness.verdicts.left_unknown import of_run
from holdfast.reports.run.at_a_glance import kinds_named
from holdfast.reports.run.coverage_advice import advices
from holdfast.reports.text.formatting import count, listed, plain, seconds, span, stopped

EXERCISE = "To exercise what was not tested"
"""Label of the command that does."""


def story(run: Judged) -> list[str]:
    """Sentences about a run: verdict, causes, untested properties, scope."""
    broken = [one for one in violated(run) if one.promised]
    limits = [one for one in violated(run) if not one.promised]
    told = [headline(run), *how_to_fail(run)]
    for entry in entries(run, broken=True):
        told += entry.sentences()
    if broken and limits:
        told.append(f"LIMIT (violated, never promised): {_names(limits)}.")
    for entry in entries(run, broken=False):
        told += entry.sentences()
    told += [*servers(run), *held(run), *counted(run), *left_open(run)]
    if run.remedy:
        told.append(f"{EXERCISE}: {run.remedy}")
    return [*told, bound(run)]


def violated(run: Judged) -> list[Judgement]:
    """The violated properties, promised ones first."""
    return sorted(_those(run, Verdict.VIOLATED), key=lambda one: not one.promised)


def headline(run: Judged) -> str:
    """The verdict of the run in one or two sentences."""
    return f"{run.outcome().value}: {claim(run)}"


def claim(run: Judged) -> str:
    """The verdict of a run as a sentence without the word of the verdict."""
    system = plain(run.system, 60)
    match run.outcome():
        case Outcome.BROKEN:
            return _broken(system, [one for one in violated(run) if one.promised])
        case Outcome.LIMIT:
            kept = any(one.promised for one in _those(run, Verdict.HOLDS))
            return _limits(run, system, kept=kept)
        case Outcome.UNKNOWN if partly(run) and not _promised_open(run):
            lacks = dict.fromkeys(kind for one in partly(run) for kind in one.lacks())
            what = _names(_those(run, Verdict.HOLDS))
            kinds = listed(plain(kind, 40) for kind in lacks)
            return f"{system} kept {what}, but it was not tested under {kinds}."
        case Outcome.UNKNOWN if _undecided(run):
            rest = _untested(run, [one for one in _those(run, Verdict.UNKNOWN) if not one.either])
            return f"{_undecided(run)[0].either[0]}. {_capital(rest)}".strip()
        case Outcome.UNKNOWN if _departs(run):
            left = _those(run, Verdict.UNKNOWN)
            rest = _untested(run) if left else "no promise was broken."
            return f"a server of {system} departs from its specification; {rest}"
        case Outcome.UNKNOWN:
            return _untested(run)
        case Outcome.FAILED:
            return f"the run of {system} could not be executed."
        case _:
            kept_n = len(_those(run, Verdict.HOLDS))
            what = count(kept_n, "property", "properties")
            return f"{system} kept the {what} judged in this run."


def claims(run: Judged) -> tuple[str, str]:
    """The claim in two: what happened, and whose promise that was; the second may be empty."""
    if run.outcome() in (Outcome.BROKEN, Outcome.LIMIT):
        what, _, whose = claim(run).partition(". ")
        return what, whose
    return claim(run), ""


def _broken(system: str, broken: Sequence[Judgement]) -> str:
    """Promises of the system and properties that the plan requires, told apart."""
    promises = [one for one in broken if not one.required]
    required = [one for one in broken if one.required]
    parts = []
    if promises or not required:
        parts.append(f"broke its promise of {_names(promises) or 'a judged property'}")
    if required:
        # As the option has it: "violated no stale write" would say the contrary.
        ids = listed(plain(one.property, 60) for one in required)
        parts.append(f"violated {ids}, which this run requires")
    events = _events(broken)
    what = f"{listed(events[:EVENTS])}. " if events else ""
    return f"{what}{system} {' and '.join(parts)}."


def how_to_fail(run: Judged) -> list[str]:
    """The option with which a documented limit fails the run, as one sentence or none."""
    if run.outcome() is not Outcome.LIMIT:
        return []
    names = ",".join(plain(one.property, 60) for one in _those(run, Verdict.VIOLATED))
    return [f"To make this fail: --require {names}."]


EVENTS = 2
"""Events that a headline names: those of the most severe properties."""
HAPPENED = {
    "mutual-exclusion": "two clients held a lock at the same time",
    "no-stale-write": "a late write was accepted",
    "no-expired-write": "a late write was accepted",
    "no-lost-update": "an update was lost",
    "applied-once": "a retried command took effect twice",
    "exactly-once-job": "a job was not done exactly once",
    "token-order": "fencing tokens were out of order",
    "durable-grants": "what had been acknowledged was undone",
    "ownership": "a client released or renewed a lock that it did not hold",
    "loss-notice": "a client was not notified in time that it lost its lock",
    "deadlock-freedom": "a free lock was not granted",
    "orphan-freedom": "a lock that no client could hold was refused",
    "no-hung-request": "a request did not return within its timeout",
    "no-multi-lock-deadlock": "a deadlock of several locks was not resolved",
    "no-false-rejection": "a valid request was rejected",
    "starvation-freedom": "a request starved",
    "bounded-bypass": "a waiter was overtaken in the queue",
    "bounded-wait": "a request waited longer than the queue ahead of it",
    "truthful-queries": "a query returned a wrong result",
}
"""Property id -> what happened if it was violated, for a reader who has the risk. Two kinds of late
write are one event."""
LOOKED_FOR = HAPPENED | {"no-expired-write": "a write was accepted after its owner's lease"}
"""The same where each property has a row of its own."""


def _limits(run: Judged, system: str, *, kept: bool) -> str:
    """Violated, but never promised: what happened, and whose promise it was not."""
    events = _events(_those(run, Verdict.VIOLATED))
    more = len(events) - EVENTS
    others = [f"{count(more, 'more property', 'more properties')} violated"] if more > 0 else []
    what = listed([*events[:EVENTS], *others])
    rest = "kept its promises and never" if kept else "never"
    pronoun = "it" if len(events) == 1 else "this"
    return f"{what}. {system} {rest} promised to prevent {pronoun}."


def _events(judged: Iterable[Judgement]) -> list[str]:
    """What happened, each event once."""
    ids = [one.property for one in judged]
    return list(dict.fromkeys(HAPPENED.get(one, f"{names([one])} was violated") for one in ids))


def answers(run: Judged) -> list[tuple[str, str]]:
    """What every reader asks, with the answer of this run: two holders, late writes, coverage."""
    rows = {row.property: row for row in run.verdicts}
    exclusion = rows.get("mutual-exclusion")
    late = [rows[prop] for prop in ("no-stale-write", "no-expired-write") if prop in rows]
    asked = []
    if exclusion is not None:
        tries = exclusion.exercised.get("contended acquires", 0)
        of = f"0 in {count(int(tries), 'contended acquire')}"
        asked.append((TWO_HOLDERS, _answer([exclusion], len(exclusion.findings), "", of)))
    if late:
        owner = run.evidence.expired_owner
        n = max(owner.accepted, *(len(row.findings) for row in late))
        sent = f" of {owner.sent:,}" if owner.sent >= n else ""
        of = f"0 of {count(owner.sent, 'late write')}"
        answer = _answer(late, n, sent, of)
        if asked and asked[0][1] == answer and len(answer) > len(SAME):
            answer = SAME
        asked.append((LATE_WRITE, answer))
    return [*asked, (REALLY_TRIED, bound(run))]


SAME = "Unknown, for the same reason."
TWO_HOLDERS, LATE_WRITE = "Two holders at once?", "Late write accepted?"
REALLY_TRIED = "Really tried?"


def _answer(rows: Sequence[Judgement], times: int, of_sent: str, never: str) -> str:
    """Yes, no or unknown, with numbers; of several properties, of the worst verdict."""
    verdict = worst(row.verdict for row in rows)
    row = next(row for row in rows if row.verdict is verdict)
    if verdict is Verdict.VIOLATED:
        broken = [one for one in rows if one.verdict is verdict]
        promise = "not allowed in this run" if any(one.required for one in broken) else ""
        if any(one.promised and not one.required for one in broken):
            promise = "a broken promise"
        promise = promise or "never promised"
        return f"Yes, {times:,}{of_sent or (' time' if times == 1 else ' times')} ({promise})."
    if verdict is Verdict.HOLDS:
        return f"Not seen: {never}."
    # One reason is enough of an answer; `left_open` has all of them.
    return f"Unknown: {stopped(row.reason.partition('; ')[0] or 'not tested', 300)}"


def _undecided(run: Judged) -> list[Judgement]:
    """Properties of which the run proves that one of two was violated, promised ones first."""
    left = [one for one in _those(run, Verdict.UNKNOWN) if one.either]
    return sorted(left, key=lambda one: not one.promised)


def _untested(run: Judged, left: Sequence[Judgement] | None = None) -> str:
    """How many of the judged properties were not tested, and which."""
    if left == []:
        return ""
    left = _those(run, Verdict.UNKNOWN) if left is None else left
    total = len(run.verdicts)
    if not total:
        return "no property was judged."
    if not left:
        return f"the run is incomplete (exit code {run.exit_code})."
    if len(left) == total:
        what = f"none of the {total} properties" if total > 1 else _names(left)
        return f"{what} was {'' if total > 1 else 'not '}tested."
    verb = "was" if len(left) == 1 else "were"
    return f"{len(left)} of {total} properties {verb} not tested: {_names(left)}."


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One cause in words, as every output shows it.

    title    name of the kind of finding that began it
    sentence the fault, the calls and what followed, of its first occurrence
    brief    the same without what follows from the rest
    times    how often it occurred; often: the same, with the faults after which it did
    extent   the same with its findings by property; findings: those alone
    means    what such a finding is; remedy: what to do
    """

    cause: Cause
    title: str
    sentence: str
    brief: str
    times: str
    often: str
    extent: str
    findings: str
    means: str
    remedy: str

    def sentences(self) -> list[str]:
        """Cause, extent, meaning and remedy, one sentence each."""
        return [
            f"Cause: {self.sentence}",
            f"Extent: {self.extent}.",
            f"Meaning: {self.means}.",
            f"What to do: {self.remedy}",
        ]


def entries(run: Judged, *, broken: bool | None = None) -> list[Entry]:
    """One entry per cause, in their order: all, or those that break a promise, or the others."""
    return [_entry(run, cause) for cause in run.causes if broken is None or cause.broken is broken]


def _entry(run: Judged, cause: Cause) -> Entry:
    words = kind(cause.kind, cause.cause)
    return Entry(
        cause=cause,
        title=plain(words.name, 60),
        sentence=stopped(cause.sentence, 1200),
        brief=stopped(_brief(run, cause), 600),
        times=_times(run, cause),
        often=_often(run, cause),
        extent=_extent(run, cause),
        findings=_findings(cause),
        means=words.means,
        remedy=cause.advice or words.remedy,
    )


def _brief(run: Judged, cause: Cause) -> str:
    """The fault or event, the newer owner's grant and what was wrong, without reasons and without
    the grant that they imply."""
    prop, place = cause.first
    finding = next(row.findings[place] for row in run.verdicts if row.property == prop)
    if not cause.steps:
        return cause.sentence
    *earlier, last = [step for step in cause.steps if not step.repeats]
    calls = {event.row: event.op for event in finding.witnesses}
    events = [step for step in earlier if step.fault or step.event]
    grants = [step for step in earlier if calls.get(step.row) in ("acquire", "try")]
    newer = grants[1:] if events else grants
    texts = [step.text for step in earlier if step in events or step in newer]
    # The reason why the lock was held then stands behind a colon.
    what = last.text if finding.kind in BY_CALLS else last.text.partition(": ")[0]
    return "; ".join([*texts, what])


def _extent(run: Judged, cause: Cause) -> str:
    """ "9 times, after 3 of 3 pause faults; 18 findings: 9 no stale write, 9 no expired write"."""
    return f"{_times(run, cause)}, {_after(run, cause)}; {_findings(cause)}"


def _findings(cause: Cause) -> str:
    """ "18 findings: 9 no stale write, 9 no expired write"."""
    of = [(len(places), names([prop])) for prop, places in cause.findings.items()]
    total = count(sum(n for n, _ in of), "finding")
    if len(of) == 1:
        return f"{total} of {of[0][1]}"
    return f"{total}: {', '.join(f'{n:,} {prop}' for n, prop in of)}"


def _often(run: Judged, cause: Cause) -> str:
    """ "9 times, after 3 of 3 pause faults": what the page and its tables show."""
    return f"{_times(run, cause)}, {_after(run, cause)}"


def _times(run: Judged, cause: Cause) -> str:
    """ "once", "9 times"; "once more" where a cause before it violated the same property, too."""
    prop, _ = cause.first
    before = run.causes[: run.causes.index(cause)] if cause in run.causes else ()
    more = any(prop in one.findings for one in before)
    if cause.times == 1:
        return "once more" if more else "once"
    return f"{cause.times:,} more times" if more else f"{cause.times:,} times"


def _after(run: Judged, cause: Cause) -> str:
    """The faults that may explain a cause, by kind, of all that took effect."""
    if not cause.under:
        return "also without a fault" if run.faults else "without a fault"
    ids = set(cause.faults)
    kinds = []
    for do in cause.under:
        effective = [fault for fault in run.faults if fault.do == do and fault.effective]
        struck = sum(fault.id in ids for fault in effective)
        kinds.append(f"{struck} of {count(len(effective), f'{plain(do, 40)} fault')}")
    alone = f", {count(cause.without, 'time')} without a fault" if cause.without else ""
    return f"after {' or '.join(kinds)}{alone}"


def bound(run: Judged) -> str:
    """The scope of the verdict: duration, seed, grants, faults that took effect."""
    effective = [fault for fault in run.faults if fault.effective]
    kinds = Counter(fault.do for fault in effective)
    faults = "no effective fault"
    if effective:
        faults = f"{count(len(effective), 'effective fault')} ({kinds_named(kinds)})"
    missed = len(run.faults) - len(effective)
    if missed:
        faults += f", {count(missed, 'fault')} without effect"
    base = (
        f"One run of {seconds(run.end_ns - run.start_ns, 1)}, seed {run.seed}:"
        f" {count(run.evidence.acquire.granted, 'grant')}, {faults}."
    )
    if run.in_parts is not None:
        base += (
            f" Its {count(run.in_parts.rows, 'row')} were judged in"
            f" {count(run.in_parts.parts, 'part')}, without certificates and measures."
        )
    if run.outcome() in {Outcome.HOLDS, Outcome.LIMIT}:
        base += " One passing run is not a proof."
    return base


def names(properties: Sequence[str]) -> str:
    """Property ids as words of a sentence."""
    return listed(plain(one.replace("-", " "), 60) for one in properties)


def meaning(prop: str) -> str:
    """The property in one clause; empty for an unknown id."""
    return PROPERTIES[prop].sentence if prop in PROPERTIES else ""


def held(run: Judged) -> list[str]:
    """The properties that held, as one sentence or none."""
    kept = _those(run, Verdict.HOLDS)
    if not kept or run.outcome() is Outcome.FAILED:
        return []
    return [f"Held: {_names(kept)}."]


def tried(run: Judged) -> list[str]:
    """How often a lock with a typical defect would have been seen, per kind of fault and place."""
    places: dict[tuple[str, str, int], list[Judgement]] = {}
    for one in run.verdicts:
        for fault, at in one.under.items():
            for seen in at.opportunities:
                if seen.count and at.verdict is Verdict.HOLDS:
                    places.setdefault((fault, seen.sentence, seen.count), []).append(one)
    return [
        f"Tried under {plain(fault, 40)} ({_names(judged)}): {count(n, 'time')} {plain(what, 300)}."
        for (fault, what, n), judged in places.items()
    ]


def counted(run: Judged) -> list[str]:
    """What the run had of places at which something would have been seen, and what it had not."""
    return [*tried(run), *not_tried(run), *notices(run)]


def not_tried(run: Judged) -> list[str]:
    """What the run did not contain, of what properties that held are about: a typical defect that
    shows there alone would not have been seen."""
    places: dict[tuple[str, str], list[Judgement]] = {}
    for one in run.verdicts:
        for fault, at in one.under.items():
            for seen in at.opportunities if at.verdict is Verdict.HOLDS else ():
                if not (seen.count or seen.staged):
                    places.setdefault((fault, seen.nearest), []).append(one)
    return [
        f"Not tried under {plain(fault, 40)} ({_names(judged)}): {plain(nearest, 300)}."
        for (fault, nearest), judged in places.items()
        if nearest
    ]


def notices(run: Judged) -> list[str]:
    """How many holders were notified of a loss, and how late, as one sentence or none.

    A time under a fault is included, so it may be longer than the limit without a violation.
    """
    one = next((one for one in run.verdicts if one.property == "loss-notice"), None)
    lost = 0 if one is None else int(one.exercised.get("holds lost to another", 0))
    if one is None or not lost:
        return []
    notified = int(one.exercised.get("of them notified", 0))
    verb = "was" if 1 in (lost, notified) else "were"
    what = f"{notified:,} of {count(lost, 'holder')} that lost the lock to another {verb} notified"
    if not notified:
        return [f"{what}."]
    slowest_ns = int(one.exercised.get("slowest notice ms", 0)) * MILLISECOND
    limit_ns = run.promises.notice_ns if run.promises is not None else 0
    limit = f"; limit without a fault: {span(limit_ns)}" if limit_ns else ""
    return [f"{what}, at most {span(slowest_ns)} after the loss (faults included{limit})."]


def partly(run: Judged) -> list[Judgement]:
    """Properties that held, but were not exercised under some planned kind of fault."""
    return [one for one in _those(run, Verdict.HOLDS) if one.lacks()]


def _promised_open(run: Judged) -> bool:
    return any(one.promised for one in _those(run, Verdict.UNKNOWN))


def by_kind(run: Judged) -> list[str]:
    """One sentence per group of properties that were exercised under the same kinds of fault."""
    told: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], list[Judgement]] = {}
    for one in partly(run):
        lacks = one.lacks()
        held_under = tuple(kind for kind, at in one.under.items() if at.asked and kind not in lacks)
        told.setdefault((held_under, tuple(lacks.items())), []).append(one)
    return [
        f"Held under {listed(plain(kind, 40) for kind in kept)}, not exercised under"
        f" {listed(f'{plain(kind, 40)} ({plain(why, 200)})' for kind, why in lacks)}:"
        f" {_names(judged)}."
        for (kept, lacks), judged in told.items()
    ]


def left_open(run: Judged) -> list[str]:
    """Per reason why some properties were not tested, the reason and, unless the run has one
    command for all, what to do about it; then those not tested under some kinds of fault."""
    untested = [one.property for one in _those(run, Verdict.UNKNOWN)]
    alone = replace(run, verdicts=tuple(_those(run, Verdict.UNKNOWN)))
    parts = sorted(of_run(alone), key=lambda one: untested.index(one.properties[0]))
    return [
        plain(one.sentence)
        + ("" if run.remedy else f" What to do: {' '.join(advices([one.cause]))}")
        for one in parts
    ] + by_kind(run)


def not_tested(run: Judged) -> list[str]:
    """The names of the properties that were not tested, as one sentence or none."""
    untested = [one for one in _those(run, Verdict.UNKNOWN) if not one.either]
    left = [f"Not decided: {_names(_undecided(run))}."] if _undecided(run) else []
    return [*left, *([f"Not tested: {_names(untested)}."] if untested else [])]


def servers(run: Judged) -> list[str]:
    """What is said of the recorded steps of the servers, [] if none were to be recorded."""
    traced = run.traced
    if traced is None:
        return []
    steps = f"{count(traced.steps, 'step')} of the servers"
    why = f" {_capital(stopped(traced.why, 300))}" if traced.why else ""
    if traced.departure is None:
        if not traced.steps:
            return [f"No step of the servers was validated.{why}"]
        return [f"{steps} validated against their specification: all are allowed.{why}"]
    found = traced.departure
    at = seconds(run.at(found.t_ns))
    return [
        f"{plain(found.node, 60)} departs from its specification at {at}, after {steps} (a finding"
        f" about the servers, not a violated promise): {stopped(found.rule)}",
        f"Before: {stopped(found.before)}",
        f"Allowed: {stopped(found.allows)}",
        f"Happened: {stopped(found.happened)}",
    ]


def _departs(run: Judged) -> bool:
    return run.traced is not None and run.traced.departure is not None


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _those(run: Judged, verdict: Verdict) -> list[Judgement]:
    return [one for one in run.verdicts if one.verdict is verdict]


def _names(judged: Iterable[Judgement]) -> str:
    return names([one.property for one in judged])
