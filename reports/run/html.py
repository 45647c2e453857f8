"""The report of a run as one HTML file that needs no network, no script and no other file."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from types import CodeType

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup, escape

from holdfast.harness.core.json_value import Json
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.runs import files
from holdfast.harness.verdicts.judged import Judged, Judgement, Outcome
from holdfast.reports.pictures import charts
from holdfast.reports.pictures.overview import overview
from holdfast.reports.pictures.timeline import DIGEST, SCRIPT, Recorded, timeline
from holdfast.reports.run import at_a_glance, coverage_table, next_step, page, server_record, story
from holdfast.reports.run.coverage_advice import advices
from holdfast.reports.run.nearby_operations import around, ends_of_leases
from holdfast.reports.text import formatting

TEMPLATES = Path(__file__).parents[1] / "templates"
PLAN_LIMIT = 60_000


def write(
    run_dir: Path,
    run: Judged,
    manifest: Mapping[str, Json],
    plan_toml: str,
    recorded: Recorded | None = None,
    no_timeline: str = "",
    *,
    name: str = "report.html",
    simulated: bool = False,
) -> Path:
    """Writes the report into a folder, of the run or another one, and returns its path.

    The file is written atomically. simulated: the run was on virtual time.
    """
    text = render(run, manifest, plan_toml, recorded, no_timeline, simulated=simulated)
    files.write(run_dir, name, text.encode())
    return run_dir / name


def render(
    run: Judged,
    manifest: Mapping[str, Json],
    plan_toml: str,
    recorded: Recorded | None = None,
    no_timeline: str = "",
    *,
    simulated: bool = False,
) -> str:
    """The report as a string; without a timeline if there is no recording (`no_timeline`: why)."""
    groups = page.groups(
        run, around(recorded) if recorded else None, ends_of_leases(recorded) if recorded else {}
    )
    cards = [card for group in groups for card in group.cards]
    shown = timeline(recorded, run, page.marks(run, cards)) if recorded else None
    plan = plan_toml.encode("utf-8", "backslashreplace")
    return (
        _environment(run)
        .get_template("report.html")
        .render(
            run=run,
            outcome=run.outcome(),
            claims=story.claims(run),
            facts=at_a_glance.facts(run, simulated=simulated),
            simulated=simulated,
            **_at_a_glance(run),
            servers=story.servers(run),
            held=[*story.held(run), *story.tried(run), *story.notices(run)],
            exercise=story.EXERCISE,
            left_open=story.left_open(run),
            how_to_fail=[*story.how_to_fail(run), *filter(None, [next_step.untried(run)])],
            differences=next_step.differences(run),
            answers=story.answers(run),
            groups=groups,
            overview=overview(run, [(c.number, c.finding, c.tone) for c in cards]),
            sections=page.sections(run),
            record=_server_record(run),
            spans=page.spans(run),
            tokens=charts.tokens(run),
            token_rows=page.token_rows(run),
            residual=page.residual(run),
            timeline=shown,
            no_timeline=no_timeline,
            script=SCRIPT,
            digest=DIGEST,
            manifest=page.flat(manifest),
            started=manifest.get("started", ""),
            plan=formatting.lines(plan_toml, PLAN_LIMIT),
            plan_link="data:application/toml;base64," + base64.b64encode(plan).decode(),
        )
    )


def _at_a_glance(run: Judged) -> dict[str, object]:
    """The short lines and the tables of what was tried."""
    return {
        "glance": {
            "tiles": at_a_glance.tiles(run),
            "faults": at_a_glance.faults(run),
            "properties": at_a_glance.properties(run),
            "measures": at_a_glance.measures(run),
        },
        "coverage_table": {
            "tried": coverage_table.tried(run),
            "asked": coverage_table.asked(run),
            "kinds": coverage_table.kinds(run),
            "questions": coverage_table.questions(run),
            "open": coverage_table.open_questions(run),
        },
        "bound": story.bound(run),
    }


def _server_record(run: Judged) -> dict[str, object] | None:
    """The section about the servers' own record, None if the run has none."""
    found = run.server_record
    if found is None:
        return None
    return {
        "title": server_record.TITLE,
        "result": server_record.result(found),
        "compared": server_record.compared(found),
        "gaps": server_record.gaps(run, found),
        "kinds": server_record.kinds(found),
    }


def state(judgement: Judgement) -> str:
    """Style of a verdict: "holds", "broken", "limit" or "unknown"."""
    if judgement.verdict is Verdict.VIOLATED:
        return "broken" if judgement.promised else "limit"
    return "holds" if judgement.verdict is Verdict.HOLDS else "unknown"


class CompiledTemplates(BytecodeCache):
    """Code of the templates that this process has compiled.

    Every report has its own environment, whose globals depend on the run. The code depends on the
    source and the filters, which all environments share.
    """

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.code is not None:
            self._codes[bucket.key, bucket.checksum] = bucket.code


COMPILED = CompiledTemplates()


def template_environment() -> Environment:
    """Templates that escape everything, with the filters for untrusted text."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=COMPILED,
    )
    environment.filters |= FILTERS
    environment.globals |= {"count": formatting.count, "state": state}
    return environment


def _environment(run: Judged) -> Environment:
    environment = template_environment()
    environment.globals |= {
        "at": lambda ns: formatting.seconds(run.at(ns)),
        "meaning": story.meaning,
        "happened": lambda prop: story.HAPPENED.get(prop, ""),
        "advices": advices,
        "states": {
            Outcome.HOLDS: "holds",
            Outcome.LIMIT: "limit",
            Outcome.UNKNOWN: "unknown",
            Outcome.BROKEN: "broken",
            Outcome.FAILED: "failed",
        },
    }
    return environment


def _say(text: object, limit: int = formatting.DISPLAY_LIMIT) -> Markup:
    """Untrusted text: escaped, shortened, isolated from the text direction around it."""
    return Markup("<bdi>") + escape(formatting.plain(text, limit)) + Markup("</bdi>")


def _words(text: object, limit: int = formatting.DISPLAY_LIMIT) -> Markup:
    """A command: each word apart, so that a line does not end within one, after "--"."""
    words = formatting.plain(text, limit).split(" ")
    return Markup(" ").join(Markup('<span class="arg">{}</span>').format(word) for word in words)


FILTERS = {
    "words": _words,
    "say": _say,
    "sentence": formatting.sentence,
    "capital": lambda text: str(text)[:1].upper() + str(text)[1:],
    "stopped": formatting.stopped,
    "span": formatting.span,
    "number": formatting.number,
    "measured": formatting.evidence,
    "percent": formatting.percent,
    "spaced": lambda text: formatting.plain(str(text).replace("-", " ").replace("_", " "), 60),
}
"""Filters of templates."""
