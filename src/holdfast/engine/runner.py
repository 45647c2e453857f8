"""Starts the driver process of a run, shows its progress, and judges its recording."""

from __future__ import annotations

import gc
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast import catalogue
from holdfast.engine import interrupts, run_progress
from holdfast.engine.run_progress import RunProgress, so_far
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import EnvironmentFailed, HoldfastError, UsageError
from holdfast.harness.core.json_value import Json, plain
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Prechecked
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.driver.run import END_WORKLOAD
from holdfast.harness.plans.manifest import Manifest, to_table
from holdfast.harness.plans.plan import OWN, suggest
from holdfast.harness.runs import directory, files, journal
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged, Verified
from holdfast.harness.verification.orders import FILE as ORDERS
from holdfast.planning import capacity, prepare
from holdfast.planning.resolve import Prepared
from holdfast.reports.text.formatting import count

if TYPE_CHECKING:
    from holdfast.engine.live_verdicts import Violation
    from holdfast.reports.pictures.timeline import Recorded

LAST_WORDS = 12
Show = Callable[[Mapping[str, Json]], None]


def judge_run(run: RunDir, checkers: Sequence[str] = (), in_parts: int = 0) -> Judged:
    """Judge a run directory and write its verdicts.json; needs no cluster and no engine.

    checkers   names of further checkers; those of the user's files are executed
    in_parts   rows of a part, to judge it in parts; 0: only if it does not fit in memory
    """
    from holdfast.engine.checkers import with_named
    from holdfast.harness.history.reader import segment_files, too_large
    from holdfast.harness.judging.judge import judge
    from holdfast.harness.judging.parts import MOST_ROWS, judge_in_parts

    with files.shaped(run.manifest):
        manifest, found = with_named(run.read_manifest(), checkers, run.own)
    _known(run, manifest)
    orders = bytearray()
    if (in_parts and segment_files(run.history)) or too_large(run.history):
        across, rows = load(catalogue.ACROSS_PARTS), in_parts or MOST_ROWS
        verdicts = judge_in_parts(
            run, manifest, found, across, rows, tell=run_progress.parts_told()
        )
    else:
        verdicts = judge(run, manifest, found, load(catalogue.EVIDENCE), orders)
        gc.collect()  # The history's own caches refer to it; the verifier reads the rows once more.
        verdicts = replace(verdicts, verified=_verified(run, verdicts, bytes(orders)))
    verdicts = _validated(run, manifest, verdicts)
    try:
        files.write(run.path, ORDERS, bytes(orders))
        directory.write_json(run.verdicts, plain(verdicts))
    except OSError as error:
        _not_stored(run.verdicts, error)
    return verdicts


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
        if name not in names and not own and f"{kind} {name}" not in manifest.plug_ins:
            raise UsageError(f"{run.manifest}: {suggest(name, names, kind)}")
    known = plan.system in catalogue.SYSTEMS or OWN.fullmatch(plan.system)
    if not known and f"system {plan.system}" not in manifest.plug_ins:
        click.echo(
            f"note: {run.manifest}: system {plan.system!r} is not known here: judged by the"
            " promises that stand in the manifest",
            err=True,
        )


def _verified(run: RunDir, verdicts: Judged, orders: bytes) -> Verified:
    """The number of accepted certificates; HoldfastError if the verifier rejects one.

    A verdict that its own rows do not prove is a bug of Holdfast, not a verdict.
    """
    from holdfast.harness.verification.verify import verify_run

    outcome = verify_run(run.path, plain(verdicts), orders)
    if outcome.refused:
        raise HoldfastError(
            f"{run.path}: internal error: the verifier rejects {len(outcome.refused)} of"
            f" {len(outcome.refused) + outcome.accepted} certificates: {outcome.refused[0]};"
            " please report it together with this run directory"
        )
    return Verified(
        accepted=outcome.accepted,
        bare=outcome.bare,
        why=outcome.why,
        unverifiable=tuple(outcome.unverifiable),
        properties=tuple(outcome.whole),
        unordered=tuple(outcome.unordered),
    )


