"""`holdfast check`: judge a run, or a foreign history; the verdict is the exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast import catalogue
from holdfast.checkers.linearizability.judgement import BUDGET
from holdfast.commands.options import Command, name_of, paths_argument, verbose_option
from holdfast.foreign import judge_foreign
from holdfast.harness.core.errors import HoldfastError, UsageError, worst_exit_code
from holdfast.harness.foreign.jepsen_store import history_of, is_store
from holdfast.harness.foreign.verdict import ForeignVerdict

if TYPE_CHECKING:
    from holdfast.harness.verdicts.judged import Judged

FORMATS = ("auto", "holdfast", "jsonl", "json", "edn", "porcupine", "csv", "parquet")


@click.command(
    cls=Command,
    examples=(
        "holdfast check .holdfast/runs/latest",
        "holdfast check history.edn --model mutex",
        "holdfast check history.edn --model mutex --html page.html",
        "holdfast check history.jsonl --model myspec.py:Spec --json",
    ),
)
@paths_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="Format of the history; auto: a directory is a run, a file is detected by its content.",
)
@click.option(
    "--model",
    metavar="NAME",
    help=f"Specification for a foreign history: {', '.join(catalogue.MODELS)}, or FILE.py:NAME.",
    shell_complete=name_of("models"),
)
@click.option(
    "--property",
    "only",
    multiple=True,
    help="Show only this property, and let only it decide the exit code; repeatable.",
)
@click.option(
    "--checker",
    "checkers",
    multiple=True,
    help="Judge a run by this checker too: FILE.py:NAME or an installed checker; repeatable.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    show_default="none; a run writes its own report",
    help="Write a page about one foreign history, with its longest legal prefix drawn.",
)
@click.option(
    "--in-parts",
    type=click.IntRange(min=1),
    metavar="ROWS",
    show_default="1,300,000 for a history larger than memory, else at once",
    help="Judge a run in parts of this number of rows, in bounded memory.",
)
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    metavar="CONFIGURATIONS",
    show_default=f"{BUDGET.configurations:,}",
    help="Limit on what a model's search of a foreign history visits: 140,000 a second.",
)
@click.option("--junit", type=click.Path(path_type=Path), help="Write a JUnit report.")
@verbose_option()
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object, an array for several paths."
)
def command(
    paths: tuple[Path, ...],
    form: str,
    model: str | None,
    only: tuple[str, ...],
    checkers: tuple[str, ...],
    html: Path | None,
    in_parts: int | None,
    budget: int | None,
    junit: Path | None,
    verbose: bool,
    as_json: bool,
) -> int:
    """Judge a recorded run again, or a foreign history against --model.

    Foreign histories come from Jepsen (also a store folder), Knossos, porcupine or JSON lines. The
    exit code is the verdict; of several histories each is judged, and it is that of the worst. The
    history is never changed; of a run, verdicts.json is rewritten.
    """
    if html is not None and len(paths) > 1:
        raise UsageError(f"--html: one history at a time, not {len(paths)}")
    if model is not None:
        judge_foreign.model_of(model)
    judged: list[Judged] = []
    shown, worst = list[object](), 0
    for path in paths:
        try:
            if not path.exists():
                raise UsageError(f"{path}: no such file or run")
            foreign = _is_foreign(path, form)
            _refuse(path, foreign, model, checkers, html, in_parts, budget)
            if foreign:
                told = judge_foreign.judge_path(path, form, model, budget)
                _write_page(html, path, form, model, told)
                told = judge_foreign.restricted(told, only) if only else told
                code = _shown(told, shown, as_json)
            else:
                # A foreign history needs nothing of the engine, which takes half of the start.
                from holdfast.commands.judge_again import judge_run, shown_run

                judged.append(judge_run(path, checkers, in_parts or 0, only))
                shown.append(shown_run(path, judged[-1], as_json=as_json, verbose=verbose))
                code = judged[-1].exit_code
        except HoldfastError as error:
            if len(paths) == 1:
                raise
            code = _unread(path, error, shown)
        worst = worst_exit_code((worst, code))
    if junit is not None:
        from holdfast.reports.outputs.junit import write

        write(junit, judged)
    if as_json:
        click.echo(judge_foreign.as_json(shown))
    return worst


def _is_foreign(path: Path, form: str) -> bool:
    if form != "auto":
        return form != "holdfast"
    return not path.is_dir() or is_store(path)


def _shown(told: ForeignVerdict, shown: list[object], as_json: bool) -> int:
    """Show the verdict on a foreign history; its exit code."""
    shown.append(told)
    if not as_json:
        judge_foreign.show(told)
    return told["exit_code"]


def _unread(path: Path, error: HoldfastError, shown: list[object]) -> int:
    """Report one of several histories that could not be judged; its exit code."""
    row = judge_foreign.unread(path, error)
    shown.append(row)
    for problem in row["problems"]:
        click.echo(f"holdfast: not judged: {problem}", err=True)
    return row["exit_code"]


def _refuse(
    path: Path,
    foreign: bool,
    model: str | None,
    checkers: tuple[str, ...],
    html: Path | None,
    in_parts: int | None,
    budget: int | None,
) -> None:
    """UsageError for an option that this kind of history does not have."""
    if budget is not None and not foreign:
        raise UsageError(f"{path}: --budget is for foreign histories, whose models may search")
    if model is not None and not foreign:
        raise UsageError(
            f"{path}: --model is for foreign histories; a run has its own properties"
            " (holdfast export converts a run)"
        )
    if foreign and checkers:
        raise UsageError(f"{path}: --checker is for runs; a foreign history takes --model")
    if foreign and in_parts is not None:
        raise UsageError(f"{path}: --in-parts is for runs, not for foreign histories")
    if html is not None and not foreign:
        raise UsageError(f"{path}: --html is for foreign histories; use holdfast report RUN --html")


def _write_page(
    html: Path | None, path: Path, form: str, model: str | None, verdicts: ForeignVerdict
) -> None:
    if html is None:
        return
    from holdfast.foreign.foreign_report import write_page

    if model is None:
        raise UsageError(f"{path}: --html needs --model")
    write_page(html, history_of(path) if is_store(path) else path, form, model, verdicts)
    click.echo(f"report  {html}", err=True)
