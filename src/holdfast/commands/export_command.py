"""`holdfast export`: a run's operations in formats of other tools."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from holdfast.commands.options import Command
from holdfast.harness.core.errors import UsageError, no_space
from holdfast.harness.foreign.write import FORMATS
from holdfast.harness.history.reader import load
from holdfast.harness.runs.directory import RunDir


@click.command(
    cls=Command,
    examples=(
        "holdfast export .holdfast/runs/latest --format edn > history.edn",
        "holdfast export .holdfast/runs/latest --format parquet --out run.parquet",
    ),
)
@click.argument("path", type=click.Path(path_type=Path), metavar="RUN")
@click.option(
    "--format",
    "form",
    type=click.Choice([*FORMATS, "parquet"]),
    default="jsonl",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    show_default="standard output",
    help="File to write.",
)
def command(path: Path, form: str, out: Path | None) -> int:
    """Write a run's operations for other tools.

    jsonl and edn hold acquire, renew and release as events, which other checkers read; csv and
    parquet hold every recorded row. `holdfast check --model` reads all four. parquet needs --out
    and pyarrow (pip install 'holdfast[parquet]').
    """
    run = RunDir(path.resolve())
    run.read_manifest()
    if form == "parquet":
        from holdfast.harness.foreign.parquet import write_parquet

        if out is None:
            raise UsageError("--format parquet requires --out FILE")
        recording = load(run.history)
        write_parquet(recording.history, out, recording.nodes)
        return 0
    recording = load(run.history)
    lines = FORMATS[form](recording.history, recording.nodes)
    if out is None:
        sys.stdout.writelines(lines)
        return 0
    try:
        with out.open("w") as file:
            file.writelines(lines)
    except OSError as error:
        if full := no_space(error, out):
            # Half of an export looks like a whole one. A device stays.
            if out.is_file():
                out.unlink()
            raise full from error
        raise UsageError(f"{out}: cannot be written: {error.strerror}") from error
    return 0
