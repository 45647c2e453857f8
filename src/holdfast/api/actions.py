"""Running, judging and checking from Python, as the commands do it."""

from __future__ import annotations

import io
import os
import secrets
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from holdfast.api import plan_options
from holdfast.api.run import Run
from holdfast.checkers.linearizability.judgement import ModelJudgement
from holdfast.engine import judging, runner
from holdfast.foreign import judge_foreign
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.foreign.operations import ForeignHistory, keyed_apart
from holdfast.harness.foreign.read import read_from, read_history
from holdfast.harness.foreign.write import events
from holdfast.harness.runs.directory import RUNS, RunDir
from holdfast.planning import prepare
from holdfast.planning.lazy_holders import with_lazy_holders
from holdfast.planning.resolve import hosts_of

USUAL = {"system": "reference", "backend": "local", "workload": "critical-section"}
KEYS = ("system", "backend", "workload", "resource", "nemesis", "nodes", "clients", "locks", "time",
        "lease", "seed", "checkers", "require")  # fmt: skip


def run(
    plan: str | PathLike[str] | None = None,
    *,
    out: str | PathLike[str] = RUNS,
    options: Mapping[str, object] | None = None,
    hosts: str | PathLike[str] | None = None,
    **given: object,
) -> Run:
    """Carry out one run and judge it, as `holdfast run` does with the same options.

    plan: a plan file, which the other arguments override; else they make the plan: system, backend,
    workload, resource, nemesis ("pause:target=holder,for=3s"), nodes, clients, locks, time ("20s"),
    lease ("2s"), seed, checkers and require (lists). options: what `--set` takes. out: folder for
    run directories. hosts: file of --backend ssh. Settings files and HOLDFAST_* do not apply.
    Raises UsageError, EnvironmentFailed; a violation raises nothing: look at `.verdict`.
    """
    wrong = sorted(given.keys() - set(KEYS))
    if wrong:
        raise TypeError(f"run() got an unknown argument {wrong[0]!r}: expected {', '.join(KEYS)}")
    texts = [f"{name}={value}" for name, value in (options or {}).items()]
    if plan is None:
        made = plan_options.from_options({**USUAL, **given}, texts)
    else:
        made = plan_options.from_file(Path(plan), given, texts)
    if made.seed < 0:
        made = replace(made, seed=secrets.randbelow(1 << 31))
    full = prepare.prepared(with_lazy_holders(made) if plan is None else made)
    hosts_table = hosts_of(full.plan, os.fspath(hosts) if hosts is not None else "")
    again = prepare.command(made) if plan is None else f"holdfast run {shlex.quote(str(plan))}"
    verdicts = runner.carry_out(full, Path(out), again, quiet=True, hosts=hosts_table)
    return Run(Path(out) / verdicts.run)


def simulate(
    plan: str | PathLike[str] | None = None, *, out: str | PathLike[str] = RUNS, **given: Any
) -> Run:
    """`run` in the simulator: virtual time, and the same seed gives the same history."""
    return run(plan, out=out, **{**given, "backend": "sim"})


def judge(path: str | PathLike[str] | Run, checkers: Sequence[str] = ()) -> Run:
    """Judge a recorded run again, as `holdfast check` does, and write its verdicts.json.

    checkers: further checkers, by name or FILE.py:NAME, which is executed.
    """
    recorded = path if isinstance(path, Run) else Run(path)
    if recorded.path is None:
        raise UsageError(
            f"{recorded.id}: judging writes verdicts.json and needs the run's directory"
        )
    judging.judge_run(RunDir(recorded.path), checkers)
    return Run(recorded.path)


def check(
    history: str | PathLike[str] | Run | Iterable[Mapping[str, Json]] | Any, model: str
) -> ModelJudgement:
    """Judge a history against a specification, as `holdfast check --model` does.

    history: a file (EDN, JSON lines, CSV, Parquet, porcupine); a Run; or events as mappings or as a
    data frame, one per invocation and completion, with the fields of JSON lines: process, type
    (invoke, ok, fail, info), f, key, value, time. model: a name of `holdfast list models`, or
    FILE.py:NAME. The judgement has verdict, reason, exercised and findings; witnesses are line
    numbers, or 1 + the place of an event. Raises UsageError for what is no such history.
    """
    judged = judge_foreign.model_of(model)
    ops = _foreign(history).ops
    judgement: ModelJudgement = judged(
        ops if judge_foreign.OWN.fullmatch(model) else keyed_apart(ops)
    )
    return judgement


def _foreign(history: Any) -> ForeignHistory:
    if isinstance(history, str | PathLike):
        return read_history(Path(history))
    if isinstance(history, Run):
        rows: Iterator[Mapping[str, Json]] = events(history.case.history)
    elif hasattr(history, "to_dict") and hasattr(history, "columns"):
        rows = (
            {name: value for name, value in row.items() if not _missing(value)}
            for row in history.to_dict("records")
        )
    else:
        rows = iter(history)
    lines = b"".join(msgspec.json.encode(row, enc_hook=_plain) + b"\n" for row in rows)
    return read_from(io.BytesIO(lines), "the history", "jsonl")


def _missing(value: object) -> bool:
    """NA, NaN and None, which a data frame has where an event has no such field."""
    return value is None or value is getattr(value, "NA", object()) or value != value


def _plain(value: object) -> object:
    """numpy's numbers as Python's."""
    if hasattr(value, "item"):
        return value.item()
    raise UsageError(f"{value!r} in an event is no text, number or list")
