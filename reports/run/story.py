"""Why a run failed, or what it held and how far that goes, in sentences for a newcomer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.harness.core.verdict import PROPERTIES, Verdict
from holdfast.reports.run.finding_kinds import CAUSES, kind
from holdfast.reports.text.formatting import count, listed, plain, seconds, stopped
from holdfast.reports.verdict_file import Judged, Judgement, Outcome, Shown, read

KINDS_TOLD = 12


def story(verdicts: Mapping[str, Any]) -> list[str]:
    """Sentences; the first is the verdict. Raises UsageError for an object it cannot read."""
    return tell(read(verdicts))


def tell(run: Judged) -> list[str]:
    """The story of a run that has been read: verdict, mechanisms, what was left open, bound."""
    broken = [one for one in violated(run) if one.promised]
    limits = [one for one in violated(run) if not one.promised]
    told = [headline(run)]
    for mechanism in mechanisms(run, broken):
        told += mechanism.sentences()
    if broken and limits:
        told.append(f"Never promised, and violated as well: {_names(limits)}.")
    for mechanism in mechanisms(run, limits):
        told += mechanism.sentences()
    return [*told, *held(run), *left_open(run), bound(run)]


def violated(run: Judged) -> list[Judgement]:
    """The violated properties, those first that were promised."""
    return sorted(_those(run, Verdict.VIOLATED), key=lambda one: not one.promised)


def headline(run: Judged) -> str:
    """The verdict of the run in one sentence that begins with its word."""
    outcome = run.outcome()
    text = claim(run)
    return text if outcome is Outcome.LIMIT else f"{outcome.value}: {text}"


def claim(run: Judged) -> str:
    """What the verdict of a run says."""
    system = plain(run.system, 60)
    match run.outcome():
        case Outcome.BROKEN:
            broken = [one for one in violated(run) if one.promised]
            return f"{system} broke its promise of {_names(broken) or 'what was judged'}."
        case Outcome.LIMIT:
            kept = any(one.promised for one in _those(run, Verdict.HOLDS))
            first = f"HOLDS what {system} promises; " if kept else ""
            what = _names(_those(run, Verdict.VIOLATED))
            return f"{first}VIOLATED what {system} never promised: {what}."
        case Outcome.UNKNOWN if partly(run) and not _promised_open(run):
            lacks = dict.fromkeys(kind for one in partly(run) for kind in one.lacks())
            what = _names(_those(run, Verdict.HOLDS))
            kinds = listed(plain(kind, 40) for kind in lacks)
            return f"{system} kept {what}; not exercised under {kinds}, which the plan asked for."
        case Outcome.UNKNOWN:
            left = _names(_those(run, Verdict.UNKNOWN)) or "anything, for nothing was judged"
            return f"this run of {system} proves nothing about {left}."
        case Outcome.FAILED:
            return f"the run of {system} could not be carried out, so nothing is known."
        case _:
            kept_n = len(_those(run, Verdict.HOLDS))
            what = count(kept_n, "property that was", "properties that were")
            return f"{system} kept the {what} judged in this run."


@dataclass(frozen=True, kw_only=True, slots=True)
class Mechanism:
    """One kind of finding in a run: what it means, its first instance, what to do about it."""

    means: str
    example: str
    remedy: str

    def sentences(self) -> list[str]:
        """The three, as they are told one after the other."""
        return [self.means, f"For instance, {self.example}", f"What to do: {self.remedy}"]


def mechanisms(run: Judged, judged: Iterable[Judgement]) -> list[Mechanism]:
    """One entry per kind of finding and cause, at most KINDS_TOLD: in the order of the
    properties, but what brought others about before them."""
    by_kind: dict[tuple[str, str], list[Shown]] = {}
    for one in judged:
        for finding in one.findings:
            by_kind.setdefault((finding.kind, finding.cause), []).append(finding)
    causes = {CAUSES[cause][0] for _, cause in by_kind if cause in CAUSES}
    in_order = sorted(by_kind.items(), key=lambda entry: entry[0][0] not in causes)
    told = []
    for (name, cause), found in in_order[:KINDS_TOLD]:
        words = kind(name, cause)
        first = min(found, key=lambda finding: finding.t_ns)
        times = "once" if len(found) == 1 else f"{len(found):,} times"
        when = "at" if len(found) == 1 else "first at"
        means = (
            f"{plain(words.name, 60)}, {times}, {when} {seconds(run.at(first.t_ns))}:"
            f" {words.means}."
        )
        told.append(Mechanism(means=means, example=stopped(first.sentence), remedy=words.remedy))
    return told


def bound(run: Judged) -> str:
    """How far the verdict reaches: one run, so many grants, so many faults that bit."""
    bit = [fault for fault in run.faults if fault.bit]
    kinds = Counter(fault.do for fault in bit)
    did = listed(f"{n} {plain(do, 40)}" for do, n in kinds.items())
    faults = f"{count(len(bit), 'fault')} that bit ({did})" if bit else "no fault that bit"
    missed = len(run.faults) - len(bit)
    if missed:
        faults += f" and {missed} that did not"
    base = (
        f"This is one run of {seconds(run.end_ns - run.start_ns, 1)} with seed {run.seed}:"
        f" {count(run.evidence.acquire.granted, 'grant')}, {faults}."
    )
    if run.outcome() in {Outcome.HOLDS, Outcome.LIMIT}:
        base += " What held has held once; that is no proof that it always does."
    return base


def names(properties: Sequence[str]) -> str:
    """Property ids as they read in a sentence."""
    return listed(plain(one.replace("-", " "), 60) for one in properties)


def meaning(prop: str) -> str:
    """What a property says, in one clause; empty for one that is not in the table."""
    return PROPERTIES[prop][1] if prop in PROPERTIES else ""


def held(run: Judged) -> list[str]:
    """What was judged and held, as one sentence or none."""
    kept = _those(run, Verdict.HOLDS)
    if not kept or run.outcome() is Outcome.FAILED:
        return []
    return [f"Judged and held: {_names(kept)}."]


def partly(run: Judged) -> list[Judgement]:
    """What held under some of the kinds of fault that were asked for and not under others."""
    return [one for one in _those(run, Verdict.HOLDS) if one.lacks()]


def _promised_open(run: Judged) -> bool:
    return any(one.promised for one in _those(run, Verdict.UNKNOWN))


def by_kind(run: Judged) -> list[str]:
    """One sentence per set of kinds of fault under which the same was held and not exercised."""
    told: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], list[Judgement]] = {}
    for one in partly(run):
        lacks = one.lacks()
        held_under = tuple(kind for kind, at in one.under.items() if at.asked and kind not in lacks)
        told.setdefault((held_under, tuple(lacks.items())), []).append(one)
    return [
        f"Held under {listed(plain(kind, 40) for kind in kept)}, and not exercised under"
        f" {listed(f'{plain(kind, 40)} ({plain(why, 200)})' for kind, why in lacks)}:"
        f" {_names(judged)}."
        for (kept, lacks), judged in told.items()
    ]


def left_open(run: Judged) -> list[str]:
    """One sentence per reason why the run says nothing about some properties, or about some kinds
    of fault."""
    by_reason: dict[str, list[Judgement]] = {}
    for one in _those(run, Verdict.UNKNOWN):
        reason = plain(one.reason).rstrip(".") or "no reason was recorded"
        by_reason.setdefault(reason, []).append(one)
    return [
        f"Not shown either way: {_names(judged)}, because {reason}."
        for reason, judged in by_reason.items()
    ] + by_kind(run)


def _those(run: Judged, verdict: Verdict) -> list[Judgement]:
    return [one for one in run.verdicts if one.verdict is verdict]


def _names(judged: Iterable[Judgement]) -> str:
    return names([one.property for one in judged])
