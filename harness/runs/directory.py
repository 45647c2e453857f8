"""The run directory: its layout, and how its files are read and written."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.plans.manifest import Manifest, parsed
from holdfast.harness.runs import files

T = TypeVar("T")
RUNS = ".holdfast/runs"
"""The default folder of run directories."""
SCHEMA = "holdfast-run/2"
READABLE = ("holdfast-run/1", SCHEMA)


@dataclass(frozen=True, slots=True)
class RunDir:
    """One run on disk. Everything in it can be read during the run."""

    path: Path

    @property
    def history(self) -> Path:
        return self.path / "history"

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"

    @property
    def plan(self) -> Path:
        return self.path / "plan.toml"

    @property
    def faults(self) -> Path:
        return self.path / "faults.jsonl"

    @property
    def times(self) -> Path:
        return self.path / "times.jsonl"

    @property
    def server_record(self) -> Path:
        return self.path / "server-record.jsonl"

    @property
    def verdicts(self) -> Path:
        return self.path / "verdicts.json"

    @property
    def phase(self) -> Path:
        return self.path / "phase"

    @property
    def code(self) -> Path:
        return self.path / "code.zip"

    @property
    def program(self) -> Path:
        """Files of the user's programs, for a system that is made of them."""
        return self.path / "program"

    @property
    def own(self) -> Path:
        """Code that the plan brings along, as modules to import: files of the user, plug-ins."""
        return self.path / "own"

    def has(self, path: Path) -> bool:
        """Whether there is a regular file at one of these paths."""
        return files.is_file(self.path, str(path.relative_to(self.path)))

    def log(self, node: str, name: str) -> Path:
        """Path of the log of a node's process; creates its folder."""
        folder = self.path / "logs" / node
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}.log"

    def read_manifest(self) -> Manifest:
        """The manifest. UsageError if it is missing, damaged or of a newer schema."""
        if self.has(self.code) and not self.has(self.manifest):
            raise UsageError(
                f"{self.manifest}: no such file: the run ended before it was prepared and started"
                " nothing; run it again"
            )
        table = read_json(self.manifest, *READABLE)
        try:
            return parsed(table)
        except UsageError as error:
            raise UsageError(*(f"{self.manifest}: {one}" for one in error.problems)) from error


def create(root: Path, name: str) -> RunDir:
    """A new run directory, and the `latest` link to it."""
    path = (root / name).absolute()
    try:
        (path / "history").mkdir(parents=True)
        (path / "workers").mkdir()
        link = root / f".latest-{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            link.unlink()
        link.symlink_to(name)
        link.replace(root / "latest")
    except OSError as error:
        told = f"{root}: a run directory cannot be created there: {error.strerror}"
        raise UsageError(f"{told}; choose another folder with --out") from error
    return RunDir(path)


def read_json(path: Path, *schemas: str) -> dict[str, Json]:
    """An object of a known `schema`, the last one is the newest; UsageError says what is
    wrong with the file."""
    try:
        found = files.decoded(files.read(path.parent, path.name))
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file; is this a run directory of Holdfast?") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    told = found.get("schema") if isinstance(found, dict) else None
    if told not in schemas:
        name, _, _ = schemas[-1].partition("/")
        newer = isinstance(told, str) and told.startswith(f"{name}/")
        hint = f"; this version reads {schemas[-1]}" + (
            "; the file is from a newer version" if newer else ""
        )
        raise UsageError(f"{path}: unsupported schema {told!r}{hint}")
    return dict(found)


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write it atomically."""
    data = (json.dumps(value, indent=1) + "\n").encode()
    files.write(path.parent, path.name, data)


def append(path: Path, row: Mapping[str, Json]) -> None:
    """Add one JSON line, in one write, so that a killed writer leaves whole lines."""
    files.append(path.parent, path.name, json.dumps(row).encode() + b"\n")


def read_lines(
    path: Path,
    row: Callable[[bytes], T],
    most: int = files.MOST_BYTES,
) -> Iterator[T]:
    """The JSON lines of a file, each parsed by `row`; an incomplete last line is ignored."""
    try:
        data = files.read(path.parent, path.name, most)
    except FileNotFoundError:
        return
    for n, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            yield row(line)
        except ValueError as error:
            raise UsageError(f"{path}, line {n}: damaged: {error}") from error


ORDERS = "orders.bin"
"""The legal orders that prove exact properties, beside verdicts.json."""
