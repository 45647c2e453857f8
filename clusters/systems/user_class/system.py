"""Driver side of a user's lock class: its servers, its promises, its options.

`holdfast.clusters.systems.user_class.system:MODULE.CLASS` is the System of a class of a user's
module.

Promises: those in the class's `promises`; by default those of any lock
Does not promise: anything else
Tested with: the servers of the class
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.presets import LEASE
from holdfast.clusters.systems.user_class.attributes import miscalled, misspelt
from holdfast.clusters.systems.user_class.terms import QUERIES, abilities_of, able, half_declared
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises
from holdfast.harness.properties import PROPERTIES

USUAL = ("mutual-exclusion", "ownership", "deadlock-freedom", "orphan-freedom", "no-hung-request")
WITH_TOKENS = ("token-order", "no-stale-write")
TOGETHER, IN_TURN = STARTS = "together", "in turn"
"""Values of `start`: a class may also have a method of that name."""
LONGEST_MS = 3_600_000
CHOICES = {
    "tokens": ("none", "ordered", "unordered"),
    "bound": ("lease", "session", "connection", "none"),
    "order": ("racing", "fifo"),
    "purpose": ("correctness", "efficiency"),
}
"""Values that a class may declare; the first is the default."""


def declared(
    chosen: Mapping[str, str],
    *,
    promises: Mapping[str, str | Sequence[str]] | None,
    proves: bool,
    evidence: str,
    listed: Collection[str] = (),
    session_ms: int = 0,
    lapse_ms: int | None = None,
) -> Promises:
    """The promises of a user's lock: its values of CHOICES, and by default those of any lock.

    listed       what it can do beyond a plain lock, of `LISTED`
    session_ms   how long the session of a client that is gone lasts; 0: as long as the lease
    lapse_ms     how long the service keeps a hold that the lock no longer renews by itself
    """
    ordered = chosen["tokens"] == "ordered"
    if promises is None:
        asked = ("truthful-queries",) if {*QUERIES, "check"} & set(listed) else ()
        promises = dict.fromkeys((*USUAL, *(WITH_TOKENS if ordered else ()), *asked), "any")
    return replace(
        LEASE,
        purpose=chosen["purpose"],
        bound=chosen["bound"],
        tokens=chosen["tokens"],
        order=chosen["order"],
        renew_proves=proves,
        release_proves=proves,
        release_once=proves,
        slip_ns=20 * MILLISECOND,
        tokens_unique=ordered,
        subtrees="subtrees" in listed,
        recovery_ns=5 * SECOND,
        session_ns=session_ms * MILLISECOND,
        lapse_ns=-1 if lapse_ms is None else lapse_ms * MILLISECOND,
        keeps={
            prop: (kinds,) if isinstance(kinds, str) else tuple(kinds)
            for prop, kinds in promises.items()
        },
        sheet={"evidence": evidence},
    )


LENGTHS: Mapping[str, tuple[str, str]] = {
    "session_ms": ("session", "only holds that a session ends have it: bound = 'session'"),
    "lapse_ms": (
        "none",
        "only a lock that renews by itself, so that its user sees no end of a hold, has it:"
        " bound = 'none'",
    ),
}
"""Declared length in ms -> the bound of holds that have it, and why others do not."""


def wrong_length(name: str, value: object, bound: object) -> str:
    """What is wrong with a declared value of LENGTHS, "" if nothing is or none is declared."""
    if value is None:
        return ""
    if type(value) is not int or not 0 < value <= LONGEST_MS:
        return f"expected milliseconds, 1 to {LONGEST_MS}"
    its_bound, why = LENGTHS[name]
    return "" if bound == its_bound else why


class OwnSystem:
    """A System for one class; UsageError lists all errors in it."""

    ends_with_client = False

    def __init__(self, name: str) -> None:
        module, _, attr = name.rpartition(".")
        self._made: Any = load(f"{module}:{attr}")
        self._name = attr
        self.client = f"holdfast.clusters.systems.user_class.factory:{name}"
        self.libraries: Sequence[str] = tuple(self._stated("libraries", ()))
        self.environment = str(self._stated("environment", ""))
        self.ports: Sequence[int] = tuple(self._stated("ports", ()))
        self._server: object = self._stated("server")
        self._defaults: Mapping[str, object] = dict(self._stated("options", {}))
        self.server_of = self._server if isinstance(self._server, str) else ""
        self.nodes = int(self._stated("nodes", 1 if callable(self._server) else 0))
        self.servers_import = callable(self._server) and bool(self.libraries)
        self.outside = not (self.nodes or self.server_of)
        self._start: object = inspect.getattr_static(self._made, "start", TOGETHER)
        self.in_turn = self._start == IN_TURN
        self.states_promises = hasattr(self._made, "promises")
        problems = self._problems()
        if problems:
            raise UsageError(*(f"{attr}: {problem}" for problem in problems))

    def _stated(self, name: str, default: object = None) -> Any:
        """An attribute of the class, which need not have it."""
        return getattr(self._made, name, default)

    def _problems(self) -> list[str]:
        made, problems = self._made, []
        missing = [name for name in ("acquire", "release") if not callable(self._stated(name, 0))]
        if missing:
            problems.append(f"missing {' and '.join(missing)}")
        problems += [*misspelt(made), *miscalled(made)]
        problems += half_declared(made.acquire) if "acquire" not in missing else []
        if self.server_of and (self.nodes or self.ports):
            problems.append(
                f"server = {self.server_of!r} names a built-in system, which has its own nodes and"
                " ports: leave them out"
            )
        elif self.nodes and not (callable(self._server) and self.ports):
            problems.append("nodes require `server` (the command of one server) and ports")
        for name, choices in CHOICES.items():
            if self._stated(name, choices[0]) not in choices:
                problems.append(
                    f"invalid {name} = {self._stated(name)!r}: expected one of {', '.join(choices)}"
                )
        bound = self._stated("bound", CHOICES["bound"][0])
        for name in LENGTHS:
            wrong = wrong_length(name, self._stated(name), bound)
            problems += [f"{name}: {wrong}"] if wrong else []
        if isinstance(self._start, str) and self._start not in STARTS:
            problems.append(f"invalid start = {self._start!r}: expected one of {', '.join(STARTS)}")
        promises = self._stated("promises", {})
        if not isinstance(promises, Mapping):
            return [
                *problems,
                "invalid promises: expected a dict: property -> kinds of faults, or 'any'",
            ]
        return [
            *problems,
            *(f"promises: unknown property {p!r}" for p in promises if p not in PROPERTIES),
        ]

    def abilities(self, options: Mapping[str, str]) -> Sequence[str]:
        """What its `acquire` takes beyond lock, owner and lease, and its queries."""
        return able(abilities_of(self._made))

    def listed(self) -> Sequence[str]:
        """The same, one by one."""
        return abilities_of(self._made)

    def option_names(self) -> Sequence[str]:
        """The options that the class declares."""
        return tuple(self._defaults)

    def promises(self, options: Mapping[str, str]) -> Promises:
        """What the class promises. UsageError for unknown options."""
        self._options(options)
        return declared(
            {name: self._stated(name, values[0]) for name, values in CHOICES.items()},
            promises=self._stated("promises"),
            proves=bool(self._stated("proves", True)),
            evidence=f"{self._name}, a class of the user",
            listed=self.listed(),
            session_ms=self._stated("session_ms", 0),
            lapse_ms=self._stated("lapse_ms"),
        )

    def _options(self, options: Mapping[str, str]) -> dict[str, str]:
        """Defaults of the class, updated by the options given; a known name accepts any value."""
        known = {
            name: (str(value), options.get(name, str(value)))
            for name, value in self._defaults.items()
        }
        return choose(self._name, options, known)

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """The server's command as the class declares it: words after the interpreter's."""
        data = place.run_dir / "data" / node.name
        logs = place.run_dir / "logs" / node.name
        for folder in (data, logs):
            folder.mkdir(parents=True, exist_ok=True)
        everyone = [(other.name, other.address) for other in servers]
        words = [
            str(word)
            for word in self._made.server(node.name, everyone, str(data), self._options(options))
        ]
        # A script may import modules beside it; `-m` and `-c` would search the current folder.
        options_first = bool(words) and words[0].startswith("-")
        argv = (node.python, "-S", *(["-P"] if options_first else []), *words)
        return Command(argv=argv, log=logs / "server.log")

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether something listens on its first port."""
        try:
            async with asyncio.timeout(0.5):
                _, writer = await asyncio.open_connection(node.address, self.ports[0])
                writer.close()
        except (OSError, TimeoutError):
            return False
        return True

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The first server: the leader of an unknown protocol cannot be queried."""
        return Leader(servers[0].name) if servers else None


def __getattr__(name: str) -> OwnSystem:
    """The System of MODULE.CLASS."""
    if "." not in name:
        raise AttributeError(name)
    return OwnSystem(name)
