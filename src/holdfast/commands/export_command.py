"""`holdfast export`: a run's operations in the words of other tools."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from holdfast.harness.core.errors import UsageError
from holdfast.harness.foreign.write import FORMATS
from holdfast.harness.history.reader import load
from holdfast.harness.runs.directory import RunDir


@click.command(
    short_help="Write a run's operations for other tools: JSON lines, EDN, CSV, Parquet."
)
@click.argument("path", type=click.Path(path_type=Path), metavar="RUN")
@click.option(
    "--format",
    "form",
    type=click.Choice([*FORMATS, "parquet"]),
    default="jsonl",
    show_default=True,
)
@click.option("--out", type=click.Path(path_type=Path), help="A file; standard output otherwise.")
def command(path: Path, form: str, out: Path | None) -> int:
    """Write the operations of a run directory.

    jsonl and edn: acquire, renew and release as events, which other checkers read; csv and parquet:
    every row of the recording. `holdfast check --model` reads all four. parquet goes to a file and
    wants pyarrow (pip install 'holdfast[parquet]').
    """
    run = RunDir(path.resolve())
    run.read_manifest()
    if form == "parquet":
        from holdfast.harness.foreign.parquet import write_parquet

        if out is None:
            raise UsageError("--format parquet writes no text: say where with --out FILE")
        write_parquet(load(run.history).history, out)
        return 0
    lines = FORMATS[form](load(run.history).history)
    if out is None:
        sys.stdout.writelines(lines)
        return 0
    try:
        with out.open("w") as file:
            file.writelines(lines)
    except OSError as error:
        raise UsageError(f"{out}: cannot be written: {error.strerror}") from error
    return 0
