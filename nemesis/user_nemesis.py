"""A nemesis of the user: any object with `traits`, `draw` and `requests`.

`agent`, if it has it, lists its own halves in the fault agent: names of `nemesis.agent.halves.Half`
in its own module, or module:NAME in its own package.

`holdfast.nemesis.user_nemesis:MODULE.NAME` is the nemesis NAME of a user's module. A run is judged
by the traits, so a fault whose requests do what they do not declare is skipped with that reason.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import PATTERNS, Traits
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Fault, Nemesis, Request, View
from holdfast.nemesis.operation import OPERATOR
from holdfast.nemesis.targets import Unresolved

KINDS, AGENT = "holdfast.nemesis.kinds", "holdfast.nemesis.agent"
DECLARED_BY = {
    "kill": "kills",
    "pause": "stops",
    "suspend": "stops_monotonic",
    "freeze": "stops_amid_send",
    "torn-write": "kills_later",
    "syscall": "kills_later",
    "failpoint": "kills_later",
    "set_clock": "shifts_clocks",
    "disturb": "on_connections",
    "order": "in_client",
}
"""Request to the fault agent -> the trait that declares it."""
STOPPING = (
    "kill",
    "pause",
    "suspend",
    "freeze",
    "freeze-write",
    "torn-write",
    "syscall",
    "failpoint",
    "cut",
)
"""Requests after which not every node runs and responds."""
LASTING = ("kill", "torn-write", "syscall", "failpoint", "set_clock", "freeze-write")
"""Requests that may leave something behind after the heal."""


class UserNemesis:
    """Implements the port `Nemesis`; UsageError lists all that is wrong with the user's object."""

    def __init__(self, name: str, made: Any, module: str = "") -> None:
        problems = [
            f"missing `{method}`"
            for method in ("draw", "requests")
            if not callable(getattr(made, method, None))
        ]
        traits, halves = (getattr(made, name, None) for name in ("traits", "agent"))
        if not isinstance(traits, Traits):
            problems.append("missing `traits`, a holdfast.harness.core.fault_traits.Traits")
        elif traits.pattern not in ("", *PATTERNS):
            problems.append(f"invalid pattern {traits.pattern!r}: one of {', '.join(PATTERNS)}")
        own = [half if ":" in half else f"{module}:{half}" for half in halves or ()]
        problems += [
            f"half {half!r} is neither in {AGENT} nor in its own package"
            for half in own
            if half.partition(".")[0].partition(":")[0] != module.partition(".")[0]
            and not half.startswith(f"{AGENT}.")
        ]
        if problems or not isinstance(traits, Traits):
            raise UsageError(*(f"nemesis {name}: {problem}" for problem in problems))
        self.traits = traits
        self._halves = own
        self._name = name
        self._made: Nemesis = made() if isinstance(made, type) else made

    @property
    def agent(self) -> Sequence[str]:
        """Its own halves in the fault agent, and all built-in ones, whose requests it may make."""
        kinds = importlib.import_module(KINDS)
        built_in = (one.name for one in pkgutil.iter_modules(kinds.__path__))
        made: Iterator[Nemesis] = (load(f"{KINDS}.{name}:NEMESIS") for name in built_in)
        return list(dict.fromkeys([*self._halves, *(half for one in made for half in one.agent)]))

    @property
    def operator(self) -> str:
        """What carries out the operations that its traits declare."""
        return OPERATOR if self.traits.operates else ""

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        try:
            drawn = list(self._made.draw(rng, options, span_ns))
        except UsageError:
            raise
        except Exception as error:
            raise UsageError(f"nemesis {self._name}: draw failed: {_words(error)}") from error
        if not all(isinstance(fault, Fault) for fault in drawn):
            raise UsageError(f"nemesis {self._name}: draw returned what is no Fault")
        return drawn

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """Requests to the fault agent now. Errors: Unresolved, also for one that the traits do not
        declare."""
        try:
            asked = list(self._made.requests(fault, view, rng))
        except LookupError:
            raise
        except Exception as error:
            raise Unresolved(f"nemesis {self._name}: requests failed: {_words(error)}") from error
        for request in asked:
            why = self._undeclared(request.do)
            if why:
                raise Unresolved(f"nemesis {self._name}: request {request.do}: {why}")
        return asked

    def _undeclared(self, do: str) -> str:
        trait = DECLARED_BY.get(do)
        if trait is not None and not getattr(self.traits, trait):
            return f"its traits do not say {trait}=True"
        if do in STOPPING and self.traits.leaves_running:
            return "its traits say leaves_running=True"
        if do in LASTING and self.traits.passes:
            return "its traits say passes=True"
        return ""


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def __getattr__(name: str) -> UserNemesis:
    """The nemesis of MODULE.NAME."""
    module, dot, attr = name.rpartition(".")
    if not dot:
        raise AttributeError(name)
    return UserNemesis(attr, load(f"{module}:{attr}"), module)
