"""Judges a foreign history by the model that the user names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from holdfast import catalogue
from holdfast.checkers.linearizability.judgement import BUDGET, Budget
from holdfast.checkers.linearizability.unjudged import unjudged
from holdfast.checkers.linearizability.user_spec import given
from holdfast.harness.core.errors import HoldfastError, UsageError
from holdfast.harness.core.loading import load, load_file
from holdfast.harness.core.verdict import SCHEMA, Finding, Verdict
from holdfast.harness.foreign import jepsen_store
from holdfast.harness.foreign.operations import keyed_apart
from holdfast.harness.foreign.read import read_history
from holdfast.harness.foreign.verdict import FindingRow, ForeignVerdict, UnreadRow, VerdictRow
from holdfast.harness.plans.plan import suggest
from holdfast.reports.text.layout import say
from holdfast.reports.text.progress import Progress

EXIT = {Verdict.HOLDS: 0, Verdict.VIOLATED: 1, Verdict.UNKNOWN: 3}
MOST_SHOWN = 5
OWN = re.compile(r".+\.py:[A-Za-z_][A-Za-z0-9_]*")


def model_of(name: str) -> Any:
    """The model that --model names: a callable from operations to a judgement. `queue.py:Queue` is
    a specification in a user's file. UsageError."""
    if OWN.fullmatch(name):
        return given(name, user_object(name))
    family, colon, parameter = name.partition(":")
    known = f"{family}:N" if colon else name
    if known not in catalogue.MODELS:
        raise UsageError(suggest(name, list(catalogue.MODELS), "model"))
    found = load(catalogue.MODELS[known].entry)
    return found(parameter) if colon else found


def user_object(name: str) -> object:
    """The class or object that `FILE.py:NAME` names. UsageError."""
    path, _, attribute = name.rpartition(":")
    module = "holdfast_model_" + re.sub(r"\W", "_", Path(path).stem)
    load_file(module, Path(path))
    return load(f"{module}:{attribute}")


def judge_path(
    path: Path, form: str, model: str | None, configurations: int | None = None
) -> ForeignVerdict:
    """The verdict on a history file, or on a store folder of Jepsen beside Jepsen's own."""
    if not jepsen_store.is_store(path):
        return judge_file(path, form, model, configurations)
    found = judge_file(jepsen_store.history_of(path), form, model, configurations)
    found["run"] = str(path)
    try:
        theirs = jepsen_store.compared(path, Verdict(found["verdict"]))
    except UsageError as error:
        found["problems"] += error.problems
    else:
        if theirs is not None:
            found["jepsen"] = theirs
    return found


def unread(path: Path, error: HoldfastError) -> UnreadRow:
    """What is shown of a history, one of several, that could not be judged."""
    return {
        "schema": SCHEMA,
        "run": str(path),
        "verdict": None,
        "exit_code": error.exit_code,
        "problems": str(error).splitlines(),
    }


def search_told(far: Progress) -> Callable[[int, int, int], None]:
    """Shows on standard error how far a search is."""

    def tell(visited: int, explained: int, responses: int) -> None:
        note = f"{visited:,} configurations visited"
        far.update(explained, total=responses, note=note)

    return tell


def judge_file(
    path: Path, form: str, model: str | None, configurations: int | None = None
) -> ForeignVerdict:
    """The verdict on a foreign history as one JSON-ready object, like that of a run.

    UsageError if the file cannot be read or has operations that the model does not know.
    configurations: limit of a search, None for the usual one.
    """
    if model is None:
        raise UsageError(
            f"{path}: a foreign history needs --model: one of {', '.join(catalogue.MODELS)}"
        )
    judge = model_of(model)
    history = read_history(path, form)
    try:
        ops = history.ops if OWN.fullmatch(model) else keyed_apart(history.ops)
        limit = BUDGET.configurations if configurations is None else configurations
        with Progress("search", "responses explained") as far:
            judgement = judge(ops, Budget(configurations=limit, tell=search_told(far)))
    except UsageError as error:
        raise UsageError(*(f"{path}: {problem}" for problem in error.problems)) from error
    row: VerdictRow = {
        "property": "mutual-exclusion" if model == "lease-mutex" else "linearizability",
        "state": str(judgement.verdict),
        "verdict": str(judgement.verdict),
        "promised": True,
        "severity": "critical",
        "reason": judgement.reason,
        "exercised": judgement.exercised,
        "findings": [_finding_row(finding, history.unit) for finding in judgement.findings],
        "notes": [_finding_row(note, history.unit) for note in judgement.notes],
        "under": {},
    }
    return {
        "schema": SCHEMA,
        "run": str(path),
        "model": model,
        "seed": None,
        "verdict": str(judgement.verdict),
        "state": str(judgement.verdict),
        "exit_code": EXIT[judgement.verdict],
        "problems": [],
        "verdicts": [row],
        "unjudged": unjudged(ops, model),
    }


def _finding_row(finding: Finding, unit: str) -> FindingRow:
    """A finding in JSON; its witnesses are places, because the history has no run clock.

    unit   what a place counts: "line" or, in a document, "event"
    """
    return {
        "kind": finding.kind,
        "sentence": finding.sentence,
        "lock": finding.lock,
        "witnesses": [{unit: place} for place in finding.witnesses],
    }


def restricted(verdicts: ForeignVerdict, only: Sequence[str]) -> ForeignVerdict:
    """The verdict, if these properties are those that were judged. UsageError otherwise."""
    asked = [row["property"] for row in verdicts["verdicts"]]
    missing = [prop for prop in only if prop not in asked]
    if missing:
        raise UsageError(
            f"--property {', '.join(missing)}: not judged; judged are {', '.join(asked)}"
        )
    return verdicts


def show(verdicts: ForeignVerdict) -> None:
    """The verdict on a foreign history as text; witnesses are lines of the file."""
    row = verdicts["verdicts"][0]
    counts = ", ".join(f"{count} {name}" for name, count in row["exercised"].items())
    say(f"{verdicts['verdict']}  {verdicts['run']} as {verdicts['model']} ({counts})")
    if not row["findings"]:
        say(f"  {row['reason']}")
    for sentence in verdicts["unjudged"]:
        say(f"  not judged: {sentence}")
    for problem in verdicts["problems"]:
        say(f"  {problem}")
    if "jepsen" in verdicts:
        say(f"  {jepsen_store.words(verdicts['jepsen'])}")
    for kind, rows in (("findings", row["findings"]), ("notes", row["notes"])):
        for each in rows[:MOST_SHOWN]:
            say(f"  {each['kind']}: {each['sentence']}")
        if len(rows) > MOST_SHOWN:
            click.echo(f"  and {len(rows) - MOST_SHOWN} more {kind} (--json has all)")


def as_json(judged: Sequence[object]) -> str:
    """One object, or an array for several."""
    return json.dumps(judged[0] if len(judged) == 1 else judged)
