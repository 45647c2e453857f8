"""`holdfast new`: a working starter for a lock, workload, nemesis or checker, with its test."""

from __future__ import annotations

import string
from importlib import resources
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from holdfast.commands.options import Command
from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import suggest

TRIES = {
    "lock": "holdfast run --system {file}:MyLock --backend sim --nemesis pause --time 20s",
    "workload": "holdfast run --workload {file}:MyWorkload --backend sim --time 10s",
    "nemesis": "holdfast run --nemesis {file}:NEMESIS --backend sim --time 20s",
    "checker": "holdfast run --checker {file}:check --backend sim --time 10s",
}
"""What can be written, and the command that tries it."""


def _kinds(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(kind) for kind in TRIES if kind.startswith(begun)]


@click.command(
    cls=Command,
    examples=("holdfast new lock", "holdfast new workload greedy.py"),
)
@click.argument("kind", metavar="KIND", shell_complete=_kinds)
@click.argument(
    "file", required=False, type=click.Path(path_type=Path), metavar="[FILE.py]", default=None
)
def command(kind: str, file: Path | None) -> int:
    """Write a working lock, workload, nemesis or checker, and a test of it beside.

    Without FILE.py its name is my_KIND.py. Existing files are never overwritten.
    """
    if kind not in TRIES:
        raise UsageError(suggest(kind, list(TRIES), "kind"))
    target = file or Path(f"my_{kind}.py")
    if target.suffix != ".py" or not target.stem.isidentifier():
        raise UsageError(f"{target}: expected the name of a Python module, such as my_{kind}.py")
    test = target.with_name(f"test_{target.name}")
    existing = [path for path in (target, test) if path.exists()]
    if existing:
        raise UsageError(*(f"{path}: exists; choose another name" for path in existing))
    names = {"file": target.name, "module": target.stem.replace("_", "-")}
    try:
        for path, starter in ((target, kind), (test, f"test_{kind}")):
            text = resources.files("holdfast").joinpath("starters", f"{starter}.txt").read_text()
            with path.open("x") as made:
                made.write(string.Template(text).substitute(names))
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {error.strerror}") from error
    click.echo(f"wrote {target} and {test}; try:")
    click.echo(f"  {TRIES[kind].format(file=target)}")
    click.echo(f"  pytest {test}")
    return 0
