"""A folder that hands a finding on: a script without Holdfast, a drawing, versions, issue text.

Only what the script shows in every trial, each against new servers, is packaged.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec

from holdfast.catalogue.findings import FINDINGS
from holdfast.clusters.programs import debian
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.judging.stored import stored
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged, Shown
from holdfast.hunting import releases
from holdfast.packaging import trials
from holdfast.packaging.observed import SYSTEM, Candidate, Library, candidates, library_of
from holdfast.packaging.scripts import commands, file_name, script
from holdfast.packaging.servers import SERVERS, Server, program
from holdfast.packaging.shapes import ScriptShape
from holdfast.packaging.trials import TRIALS, Trial
from holdfast.reports.pictures.finding import draw
from holdfast.reports.pictures.svg import standalone

PER_RELEASE = 2
"""Trials of another release."""
NPM_FILE = "package.json"
ISSUE = """# {package}: {title}

{sentence} (time since the start of the run; c1, c2 ...: clients).

![The finding](finding.svg)

## To reproduce

`{script}` needs only {needs}. {how}

```console
{commands}
```

It printed in {shown} of {trials} trials, each with new servers:

```text
{output}
```

Expected: {expected}{limit}

## Versions

{versions}
{releases}
## How it was found

By a randomized test of {seconds:.0f} s, which found {findings}:

```console
$ {command}
```
"""

LIMIT = """

