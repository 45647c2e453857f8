"""`holdfast gate`: compares runs with a baseline, for CI."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import click

from holdfast.campaigns.result_collection import gather
from holdfast.catalogue import VIRTUAL_TIME
from holdfast.commands.options import Command, paths_argument
from holdfast.harness.campaigns import baseline as baselines
from holdfast.harness.campaigns import gate
from holdfast.harness.campaigns.gate import Trouble
from holdfast.harness.campaigns.results import Result
from holdfast.harness.core.errors import UsageError
from holdfast.reports.text.layout import width


@click.command(
    cls=Command,
    examples=(
        "holdfast gate .holdfast/campaigns/nightly --update-baseline",
        "holdfast gate .holdfast/campaigns/nightly --fail-on p99:25% --junit gate.xml",
    ),
)
@paths_argument
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    default=Path("holdfast-baseline.toml"),
    show_default=True,
    help="Baseline to compare with.",
)
@click.option("--update-baseline", is_flag=True, help="Write the baseline from these runs.")
@click.option(
    "--fail-on",
    multiple=True,
    metavar="EXPR",
    help="Measure and allowed change: p99:25%,grants:10%; duplicates:1%: share of grants that"
    " may overlap another hold, for efficiency locks; limits: fail on newly violated properties"
    " that the system never promised.",
)
@click.option("--junit", type=click.Path(path_type=Path), help="Write a JUnit report.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option(
    "--json-file", "json_path", type=click.Path(path_type=Path), help="Write the JSON object."
)
@click.option("--github", is_flag=True, help="Write annotations and a step summary for GitHub.")
@click.option(
    "--today",
    metavar="YYYY-MM-DD",
    show_default="today",
    help="Day on which suppressions are checked for expiry.",
)
def command(
    paths: tuple[Path, ...],
    baseline: Path,
    update_baseline: bool,
    fail_on: tuple[str, ...],
    junit: Path | None,
    as_json: bool,
    json_path: Path | None,
    github: bool,
    today: str | None,
) -> int:
    """Compare runs with a baseline; PATH is a campaign, a run directory, or a folder of either.

    Exit code 0: passed; 1: a promise was broken, a suppression has expired or is stale, or a
    measure got worse than allowed; 2: no baseline; 3: a promised property was not tested; 4: a
    run failed. A violation cannot be written into a baseline.
    """
    from holdfast.reports.outputs import gate as pages

    day, given = _day(today), gate.rules(fail_on)
    results = gather(paths, lambda text: click.echo(text, err=True))
    before = baselines.Baseline()
    if baseline.exists() or not update_baseline:
        before = baselines.read(baseline)
    if update_baseline:
        troubles = gate.alone(results, before.known, day, given)
        _update(baseline, results, before, troubles)
    else:
        troubles = gate.judge(results, before, given, day)
    if as_json:
        click.echo(json.dumps(gate.table(troubles, results)))
    else:
        click.echo(pages.terminal(troubles, results, width()))
    name = paths[0].resolve().name if len(paths) == 1 else "gate"
    _write(troubles, results, junit, json_path, github, name)
    return gate.exit_code(troubles)


def _day(text: str | None) -> date:
    if text is None:
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"invalid --today {text!r}: expected a day like 2027-01-31") from error


def _update(
    path: Path,
    results: Sequence[Result],
    before: baselines.Baseline,
    troubles: Sequence[Trouble],
) -> None:
    """Write the baseline, unless the runs have problems."""
    bad = [one for one in troubles if one.code in (gate.FAILED, gate.ENVIRONMENT)]
    if bad:
        click.echo(f"{path}: not written: these runs cannot serve as a baseline", err=True)
        return
    text = baselines.to_toml(baselines.of_results(results, before.known))
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text)
        part.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    click.echo(f"baseline written: {path}")


def _map(results: Sequence[Result]) -> list[list[str]]:
    """The heat map of the runs, as text."""
    from holdfast.reports.many import heat_map
    from holdfast.reports.many.matrix import matrix

    view = heat_map.views(matrix(results, VIRTUAL_TIME), lambda result: "")[0]
    return heat_map.texts(view) if view.rows else []


def _write(
    troubles: Sequence[Trouble],
    results: Sequence[Result],
    junit: Path | None,
    json_path: Path | None,
    github: bool,
    name: str,
) -> None:
    from holdfast.reports.outputs import gate as pages

    try:
        if junit is not None:
            pages.junit(junit, troubles, results, name)
        if json_path is not None:
            json_path.write_text(json.dumps(gate.table(troubles, results), indent=1) + "\n")
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if github and summary:
            with Path(summary).open("a") as file:
                file.write(pages.step_summary(troubles, results, _map(results)))
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be written: {error.strerror}") from error
    if github:
        for line in pages.github_lines(troubles):
            click.echo(line)
