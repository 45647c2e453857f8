"""The HTML page of a checked foreign history: its longest legal prefix, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.checkers.linearizability.judgement import by_key, shown
from holdfast.checkers.linearizability.longest_prefix import (
    OverBudget,
    Prefix,
    longest_prefix,
    specification,
)
from holdfast.checkers.linearizability.search import Specification
from holdfast.checkers.linearizability.user_spec import given_specification
from holdfast.foreign.judge_foreign import OWN, user_object
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.operations import NO_TOKEN, Status
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.foreign.operations import OPEN, ForeignOp, brief, keyed_apart
from holdfast.harness.foreign.read import read_history
from holdfast.harness.foreign.verdict import FindingRow, ForeignVerdict
from holdfast.reports.pictures.linearization import Call, Linearization
from holdfast.reports.run import foreign_page

DRAWN_KEYS, DRAWN_CALLS = 3, 12


def write_page(target: Path, path: Path, form: str, model: str, verdicts: ForeignVerdict) -> None:
    """Writes the page about a judged history. EnvironmentFailed if it cannot be written."""
    prefixes: list[Linearization] = []
    why = ""
    if verdicts["verdict"] == Verdict.VIOLATED:
        prefixes, why = _prefixes(path, form, model, verdicts["verdicts"][0]["findings"])
    try:
        foreign_page.write(target, foreign_page.page(verdicts, prefixes, why))
    except OSError as error:
        raise EnvironmentFailed(f"{target}: cannot be written: {error.strerror}") from error


def _prefixes(
    path: Path, form: str, model: str, findings: Sequence[FindingRow]
) -> tuple[list[Linearization], str]:
    """The drawings of the first violated locks or registers; or why there is none."""
    history = read_history(path, form)
    ops = history.ops if OWN.fullmatch(model) else keyed_apart(history.ops)
    wanted = {finding["lock"] for finding in findings}
    found: list[Linearization] = []
    why = "the order of this model's operations was not searched"
    for group in by_key(ops).values():
        key = group[0].key
        name = "" if key is None else str(key)
        if name not in wanted or len(found) >= DRAWN_KEYS:
            continue
        spec = _specification(model, group)
        if spec is None:
            return [], f"{model} has no sequential object whose orders could be drawn"
        try:
            prefix = longest_prefix(group, spec)
        except OverBudget:
            why = "the search for the longest legal prefix exceeded its budget"
            continue
        if prefix is not None:
            found.append(drawn_prefix(name, group, prefix))
    return found, "" if found else why


def _specification(model: str, ops: Sequence[ForeignOp]) -> Specification | None:
    if OWN.fullmatch(model):
        return given_specification(model, user_object(model))
    return specification(model, ops)


def drawn_prefix(name: str, ops: Sequence[ForeignOp], prefix: Prefix) -> Linearization:
    """The last calls of the order, the one that fits none, and what was open beside them."""
    first = max(len(prefix.order) - DRAWN_CALLS, 0)
    placed = {
        (op.process, op.begin): (place, state)
        for place, (op, state) in enumerate(zip(prefix.order, prefix.states, strict=True), 1)
        if place > first
    }
    left_out = {(op.process, op.begin) for op in prefix.order[:first]}
    stuck = prefix.stuck
    since = min([begin for _, begin in placed], default=stuck.begin)
    calls = []
    for op in ops:
        ident = (op.process, op.begin)
        is_stuck = ident == (stuck.process, stuck.begin)
        beside = op.begin < stuck.end and op.end >= since and _may_count(op)
        if not (ident in placed or is_stuck or (beside and ident not in left_out)):
            continue
        place, state = placed.get(ident, (0, ""))
        calls.append(
            Call(
                client=f"process {brief(op.process)}",
                text=_words(op),
                begin=op.begin,
                end=None if op.end == OPEN else op.end,
                where=op.where,
                place=place,
                state=state,
                stuck=is_stuck,
            )
        )
    return Linearization(
        name=name,
        calls=tuple(calls),
        explained=prefix.explained,
        responses=prefix.responses,
        earlier=first,
        could=prefix.could,
    )


def _may_count(op: ForeignOp) -> bool:
    return op.status in (Status.OK, Status.INFO)


def _words(op: ForeignOp) -> str:
    """A call in a few words: "write 3", "read -> 5", "acquire #7"."""
    text = brief(op.f)
    if op.value is not None:
        text += f" {shown(op.value, 20)}"
    if op.token != NO_TOKEN:
        text += f" #{op.token}"
    if op.status is Status.INFO:
        return f"{text} ?"
    answered = op.told_value and op.result != op.value
    return f"{text} → {shown(op.result, 20)}" if answered else text
