"""A whole run in one Parquet file: every recorded column, the rest as JSON in its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from holdfast.harness.core import extras
from holdfast.harness.core.case import MERGED_DTYPE, History
from holdfast.harness.core.clock_summary import ClockSummary
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json, current, plain
from holdfast.harness.core.operations import Starved
from holdfast.harness.history.reader import Recording
from holdfast.harness.plans.manifest import parsed, to_table
from holdfast.harness.runs import files
from holdfast.harness.runs.journal import FaultRow, Mark
from holdfast.harness.verdicts.judged import read as read_judged

if TYPE_CHECKING:
    from pandas import DataFrame
    from pyarrow import Table

    from holdfast.api.run import Recorded

SCHEMA = "holdfast-run-parquet/2"
READABLE = ("holdfast-run-parquet/1", SCHEMA)
KEY = b"holdfast"


class _About(msgspec.Struct, forbid_unknown_fields=True):
    """What stands in the metadata beside the rows."""

    schema: str
    manifest: dict[str, Json]
    times: list[Mark]
    faults: list[dict[str, Json]]
    verdicts: dict[str, Json] | None
    strings: list[str]
    writers: list[str]
    problems: list[str]
    nodes: dict[int, str]
    states: dict[str, int]
    clocks: dict[str, dict[str, Json]]
    error_ns: int
    starved: list[Starved]


def arrow(frame: DataFrame) -> Table:
    """A data frame as a pyarrow.Table, its index as a column."""
    pyarrow = extras.load("pyarrow", "an Arrow table")
    return pyarrow.Table.from_pandas(frame)


def write(recorded: Recorded, path: Path) -> Path:
    """Write a run. UsageError where the file cannot be written."""
    pyarrow = extras.load("pyarrow", "a Parquet file")
    from pyarrow import parquet

    recording, history = recorded.recording, recorded.recording.history
    about = _About(
        schema=SCHEMA,
        manifest=to_table(recorded.manifest),
        times=list(recorded.times),
        faults=[plain(row) for row in recorded.faults],
        verdicts=None if recorded.verdicts is None else plain(recorded.verdicts),
        strings=list(history.strings),
        writers=list(history.writers),
        problems=list(history.problems),
        nodes=dict(recording.nodes),
        states=dict(recording.states),
        clocks=plain(recording.clocks),
        error_ns=recording.error_ns,
        starved=list(recording.starved),
    )
    columns = {
        name: pyarrow.array(np.ascontiguousarray(history.rows[name]))
        for name in MERGED_DTYPE.fields or ()
    }
    table = pyarrow.table(columns).replace_schema_metadata({KEY: msgspec.json.encode(about)})
    try:
        parquet.write_table(table, path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error}") from error
    return path


def read(path: Path) -> Mapping[str, Any]:
    """The fields of a `Recorded`. UsageError where the file is none that `write` made."""
    pyarrow = extras.load("pyarrow", "a Parquet file")
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
        about = msgspec.json.decode((table.schema.metadata or {})[KEY], type=_About)
        rows = np.zeros(table.num_rows, MERGED_DTYPE)
        for name in MERGED_DTYPE.names or ():
            rows[name] = table.column(name).to_numpy()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except (KeyError, ValueError, pyarrow.ArrowInvalid, msgspec.DecodeError) as error:
        raise UsageError(f"{path}: not a run that Run.to_parquet wrote: {error}") from error
    if about.schema not in READABLE:
        raise UsageError(f"{path}: schema {about.schema}, this Holdfast reads {SCHEMA}")
    for name, limit in (("key", len(about.strings)), ("err", len(about.strings)),
                        ("writer", len(about.writers))):  # fmt: skip
        if len(rows) and int(rows[name].max()) >= limit:
            raise UsageError(f"{path}: damaged: column {name} names text {rows[name].max()}")
    with files.shaped(path):
        starved = tuple(about.starved)
        manifest = parsed(about.manifest)
        faults = msgspec.convert([current(row) for row in about.faults], list[FaultRow])
        clocks = {host: msgspec.convert(row, ClockSummary) for host, row in about.clocks.items()}
    history = History(
        rows=rows,
        strings=tuple(about.strings),
        writers=tuple(about.writers),
        problems=tuple(about.problems),
    )
    recording = Recording(
        history=history,
        nodes=about.nodes,
        states=about.states,
        clocks=clocks,
        error_ns=about.error_ns,
        starved=starved,
    )
    return {
        "manifest": manifest,
        "recording": recording,
        "times": about.times,
        "faults": faults,
        "verdicts": None if about.verdicts is None else read_judged(about.verdicts),
    }
