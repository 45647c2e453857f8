"""Exports a run's rows as a Parquet file with typed columns; needs pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from holdfast.harness.core import extras
from holdfast.harness.core.case import History
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import Mode, Op, Status, attempt_name, client_names
from holdfast.harness.foreign.write import ATTEMPT_NAME, Nodes

if TYPE_CHECKING:
    from pyarrow import DictionaryArray

WORDS: dict[str, type[IntEnum]] = {"f": Op, "status": Status, "mode": Mode}


def write_parquet(history: History, path: Path, nodes: Nodes = MappingProxyType({})) -> None:
    """Write every row of a run: numbers as 64 bits, texts as dictionaries, times in ns.

    nodes: process number -> node of the logical client, for the names of attempts. UsageError if
    pyarrow is not installed or the file cannot be written.
    """
    reason = extras.problem("pyarrow")
    if reason is not None:
        raise UsageError(f"--format parquet {reason}, or take --format csv")
    import pyarrow
    from pyarrow import parquet

    rows, columns = history.rows, dict[str, Json]()
    named = {"key": history.strings, "err": history.strings, "writer": history.writers}
    for name in rows.dtype.names or ():
        if name in WORDS:
            columns[name] = _dictionary(rows[name], _words(WORDS[name]))
        elif name in named:
            columns[name] = _dictionary(rows[name], named[name])
        else:
            columns[name] = pyarrow.array(rows[name].astype(np.int64))
    columns[ATTEMPT_NAME] = _attempt_names(rows["attempt"], nodes)
    try:
        parquet.write_table(pyarrow.table(columns), path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error}") from error


def _attempt_names(attempts: npt.NDArray[np.int64], nodes: Nodes) -> DictionaryArray:
    unique, places = np.unique(attempts, return_inverse=True)
    clients = client_names(nodes)
    return _dictionary(
        places, [attempt_name(clients, one) if one else "" for one in unique.tolist()]
    )


def _words(of: type[IntEnum]) -> list[str]:
    """The names of an enumeration by value; "" for values that it does not have."""
    names = {int(member): member.name.lower() for member in of}
    return [names.get(value, "") for value in range(max(names) + 1)]


def _dictionary(numbers: npt.ArrayLike, words: Sequence[str]) -> DictionaryArray:
    import pyarrow

    indices = pyarrow.array(np.asarray(numbers, np.int32))
    return pyarrow.DictionaryArray.from_arrays(
        indices, pyarrow.array(list(words), pyarrow.string())
    )
