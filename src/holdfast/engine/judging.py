"""Judges the recording of a run and writes its verdict, or judges a run in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from holdfast import catalogue
from holdfast.engine.checkers import with_named
from holdfast.engine.lenses import lenses, looked_at
from holdfast.harness.core.case import Case
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.history.reader import segment_files, too_large
from holdfast.harness.judging.judge import judge_case
from holdfast.harness.judging.judgement import Certifies
from holdfast.harness.judging.recorded_run import judge
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.plans.plan import OWN, suggest
from holdfast.harness.runs import directory, files
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged
from holdfast.harness.verdicts.judged import to_table as table_of


def judge_run(run: RunDir, checkers: Sequence[str] = (), in_parts: int = 0) -> Judged:
    """Judge a run directory and write its verdicts.json; needs no cluster and no engine.

    checkers   names of further checkers; those of the user's files are executed
    in_parts   rows of a part, to judge it in parts; 0: only if it does not fit in memory
    """
    with files.shaped(run.manifest):
        manifest, found = with_named(run.read_manifest(), checkers, run.own)
    _known(run, manifest)
    certifies: Certifies = load(catalogue.CERTIFIER)()
    whole = True
    if (in_parts and segment_files(run.history)) or too_large(run.history):
        whole = False
        verdicts = load(catalogue.IN_PARTS)(run, manifest, found, in_parts)
    else:
        verdicts = judge(run, manifest, found, load(catalogue.EVIDENCE), certifies, lenses())
    orders = bytes(certifies.orders)
    verdicts = looked_at(run, manifest, verdicts, orders if whole else None)
    try:
        files.write(run.path, directory.ORDERS, orders)
        directory.write_json(run.verdicts, table_of(verdicts))
    except OSError as error:
        not_stored(run.verdicts, error)
    return verdicts


def judge_in_memory(manifest: Manifest, case: Case, certifies: Certifies) -> Judged:
    """Judge a run that has no directory, with the checkers that its plan names."""
    _, checkers = with_named(manifest, manifest.plan.checkers)
    return judge_case(manifest, case, checkers, certifies)


def _known(run: RunDir, manifest: Manifest) -> None:
    """UsageError for a resource, workload or backend that does not exist: verdicts depend on them.
    A system may be that of a plug-in which is not installed here: the manifest has its promises."""
    plan = manifest.plan
    for kind, name, names in (
        ("resource", plan.resource, catalogue.RESOURCES),
        ("workload", plan.workload, catalogue.WORKLOADS),
        ("backend", plan.backend, catalogue.BACKENDS),
    ):
        own = kind == "workload" and OWN.fullmatch(name)
        if name not in names and not own and f"{kind}s {name}" not in manifest.plug_ins:
            raise UsageError(f"{run.manifest}: {suggest(name, names, kind)}")
    known = plan.system in catalogue.SYSTEMS or OWN.fullmatch(plan.system)
    if not known and f"systems {plan.system}" not in manifest.plug_ins:
        click.echo(
            f"note: {run.manifest}: system {plan.system!r} is not known here: judged by the"
            " promises that stand in the manifest",
            err=True,
        )


def not_stored(path: Path, error: OSError) -> None:
    """Writes a file; a read-only folder or a full disk does not prevent the verdict."""
    click.echo(f"holdfast: {path}: cannot be written: {error.strerror}", err=True)
