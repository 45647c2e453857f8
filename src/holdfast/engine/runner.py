"""Carries out a run from its plan to its verdict: driver process, judging, what is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import click

from holdfast import catalogue
from holdfast.engine.driver_process import execute
from holdfast.engine.judging import judge_run
from holdfast.engine.run_progress import RunProgress
from holdfast.harness.core.errors import HoldfastError
from holdfast.harness.core.json_value import Json
from holdfast.harness.judging.lens import Watch
from holdfast.harness.plans.manifest import OWN, Origin
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged
from holdfast.planning import prepare, run_folder
from holdfast.planning.resolve import Prepared


def carry_out(
    prepared: Prepared,
    out: Path,
    again: str,
    *,
    quiet: bool = False,
    hosts: Mapping[str, Json] | None = None,
    until_violation: bool = False,
    verbose: bool = False,
    origin: Origin = OWN,
) -> Judged:
    """Run a complete plan, judge and report it; returns the judged run, also if the driver died.

    quiet             print neither the verdict nor what is found while the run goes on
    verbose           print the tables too
    until_violation   end the workload when a promise was seen to be violated
    origin            the user's name of the run, or the run that it is an attempt of

    A run that the environment aborted ends with that error's code, unless the rows recorded until
    then show a violation.
    """
    plan = prepared.plan
    click.echo(f"seed {plan.seed}: {plan.system} on {plan.backend}, {plan.workload}", err=True)
    for line in prepare.notes(prepared):
        click.echo(f"note: {line}", err=True)
    run = run_folder.create(prepared, out, again, hosts=hosts, origin=origin)
    shown = RunProgress(virtual=plan.backend in catalogue.VIRTUAL_TIME)
    failed = 0
    try:
        execute(run, shown, Watch(tell=shown.tell, quiet=quiet, until_violation=until_violation))
    except HoldfastError as error:
        if not _recorded(run):
            raise
        shown.close()
        failed = error.exit_code
        click.echo(f"holdfast: {error}", err=True)
    finally:
        shown.close()
    verdicts = judge_run(run, plan.checkers)
    if failed and verdicts.exit_code != 1:
        verdicts = replace(verdicts, exit_code=failed)
    report = _reported(run, verdicts)
    if not quiet:
        from holdfast.engine.shown_verdict import show_verdict

        show_verdict(verdicts, report, verbose=verbose)
    return replace(verdicts, report=report)


def attempt(prepared: Prepared, out: Path, again: str) -> tuple[RunDir, Judged | str]:
    """Run a complete plan without a word, judge and report it; why there is nothing to judge."""
    run = run_folder.create(prepared, out, again)
    try:
        execute(run, lambda row: None)
    except HoldfastError as error:
        if not _recorded(run):
            return run, str(error)
    verdicts = judge_run(run, prepared.plan.checkers)
    _reported(run, verdicts)
    return run, verdicts


def keep(
    prepared: Prepared, out: Path, again: str, *, name: str, write: Callable[[RunDir], object]
) -> RunDir:
    """A run that was simulated in memory as a directory, which `write` fills, judged and reported.

    name   of the run
    """
    run = run_folder.create(prepared, out, again, name=name)
    write(run)
    _reported(run, judge_run(run))
    return run


def _recorded(run: RunDir) -> bool:
    """Whether a fault or a client left a row."""
    return run.has(run.faults) or any(run.history.glob("c*.seg"))


def _reported(run: RunDir, verdicts: Judged) -> str:
    # Only now: what reports are made of would delay the start of the run by 0.1 s.
    from holdfast.engine.reporting import report_run

    return report_run(run, verdicts)