def _validated(run: RunDir, manifest: Manifest, verdicts: Judged) -> Judged:
    """With the steps of the servers, if the plan has them recorded. A departure is no violation: it
    makes the exit code 3 at most."""
    row = catalogue.SYSTEMS.get(manifest.plan.system)
    options = manifest.options.system
    if row is None or not row.recorded or options.get("trace") != "yes":
        return verdicts
    from holdfast.harness.judging.recorded_trace import validated

    entries = load(row.specification), load(row.recorded)
    traced = validated(run.path, verdicts, *entries, options, manifest.traits)
    departs = traced.departure is not None and verdicts.exit_code == 0
    return replace(verdicts, traced=traced, exit_code=3 if departs else verdicts.exit_code)


def _not_stored(path: Path, error: OSError) -> None:
    """Writes a file; a read-only folder or a full disk does not prevent the verdict."""
    click.echo(f"holdfast: {path}: cannot be written: {error.strerror}", err=True)


def report_run(run: RunDir, verdicts: Judged) -> str:
    """Write report.html next to the verdict; returns its path, "" if it cannot be written."""
    from holdfast.reports.run.html import write

    clocks = {"clocks": plain(verdicts.clocks)} if verdicts.clocks else {}
    manifest = run.read_manifest()
    recorded, why = _recorded(run, manifest)
    try:
        plan = files.read(run.path, run.plan.name).decode(errors="backslashreplace")
    except FileNotFoundError:
        plan = "# this run has no plan.toml"
    try:
        return str(write(run.path, verdicts, {**clocks, **to_table(manifest)}, plan, recorded, why))
    except OSError as error:
        _not_stored(run.path / "report.html", error)
        return ""


def _recorded(run: RunDir, manifest: Manifest) -> tuple[Recorded | None, str]:
    """The recorded history for the timeline, or None and the reason."""
    from holdfast.harness.history.reader import load as load_history
    from holdfast.harness.judging.run_case import case_of
    from holdfast.reports.pictures.timeline import Recorded

    try:
        recording = load_history(run.history)
        with files.shaped(run.path):
            case = case_of(manifest, recording, journal.marks(run), journal.faults(run))
    except UsageError as error:
        return None, str(error)
    drawn = load(catalogue.DRAWN)(case)
    return Recorded(history=case.history, nodes=case.nodes, drawn=drawn), ""


def precheck(manifest: Manifest) -> None:
    """EnvironmentFailed with the reason, if this machine cannot execute the run."""
    backend = catalogue.BACKENDS[manifest.plan.backend]
    reason = load(backend.precheck)()
    if reason is None and backend.programs_here:
        system = load(manifest.entries.system)
        reason = system.precheck() if isinstance(system, Prechecked) else None
    if reason is None and manifest.options.disk_bytes:
        reason = load(backend.disks)()
    if reason is None:
        reason = capacity.too_large(manifest.plan)
    if reason is not None:
        raise EnvironmentFailed(reason)


