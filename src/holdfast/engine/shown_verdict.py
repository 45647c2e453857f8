"""Prints the verdict of a run on standard output."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import click

from holdfast import catalogue
from holdfast.engine.lenses import sections
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verdicts.judged import Judged
from holdfast.reports.outputs.terminal import render


def show_verdict(verdicts: Judged, report: str, *, verbose: bool = False) -> None:
    """Print the verdict on standard output; verbose: with its tables."""
    violated = any(row.verdict is Verdict.VIOLATED for row in verdicts.verdicts)
    simulated = verdicts.backend in catalogue.VIRTUAL_TIME
    explained = violated and report and simulated
    why = f"holdfast explain {shlex.quote(str(Path(report).parent))}" if explained else ""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size((100, 24)).columns
    shown = replace(verdicts, report=report)
    text = render(
        shown, width=width, colour=colour, why=why, verbose=verbose, sections=sections(verdicts)
    )
    click.echo(text, nl=verbose)
    for host, clock in verdicts.clocks.items():
        click.echo(
            f"clock   {host}: offset {-clock.offset_ns / SECOND:+.6f} s, drift"
            f" {clock.drift_ppm:+g} ppm, error at most {clock.error_ns / 1e6:.3g} ms"
        )
