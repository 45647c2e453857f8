"""The result of a hunt, as text and as one JSON object."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path

import click

from holdfast.harness.core.json_value import Json
from holdfast.hunting import findings
from holdfast.hunting.agenda import releases_of
from holdfast.hunting.findings import Found
from holdfast.hunting.hunt import Hunted
from holdfast.reports.text.layout import say

LINES = 3
"""Maximum number of reasons that are shown for runs that were not executed."""


def head(hunted: Hunted) -> str:
    """What was hunted, with how many runs."""
    subject = hunted.subject
    promised = sum(one.first.promised for one in hunted.found)
    limits = len(hunted.found) - promised
    seconds = f"{hunted.took_s:.0f} s"
    ended = f", {hunted.ended}" if hunted.ended else ""
    return (
        f"hunt {subject.library(subject.release)}: {len(hunted.trials)} runs searched"
        f" {len(releases_of([trial for trial, _ in hunted.trials]))} of"
        f" {len(subject.releases)} releases, {hunted.confirmed} runs repeated findings, {seconds}"
        f"{ended}, seed {hunted.seed}: {promised} violated"
        f" {'promise' if promised == 1 else 'promises'}, {limits} violated"
        f" {'limit' if limits == 1 else 'limits'} that {'was' if limits == 1 else 'were'} never"
        " promised"
    )


def releases_words(found: Found) -> str:
    """The bad releases as text."""
    span = found.span
    if span is None:
        return f"not bisected: {found.unbisected or 'no time left'}"
    first = f"first bad {span.first}" + (f" ({span.before} clean)" if span.before else "")
    first += " (the oldest tried)" if span.oldest else ""
    last = f"last bad {span.last}" + (f" ({span.after} clean)" if span.after else "")
    last += " (the newest tried)" if span.newest else ""
    unusable = [name for name, bad in span.tried.items() if bad is None]
    left_out = f"; not usable with the adapter: {', '.join(unusable)}" if unusable else ""
    return f"{first}, {last}{left_out}"


def needs_words(found: Found) -> str:
    """What the finding needs: options, and faults that took effect before it."""
    options = " ".join(f"{name}={value}" for name, value in found.first.needs.items())
    return f"{options or 'default options'}; faults: {', '.join(found.faults)}"


def also_words(found: Found) -> str:
    """A finding that came with another one."""
    return found.first.name + ("" if found.first.promised else " (never promised)")


def by_situation(found: Found) -> dict[str, str]:
    """Situation -> the first run of it that showed the finding: several bugs may give one row."""
    runs: dict[str, str] = {}
    for each in found.seen:
        runs.setdefault(each.situation, each.run)
    return runs


def again(found: Found) -> str:
    """The command that repeats it."""
    return shlex.join(["holdfast", "replay", found.shrunk or found.first.run])


def show(hunted: Hunted) -> None:
    """Print the table."""
    say(head(hunted))
    for number, finding in enumerate(hunted.found, 1):
        one = finding.first
        never = "" if one.promised else ", never promised"
        shown = f", {finding.again} of {finding.runs}" if one.promised else ""
        click.echo("")
        say(f"{number}  {one.name}{shown}{never}; seen in {len(finding.seen)} runs of the search")
        say(f"   {one.sentence}")
        say(f"   needs     {needs_words(finding)}")
        if finding.also:
            say(f"   also      {'; '.join(map(also_words, finding.also))}")
        if one.promised:
            say(f"   releases  {releases_words(finding)}")
        if finding.size:
            say(f"   shrunk    {finding.size}")
        click.echo(f"   again     {again(finding)}")
        click.echo(f"   report    {Path(one.run) / 'report.html'}")
        for situation, run in by_situation(finding).items():
            if run != one.run:
                click.echo(f"   also in   {situation}: {Path(run) / 'report.html'}")
    if hunted.left_out:
        names = ", ".join(hunted.left_out)
        reasons = "; ".join(dict.fromkeys(hunted.left_out.values()))
        say(f"not run on this machine: {names}: {reasons}")
    if hunted.starved:
        runs = f"{hunted.starved} of {len(hunted.trials)} runs"
        say(f"too little processor time in {runs}: liveness was not tested there; use -j 1")
    for reason, count in list(hunted.errors.items())[:LINES]:
        say(f"not executed: {count} {'run' if count == 1 else 'runs'}: {reason}")


def table(hunted: Hunted) -> dict[str, Json]:
    """The result as one JSON object."""
    subject = hunted.subject
    return {
        "schema": "holdfast-hunt/1",
        "package": subject.package,
        "release": subject.release,
        "releases": list(subject.releases),
        "seed": hunted.seed,
        "budget_ns": hunted.budget_ns,
        "took_s": round(hunted.took_s, 1),
        "ended": hunted.ended,
        "exit_code": findings.exit_code(hunted.found, tested=hunted.tested),
        "runs": len(hunted.trials),
        "starved": hunted.starved,
        "left_out": dict(hunted.left_out),
        "repeated": hunted.confirmed,
        "findings": [_row(finding) for finding in hunted.found],
        "trials": [
            {
                "situation": trial.situation,
                "system": trial.variant.system,
                "release": trial.release,
                "options": dict(trial.variant.options),
                "run": ran.run,
                "error": ran.error,
            }
            for trial, ran in hunted.trials
        ],
    }


def _row(found: Found) -> dict[str, Json]:
    one = found.first
    return {
        "property": one.prop,
        "kind": one.kind,
        "promised": one.promised,
        "severity": str(one.severity),
        "sentence": one.sentence,
        "call": one.call,
        "needs": dict(one.needs),
        "faults": list(found.faults),
        "also": [
            {
                "property": other.first.prop,
                "kind": other.first.kind,
                "promised": other.first.promised,
            }
            for other in found.also
        ],
        "seen": len(found.seen),
        "situations": list(by_situation(found)),
        "runs": dict(by_situation(found)),
        "again": found.again,
        "of": found.runs,
        "releases": asdict(found.span) if found.span else None,
        "unbisected": found.unbisected,
        "run": one.run,
        "shrunk": found.shrunk,
        "command": again(found),
    }
