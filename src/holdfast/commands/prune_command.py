"""`holdfast prune`: remove run directories that a rule of retention does not keep."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import click

from holdfast.commands.options import Command, Whole, setting
from holdfast.harness.campaigns.retention import Rule, outdated
from holdfast.harness.campaigns.run_families import Family, families
from holdfast.harness.campaigns.run_index import Entry, RunIndex
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.runs import files, registry
from holdfast.harness.runs.directory import RUNS
from holdfast.reports.text.formatting import count, plain
from holdfast.reports.text.layout import say

MIB = 1 << 20
LATEST = "latest"


@click.command(
    cls=Command,
    examples=(
        "holdfast prune --keep 50 --dry-run",
        "holdfast prune --keep-days 30",
        "holdfast prune --keep 20 --violated",
    ),
)
@setting("--runs", "out", default=RUNS, help="Folder of runs.", envvar="HOLDFAST_OUT")
@setting(
    "--keep", type=Whole(0), show_default="no limit", help="Number of the newest runs to keep."
)
@setting(
    "--keep-days",
    "keep_days",
    type=Whole(0),
    show_default="no limit",
    help="Keep runs of the last days.",
)
@click.option("--violated", is_flag=True, help="Also remove runs with a violation or a name.")
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    out: str, keep: int | None, keep_days: int | None, violated: bool, dry_run: bool, as_json: bool
) -> int:
    """Remove old run directories of a folder.

    A run goes with its attempts of shrink and replay, or not at all. Kept are the newest --keep
    runs, those of the last --keep-days, runs that go on or have to be healed, and, without
    --violated, runs that have a violation or a --name. Campaigns are not touched. The rule may
    stand in holdfast.toml: keep = 50, keep_days = 30.
    """
    if keep is None and keep_days is None:
        raise UsageError(
            "no rule: give --keep or --keep-days, or set keep or keep_days in holdfast.toml"
        )
    root = Path(out)
    if not root.is_dir():
        raise UsageError(f"{root}: no such folder; name one with --runs")
    rule = Rule(keep=keep, days=keep_days, found=violated)
    # A run of a campaign is a part of its result.
    own = [entry for entry in RunIndex(root, []).entries() if "/" not in entry.id]
    busy = {note.run_dir for note in registry.noted()}
    gone = outdated(families(own), rule, time.time(), busy)
    removed = [entry for family in gone for entry in family.all]
    sizes = {entry.id: _size(entry) for entry in removed}
    if not dry_run:
        _remove(root, removed)
    if as_json:
        click.echo(json.dumps(_table(removed, sizes, len(own), dry_run=dry_run)))
    else:
        _show(gone, sizes, len(own), dry_run=dry_run)
    return 0


def _size(entry: Entry) -> int:
    """Bytes of the regular files of a run; links are not followed."""
    names = files.walked(entry.dir.path)
    return sum(max(files.size(entry.dir.path, name), 0) for name in names)


def _remove(root: Path, removed: Sequence[Entry]) -> None:
    """Remove the directories, and the link to the latest run if that is one of them."""
    for entry in removed:
        try:
            shutil.rmtree(entry.dir.path)
        except OSError as error:
            raise EnvironmentFailed(
                f"{entry.dir.path}: cannot be removed: {error.strerror}; repeat the command"
                " to remove the rest"
            ) from error
    link = root / LATEST
    if link.is_symlink() and not link.exists():
        left = [one for one in RunIndex(root, []).entries() if "/" not in one.id]
        link.unlink()
        if left:
            draft = root / f".latest-{os.getpid()}"
            draft.symlink_to(left[0].dir.path.name)
            draft.replace(link)


def _show(gone: Sequence[Family], sizes: dict[str, int], total: int, *, dry_run: bool) -> None:
    for family in gone:
        size = sum(sizes[entry.id] for entry in family.all) / MIB
        attempts = f", {count(len(family.attempts), 'attempt')}" if family.attempts else ""
        say(f"  {plain(family.id or family.title, 200)}: {size:.1f} MiB{attempts}")
    number, size = len(sizes), sum(sizes.values()) / MIB
    would = "would be removed" if dry_run else "removed"
    say(f"{number} of {count(total, 'run')} {would}, {size:.1f} MiB; {total - number} kept")


def _table(
    removed: Sequence[Entry], sizes: dict[str, int], total: int, *, dry_run: bool
) -> dict[str, object]:
    return {
        "schema": "holdfast-prune/1",
        "dry_run": dry_run,
        "runs": total,
        "removed": [{"run": one.id, "bytes": sizes[one.id]} for one in removed],
    }
