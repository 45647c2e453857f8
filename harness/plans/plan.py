"""The plan of a run, as data: parsed from TOML or the command line, written back exactly.

All mistakes in a plan are reported at once.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from holdfast.harness.core import toml
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.durations import duration_ns, duration_text, positive_ns
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Fault
from holdfast.harness.core.verdict import CALM
from holdfast.harness.plans import events
from holdfast.harness.properties import PROPERTIES

SCHEMA = "holdfast-plan/1"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
FILE = re.compile(r"[^,+|]+\.py:[A-Za-z_][A-Za-z0-9_]*")
"""A user's workload, nemesis or checker: a name in a file, mine.py:NAME."""
OWN = re.compile(
    r"(?P<lock>.+\.py:[A-Za-z_]\w*|.+\.toml|program(?=@))(?:@(?P<servers>[a-z][a-z0-9-]*))?",
    re.ASCII,
)
"""A user's system: a class in a file, mylock.py:MyLock, or a [system] table, mylock.toml. With the
servers of a built-in system: mylock.py:MyLock@redis, and program@redis with the option `client`."""


def lock_and_servers(system: str) -> tuple[str, str]:
    """A user's lock, and the built-in system whose servers it uses: "" for its own.

    mylock.py:MyLock@redis -> ("mylock.py:MyLock", "redis")
    """
    own = OWN.fullmatch(system)
    return (own["lock"], own["servers"] or "") if own else (system, "")


