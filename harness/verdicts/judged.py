"""The judged run: what the judge returns, `verdicts.json` holds and every report shows.

`read` is the only reader of that file, `to_table` its only writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.harness.core.clock_summary import ClockSummary
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import OMITTED, Json, current, plain
from holdfast.harness.core.verdict import Promises, Severity, Verdict
from holdfast.harness.verdicts.evidence import Evidence, Number

Span = tuple[int, int, str, int]
"""from_ns, to_ns, label, index of its witness (-1: none)."""


class Outcome(StrEnum):
    """State of a run, or of a property in it, in one word. Where only rates are shown there is OPEN
    too: no violation, in too few runs to say HOLDS.

    LIMIT     violated, but never promised
    UNKNOWN   it could not have failed
    FAILED    of a run: it could not be carried out
    """

    HOLDS = "HOLDS"
    LIMIT = "LIMIT"
    UNKNOWN = "UNKNOWN"
    BROKEN = "VIOLATED"
    FAILED = "ENVIRONMENT"


def state_of(verdict: Verdict, *, promised: bool) -> Outcome:
    """The state of a property: a violation of what was never promised is a LIMIT."""
    if verdict is Verdict.VIOLATED:
        return Outcome.BROKEN if promised else Outcome.LIMIT
    return Outcome.HOLDS if verdict is Verdict.HOLDS else Outcome.UNKNOWN


NO_REPORT = "none: it could not be written"
"""In place of the path of a report."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One op of the history that is a witness; t_ret_ns 0: it never returned."""

    row: int = -1
    op: str
    process: int = -1
    node: str = ""
    attempt: int = 0
    t_inv_ns: int
    t_ret_ns: int = 0
    status: str = ""
    token: int = -1
    lock: str = ""
    arg: int | str = 0
    res: int | str = 0
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A finding, or a note, with its witnesses.

    cause        kind of the finding that caused it, "" if the rows do not show it
    certificate  its proof for the verifier (`harness.verification`); None: no rule for its kind
    """

    kind: str
    sentence: str
    lock: str
    t_ns: int
    witnesses: tuple[Event, ...] = ()
    spans: tuple[Span, ...] = ()
    cause: str = ""
    certificate: Mapping[str, Json] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Opportunities:
    """Places of one kind at which a lock with a typical defect would have been seen.

    row        id of the row of the table of opportunities
    count      their number; sentence: what one is, as a clause that follows "3 times"
    staged     whether the run contains what the row is about; if not, it requires nothing
    fault      id of the fault of the first one, "" without one
    witnesses  rows that show the first one, by name
    nearest    what was missing, in numbers, if there was none
    """

    row: str
    count: int
    sentence: str
    staged: bool = True
    fault: str = ""
    witnesses: Mapping[str, Event] = field(default_factory=dict)
    nearest: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnderKind:
    """Verdict of one property under one kind of fault, or several joined by "+".

    asked   whether the plan has the kind; promised: whether the system promises it under it
    opportunities   of the rows that concern the kind, [] if the table has none for it
    short   UNKNOWN for lack of opportunities alone: those of other runs can make up for it
    """

    verdict: Verdict
    asked: bool = False
    promised: bool = False
    reason: str = ""
    exercised: Mapping[str, Number] = field(default_factory=dict)
    findings: tuple[int, ...] = ()
    opportunities: tuple[Opportunities, ...] = field(default=(), metadata=OMITTED)
    short: bool = field(default=False, metadata=OMITTED)

    def needed(self) -> list[Opportunities]:
        """The rows that it needs: those that the run staged, else all."""
        return [one for one in self.opportunities if one.staged] or list(self.opportunities)


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """Verdict of one property, and whether the system promises it.

    checker, says   of a checker of the user: its name, its property in one sentence
    certificate     of an exact property that holds: its legal order in the file of orders
    under           empty in a verdicts.json of schema 1
    required        whether the plan requires it, so that it counts like a promise
    either          what the run proves as "one of two", of which not both are promised
    """

    checker: str = field(default="", metadata=OMITTED)
    says: str = field(default="", metadata=OMITTED)
    property: str
    verdict: Verdict
    promised: bool
    severity: Severity
    reason: str = ""
    exercised: Mapping[str, Number] = field(default_factory=dict)
    certificate: Mapping[str, Json] | None = None
    findings: tuple[Shown, ...] = ()
    notes: tuple[Shown, ...] = ()
    under: Mapping[str, UnderKind] = field(default_factory=dict)
    required: bool = field(default=False, metadata=OMITTED)
    either: tuple[str, ...] = field(default=(), metadata=OMITTED)

    def outcome(self) -> Outcome:
        """Its verdict in one of the words of the run."""
        return state_of(self.verdict, promised=self.promised)

    def lacks(self) -> dict[str, str]:
        """Planned kinds of fault that were not exercised, with the reasons."""
        return {
            kind: one.reason
            for kind, one in self.under.items()
            if one.asked and one.verdict is Verdict.UNKNOWN
        }

    def not_exercised(self) -> dict[str, str]:
        """The same of those under which the property is promised."""
        return {kind: why for kind, why in self.lacks().items() if self.under[kind].promised}


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservedFault:
    """One observed fault. effective: it took effect; pattern: its hatching, None if not said.

    It was injected in [requested_ns, from_ns]: at `from_ns` it was certainly in effect, since
    `requested_ns` it may have been. -1 in runs of earlier versions, which do not say it.
    """

    id: str
    do: str
    target: str = ""
    nodes: tuple[str, ...] = ()
    from_ns: int
    to_ns: int
    effective: bool
    evidence: Mapping[str, Json] = field(default_factory=dict)
    holder: str = ""
    reason: str = ""
    pattern: str | None = None
    requested_ns: int = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One event of a cause: a clause with its time, and the row or the fault that shows it.

    event   kind of the one that is named as what made a grant possible (`EVENTS` of
            `harness.verdicts.advice`), "" for the others
    repeats its event is in the words of the finding's own step, so the sentence leaves it out
    """

    text: str
    t_ns: int
    row: int = -1
    fault: str = ""
    event: str = field(default="", metadata=OMITTED)
    repeats: bool = field(default=False, metadata=OMITTED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """Findings of one run that have one explanation, whatever the properties that they violate
    (`harness.verdicts.causes`).

    kind       of the finding that began it; cause: the `cause` of that finding
    broken     whether one of the properties is promised, or required by the plan
    sentence   the steps of its first occurrence: the fault, the calls, what followed
    times      how often it occurred: the findings of `kind`, or of the kinds like it
    under      kinds of fault that may explain it, () if it needs none; several: one of them
               explains it, and the history does not show which
    faults     ids of those faults; without: number of times without an effective one
    findings   property -> places in its `findings`
    first      property and place of the finding that the steps are about
    advice     what the user of the lock can do, then its author; "": what the kind's entry says
    """

    kind: str
    cause: str = ""
    broken: bool
    sentence: str
    times: int
    t_ns: int
    under: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    without: int = field(default=0, metadata=OMITTED)
    findings: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    first: tuple[str, int]
    steps: tuple[Step, ...] = ()
    advice: str = field(default="", metadata=OMITTED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """Result of verifying the certificates of a run (`harness.verification`).

    bare         findings without a certificate
    properties   those of which every finding, or the legal order, was accepted
    unordered    those that hold and have no order that can be walked
    unverifiable those judged by a checker of the user, for which the verifier has no rules
    opportunities number of rows of opportunities, per property and kind of fault, whose first
                 witness was accepted
    why          reason why nothing was verified
    """

    accepted: int = 0
    bare: int = 0
    why: str = ""
    unverifiable: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    unordered: tuple[str, ...] = ()
    opportunities: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class InParts:
    """How a history was judged that was not held in memory at once.

    rows     of the whole history; kept: the most that one part took over from those before it
    unsure   attempts of unknown outcome that no part after theirs could look at
    """

    parts: int
    rows: int
    kept: int
    unsure: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Departure:
    """The first step of a server that its specification does not allow. It is a finding about the
    implementation, never about what clients were answered: no verdict counts it, and a run with one
    may have kept every promise.

    node, t_ns: which step, on the run's clock. rule: the rule it breaks, in a few words.

    before     the state before the step
    allows     what the specification allows in that state; happened: what the node did
    began      number of the event that set what the step goes by, such as the end of a lease; -1:
               none is known
    early_ns   by how much the step comes before that time; 0: it does not
    set_by     what was done in the event `began`, "" without one
    """

    node: str
    t_ns: int
    rule: str
    before: str
    allows: str
    happened: str
    began: int = -1
    early_ns: int = 0
    set_by: str = ""

    @property
    def sentence(self) -> str:
        """The finding in one line."""
        return f"{self.node} at {self.t_ns / 1e9:.6f} s: {self.rule}: {self.happened}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Traced:
    """The steps that the servers of a run recorded, validated.

    steps       how many were compared with the specification, up to a departure
    departure   the first that it does not allow, None for none
    why         why not all steps were compared, "" if all were
    """

    steps: int = 0
    departure: Departure | None = None
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One difference between the servers' own record and the responses. Its kinds: `KINDS` of
    `reports.run.server_record`.

    t_ns  of the response, or of what the record shows
    at    place in the record, -1 if it is about what the record does not have
    """

    kind: str
    sentence: str
    lock: str
    t_ns: int
    process: int = -1
    at: int = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Gap:
    """A span in which events of the servers' record may be missing: nothing is concluded across
    it."""

    from_ns: int
    to_ns: int
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerRecord:
    """What the servers' own record says, compared with what the clients were answered. It is
    evidence of its own kind: no verdict and no exit code counts it.

    source     what was read
    events, holds   of the record
    granted    acquires that were answered as granted: `matched` of them have their hold in the
               record, `uncovered` lie in a gap or after the end of the record
    undone     acquires that were refused, whose hold begins and ends before the response
    unknown    acquires without an outcome: by the record `took_effect`, `no_effect`; the others
               remain undecided
    strangers  holds of owners that are no acquire of a client
    total      number of differences, of which the first are in `differences`
    whole      whether the record goes on to the end of the run
    problem    why the record could not be read, "" if it could
    """

    source: str = ""
    events: int = 0
    holds: int = 0
    granted: int = 0
    matched: int = 0
    uncovered: int = 0
    undone: int = 0
    unknown: int = 0
    took_effect: int = 0
    no_effect: int = 0
    strangers: int = 0
    total: int = 0
    differences: tuple[Difference, ...] = ()
    gaps: tuple[Gap, ...] = ()
    whole: bool = False
    problem: str = ""

    @property
    def undecided(self) -> int:
        """Acquires without an outcome that the record does not decide either."""
        return self.unknown - self.took_effect - self.no_effect


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A judged run. Times are ns of the run's clock; `at` makes them relative to its start.

    problems  why its history may be incomplete, one sentence each
    nodes     logical client -> its node
    causes    its findings by cause, broken promises first
    aside     properties that the run was not for and did not exercise, with the reasons
    clocks    host -> its clock against the driver's; {} on one host
    traced    its servers' steps against their specification; None if the plan did not ask for it
    in_parts  how it was judged in parts; None: at once
    server_record   the servers' own record compared with the responses; None: not recorded
    seen      lens of a plug-in -> what it has seen of the run
    remedy    the command that exercises the promised properties that are UNKNOWN, "" for none
    report    path of the report, "" if none was written
    """

    schema: str = ""
    run: str
    system: str
    backend: str
    workload: str
    resource: str = ""
    seed: int
    verdict: Verdict
    exit_code: int
    command: str
    problems: tuple[str, ...] = ()
    start_ns: int
    stop_ns: int
    end_ns: int
    nodes: Mapping[str, str] = field(default_factory=dict)
    servers: tuple[str, ...] = ()
    verdicts: tuple[Judgement, ...] = ()
    causes: tuple[Cause, ...] = field(default=(), metadata=OMITTED)
    aside: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[ObservedFault, ...] = ()
    promises: Promises | None = None
    clocks: Mapping[str, ClockSummary] = field(default_factory=dict, metadata=OMITTED)
    evidence: Evidence = field(default=Evidence(), metadata=OMITTED)
    server_record: ServerRecord | None = field(default=None, metadata=OMITTED)
    verified: Verified = field(default=Verified(), metadata=OMITTED)
    traced: Traced | None = field(default=None, metadata=OMITTED)
    in_parts: InParts | None = field(default=None, metadata=OMITTED)
    seen: Mapping[str, Json] = field(default_factory=dict, metadata=OMITTED)
    remedy: str = field(default="", metadata=OMITTED)
    report: str = field(default="", metadata=OMITTED)

    def at(self, t_ns: float) -> float:
        """Nanoseconds since the start of the run."""
        return t_ns - self.start_ns

    def client(self, process: int) -> str:
        """The node of a logical client: "c3"."""
        return self.nodes.get(str(process), f"process {process}")

    def clients(self) -> int:
        """Number of clients, without the probe."""
        return sum(node != "probe" for node in self.nodes.values())

    def report_path(self) -> str:
        """Path of the run's HTML report, or its default; `NO_REPORT` if it could not be written."""
        return self.report or f".holdfast/runs/{self.run}/report.html"

    def outcome(self) -> Outcome:
        """Never better than the exit code, and never better than a broken or unknown promise."""
        if self.exit_code == 4:
            return Outcome.FAILED
        promised = [one.verdict for one in self.verdicts if one.promised]
        if Verdict.VIOLATED in promised or self.exit_code == 1:
            return Outcome.BROKEN
        if Verdict.UNKNOWN in promised or self.exit_code != 0 or not self.verdicts:
            return Outcome.UNKNOWN
        everything = [one.verdict for one in self.verdicts]
        if Verdict.VIOLATED in everything:
            return Outcome.LIMIT
        held = Verdict.HOLDS in promised or Verdict.UNKNOWN not in everything
        return Outcome.HOLDS if held else Outcome.UNKNOWN


def to_table(run: Judged) -> dict[str, Json]:
    """The content of `verdicts.json`: the run, with `state` for it and each of its properties."""
    table: dict[str, Json] = {}
    for name, value in plain(run).items():
        table[name] = value
        if name == "verdict":
            table["state"] = run.outcome().value
    rows: list[dict[str, Json]] = plain(run.verdicts)
    table["verdicts"] = [
        {"property": row["property"], "state": one.outcome().value, **row}
        for one, row in zip(run.verdicts, rows, strict=True)
    ]
    return table


def read(verdicts: Mapping[str, Json]) -> Judged:
    """The judged run of a `verdicts.json` object; unknown keys are ignored.

    Those of an older version are converted. Raises UsageError that names the invalid key.
    """
    import msgspec

    try:
        return msgspec.convert(current(verdicts), type=Judged, strict=False)
    except msgspec.ValidationError as wrong:
        raise UsageError(
            f"verdicts.json: {wrong}; judge the run again (holdfast check RUN)"
        ) from wrong
