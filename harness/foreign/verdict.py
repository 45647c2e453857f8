"""The verdict on a foreign history as one JSON object, with the keys of a run's verdicts.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict


class FindingRow(TypedDict):
    """A violation. witnesses: lines of the file, {"line": n}, or numbers of its events,
    {"event": n}, because the history has no run clock.
    """

    kind: str
    sentence: str
    lock: str
    witnesses: list[dict[str, int]]


class VerdictRow(TypedDict):
    """The one property that the model judges. exercised: name of a count -> the count."""

    property: str
    state: str
    verdict: str
    promised: bool
    severity: str
    reason: str
    exercised: Mapping[str, int]
    findings: Sequence[FindingRow]
    notes: Sequence[FindingRow]
    under: Mapping[str, str]


class ForeignVerdict(TypedDict):
    """`verdicts` has one row.

    unjudged   what the history carries and the model does not judge, a sentence each
    jepsen     only of a folder of Jepsen's: its own verdict beside ours
    """

    schema: str
    run: str
    model: str
    seed: None
    verdict: str
    state: str
    exit_code: int
    problems: list[str]
    verdicts: list[VerdictRow]
    unjudged: list[str]
    jepsen: NotRequired[JepsenRow]


class JepsenRow(TypedDict):
    """Jepsen's own verdict. valid: True, False or "unknown", of the checkers that `compared` names.

    agrees: None if one of the two verdicts is unknown.
    """

    valid: bool | str
    compared: list[str]
    agrees: bool | None


class UnreadRow(TypedDict):
    """A history of several that could not be judged, and why."""

    schema: str
    run: str
    verdict: None
    exit_code: int
    problems: list[str]
