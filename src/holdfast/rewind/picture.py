"""The chain of an explanation as a space-time diagram."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from holdfast.clusters.backends.sim.observed.steps import Kind
from holdfast.reports.pictures.space_time import Arrow, Diagram, Point, draw_space_time
from holdfast.reports.pictures.svg import standalone
from holdfast.rewind.causes import Why
from holdfast.rewind.execution import Execution
from holdfast.rewind.explanation import Explanation
from holdfast.rewind.wording import Words


def drawn(told: Explanation, done: Execution, words: Words) -> str:
    """The text of an SVG file. A chain without a step gives a diagram without lines."""
    steps = done.steps
    points = [
        Point(
            lane=words.node(steps[number]),
            t_ns=steps[number].t_ns,
            text=text.partition(" s ")[2],
            guilty=number in (told.named, told.finding.step),
        )
        for number, text in words.sentences(told.links, told.notes)
    ]
    ET.register_namespace("", "http://www.w3.org/2000/svg")
    diagram = Diagram(
        title=f"{told.finding.prop or 'departure'}: {told.finding.kind}",
        points=points,
        arrows=_arrows(told, done, words),
        faults=() if told.fault is None else (told.fault,),
        start_ns=done.start_ns,
    )
    return standalone(str(draw_space_time(diagram)))


def _arrows(told: Explanation, done: Execution, words: Words) -> list[Arrow]:
    arrows = []
    steps = done.steps
    for before, link in zip(told.links, told.links[1:], strict=False):
        first, then = steps[before.step], steps[link.step]
        arrows.append(
            Arrow(
                source=words.node(first),
                sent_ns=first.t_ns,
                target=words.node(then),
                t_ns=then.t_ns,
                message=link.why is Why.SENT and then.kind is Kind.MESSAGE,
            )
        )
    return arrows
