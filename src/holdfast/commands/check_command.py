"""`holdfast check`: judge a run directory again; the verdict is the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import click

from holdfast.commands import running
from holdfast.harness.errors import UsageError
from holdfast.harness.store import RunDir

RANK = {0: 0, 3: 1, 4: 2, 1: 3}
"""Of several runs the worst exit code counts: 1 before 4 before 3."""


@click.command(short_help="Judge a run directory again; the verdict is the exit code.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("--property", "only", multiple=True, help="Show and count only these properties.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object, an array for several."
)
def command(paths: tuple[Path, ...], only: tuple[str, ...], as_json: bool) -> int:
    """Read the history of a run and judge it by the same call that judged it first.

    Needs no cluster and no engine. The history is never changed; verdicts.json is written anew.
    """
    judged, worst = [], 0
    for path in paths:
        run = RunDir(path.resolve())
        verdicts = running.judge_run(run)
        code = int(verdicts["exit_code"])
        if only:
            verdicts, code = _restrict(verdicts, only)
        judged.append(verdicts)
        worst = max(worst, code, key=lambda c: RANK[c])
        if not as_json:
            running.show_verdict(verdicts, running.report_run(run, verdicts))
    if as_json:
        click.echo(json.dumps(judged[0] if len(judged) == 1 else judged))
    return worst


def _restrict(verdicts: dict[str, object], only: tuple[str, ...]) -> tuple[dict[str, object], int]:
    from holdfast.harness.judge import overall

    rows = verdicts["verdicts"]
    assert isinstance(rows, list)
    asked = [row["property"] for row in rows]
    missing = [prop for prop in only if prop not in asked]
    if missing:
        raise UsageError(
            f"--property {', '.join(missing)}: this run did not ask for it ({', '.join(asked)})"
        )
    kept = [row for row in rows if row["property"] in only]
    problems = verdicts["problems"]
    assert isinstance(problems, list)
    word, code = overall(kept, problems)
    return {**verdicts, "verdicts": kept, "verdict": word, "exit_code": code}, code