def execute(run: RunDir, show: Show, told: Callable[[Violation], bool] | None = None) -> None:
    """Execute a run in its own process; EnvironmentFailed if it could not be executed.

    KeyboardInterrupt is forwarded to that process, which heals and tears down before it exits.

    told    receives the first violation of each property as soon as it is seen, if clients are on
            this machine; True ends the workload
    """
    manifest = run.read_manifest()
    precheck(manifest)
    row = catalogue.BACKENDS[manifest.plan.backend]
    if row.virtual_time:
        with interrupts.saying(
            f"interrupted: a simulated run is recorded at its end, so {run.path} has its plan only;"
            f" the same run again: {manifest.command}"
        ):
            load(manifest.entries.backend)(manifest, show).keep(run)
        return
    _sweep()
    own_disks = {"disks": True} if manifest.options.disk_bytes else {}
    prefix = load(row.prefix)(**own_disks) if row.prefix else []
    argv = [*prefix, sys.executable, "-P", "-m", "holdfast.harness.driver.run", str(run.path)]
    log = run.log("driver", "driver")
    failed: dict[str, Json] = {}
    with (
        log.open("ab") as errors,
        subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            env=_environment(run),
        ) as process,
        _passing_on_interrupts(process) as asked,
        _packing(run, manifest),
        _judging(run, manifest, process, told),
    ):
        assert process.stdout is not None
        for line in process.stdout:
            row = json.loads(line)
            if row["stage"] == "failed":
                failed = row
            else:
                show(row)
        code = process.wait()
        if code not in (0, 130):
            _clean_up(manifest.label)
    if code == 130 or asked.is_set():
        raise KeyboardInterrupt(
            f"interrupted: the run is in {run.path}; judge its recorded rows with"
            f" `holdfast check {run.path}`"
        )
    if failed:
        raise EnvironmentFailed(f"{failed['error']}\nrun directory: {run.path}")
    if code != 0:
        raise EnvironmentFailed(f"the driver exited with code {code}: {_last_output(run)}")


@contextmanager
def _judging(
    run: RunDir,
    manifest: Manifest,
    process: subprocess.Popen[str],
    told: Callable[[Violation], bool] | None,
) -> Iterator[None]:
    """Judges the run while it goes on, if the caller wants that and its rows are written here."""
    if told is None or catalogue.BACKENDS[manifest.plan.backend].hosts_file:
        yield
        return
    from holdfast.engine.live_verdicts import LiveVerdicts

    def tell(violation: Violation) -> None:
        if told(violation) and process.stdin is not None:
            with suppress(OSError, ValueError):  # It may be ending already.
                process.stdin.write(f"{END_WORKLOAD}\n")
                process.stdin.flush()

    with LiveVerdicts(run, manifest, tell) as live:
        yield
    if live.problem:
        click.echo(f"holdfast: not judged while it ran: {live.problem}", err=True)


@contextmanager
def _packing(run: RunDir, manifest: Manifest) -> Iterator[None]:
    """Packs full segments while the run goes on, if they are written on this machine."""
    if catalogue.BACKENDS[manifest.plan.backend].hosts_file:
        yield
        return
    from holdfast.harness.history.segment_packer import Packer

    with Packer(run.history):
        yield


def _say_if_blind(manifest: Manifest) -> None:
    """Tells why the run cannot end at a violation, if it cannot."""
    from holdfast.engine.live_verdicts import judged_early

    plan, row = manifest.plan, catalogue.BACKENDS[manifest.plan.backend]
    if row.virtual_time or row.hosts_file:
        why = f"runs on backend {plan.backend} are judged at their end only"
    elif not judged_early(manifest):
        faults = ", ".join(name for name, _ in plan.nemeses) or "these options"
        why = f"{plan.system} promises nothing under {faults} that is judged before the end"
    else:
        return
    click.echo(f"note: --until-violation has no effect: {why}", err=True)


def _environment(run: RunDir) -> dict[str, str]:
    """Our environment, with the folder of the user's own file on PYTHONPATH, if there is one, and
    the packages that it imports.

    An empty part of PYTHONPATH (`PYTHONPATH=$PYTHONPATH:/lib`) is the current folder to Python.
    """
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if run.own.is_dir():
        paths = [str(run.own), *paths, *run.read_manifest().libraries]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _sweep() -> None:
    """Removes what earlier runs left that were killed together with their command."""
    from holdfast.clusters.backends import leftovers

    removed, problems = leftovers.sweep()
    if removed:
        runs = ", ".join(dict.fromkeys(one.label for one in removed))
        click.echo(
            f"note: removed {count(len(removed), 'leftover')} of killed runs: {runs}", err=True
        )
    for problem in problems:
        click.echo(
            f"note: left of a killed run: {problem}; remove it with holdfast doctor --clean",
            err=True,
        )


