"""Steps and chains as sentences."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.clusters.backends.sim.observed.steps import NONE, Fate, Kind, Recorded, Step
from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from holdfast.reports.text.formatting import plain, seconds, span
from holdfast.rewind.causes import Link, Why
from holdfast.rewind.execution import Execution

WORLD = "simulator"
SLEEP = "_set_result_unless_cancelled"
"""The callback of `asyncio.sleep`."""
DIGITS = 6
"""Digits of a time in seconds: microseconds, for many steps share a millisecond."""


class Words:
    """Sentences about the steps of one execution."""

    def __init__(self, done: Execution) -> None:
        self._done = done
        history = done.history
        rows = zip(history.rows["writer"].tolist(), history.rows["row"].tolist(), strict=True)
        self._rows = {
            (history.writers[writer], row): index for index, (writer, row) in enumerate(rows)
        }

    def at(self, number: int) -> str:
        """When a step was, since the start of the run."""
        return seconds(self._done.steps[number].t_ns - self._done.start_ns, DIGITS)

    def node(self, step: Step) -> str:
        """Where a step was: the end of a write to a disk is one of the node that wrote."""
        if step.node:
            return step.node
        return self._done.steps[step.cause].node if step.cause != NONE else WORLD

    def edge(self, edge: Recorded) -> str:
        """What a recorded edge of a row says: "calls acquire lock-1"."""
        index = self._rows.get((edge.writer, edge.row))
        if index is None:
            return ""
        history = self._done.history
        row = history.rows[index]
        op = Op(int(row["f"]))
        lock = plain(history.strings[int(row["key"])], 40)
        name = f"{op.name.lower().replace('_', '-')} {lock}".strip()
        if op in (Op.SERVED_READ, Op.SERVED_WRITE):
            did = "accepts" if int(row["status"]) == Status.OK else "rejects"
            return f"{did} {name.split('-', 1)[1]} with token {int(row['token'])}" * edge.returned
        if op in (Op.LOST, Op.CLOSED):
            return f"records {name}" * edge.returned
        if not edge.returned:
            return f"calls {name}"
        status = Status(int(row["status"])).name.lower().replace("_", " ")
        token = int(row["token"])
        with_token = f", token {token}" if token != NO_TOKEN else ""
        error = history.strings[int(row["err"])]
        return f"its {name} returns {status}{with_token}" + (
            f" ({plain(error, 80)})" if error else ""
        )

    def rows(self, step: Step) -> list[str]:
        """What a step recorded, in words."""
        return [text for edge in step.rows if (text := self.edge(edge))]

    def did(self, step: Step) -> str:
        """What happened in a step: "n2 receives Append ... from n1, sent at 0.352 s"."""
        where = self.node(step)
        text = plain(step.text, 200)
        if step.kind is Kind.MESSAGE:
            sent = "" if step.cause == NONE else f", sent at {self.at(step.cause)}"
            if step.fate is Fate.DELIVERED:
                sentence = f"{where} receives from {step.source}{sent}: {text}"
            else:
                sentence = f"a message from {step.source} to {where}{sent}, is {step.fate}: {text}"
        elif step.text == "NodeLoop._stalled":
            sentence = f"{self.node(step)}'s write to disk is done"
        elif step.kind is Kind.TIMER:
            began, timer = ("set", f"timer fires ({text})")
            if step.text == SLEEP:
                began, timer = ("begun", "sleep ends")
            since = "" if step.cause == NONE else f", {began} at {self.at(step.cause)}"
            sentence = f"{where}'s {timer}{since}"
        elif step.before == NONE and step.node:
            sentence = f"{where}'s process starts"
        else:
            sentence = f"{where} goes on ({text})"
        if step.waited_ns:
            sentence += f"; it had waited {span(step.waited_ns)} for {where} to go on"
        return sentence

    def sentences(self, links: Sequence[Link], notes: dict[int, str]) -> list[tuple[int, str]]:
        """A chain as (step, sentence), those of one instant on a node as one.

        notes   what else there is to say about a step
        """
        chain: list[tuple[int, str]] = []
        steps, previous = self._done.steps, None
        for link in links:
            step = steps[link.step]
            clauses = [*self.rows(step), *([notes[link.step]] if link.step in notes else [])]
            where = (self.node(step), step.t_ns)
            if previous and (self.node(previous), previous.t_ns) == where:
                number, text = chain[-1]
                number = link.step if link.step in notes else number
                chain[-1] = number, "; ".join([text, *clauses])
            else:
                later = ""
                if link.why is Why.SAME_NODE and previous:
                    later = f"{span(step.t_ns - previous.t_ns)} later, "
                text = f"{self.at(link.step)} {later}{self.did(step)}"
                chain.append((link.step, "; ".join([text, *clauses])))
            previous = step
        return chain
