"""What features bring to the agent: a kind of fault its half, and a part that every agent has.

A half is a value NAME of a module. Only modules of the fault agent itself, and of packages that lie
beside it in the code of the run, are imported: what a run brings along is copied from installed
kinds and the user's own files when it is planned.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.request_errors import Evidence, Kind, Refused
from holdfast.nemesis.agent.request_forms import FAULT, Args, Form

AGENT = "holdfast.nemesis.agent."
CODE = Path(__file__).parents[3]
"""Where the code of the run lies: a zip, or the folder of an installation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Half:
    """The agent's half of kinds of fault that inject by one request.

    request   its name; several kinds may use one
    form      what it takes; `fault`, the fault's id, always
    make      what injects, observes and heals it; made once per agent
    """

    request: str
    form: Form
    make: Callable[[World], Kind]


class Part:
    """Base class of what a feature adds to every agent (`nemesis.agent.parts`), whatever kinds of
    fault it loads; by default nothing. forms: of the requests that it answers."""

    forms: ClassVar[Mapping[str, Form]] = {}

    def answer(self, do: str, args: Args) -> Evidence:
        """Carries out one of its requests. Errors: Refused, OSError."""
        raise Refused(f"{do}: nothing carries it out")

    def leave(self, node: str) -> None:
        """The network of a node is about to be replaced: it is adopted again."""

    def recover(self) -> Evidence:
        """Undoes what the part of an earlier agent left; how much of it there was."""
        return {}

    def abilities(self) -> Evidence:
        """What it can do on this host, each tested: true, or the reason why not."""
        return {}


def loaded(entry: str) -> Half:
    """The half "package.module:NAME". Nothing is imported from elsewhere. Errors: Refused."""
    module, colon, name = entry.partition(":")
    if not colon or not (module.startswith(AGENT) or _is_brought(module)):
        raise Refused(
            f"load: {entry!r} is neither in {AGENT.rstrip('.')} nor in a package that the run"
            " brings along"
        )
    try:
        half = vars(importlib.import_module(module)).get(name)
    except ImportError as error:
        raise Refused(f"load: {entry}: {error}") from error
    if not isinstance(half, Half):
        raise Refused(f"load: {entry} is no half of a kind of fault: {type(half).__name__}")
    if half.form.takes.get("fault") != FAULT:
        raise Refused(f"load: {entry}: its form does not take `fault`")
    return half


def _is_brought(module: str) -> bool:
    """Whether a module's package lies beside Holdfast in the run's code. Imports nothing."""
    top = module.partition(".")[0]
    if top in ("", "holdfast"):
        return False
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    return origin is not None and CODE in origin.parents
