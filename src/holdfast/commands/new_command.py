"""`holdfast new`: a working starter for something of your own, with its test.

A lock, workload, nemesis or checker; or a lock server and its client in other languages.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
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
"""What can be written in Python, and the command that tries it."""
PROGRAMS = {
    "program": (
        ("server.js", "client.c", "mylock.toml"),
        (
            "gcc -O2 -o client client.c",
            "holdfast run --system mylock.toml --nemesis pause --time 20s",
        ),
    ),
    "image": (
        ("server.c", "client.c", "Dockerfile", "image.toml"),
        (
            "gcc -O2 -static -o server server.c",
            "gcc -O2 -static -o client client.c",
            "docker build -t my-lock:1 .",
            "holdfast run --system image.toml --backend docker --nemesis pause --time 20s",
        ),
    ),
}
"""What can be written in other languages: its files, and the commands that build and try it."""
KINDS = (*TRIES, *PROGRAMS)


def _kinds(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(kind) for kind in KINDS if kind.startswith(begun)]


@click.command(
    cls=Command,
    examples=("holdfast new lock", "holdfast new workload greedy.py", "holdfast new program"),
)
@click.argument("kind", metavar="KIND", shell_complete=_kinds)
@click.argument(
    "file", required=False, type=click.Path(path_type=Path), metavar="[FILE.py]", default=None
)
def command(kind: str, file: Path | None) -> int:
    """Write a working lock, workload, nemesis or checker, and a test of it beside.

    `program` writes a lock server in Node and its client in C, `image` both in C with a Dockerfile.
    Without FILE.py its name is my_KIND.py. Existing files are never overwritten.
    """
    if kind not in KINDS:
        raise UsageError(suggest(kind, list(KINDS), "kind"))
    if kind in PROGRAMS:
        if file is not None:
            raise UsageError(f"{file}: `new {kind}` writes files with names of their own here")
        names, tries = PROGRAMS[kind]
        _write({Path(name): _starter("program", name) for name in names})
        click.echo(f"wrote {', '.join(names)}; try:")
        for line in tries:
            click.echo(f"  {line}")
        return 0
    target = file or Path(f"my_{kind}.py")
    if target.suffix != ".py" or not target.stem.isidentifier():
        raise UsageError(f"{target}: expected the name of a Python module, such as my_{kind}.py")
    test = target.with_name(f"test_{target.name}")
    words = {"file": target.name, "module": target.stem.replace("_", "-")}
    texts = {target: _starter(f"{kind}.txt"), test: _starter(f"test_{kind}.txt")}
    _write({path: string.Template(text).substitute(words) for path, text in texts.items()})
    click.echo(f"wrote {target} and {test}; try:")
    click.echo(f"  {TRIES[kind].format(file=target)}")
    click.echo(f"  pytest {test}")
    return 0


def _starter(*parts: str) -> str:
    return resources.files("holdfast").joinpath("starters", *parts).read_text()


def _write(texts: Mapping[Path, str]) -> None:
    """Writes new files. Errors: UsageError if one exists, and then writes none of them."""
    existing = [path for path in texts if path.exists()]
    if existing:
        raise UsageError(*(f"{path}: exists; choose another name" for path in existing))
    try:
        for path, text in texts.items():
            with path.open("x") as made:
                made.write(text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
