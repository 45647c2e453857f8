"""Input of a checker: the merged history, the observed faults, the promises. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.fault_traits import UNKNOWN, Traits
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import ROW_FIELDS, Op
from holdfast.harness.core.starved import Starved
from holdfast.harness.core.verdict import Promises, PropertyVerdict

Rows = npt.NDArray[np.void]

MERGED_DTYPE = np.dtype([*ROW_FIELDS, ("writer", "<u2"), ("row", "<u4")])
"""A row of a merged history: `key` and `err` (and `res` of LOST and CLOSED) index
History.strings; `writer` and `row` say where it came from."""


@dataclass(frozen=True, kw_only=True)
class History:
    """All rows of a run in order of t_inv (ties: writer, then row).

    rows      structured array of MERGED_DTYPE; witnesses are indices into it
    strings   one table for the whole run; index 0 is the empty string
    writers   names of the writers, by `writer` number
    problems  why the log may be incomplete, one sentence each; empty if complete
    """

    rows: Rows
    strings: Sequence[str]
    writers: Sequence[str]
    problems: Sequence[str] = ()

    def of(self, *ops: Op) -> npt.NDArray[np.intp]:
        """Indices of the rows of these kinds, in order."""
        return np.flatnonzero(np.isin(self.rows["f"], [int(op) for op in ops]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """One injected fault, as observed.

    effective whether it took effect; False also if it was never injected
    evidence  measurements of the agent, for display: {"dropped": 214}, {"state": "T"} ...
    holder    the client node whose hold was the target, if the target was "holder"
    leader    the server that led when it was injected, if the target depended on it
    term      of this leader; None if unknown
    traits    what its kind does, as the run's manifest says
    requested_ns  just before the agent was asked for it, -1 if unknown: from then on it may have
              been in effect, since `from_ns` is read when it certainly was
    """

    id: str
    do: str
    target: str
    nodes: Sequence[str]
    from_ns: int
    to_ns: int
    effective: bool
    evidence: Mapping[str, Json]
    holder: str = ""
    leader: str = ""
    term: int | None = None
    reason: str = ""
    traits: Traits = UNKNOWN
    requested_ns: int = -1

    @property
    def earliest_ns(self) -> int:
        """From when on it may have been in effect."""
        return self.from_ns if self.requested_ns < 0 else min(self.requested_ns, self.from_ns)


@dataclass(frozen=True, kw_only=True)
class Case:
    """Everything that a checker may read.

    asked        property ids that the workload requests
    start_ns     start of the workload; stop_ns: last heal, then only probes acquire; end_ns: end
    error_ns     proven clock error between writers on several hosts, by which all intervals are
                 widened already; 0 on one host
    nodes        process number -> node name of the logical client
    kinds        fault kinds of the plan
    options      of the run: "resource", "lease_ns", "workload" ...
    starved      spans in which one of our processes, or its host, was starved of CPU
    memo         cache of derivations shared by checkers; not part of the data
    """

    history: History
    promises: Promises
    windows: Sequence[Window]
    asked: Sequence[str]
    start_ns: int
    stop_ns: int
    end_ns: int
    lease_ns: int
    error_ns: int = 0
    nodes: Mapping[int, str] = field(default_factory=dict)
    kinds: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    starved: Sequence[Starved] = ()
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


class Checker(Protocol):
    """Judges one property. Pure: no file, no clock, no cluster, no plot."""

    def __call__(self, case: Case) -> PropertyVerdict: ...
