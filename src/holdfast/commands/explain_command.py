"""`holdfast explain`: the shortest causal chain from a fault to a finding of a simulated run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.commands.options import Command
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.plans.plan import suggest
from holdfast.reports.text.formatting import count, listed, plain, seconds, span
from holdfast.reports.text.layout import say

if TYPE_CHECKING:
    from holdfast.harness.verdicts.judged import ObservedFault
    from holdfast.rewind.causes import Link
    from holdfast.rewind.execution import Execution
    from holdfast.rewind.explanation import Explanation
    from holdfast.rewind.wording import Words

SCHEMA = "holdfast-explanation/1"


@click.command(
    cls=Command,
    examples=(
        "holdfast explain .holdfast/runs/latest",
        "holdfast explain .holdfast/runs/latest --property loss-notice --output why.svg",
    ),
)
@click.argument("path", type=click.Path(path_type=Path), metavar="RUN|PLAN.toml")
@click.option(
    "--property",
    "prop",
    show_default="that of the first cause",
    help="Property whose first finding is explained.",
)
@click.option(
    "--cause", type=click.IntRange(min=1), help="Number of the cause that is explained.", default=1
)
@click.option("--output", type=click.Path(path_type=Path), help="Draw the chain to this SVG file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(path: Path, prop: str | None, cause: int, output: Path | None, as_json: bool) -> int:
    """Explain a finding of a simulated run: the faults that it needs, and how it came about.

    The run is executed again with every step of the simulator recorded, and once without each of
    its faults. Shown are the faults without which the finding does not occur, and the shortest
    chain of messages, timers and states from the effect of such a fault, or from a client's call,
    to the finding. Where a server departs from its specification, the chain passes that step.

    Exit code 0: explained, or there is nothing to explain; 2: the run was not simulated, or its
    plan gives another history than the one recorded.
    """
    from holdfast.rewind import execution, explanation, wording

    done = execution.of_run(path)
    found = explanation.findings(done)
    if not found:
        _nothing(path, as_json)
        return 0
    if prop is not None:
        named = {one.prop: one for one in found if one.prop and not one.cause}
        if prop not in named:
            raise UsageError(suggest(prop, list(named), "violated property"))
        found = [named[prop]]
    elif cause > 1:
        chosen = [one for one in found if one.cause == cause]
        if not chosen:
            most = max(one.cause for one in found)
            raise UsageError(f"--cause {cause}: the run has {count(most, 'cause')}")
        found = chosen
    told = explanation.explained(done, found[0])
    words = wording.Words(done)
    if as_json:
        click.echo(json.dumps(table(told, done, words)))
    else:
        show(told, done, words)
    if output is not None:
        _draw(output, told, done, words)
    return 0


def _nothing(path: Path, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"schema": SCHEMA, "finding": None}))
    else:
        say(f"{path}: no violation and no departure from a specification: nothing to explain")


def _departure(done: Execution) -> dict[str, Json] | None:
    if done.departure is None:
        return None
    return {**asdict(done.departure), "step": done.departed, "began": done.began}


def _draw(output: Path, told: Explanation, done: Execution, words: Words) -> None:
    from holdfast.rewind.picture import drawn

    try:
        output.write_text(drawn(told, done, words))
    except OSError as error:
        raise UsageError(f"--output {output}: cannot be written: {error.strerror}") from error
    click.echo(f"drawing: {output}", err=True)


def show(told: Explanation, done: Execution, words: Words) -> None:
    """Print an explanation."""
    finding = told.finding
    name = f"{finding.prop} ({finding.kind})" if finding.prop else finding.kind
    say(f"{name}: {plain(finding.sentence, 600)}")
    for line in fault_lines(told, done):
        say(f"  {line}")
    click.echo()
    _chain(told.links, told, words)
    if not told.links:
        say("no chain of steps leads to it")
    departure = done.departure
    if told.departing:
        click.echo()
        say("the first wrong step of the run is not part of this chain:")
        _chain(told.departing, told, words)
    if departure is not None:
        click.echo()
        say(f"step {done.departed}: {departure.node} departs from its specification")
        say(f"  rule: {plain(departure.rule, 600)}")
        say(f"  before: {plain(departure.before, 600)}")
        say(f"  allowed: {plain(departure.allows, 600)}")
        say(f"  happened: {plain(departure.happened, 600)}")
        if done.began >= 0:
            say(f"  in step {done.began} {plain(departure.set_by, 200)}")
        if departure.early_ns:
            say(f"  it comes {span(departure.early_ns)} before that time")
    if told.named >= 0:
        click.echo()
        say(f"look at step {told.named}: holdfast debug RUN --step {told.named}")


def _chain(links: Sequence[Link], told: Explanation, words: Words) -> None:
    for n, (step, text) in enumerate(words.sentences(links, told.notes), 1):
        say(f"{n:3}. [{step}] {text}", 5)


def fault_lines(told: Explanation, done: Execution) -> list[str]:
    """Which faults the finding needs, as sentences."""
    lines = [
        f"it needs {_fault(fault, done)}: without this fault it does not occur"
        for fault in told.needed
    ]
    if told.others:
        names = listed(_fault(fault, done) for fault in told.others)
        lines.append(f"it also occurs without {names}")
    if told.faultless:
        lines.append("it also occurs without any fault")
    elif not told.needed:
        lines.append("it needs one of them, but no particular one")
    if told.untried:
        lines.append(f"not tried: the plan without each of {told.untried} further faults")
    return lines


def _fault(fault: ObservedFault, done: Execution) -> str:
    nodes = ", ".join(plain(node, 20) for node in fault.nodes)
    times = [seconds(t_ns - done.start_ns) for t_ns in (fault.from_ns, fault.to_ns)]
    return f"{plain(fault.id, 20)} ({plain(fault.do, 20)} of {nodes}, {times[0]} to {times[1]})"


def table(told: Explanation, done: Execution, words: Words) -> dict[str, Json]:
    """The explanation as a JSON object; times are ns since the start of the run."""
    finding = told.finding
    return {
        "schema": SCHEMA,
        "finding": {
            "property": finding.prop,
            "kind": finding.kind,
            "sentence": finding.sentence,
            "promised": finding.promised,
            "step": finding.step,
        },
        "step": told.named,
        "needs": [fault.id for fault in told.needed],
        "occurs_without": [fault.id for fault in told.others],
        "occurs_without_any": told.faultless,
        "untried_faults": told.untried,
        "chain": [_link(link, done) for link in told.links],
        "sentences": [text for _, text in words.sentences(told.links, told.notes)],
        "departing": [_link(link, done) for link in told.departing],
        "departure": _departure(done),
        "digest": done.digest,
    }


def _link(link: Link, done: Execution) -> dict[str, Json]:
    step = done.steps[link.step]
    return {
        "step": step.number,
        "why": None if link.why is None else str(link.why),
        "t_ns": step.t_ns - done.start_ns,
        "node": step.node,
        "kind": str(step.kind),
        "source": step.source,
        "fate": str(step.fate),
        "text": step.text,
    }
