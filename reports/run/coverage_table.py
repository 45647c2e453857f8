"""What a run tried and what it did not, as the tables of its page: one row per property."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verdicts.judged import Judged, Judgement, UnderKind
from holdfast.reports.text.formatting import count, plain, stopped

FEW = 10
"""Fewer opportunities than this say little: a defect that shows in a quarter of them may not."""
COUNTED: Mapping[str, tuple[str, str]] = {
    "mutual-exclusion": (
        "acquires during a judged hold",
        "requests answered during another's hold",
    ),
    "no-stale-write": ("stale requests refused", "requests of an older owner"),
    "no-expired-write": ("writes of expired owners", "writes after the owner's hold had ended"),
    "token-order": ("grants after another client's", "grants after another client's"),
    "ownership": (
        "rejected as not the owner",
        "releases and renewals by a client without the lock",
    ),
    "loss-notice": ("holds lost to another", "holders that lost the lock"),
    "deadlock-freedom": ("handovers", "handovers from one client to the next"),
    "orphan-freedom": ("probed locks", "locks probed after the run"),
    "no-hung-request": ("acquires with a bounded wait", "requests with a bounded wait"),
}
"""Property -> its count of opportunities in `exercised`, where the table of opportunities has no
row for the kinds of fault of the run, and what one is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """The opportunities of a property that held: the fewest that it needed.

    under   the kind of fault that they are of, "" for the whole run
    share   of the most of any property, on a logarithmic scale, of 100
    """

    prop: str
    count: int
    what: str
    under: str = ""
    share: float = 0.0

    @property
    def few(self) -> bool:
        """Whether the number says little."""
        return self.count < FEW


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """The state of some properties under kinds of fault that stand side by side: "none" where they
    were not judged. why: of UNKNOWN what the run lacked."""

    kinds: tuple[str, ...]
    state: str
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Properties in the table of an inconclusive run that share a row: their state, with the reason
    of UNKNOWN, and the same under each planned kind of fault."""

    props: tuple[str, ...]
    state: str
    cells: tuple[Cell, ...]
    why: str = ""


def tried(run: Judged) -> list[Tried]:
    """The properties that held, by their number of opportunities, most first."""
    rows = [row for one in run.verdicts if one.verdict is Verdict.HOLDS if (row := _tried(one))]
    most = max((row.count for row in rows), default=1)
    rows.sort(key=lambda row: -row.count)
    return [_scaled(row, most) for row in rows]


def _scaled(row: Tried, most: int) -> Tried:
    share = 100 * (row.count + 1).bit_length() / (most + 1).bit_length()
    return Tried(prop=row.prop, count=row.count, what=row.what, under=row.under, share=share)


def _tried(one: Judgement) -> Tried | None:
    """The row of the kind of fault with the fewest opportunities; of the whole run if no kind has
    any; None if nothing is counted."""
    fewest = min(
        (
            (seen.count, plain(kind, 40), seen.sentence)
            for kind, at in one.under.items()
            if at.asked and at.verdict is Verdict.HOLDS
            for seen in at.needed()
            if seen.count
        ),
        default=None,
    )
    if fewest is not None:
        n, kind, what = fewest
        return Tried(prop=one.property, count=n, what=what, under=kind)
    name, what = COUNTED.get(one.property, ("", ""))
    value = one.exercised.get(name)
    if not isinstance(value, int):
        return None
    return Tried(prop=one.property, count=value, what=what)


def sentence(run: Judged) -> str:
    """The same in one sentence: how often each property could have failed; "" for none."""
    rows, parts = tried(run), []
    for label, few in (("", False), ("few: ", True)):
        names = ", ".join(
            f"{plain(row.prop.replace('-', ' '), 60)} {row.count:,}"
            for row in rows
            if row.few is few
        )
        parts += [f"{label}{names}"] if names else []
    return f"{'; '.join(parts)}." if parts else ""


def open_questions(run: Judged) -> str:
    """How many questions were not tested, as a sentence; "" if none is open."""
    (left, of), columns = questions(run), kinds(run)
    if not left:
        return ""
    among = f" ({count(len(columns), 'kind')} of fault, by property)" if columns else ""
    return f"{left:,} of {count(of, 'question')}{among} not tested in this run."


def kinds(run: Judged) -> list[str]:
    """The planned kinds of fault, as far as a property was judged under them."""
    return list(dict.fromkeys(k for one in run.verdicts for k, at in one.under.items() if at.asked))


def absent(run: Judged) -> dict[str, str]:
    """The planned kinds of which no fault took effect, with what to say of that."""
    drawn = {fault.do for fault in run.faults}
    effective = {fault.do for fault in run.faults if fault.effective}
    return {
        kind: "without effect" if kind in drawn else "none took place"
        for kind in kinds(run)
        if kind not in effective
    }


def asked(run: Judged) -> list[Asked]:
    """The properties with a cell per planned kind of fault, neighbours with one reason as one; one
    cell for a run without. Those with equal cells share a row: what a run leaves open it leaves
    open for several."""
    columns = kinds(run)
    rows: dict[tuple[tuple[str, str], tuple[Cell, ...]], list[str]] = {}
    for one in run.verdicts:
        own = _state(one.verdict, promised=one.promised), _why(one)
        cells = tuple(_cells(one, columns))
        # With faults the cells are all that is shown.
        rows.setdefault((("", "") if cells else own, cells), []).append(one.property)
    return [
        Asked(props=tuple(props), state=state, why=why, cells=cells)
        for ((state, why), cells), props in rows.items()
    ]


def _cells(one: Judgement, columns: Sequence[str]) -> Iterator[Cell]:
    """The states of a property under the kinds of fault, neighbours with one reason as one."""
    states = [(*_cell(one, one.under.get(kind)), kind) for kind in columns]
    for key, same in groupby(states, key=lambda each: each[:2] if each[1] else each):
        yield Cell(kinds=tuple(kind for *_, kind in same), state=key[0], why=key[1])


def questions(run: Judged) -> tuple[int, int]:
    """How many questions a run left open, of how many: a property under a planned kind of fault;
    without faults a property."""
    columns = kinds(run)
    if not columns:
        states = [one.verdict for one in run.verdicts]
    else:
        states = [one.under[k].verdict for one in run.verdicts for k in columns if k in one.under]
    return states.count(Verdict.UNKNOWN), len(states)


def _cell(one: Judgement, at: UnderKind | None) -> tuple[str, str]:
    """The state of a property under one kind of fault, and the reason of UNKNOWN."""
    return ("none", "") if at is None else (_state(at.verdict, promised=one.promised), _why(at))


def _why(at: Judgement | UnderKind) -> str:
    """The first reason of UNKNOWN: the others say the same of one kind of fault after another."""
    if at.verdict is not Verdict.UNKNOWN:
        return ""
    return stopped(at.reason.partition("; ")[0] or "not tested", 160)


def _state(verdict: Verdict, *, promised: bool) -> str:
    """Style of a verdict, as `state` of the templates has it."""
    if verdict is Verdict.VIOLATED:
        return "broken" if promised else "limit"
    return "holds" if verdict is Verdict.HOLDS else "unknown"
