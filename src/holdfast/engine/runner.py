"""Carries out a run from its plan to its verdict: driver process, judging, what is shown."""

from __future__ import annotations

from collections.abc import Mapping
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
        if not run.has(run.faults) and not any(run.history.glob("c*.seg")):
            raise
        shown.close()
        failed = error.exit_code
        click.echo(f"holdfast: {error}", err=True)
    finally:
        shown.close()
    verdicts = judge_run(run, plan.checkers)
    if failed and verdicts.exit_code != 1:
        verdicts = replace(verdicts, exit_code=failed)
    # Only now: what reports are made of would delay the start of the run by 0.1 s.
    from holdfast.engine.reporting import report_run
    from holdfast.engine.shown_verdict import show_verdict

    report = report_run(run, verdicts)
    if not quiet:
        show_verdict(verdicts, report, verbose=verbose)
    return replace(verdicts, report=report)
