"""Writes judged runs as one JUnit file, for CI servers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from holdfast.harness.verdicts.judged import Judged, Outcome
from holdfast.reports.run import story
from holdfast.reports.text.formatting import NS, plain

TEXT_LIMIT, MOST_LINES = 4000, 25


def write(path: Path, runs: Sequence[Judged], *, suite: str = "holdfast") -> Path:
    """Writes one suite with a case per run and returns the path.

    Each cause that broke a promise is a failure; UNKNOWN and a failed environment are errors,
    never passes.
    """
    outcomes = [run.outcome() for run in runs]
    root = ET.Element("testsuites")
    group = ET.SubElement(
        root,
        "testsuite",
        name=plain(suite),
        tests=str(len(runs)),
        failures=str(outcomes.count(Outcome.BROKEN)),
        errors=str(outcomes.count(Outcome.UNKNOWN) + outcomes.count(Outcome.FAILED)),
        skipped="0",
        time=f"{sum(_seconds(run) for run in runs):.3f}",
    )
    for run, outcome in zip(runs, outcomes, strict=True):
        _case(group, run, outcome)
    ET.indent(root)
    half = path.with_name(f".{path.name}.part")
    half.write_bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))
    os.replace(half, path)
    return path


def case_name(run: Judged) -> str:
    """Test name: "redis/critical-section/pause+kill[7]"; "no-faults" without faults."""
    nemeses = "+".join(dict.fromkeys(fault.do for fault in run.faults)) or "no-faults"
    return plain(f"{run.system}/{run.workload}/{nemeses}[{run.seed}]", 300)


def _case(group: ET.Element, run: Judged, outcome: Outcome) -> None:
    case = ET.SubElement(
        group,
        "testcase",
        classname=plain(f"holdfast.{run.system}.{run.workload}", 200),
        name=case_name(run),
        time=f"{_seconds(run):.3f}",
    )
    properties = ET.SubElement(case, "properties")
    for name, value in (
        ("seed", str(run.seed)),
        ("report", run.report_path()),
        ("command", run.command),
        ("run", run.run),
        ("backend", run.backend),
    ):
        ET.SubElement(properties, "property", name=name, value=plain(value, 1200))
    told = story.story(run)
    ends = [f"report: {run.report_path()}", f"again: {run.command}"]
    text = _text([*told, *ends])
    broken = story.entries(run, broken=True)
    if outcome is Outcome.BROKEN and broken:
        for entry in broken:
            message = plain(f"{entry.title}: {entry.sentence}", 600)
            part = ET.SubElement(case, "failure", type="violated", message=message)
            part.text = _text([told[0], *entry.sentences(), *ends])
        return
    if outcome is Outcome.BROKEN:
        part = ET.SubElement(case, "failure", type="violated", message=plain(told[0], 600))
    elif outcome in {Outcome.UNKNOWN, Outcome.FAILED}:
        kind = "unknown" if outcome is Outcome.UNKNOWN else "environment"
        part = ET.SubElement(case, "error", type=kind, message=plain(told[0], 600))
    else:
        part = ET.SubElement(case, "system-out")
    part.text = text


def _text(sentences: Sequence[str]) -> str:
    return "\n".join(plain(one, TEXT_LIMIT) for one in sentences[:MOST_LINES])


def _seconds(run: Judged) -> float:
    return max(run.end_ns - run.start_ns, 0) / NS
