"""Fields of a service of a compose file, each from what YAML makes of it. All raise ValueError."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from holdfast.clusters.systems.composed.service import BuildOf

STARTED, HEALTHY = CONDITIONS = ("service_started", "service_healthy")
HEALTH = frozenset(
    ("test", "interval", "timeout", "retries", "start_period", "start_interval", "disable")
)
BUILD = frozenset(("context", "dockerfile", "args", "target"))


def words(value: object, *, shell: bool = False) -> tuple[str, ...]:
    """The words of a command: a list, or a text, which a shell reads or which is split as one."""
    if isinstance(value, list) and value:
        return tuple(_scalar(word) for word in value)
    if not isinstance(value, str) or not value.strip():
        raise ValueError("expected a command line, or a list of its words")
    return ("/bin/sh", "-c", value) if shell else tuple(shlex.split(value))


def environment(value: object) -> dict[str, str]:
    """Names with values, from a table or from a list of NAME=VALUE."""
    if isinstance(value, list):
        pairs = [str(one).partition("=") for one in value]
        value = {name: text if separator else None for name, separator, text in pairs}
    if not isinstance(value, dict):
        raise ValueError("expected a table, or a list of NAME=VALUE")
    bare = [name for name, text in value.items() if text is None]
    if bare:
        raise ValueError(f"{bare[0]} has no value: write {bare[0]}=${{{bare[0]}}}")
    return {str(name): _scalar(text) for name, text in value.items()}


def dependencies(value: object) -> dict[str, bool]:
    """The services that start before, and whether they must be ready, not only started."""
    if isinstance(value, list):
        return dict.fromkeys(map(str, value), False)
    if not isinstance(value, dict):
        raise ValueError("expected a list of services, or a table")
    needed = {}
    for name, options in value.items():
        table = options or {}
        condition = table.get("condition", STARTED)
        unknown = sorted(set(table) - {"condition", "required", "restart"})
        if condition not in CONDITIONS:
            raise ValueError(f"{name}: condition {condition!r}: expected {' or '.join(CONDITIONS)}")
        if unknown:
            raise ValueError(f"{name}: key {unknown[0]!r} is not supported")
        needed[str(name)] = condition == HEALTHY
    return needed


def health_test(value: object) -> tuple[str, ...]:
    """The words of the test of a healthcheck; () if it is disabled."""
    if not isinstance(value, dict):
        raise ValueError("expected a table")
    unknown = sorted(set(value) - HEALTH)
    if unknown:
        raise ValueError(f"key {unknown[0]!r} is not supported")
    test = value.get("test")
    if value.get("disable") or test == ["NONE"]:
        return ()
    if isinstance(test, str):
        return words(test, shell=True)
    if isinstance(test, list) and len(test) > 1 and test[0] in ("CMD", "CMD-SHELL"):
        rest = tuple(map(_scalar, test[1:]))
        return rest if test[0] == "CMD" else words(rest[0], shell=True)
    raise ValueError("test: expected a command line, or a list that begins with CMD or CMD-SHELL")


def build_of(value: object) -> BuildOf:
    """A folder, or a table with context, dockerfile, args and target."""
    table = {"context": value} if isinstance(value, str) else value
    if not isinstance(table, dict) or not isinstance(table.get("context"), str):
        raise ValueError("expected a folder, or a table with context")
    unknown = sorted(set(table) - BUILD)
    if unknown:
        raise ValueError(
            f"key {unknown[0]!r} is not supported: expected {', '.join(sorted(BUILD))}"
        )
    return BuildOf(
        folder=table["context"],
        dockerfile=str(table.get("dockerfile", "Dockerfile")),
        args=environment(table.get("args") or {}),
        stage=str(table.get("target", "")),
    )


def networks(value: object) -> tuple[str, ...]:
    """The networks of a service; options that fix an address are refused."""
    if isinstance(value, list):
        return tuple(map(str, value))
    if not isinstance(value, dict):
        raise ValueError("expected a list, or a table")
    for name, options in value.items():
        unknown = sorted(set(options or {}) - {"aliases"})
        if unknown:
            raise ValueError(f"{name}: key {unknown[0]!r} is not supported: expected aliases")
    return tuple(map(str, value))


def names(service: str, host: str, container: str, given: object) -> tuple[str, ...]:
    """The names by which others reach a service, the first its host name; `given`: its networks."""
    aliases = [
        str(alias)
        for options in (given.values() if isinstance(given, dict) else ())
        for alias in (options or {}).get("aliases", ())
    ]
    known = [host or service, service, *([container] if container else []), *aliases]
    return tuple(dict.fromkeys(known))


def ports(value: object) -> tuple[int, ...]:
    """The ports in the container of `expose` and `ports`."""
    if not isinstance(value, list):
        raise ValueError("expected a list")
    numbers = []
    for one in value:
        text = str(one.get("target", "")) if isinstance(one, Mapping) else str(one)
        number, _, protocol = text.rpartition(":")[2].partition("/")
        if not number.isdecimal() or not 0 < int(number) < 65536:
            raise ValueError(f"{text}: expected a port; ranges are not supported")
        if protocol != "udp":
            numbers.append(int(number))
    return tuple(numbers)


def tmpfs(value: object) -> tuple[str, ...]:
    """Folders in memory: one, or a list of them."""
    listed = value if isinstance(value, list) else [value]
    paths = [str(one).partition(":")[0] for one in listed]
    if not all(path.startswith("/") for path in paths):
        raise ValueError("expected absolute paths")
    return tuple(paths)


def _scalar(value: object) -> str:
    """A text or a number as its text; YAML's yes, no and dates have several spellings."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r}: expected a text: write it in quotes")
    return str(value)