def _clean_up(label: str) -> None:
    """Removes the leftovers of a driver that was killed or failed."""
    from holdfast.clusters.backends import leftovers

    for problem in leftovers.clean_run(label):
        click.echo(
            f"holdfast: not cleaned up: {problem}; remove it with holdfast doctor --clean", err=True
        )


@contextmanager
def _passing_on_interrupts(process: subprocess.Popen[str]) -> Iterator[threading.Event]:
    """^C and SIGTERM make the run heal and exit, which takes a moment; a second one changes
    nothing. Yields an event that the first one sets.

    Only the main thread receives signals; a run in another thread ends with the process.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, frame: object) -> None:
        asked.set()
        process.send_signal(signal.SIGINT)
        # The end of its input also stops a driver that ignores the signal: before it has a handler,
        # it inherits the disposition of this process, which may be a Python program of the user.
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _last_output(run: RunDir) -> str:
    log = run.log("driver", "driver")
    lines = log.read_text(errors="replace").strip().splitlines()[-LAST_WORDS:]
    last = lines[-1] if lines else "no output"
    return f"{last} (see {log})"


def show_verdict(verdicts: Judged, report: str) -> None:
    """Print the verdict on standard output."""
    from holdfast.reports.outputs.terminal import render

    violated = any(row.verdict is Verdict.VIOLATED for row in verdicts.verdicts)
    simulated = verdicts.backend in catalogue.VIRTUAL_TIME
    explained = violated and report and simulated
    why = f"holdfast explain {shlex.quote(str(Path(report).parent))}" if explained else ""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size((100, 24)).columns
    click.echo(render(replace(verdicts, report=report), width=width, colour=colour, why=why))
    for host, clock in verdicts.clocks.items():
        click.echo(
            f"clock   {host}: offset {-clock.offset_ns / SECOND:+.6f} s, drift"
            f" {clock.drift_ppm:+g} ppm, error at most {clock.error_ns / 1e6:.3g} ms"
        )


def carry_out(
    prepared: Prepared,
    out: Path,
    again: str,
    *,
    quiet: bool = False,
    hosts: Mapping[str, Json] | None = None,
    until_violation: bool = False,
) -> Judged:
    """Run a complete plan, judge and report it; returns the judged run, also if the driver died.

    quiet             print neither the verdict nor what is found while the run goes on
    until_violation   end the workload when a promise was seen to be violated

    A run that the environment aborted ends with that error's code, unless the rows recorded until
    then show a violation.
    """
    plan = prepared.plan
    click.echo(f"seed {plan.seed}: {plan.system} on {plan.backend}, {plan.workload}", err=True)
    for line in prepare.notes(prepared):
        click.echo(f"note: {line}", err=True)
    run = prepare.create(prepared, out, again, hosts=hosts)
    if until_violation:
        _say_if_blind(run.read_manifest())
    shown = RunProgress(virtual=plan.backend in catalogue.VIRTUAL_TIME)
    failed = 0

    def told(violation: Violation) -> bool:
        shown.tell(so_far(violation, ends=until_violation))
        return until_violation

    try:
        execute(run, shown, told if until_violation or not quiet else None)
    except HoldfastError as error:
        if not run.has(run.faults) and not any(run.history.glob("c*.seg")):
            raise
        shown.close()
        failed = error.exit_code
        click.echo(f"holdfast: {error}", err=True)
    finally:
        shown.close()
    verdicts = judge_run(run, plan.checkers)
    if failed and verdicts.exit_code != 1:
        verdicts = replace(verdicts, exit_code=failed)
    report = report_run(run, verdicts)
    if not quiet:
        show_verdict(verdicts, report)
    return replace(verdicts, report=report)
