"""The lenses of this installation, and what they show of a judged run."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import click

from holdfast import catalogue
from holdfast.catalogue import plug_ins
from holdfast.harness.core.loading import load
from holdfast.harness.judging.lens import Lens, Watch, kept
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged
from holdfast.harness.verdicts.section import Section


def lenses() -> list[Lens]:
    """The built-in lenses, in the order of the catalogue, then those of installed plug-ins."""
    return [load(entry) for entry in (*catalogue.LENSES.values(), *_installed())]


@functools.cache
def _installed() -> Sequence[str]:
    """Looked for once. A broken one is named on standard error and left out."""
    found = list(plug_ins.usable("lenses", catalogue.LENSES))
    for why in filter(None, (why for _, _, why in found)):
        click.echo(f"holdfast: {why}", err=True)
    return [entry for _, entry, why in found if not why]


@contextmanager
def beside(run: RunDir, manifest: Manifest, watch: Watch) -> Iterator[None]:
    """With what each lens does while the driver works."""
    with ExitStack() as entered:
        for lens in lenses():
            entered.enter_context(lens.during(run, manifest, watch))
        yield


def looked_at(run: RunDir, manifest: Manifest, judged: Judged, orders: bytes | None) -> Judged:
    """The judged run with what each lens has seen of it, one after another."""
    for lens in lenses():
        judged = kept(lens, judged, lens.after(run, manifest, judged, orders))
    return judged


def sections(judged: Judged) -> list[Section]:
    """The sections of a report that lenses add."""
    shown = (lens.section(judged) for lens in lenses())
    return [section for section in shown if section is not None]