LEASE_NS = 2 * SECOND
"""The lease of most systems, if a plan names none."""
WITHIN = "3s"
"""How long a fault with `when` waits for its event, if it does not say."""
FILE_NAMED = "#: "
"""Beginning of an option's value that is the text of a file, whose name follows in the first line;
its command line is `--OPTION FILE`."""
NAMES = "lock_names"
"""Option of every workload: the names of its locks, joined by "+"; else lock-1, lock-2, ..."""
RUNNING = "running"
"""Option of a system: the servers that already run, as in 127.0.0.1:7001,10.1.2.3:6379."""
SIMULATOR = "sim"
"""The backend in virtual time, on which nothing outlives a run."""
OF_PATHS = ("hierarchy",)
"""Workloads whose locks are roots of hierarchies."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """One run. Faults of `nemeses` are sampled from the seed; `faults` are exact.

    resource   "": default of the system: fenced if it has tokens, else unfenced
    options    of the system and the workload, as given
    must       properties that the run is for: they are judged even if the workload does not request
               them, and each must be exercised; (): those that the workload requests
    checkers   further checkers, by name or FILE.py:NAME; their properties count as promised
    require    properties that count as promised, whatever the system declares
    server_record   whether the servers' own record of the locks is read and compared
    scenario   the scenario of the plan, "" for none; not part of a plan file, which a user may
               change
    """

    system: str
    backend: str = "local"
    workload: str = "critical-section"
    resource: str = ""
    seed: int = 0
    time_ns: int = 30 * SECOND
    lease_ns: int = LEASE_NS
    nodes: int = 3
    clients: int = 5
    locks: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    nemeses: Sequence[tuple[str, Mapping[str, str]]] = ()
    faults: Sequence[Fault] = ()
    must: Sequence[str] = ()
    checkers: Sequence[str] = ()
    require: Sequence[str] = ()
    server_record: bool = False
    scenario: str = ""


def lock_names(plan: Plan, ending: str = "") -> list[str]:
    """Names of the locks of a run, the first of those that `NAMES` gives; for hierarchies, their
    roots. ending: of names that the plan does not give."""
    top = "/" if plan.workload in OF_PATHS else ""
    given = plan.options.get(NAMES, "")
    names = given.split("+") if given else [f"lock-{n}{ending}" for n in range(1, plan.locks + 1)]
    return [f"{top}{name}" for name in names[: plan.locks]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """The names that a plan may use, by kind.

    swarm_backend   the one that a swarm runs on
    lease_of        the lease of a plan of this system that names none, ns
    """

    systems: Collection[str]
    backends: Collection[str]
    workloads: Collection[str]
    nemeses: Collection[str]
    resources: Collection[str]
    swarm_backend: str
    checkers: Collection[str] = ()
    lease_of: Callable[[str], int] = lambda system: LEASE_NS


LISTED = {"mutant": "mutants", "finding": "findings", "nemesis": "nemeses"}
MOST_NAMES = 24
"""Kinds whose names are listed by a command, which a message names if it would have more names."""


def suggest(word: str, known: Collection[str], kind: str) -> str:
    """Error text for an unknown name."""
    close = difflib.get_close_matches(word, known, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    if len(known) > MOST_NAMES and kind in LISTED:
        return f"unknown {kind} {word!r}{hint} (holdfast list {LISTED[kind]} has all {len(known)})"
    if kind in _FROM_FILES and not hint and (":" in word or word.endswith((".py", ".toml"))):
        return f"unknown {kind} {word!r}: your own {kind} is {_FROM_FILES[kind]}"
    return f"unknown {kind} {word!r}{hint} (known: {', '.join(sorted(known))})"


_FROM_FILES = {
    "system": "FILE.py:CLASS or FILE.toml, like mylock.py:MyLock",
    "workload": "FILE.py:NAME, like mine.py:Mine",
    "nemesis": "FILE.py:NAME, like mine.py:MINE",
    "checker": "FILE.py:NAME, like mine.py:check",
}


def parse_nemesis(text: str) -> list[tuple[str, dict[str, str]]]:
    """ "pause:target=holder,for=3s" or "partition,kill": a list of names, or one with options.

    After a colon every part with "=" belongs to the preceding name; one without begins the next.
    `CALM` ("none", as help, campaigns and tables call it) is the empty list.
    """
    if text.strip() == CALM:
        return []
    found: list[tuple[str, dict[str, str]]] = []
    for part in text.split(","):
        file = FILE.match(part.strip())
        name, _, first = part.strip().partition(":")
        if file and "=" not in name:
            name, first = file.group(), part.strip()[file.end() + 1 :]
        if "=" in name and not file and found:  # "at=send:resource": the colon is the value's
            key, _, value = part.partition("=")
            found[-1][1][key.strip()] = value.strip()
            continue
        options: dict[str, str] = {}
        if first:
            key, equals, value = first.partition("=")
            if not equals:
                raise UsageError(f"--nemesis {text!r}: expected NAME=VALUE after {name}:")
            options[key.strip()] = value.strip()
        if not _NAME.fullmatch(name) and not FILE.fullmatch(name):
            raise UsageError(
                f"--nemesis {text!r}: invalid nemesis name {name!r}: expected NAME, NAME,NAME or"
                " NAME:OPTION=VALUE,..."
            )
        found.append((name, options))
    return found


V = TypeVar("V")
T = TypeVar("T")


class _Reader:
    """Takes values out of a table and collects all mistakes."""

    def __init__(self, table: Mapping[str, object], where: str, problems: list[str]) -> None:
        self._table = dict(table)
        self._where = where
        self._problems = problems
        self._names: list[str] = []

    def take(self, name: str, kind: type[V], default: T, turn: Callable[[V], T]) -> T:
        """The value of a key, converted by `turn`, whose UsageError becomes a problem."""
        self._names.append(name)
        if name not in self._table:
            return default
        value = self._table.pop(name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            wanted = _TYPE_WORDS[kind] if turn is not positive_ns else _DURATION
            self._problems.append(f"{self._where}: invalid {name} = {value!r}: expected {wanted}")
            return default
        try:
            return turn(value)
        except UsageError as error:
            self._problems.append(f"{self._where}: {name}: {error}")
            return default

    def finish(self) -> None:
        """Reports the keys that were not taken as unknown."""
        for name in self._table:
            self._problems.append(f"{self._where}: {suggest(name, self._names, 'key')}")


_TYPE_WORDS = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    dict: "a table",
    list: "a list",
}
_DURATION = 'a duration in quotes, like "300ms", "5s" or "2m"'


def parse(table: Mapping[str, object], known: Known, where: str = "plan") -> Plan:
    """A plan out of a TOML table; UsageError with one line per mistake."""
    problems: list[str] = []
    reader = _Reader(table, where, problems)

    def one_of(names: Collection[str], kind: str) -> Callable[[str], str]:
        def check(word: str) -> str:
            own = {"system": OWN, "workload": FILE}.get(kind)
            if word not in names and not (own and own.fullmatch(word)):
                raise UsageError(suggest(word, names, kind))
            return word

        return check

    def at_least(least: int) -> Callable[[int], int]:
        def check(number: int) -> int:
            if number < least:
                raise UsageError(f"invalid number {number}: expected >= {least}")
            return number

        return check

    def schema(word: str) -> str:
        if word != SCHEMA:
            raise UsageError(f"unsupported schema {word!r}: expected {SCHEMA!r}")
        return word

    reader.take("schema", str, SCHEMA, schema)
    system = reader.take("system", str, "", one_of(known.systems, "system"))
    if not system and "system" not in table:
        problems.append(f"{where}: missing system: one of {', '.join(sorted(known.systems))}")
    plan = Plan(
        system=system,
        backend=reader.take("backend", str, "local", one_of(known.backends, "backend")),
        workload=reader.take(
            "workload", str, "critical-section", one_of(known.workloads, "workload")
        ),
        resource=reader.take("resource", str, "", one_of(known.resources, "resource")),
        seed=reader.take("seed", int, 0, at_least(0)),
        time_ns=reader.take("time", str, 30 * SECOND, positive_ns),
        lease_ns=reader.take("lease", str, known.lease_of(system), positive_ns),
        nodes=reader.take("nodes", int, 3, at_least(1)),
        clients=reader.take("clients", int, 5, at_least(1)),
        locks=reader.take("locks", int, 1, at_least(1)),
        options=reader.take("options", dict, {}, _texts),
        nemeses=reader.take("nemesis", list, (), lambda v: _nemeses(v, known, where)),
        faults=reader.take("fault", list, (), lambda v: _faults(v, known, where)),
        must=reader.take("must", list, (), _properties),
        require=reader.take("require", list, (), _properties),
        checkers=reader.take("checkers", list, (), lambda v: _checkers(v, known)),
        server_record=reader.take("server_record", bool, False, bool),
    )
    reader.finish()
    if problems:
        raise UsageError(*(line for problem in problems for line in problem.split("\n")))
    return plan


def _properties(names: Sequence[str]) -> tuple[str, ...]:
    problems = [
        suggest(str(name), PROPERTIES, "property") for name in names if name not in PROPERTIES
    ]
    if problems:
        raise UsageError(*problems)
    return tuple(dict.fromkeys(names))


def _checkers(names: Sequence[str], known: Known) -> tuple[str, ...]:
    problems = [
        suggest(str(name), known.checkers, "checker")
        for name in names
        if name not in known.checkers and not FILE.fullmatch(str(name))
    ]
    if problems:
        raise UsageError(*problems)
    return tuple(dict.fromkeys(names))


def _texts(table: Mapping[str, Json]) -> dict[str, str]:
    return {str(name): _text(value) for name, value in table.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _nemeses(
    rows: Sequence[object], known: Known, where: str
) -> Sequence[tuple[str, Mapping[str, str]]]:
    found, problems = [], []
    for n, row in enumerate(rows, 1):
        options = _texts(row) if isinstance(row, dict) else {}
        name = options.pop("name", "")
        if not name:
            like = next(iter(known.nemeses))
            problems.append(f'nemesis {n}: missing name, as in name = "{like}"')
        elif name not in known.nemeses and not FILE.fullmatch(name):
            problems.append(f"nemesis {n}: {suggest(name, known.nemeses, 'nemesis')}")
        found.append((name, options))
    if problems:
        raise UsageError(*problems)
    return tuple(found)


def _faults(rows: Sequence[object], known: Known, where: str) -> Sequence[Fault]:
    found, problems = [], []
    # What every fault needs, with an example.
    needed = {"do": next(iter(known.nemeses)), "at": "4s", "for": "3s"}
    for n, row in enumerate(rows, 1):
        given = _texts(row) if isinstance(row, dict) else {}
        ident = given.pop("id", f"f{n}")
        missing = [f'{key} = "{like}"' for key, like in needed.items() if not given.get(key)]
        try:
            if missing:
                raise UsageError(f"missing {', '.join(missing)}")
            do = given.pop("do")
            if do not in known.nemeses and not FILE.fullmatch(do):
                raise UsageError(suggest(do, known.nemeses, "nemesis"))
            at_ns, for_ns = (duration_ns(given.pop(key)) for key in ("at", "for"))
            when, within_ns = armed(given)
            fault = Fault(
                id=ident,
                do=do,
                target=given.pop("target", "one"),
                at_ns=at_ns,
                for_ns=for_ns,
                params=given,
                when=when,
                within_ns=within_ns,
            )
            found.append(fault)
        except UsageError as error:
            problems.append(f"fault {n} ({ident}): {error}")
    if problems:
        raise UsageError(*problems)
    return tuple(found)


def armed(given: dict[str, str], whose: str = "") -> tuple[str, int]:
    """Takes from a fault or nemesis the event it waits for, and how long it does at most; "", 0 if
    it waits for none. UsageError, which begins with `whose`."""
    when, within = given.pop("when", ""), given.pop("within", "")
    if within and not when:
        raise UsageError(f"{whose}within without when: name the event, as in when=acquire:ok")
    if when and when not in events.KNOWN:
        raise UsageError(f"{whose}{suggest(when, events.KNOWN, 'event')}")
    try:
        return when, positive_ns(within or WITHIN) if when else 0
    except UsageError as error:
        raise UsageError(f"{whose}within: {error}") from error


def to_toml(plan: Plan, *, exact: bool) -> str:
    """The plan as TOML; `exact` omits the nemeses and writes only their sampled faults."""
    lines = [f"schema = {toml.quoted(SCHEMA)}"]
    for name in ("system", "backend", "workload", "resource"):
        lines.append(f"{name} = {toml.quoted(getattr(plan, name))}")
    for name in ("seed", "nodes", "clients", "locks"):
        value = getattr(plan, name)
        # A system without servers has no number of nodes to ask for.
        lines += [f"{name} = {value}"] if value or name == "seed" else []
    lines.append(f"time = {toml.quoted(duration_text(plan.time_ns))}")
    lines.append(f"lease = {toml.quoted(duration_text(plan.lease_ns))}")
    lines += [f"must = {toml.quoted(list(plan.must))}"] if plan.must else []
    lines += [f"require = {toml.quoted(list(plan.require))}"] if plan.require else []
    lines += [f"checkers = {toml.quoted(list(plan.checkers))}"] if plan.checkers else []
    lines += ["server_record = true"] if plan.server_record else []
    lines += _table("[options]", plan.options) if plan.options else []
    for name, options in () if exact else plan.nemeses:
        lines += _table("[[nemesis]]", {"name": name, **options})
    for fault in plan.faults:
        times = {"at": duration_text(fault.at_ns), "for": duration_text(fault.for_ns)}
        head = {"id": fault.id, "do": fault.do, "target": fault.target}
        if fault.when:
            times |= {"when": fault.when, "within": duration_text(fault.within_ns)}
        lines += _table("[[fault]]", {**head, **times, **fault.params})
    return "\n".join(lines) + "\n"


def _table(head: str, values: Mapping[str, str]) -> list[str]:
    rows = [f"{_key(name)} = {toml.quoted(value)}" for name, value in values.items()]
    return ["", head, *rows]


def _key(name: str) -> str:
    return name if _NAME.fullmatch(name) and "." not in name else toml.quoted(name)


def names_in(plan: Plan) -> Iterator[tuple[str, str]]:
    """(kind of catalogue, name) of all that a plan names, each once."""
    yield "systems", plan.system
    yield "workloads", plan.workload
    yield "backends", plan.backend
    nemeses = [name for name, _ in plan.nemeses] + [fault.do for fault in plan.faults]
    yield from (("nemeses", name) for name in dict.fromkeys(nemeses))
    yield from (("checkers", name) for name in plan.checkers)