This needs a fault that it may not claim to survive; its documentation should say so."""


class PackageRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was measured of a package.

    shown     trials that showed it, of TRIALS
    fresh     the same in an environment made of the written folder alone; -1: not tried
    fixed     a release known to be fixed, and in how many trials it showed it; -1: not tried
    releases  release -> whether it shows it, None if it cannot be used
    span      the first and last bad release of them, as a sentence
    """

    package: str
    shape: str
    property: str
    lines: int
    shown: int
    trials: int = TRIALS
    fresh: int = -1
    fixed: str = ""
    fixed_shown: int = -1
    releases: dict[str, bool | None] = {}
    span: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is tried besides: how many releases, and an environment of the written folder alone."""

    releases: int = 0
    fresh: bool = False


def write(run: RunDir, target: Path, asked: Asked = Asked()) -> PackageRecord:
    """Writes the folder.

    UsageError if the run has no finding that a script shows; EnvironmentFailed if there is no
    server to try it on.
    """
    if target.exists():
        raise UsageError(f"{target} exists; choose another folder with --out")
    if not run.has(run.verdicts):
        raise UsageError(f"{run.path}: not judged; judge it first with: holdfast check {run.path}")
    judged = stored(run)
    suitable = candidates(run, judged)
    library = library_of(run.read_manifest())
    chosen, text, done = _shown(suitable, library)
    record = _with_releases(_record(chosen, text, done), chosen, text, library, asked)
    target.mkdir(parents=True)
    (target / file_name(chosen.filled)).write_text(text)
    _requirements(target, library)
    (target / "finding.svg").write_text(drawing(chosen.finding, judged))
    if asked.fresh:
        with trials.fresh(chosen.filled, target) as environment:
            again = trials.tried(text, chosen.filled, chosen.shape.server, environment)
        record = msgspec.structs.replace(record, fresh=sum(one.shown for one in again))
    (target / "issue.md").write_text(issue(chosen, judged, library, record, done[0]))
    (target / "measured.json").write_bytes(msgspec.json.format(msgspec.json.encode(record)))
    return record


def _shown(found: Sequence[Candidate], library: Library) -> tuple[Candidate, str, Sequence[Trial]]:
    """The first candidate whose script shows its finding in every trial. UsageError if none."""
    refused = ""
    for one in found:
        server = SERVERS[one.shape.server]
        if not server.installed():
            raise EnvironmentFailed(f"{server.program} is not installed; the script is tried on it")
        lacking = [tool for tool in one.shape.tools if shutil.which(tool) is None]
        if lacking:
            raise EnvironmentFailed(f"{' and '.join(lacking)} missing: the script starts it")
        text = script(one.name, one.shape, one.filled)
        environment = trials.fetched(one.filled, library.pins, library.built)
        done = trials.tried(text, one.filled, one.shape.server, environment)
        shown = sum(trial.shown for trial in done)
        if shown == TRIALS:
            return one, text, done
        other = next(trial for trial in done if not trial.shown)
        refused = (
            f"not packaged: the script of shape {one.name} shows it in {shown} of {TRIALS} trials,"
            f" without the run's other clients and faults; one that does not: {other.last}"
        )
    raise UsageError(refused)


def _record(chosen: Candidate, text: str, done: Sequence[Trial]) -> PackageRecord:
    return PackageRecord(
        package=chosen.filled.package,
        shape=chosen.name,
        property=chosen.shape.property,
        lines=len(text.splitlines()),
        shown=sum(one.shown for one in done),
    )


def known_fixed(library: Library, property_: str) -> str:
    """The release that the catalogue of findings names as fixed, "" if none."""
    pin = f"{library.name}=={library.version}"
    for finding in FINDINGS.values():
        if finding.package == pin and finding.breaks == property_ and "==" in finding.fixed:
            return finding.fixed.partition("==")[2]
    return ""


def _with_releases(
    record: PackageRecord, chosen: Candidate, text: str, library: Library, asked: Asked
) -> PackageRecord:
    """The record with the trials of other releases."""

    def bad(version: str, times: int) -> bool | None:
        other = library.of(version)
        try:
            return trials.shows(
                text, chosen.filled, chosen.shape.server,
                lambda: trials.fetched(chosen.filled, other.pins, other.built), times,
            )  # fmt: skip
        except UsageError:
            return None

    fixed = known_fixed(library, record.property)
    if fixed:
        other = library.of(fixed)
        environment = trials.fetched(chosen.filled, other.pins, other.built)
        done = trials.tried(text, chosen.filled, chosen.shape.server, environment)
        if all(one.shown or one.code == 0 for one in done):
            shown = sum(one.shown for one in done)
            record = msgspec.structs.replace(record, fixed=fixed, fixed_shown=shown)
    if not asked.releases or not library.version:
        return record
    listed = releases.published(library.name)
    tried = releases.last(listed, library.version, library.version, asked.releases)
    search = releases.bisect(tried, library.version)
    try:
        wanted = next(search)
        while True:
            wanted = search.send(bad(wanted, PER_RELEASE))
    except StopIteration as end:
        span: releases.Span = end.value
    newest = bool(listed) and tried[0] == listed[0]
    return msgspec.structs.replace(
        record, releases=dict(span.tried), span=_span(span, newest=newest)
    )


def _span(span: releases.Span, *, newest: bool) -> str:
    """The first and last bad release, as a sentence."""
    first = f"first bad release {span.first}"
    first += f" (last good one {span.before})" if span.before else ", the oldest one tried"
    last = f"last bad release {span.last}"
    if span.after:
        return f"{first}, {last} (first good one {span.after})"
    return f"{first}, {last}, the newest one {'published' if newest else 'tried'}"


def _requirements(target: Path, library: Library) -> None:
    """The exact packages of the script, for pip or npm."""
    if library.name.startswith("npm:"):
        pairs = (pin.rpartition("@") for pin in library.pins)
        wanted = {"private": True, "dependencies": {name: version for name, _, version in pairs}}
        (target / NPM_FILE).write_text(json.dumps(wanted, indent=2) + "\n")
        return
    if not library.pins:
        return
    (target / "requirements.txt").write_text("".join(f"{one}\n" for one in library.pins))


def issue(
    chosen: Candidate, judged: Judged, library: Library, record: PackageRecord, trial: Trial
) -> str:
    """The text for an issue tracker, in Markdown."""
    shape, filled = chosen.shape, chosen.filled
    server = SERVERS[shape.server]
    name = file_name(filled)
    installs = bool(library.pins) or filled.language == "go"
    typed = commands(shape, filled, install=installs)
    others = len(chosen.judgement.findings) - 1
    return ISSUE.format(
        package=filled.package,
        title=shape.title,
        sentence=_plain(chosen.finding.sentence),
        script=name,
        needs=_needs(library, server, shape),
        how=shape.how,
        commands="\n".join(f"$ {line}" for line in typed),
        shown=record.shown,
        trials=record.trials,
        output=trial.said.strip(),
        expected=shape.expected,
        limit="" if chosen.judgement.promised else LIMIT,
        versions=_versions(library, shape),
        releases=_of_releases(record),
        seconds=(judged.stop_ns - judged.start_ns) / SECOND,
        findings="it once" if not others else f"it {others + 1} times",
        command=_plain(judged.command),
    )


def _needs(library: Library, server: Server, shape: ScriptShape) -> str:
    """What a script needs, for the issue text."""
    of_server = bool(shape.package) or library.name.startswith(SYSTEM)
    needed = [] if of_server else ["the library"]
    if of_server and library.pins:
        needed = [" and ".join(pin.partition("==")[0] for pin in library.pins)]
    if server.program:
        name = shape.package or server.program
        needed.append(f"{name}, unmodified{', which it starts' if server.own else ''}")
    needed += shape.tools
    return " and ".join([", ".join(needed[:-1]), needed[-1]] if needed[1:] else needed)


def _of_releases(record: PackageRecord) -> str:
    """The lines about other releases and the fresh environment, each its own paragraph."""
    paragraphs = []
    if record.fixed:
        paragraphs.append(
            f"With {record.fixed} the script showed it in {record.fixed_shown} of"
            f" {record.trials} trials."
        )
    if record.span:
        tried = ", ".join(
            f"{name} {'bad' if bad else 'good' if bad is False else 'not usable'}"
            for name, bad in record.releases.items()
        )
        paragraphs.append(f"{record.span[:1].upper()}{record.span[1:]}. Tried: {tried}.")
    if record.fresh >= 0:
        paragraphs.append(
            f"In a new environment with only these packages: {record.fresh} of {record.trials}"
            " trials."
        )
    return "".join(f"\n{one}\n" for one in paragraphs)


def drawing(finding: Shown, judged: Judged) -> str:
    """The report's drawing of a finding as a picture of its own."""
    ET.register_namespace("", "http://www.w3.org/2000/svg")
    return standalone(str(draw(finding, 1, judged, "broken")))


def _plain(text: str) -> str:
    """One line of a run directory as text between the author's own."""
    return html.escape(" ".join(text.split()), quote=False).replace("`", "'")


def _versions(library: Library, shape: ScriptShape) -> str:
    in_go = library.name.startswith(debian.PREFIX)
    lines = [library.package] if in_go else [*library.pins]
    row = SERVERS[shape.server]
    if row.says:
        words = [program(row.says[0]) or row.says[0], *row.says[1:]]
        lines.append(_version(words, shape.package or row.program))
    elif row.program:
        lines.append(shape.server)
    lines += [_version((tool, "--version"), tool) for tool in shape.tools]
    lines.append(_version(("go", "version"), "Go") if in_go else f"Python {sys.version.split()[0]}")
    return "\n".join(f"- {one}" for one in lines)


def _version(words: Sequence[str], name: str) -> str:
    """The name of a program with its version, as these words print it."""
    stdout = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    version = re.search(r"\d+\.\d+(?:\.\d+)?", stdout)
    return f"{name} {version[0] if version else 'of unknown version'}"
