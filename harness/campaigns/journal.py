"""The state of a campaign on disk: one line per finished run, appended and never rewritten.

A writer that is killed leaves at most one torn line, which the next one truncates: that run
was not recorded, so it is repeated. A lock on the file excludes a second campaign.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from holdfast.harness.campaigns.results import Result, failed, read, table
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.runs.directory import read_lines
from holdfast.harness.runs.files import table as table_of

MOST_BYTES = 1 << 34
"""Maximum size: a journal has a line of a few kilobytes per run."""


class Journal:
    """The open journal of a running campaign. A context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = -1

    def __enter__(self) -> Journal:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise UsageError(
                f"{self.path.parent}: in use by a running campaign; wait for it, or choose --out"
            ) from error
        whole = self.path.read_bytes()
        os.ftruncate(self._file, whole.rfind(b"\n") + 1)
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._file)

    def add(self, results: Iterable[Result]) -> None:
        """Record finished runs. When this returns, they survive a power failure."""
        rows = [json.dumps({"event": "done", **table(result)}) for result in results]
        left = "".join(f"{row}\n" for row in rows).encode()
        while left:
            left = left[os.write(self._file, left) :]
        os.fsync(self._file)


def done(path: Path) -> dict[str, Result]:
    """The executed runs of a journal, by key; of two with one key the first.

    Runs that could not be executed are not among them, so that they are retried.
    """
    by_key: dict[str, Result] = {}
    for result in noted(path):
        if result.key not in by_key or failed(by_key[result.key]):
            by_key[result.key] = result
    return by_key


def noted(path: Path) -> list[Result]:
    """Every line of a journal, in order."""
    return [read(_body(row), str(path)) for row in read_lines(path, table_of, MOST_BYTES)]


def _body(row: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in row.items() if name != "event"}
