"""The report of a run as one HTML file that needs no network, no script and no other file."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from jinja2 import Environment

from holdfast.harness.core.json_value import Json
from holdfast.harness.verdicts.judged import Judged, Outcome
from holdfast.harness.verdicts.section import Section
from holdfast.reports.pictures import charts
from holdfast.reports.pictures.overview import overview
from holdfast.reports.pictures.timeline import Recorded, timeline
from holdfast.reports.run import at_a_glance, coverage_table, next_step, page, story
from holdfast.reports.run.coverage_advice import advices
from holdfast.reports.run.nearby_operations import around, ends_of_leases
from holdfast.reports.text import formatting
from holdfast.reports.text.templates import DIGEST, SCRIPT, template_environment

PLAN_LIMIT = 60_000


def render(
    run: Judged,
    manifest: Mapping[str, Json],
    plan_toml: str,
    recorded: Recorded | None = None,
    no_timeline: str = "",
    *,
    simulated: bool = False,
    sections: Sequence[Section] = (),
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
            held=[
                *story.held(run),
                *story.counted(run),
            ],
            exercise=story.EXERCISE,
            left_open=story.left_open(run),
            how_to_fail=[*story.how_to_fail(run), *filter(None, [next_step.untried(run)])],
            differences=next_step.differences(run),
            answers=story.answers(run),
            groups=groups,
            overview=overview(run, [(c.number, c.finding, c.tone) for c in cards]),
            sections=page.sections(run),
            features=sections,
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
            "absent": coverage_table.absent(run),
            "questions": coverage_table.questions(run),
            "open": coverage_table.open_questions(run),
        },
        "bound": story.bound(run),
    }


def _environment(run: Judged) -> Environment:
    environment = template_environment()
    environment.globals |= {
        "at": lambda ns: formatting.seconds(run.at(ns)),
        "meaning": story.meaning,
        "looked_for": lambda prop: story.LOOKED_FOR.get(prop, ""),
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
